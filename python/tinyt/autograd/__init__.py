"""Reverse-mode differentiation: the tape, its rules, functions of one's own, gradcheck."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from tinyt._autograd import is_grad_enabled
from tinyt.autograd import functional, graph, rules
from tinyt.autograd.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from tinyt.autograd.function import Function, FunctionCtx
from tinyt.autograd.gradcheck import gradcheck, gradgradcheck
from tinyt.autograd.hooks import RemovableHandle
from tinyt.autograd.mode import (
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tinyt.autograd.tape import backward, grad
from tinyt.autograd.variable import Variable

if TYPE_CHECKING:
    from tinyt.autograd import anomaly_mode, profiler, profiler_util

# Modules under PyTorch's paths, loaded when they are first asked for.
_LAZY = {"anomaly_mode", "grad_mode", "profiler", "profiler_util", "variable"}


def __getattr__(name: str) -> ModuleType:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})


__all__ = [
    "Function",
    "FunctionCtx",
    "RemovableHandle",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "profiler",
    "profiler_util",
    "rules",
    "set_detect_anomaly",
    "set_grad_enabled",
]
