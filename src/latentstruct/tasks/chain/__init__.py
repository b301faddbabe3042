"""Chains: one label per token."""
