"""Planes: linear lower bounds of objectives, their sums, and a store for those that solvers keep."""
