"""Progress of long work: what is displayed, and how long it may still take."""
