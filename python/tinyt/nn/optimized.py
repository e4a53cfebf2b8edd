"""A compiled module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinyt.nn import Module

if TYPE_CHECKING:
    from tinyt.compiler.compiled import Compiled


class OptimizedModule(Module):
    """A module whose calls are compiled; everything else is the module's own."""

    _orig_mod: Module

    def __init__(self, module: Module, compiled: Compiled) -> None:
        super().__init__()
        object.__setattr__(self, "compiled", compiled)
        self._modules["_orig_mod"] = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result, by a program where one stands for the call."""
        return self.compiled(*args, **kwargs)

    @property
    def training(self) -> bool:
        """The module's."""
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "_orig_mod" in self._modules:
            self._orig_mod.training = mode

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name == "training" or name.startswith("_")  # hooks, too
        if own or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]  # type: ignore[index]

    def __reduce__(self) -> Any:
        return OptimizedModule, (self._orig_mod, self.compiled)
