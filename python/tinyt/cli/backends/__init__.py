"""`tinyt check-backend`: every operation and dtype of the operation table on a device."""
