"""`torch.autograd.grad_mode`: the modes under PyTorch's module path."""

from __future__ import annotations

from tinyt.autograd.mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
