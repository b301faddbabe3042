"""Compiled kernels, one extension module per family; the sources are in ``native/`` of the repository."""
