"""Products of vectors and matrices, factors, systems."""
