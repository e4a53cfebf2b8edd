"""PyTorch's `torch.onnx`, to be imported: there is no export to ONNX.

>>> import tinyt
>>> tinyt.onnx.export(tinyt.nn.Linear(1, 1), (tinyt.ones(1),), "model.onnx")
Traceback (most recent call last):
...
NotImplementedError: onnx.export: there is no export to ONNX; save the state with \
tinyt.save(model.state_dict(), path), load it in PyTorch and export there
"""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import Any

from tinyt.absent import refusing, refusing_class

_HINT = (
    "there is no export to ONNX; save the state with tinyt.save(model.state_dict(), path), load it "
    "in PyTorch and export there"
)


class OperatorExportTypes(Enum):
    """PyTorch's choices of `export`."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(Enum):
    """PyTorch's choices of `export`."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OnnxExporterError(RuntimeError):
    """PyTorch's error of an export; nothing raises it."""


export = refusing("onnx", "export", _HINT)
dynamo_export = refusing("onnx", "dynamo_export", _HINT)
export_to_pretty_string = refusing("onnx", "export_to_pretty_string", _HINT)
ONNXProgram = refusing_class("onnx", "ONNXProgram", _HINT)
ExportOptions = refusing_class("onnx", "ExportOptions", _HINT)


def is_in_onnx_export() -> bool:
    """False."""
    return False


def register_custom_op_symbolic(*args: Any, **kwargs: Any) -> None:
    """Does nothing: no export will ask for it."""


def unregister_custom_op_symbolic(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


def select_model_mode_for_export(model: Any, mode: Any) -> Any:
    """NotImplementedError: there is no export to ONNX."""
    return export(model, mode)


__all__ = [
    "ExportOptions",
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "TrainingMode",
    "dynamo_export",
    "export",
    "export_to_pretty_string",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "unregister_custom_op_symbolic",
]

# Loaded when they are first asked for.
_LAZY = {"operators", "symbolic_helper"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})
