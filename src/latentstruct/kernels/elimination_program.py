"""Orders in which the variables of a factor graph are eliminated, and the programs made of them.

Step k of a program eliminates a variable v and leaves a message over its *separator*, the variables that v then shares
a table with. Separators are sorted, the first to be eliminated first: a message then mostly fits the table that uses it
without a permutation.

The table of a step is worked on in blocks of all states of v times INNER rows, a row being a joint state of the
separator: row a·INNER + l and state x are entry x·INNER + l of block a, and entry outer[a] + inner[x·INNER + l] of an
input, so that index lists stay short.
"""

from latentstruct._native.elimination import choose_order, lay_out

__all__ = ["BACKWARD", "BY_FILL", "BY_SIZE", "FORWARD", "INPUT_COLUMNS", "STEP_COLUMNS", "choose_order", "lay_out"]

# Columns of the array of steps.
VARIABLE, CARD, ROWS, INNER, TABLE, MESSAGE, UNARY, FACTORS, MESSAGES, INPUTS_END, PARENT, SEPARATOR = range(12)
STEP_COLUMNS = 12
# Columns of the array of inputs: where the table or message begins, its size, its index lists and their kind.
SOURCE, SIZE, OUTER_INDEX, INNER_INDEX, KIND = range(5)
INPUT_COLUMNS = 5

# Rules that choose what to eliminate next: fewest edges added, smallest table, in the order of the variables' numbers,
# and in the reverse of that.
BY_FILL, BY_SIZE, FORWARD, BACKWARD = range(4)
