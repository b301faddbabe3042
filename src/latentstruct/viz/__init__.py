"""Plots, pictures and reports."""
