"""Inference in discrete graphical models: exact elimination and belief propagation at any pair of temperatures."""
