"""The numbers that kernels know the modes of a task by."""

FREE, AUGMENTED, CLAMPED = 0, 1, 2
MODES = {"free": FREE, "augmented": AUGMENTED, "clamped": CLAMPED}
