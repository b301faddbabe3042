"""Model files, checkpoints and the state in them."""
