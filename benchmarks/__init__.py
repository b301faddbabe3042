"""Benchmarks against peers: ratios of CPU time in one run, objective and accuracy beside them."""
