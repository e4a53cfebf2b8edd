"""File formats, read and written by our own code."""
