"""Outputs that linear constraints describe."""
