"""Structures that users define by a few methods."""
