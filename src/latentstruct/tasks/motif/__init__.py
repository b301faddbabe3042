"""Sequences with a hidden motif."""
