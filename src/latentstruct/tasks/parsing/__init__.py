"""Parse trees."""
