"""Features of text, images, boxes and pairs."""
