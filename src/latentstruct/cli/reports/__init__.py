"""What the reports show of each kind of model: its weights, and examples of its predictions."""
