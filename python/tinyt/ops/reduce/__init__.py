"""Reductions, scans and order: along dimensions, or of whole tensors."""
