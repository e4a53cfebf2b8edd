"""The task `digits`: 8x8 images of handwritten digits."""
