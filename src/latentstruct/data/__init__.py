"""Types of inputs and outputs, and examples on disk."""
