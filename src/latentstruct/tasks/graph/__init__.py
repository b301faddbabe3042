"""Factor graphs with labels on nodes."""
