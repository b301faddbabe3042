"""Functions for users of other packages."""
