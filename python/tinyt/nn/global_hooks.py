"""Hooks of all modules: around every call of one, and when it gets a parameter, buffer or child.

They run before a module's own hooks, as in PyTorch. They are state of the process, for debugging
and profiling; while there are none, calls of modules cost nothing for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt.autograd import RemovableHandle
from tinyt.nn.hook_tables import Hook
from tinyt.nn.hooks import CallHooks, register, share_hooks
from tinyt.nn.tree import REGISTRATION_HOOKS

__all__ = [
    "RemovableHandle",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_hooks = CallHooks()


def _has_any_global_hook() -> bool:
    """Whether calls of all modules have a hook."""
    return any(vars(_hooks).values())


def _add(table: dict[int, Hook], hook: Hook) -> RemovableHandle:
    handle = register(table, hook)
    share_hooks(_hooks)
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, args)` before every `forward`; what it returns replaces the arguments.

    >>> import tinyt
    >>> from tinyt.nn.modules.module import register_module_forward_pre_hook
    >>> layer = tinyt.nn.ReLU()
    >>> with register_module_forward_pre_hook(lambda module, args: print(module)):
    ...     _ = layer(tinyt.ones(2))
    ReLU()
    """
    return _add(_hooks.forward_pre, Hook(hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls `hook(module, args, output)` after every `forward`; what it returns replaces it.

    With `with_kwargs`: `hook(module, args, kwargs, output)`; with `always_call` also where
    `forward` raised.
    """
    return _add(_hooks.forward, Hook(hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, grad_output)` in backward; what it returns replaces the tuple."""
    return _add(_hooks.backward_pre, Hook(hook))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, grad_input, grad_output)` in backward; what it returns replaces
    `grad_input`."""
    return _add(_hooks.backward, Hook(hook))


# PyTorch's older form, whose gradients are those of the module's last operation alone.
register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, parameter)` when a module gets a parameter; what it returns takes
    the parameter's place."""
    return register(REGISTRATION_HOOKS["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, buffer)` when a module gets a buffer; what it returns takes the
    buffer's place."""
    return register(REGISTRATION_HOOKS["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, child)` when a module gets a child; what it returns takes the
    child's place."""
    return register(REGISTRATION_HOOKS["module"], hook)
