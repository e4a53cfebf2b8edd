"""Whether a program does what its function does."""
