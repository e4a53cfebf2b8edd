"""`torch.autograd.variable`: where older programs import `Variable` from."""

from __future__ import annotations

from tinyt.autograd.tape import Variable

__all__ = ["Variable"]
