"""PyTorch's `torch.distributed.elastic`: what scripts import from it in one process."""
