"""Columns of the arrays of elimination programs, which native/elimination.cpp lays out and runs."""

# Columns of the array of steps.
VARIABLE, CARD, ROWS, INNER, TABLE, MESSAGE, UNARY, FACTORS, MESSAGES, INPUTS_END, PARENT, SEPARATOR = range(12)
STEP_COLUMNS = 12
# Columns of the array of inputs: where the table or message begins, its size, its index lists and their kind.
SOURCE, SIZE, OUTER_INDEX, INNER_INDEX, KIND = range(5)
INPUT_COLUMNS = 5
# Columns of the array of programs.
FIRST_STEP, FIRST_OUTPUT, LAST_STEP, WORKSPACE, WIDEST_BLOCK, STATES, CONSTANTS, CONSTANTS_END = range(8)
PROGRAM_COLUMNS = 8

# Rules that choose what to eliminate next: fewest edges added, smallest table, in the order of the variables' numbers,
# and in the reverse of that.
BY_FILL, BY_SIZE, FORWARD, BACKWARD = range(4)
