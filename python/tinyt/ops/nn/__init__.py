"""What layers compute: activations, losses, convolution, pooling, norms, attention."""
