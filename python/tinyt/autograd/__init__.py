"""Reverse-mode differentiation: the tape, its rules, gradcheck."""

from __future__ import annotations

from tinyt._tensor import is_grad_enabled
from tinyt.autograd import rules
from tinyt.autograd.gradcheck import gradcheck, gradgradcheck
from tinyt.autograd.mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from tinyt.autograd.tape import RemovableHandle, backward, grad

__all__ = [
    "RemovableHandle",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "rules",
    "set_grad_enabled",
]
