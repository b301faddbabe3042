"""Small data sets that `latentstruct example` writes, one module for each task.

Each module has `make_example(seed)`, which returns the bytes of a file. They are made when asked for, and the same seed
gives the same bytes.
"""
