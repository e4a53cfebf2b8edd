"""Other packages on tensors of tinyt."""
