"""A weight that a hook computes before every `forward`: what pruning and the older forms of weight
and spectral normalisation share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt._capture import recorder
from tinyt.nn.module import Module
from tinyt.tensor import Tensor


class ComputedWeight:
    """The hook before `forward`; a subclass defines `_compute`.

    The weight is a plain attribute of the module, which each call replaces. A compiled function
    cannot leave a new tensor there: its calls write the values into the tensor that the attribute
    has, and give it back after `forward`.
    """

    name: str
    _held: Tensor | None = None  # what a recording gives back to the attribute

    def _compute(self, module: Module) -> Tensor:
        raise NotImplementedError

    def register(self, module: Module) -> None:
        """Adds the hooks to a module."""
        module.register_forward_pre_hook(self)
        module.register_forward_hook(_PutBack(self))

    def unregister(self, module: Module) -> None:
        """Takes the hooks off a module."""
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key, hook in list(hooks.items()):
                if hook is self or (isinstance(hook, _PutBack) and hook.owner is self):
                    del hooks[key]

    def __call__(self, module: Module, inputs: Any) -> None:
        """Sets the weight that `forward` reads."""
        held = getattr(module, self.name) if recorder() is not None else None
        weight = self._compute(module)
        if held is not None:
            held.detach().copy_(weight.detach())
            self._held = held
        # Past Module.__setattr__: the attribute is in none of its tables.
        object.__setattr__(module, self.name, weight)


class _PutBack:
    """The hook after `forward`."""

    def __init__(self, owner: ComputedWeight) -> None:
        self.owner = owner

    def __call__(self, module: Module, inputs: Any, output: Any) -> None:
        held = self.owner._held
        if held is not None:
            object.__setattr__(module, self.owner.name, held)
            self.owner._held = None


def find_hook(module: Module, kind: type[Any], name: str) -> Any:
    """The hook of this kind that computes `name`; None where there is none."""
    found: Callable[..., Any]
    for found in module._forward_pre_hooks.values():
        if isinstance(found, kind) and found.name == name:
            return found
    return None
