"""Names of PyTorch's that programs import and this library lacks: used, they say what to do."""

from __future__ import annotations

from typing import Any, NoReturn


def refusing(module: str, name: str, hint: str) -> Any:
    """A function that raises NotImplementedError."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{module}.{name}: {hint}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = f"tinyt.{module}"
    refuse.__doc__ = f"NotImplementedError: {hint}."
    return refuse


def refusing_class(module: str, name: str, hint: str) -> Any:
    """A class, for `isinstance` and as a base, whose construction raises NotImplementedError."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{module}.{name}: {hint}")

    members = {
        "__init__": refuse,
        "__module__": f"tinyt.{module}",
        "__doc__": f"Not there: {hint}.",
    }
    return type(name, (), members)
