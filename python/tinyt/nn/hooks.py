"""Hooks of a module: around its forward and backward, and around its state."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinyt._core import is_recording
from tinyt.autograd import Function, FunctionCtx, RemovableHandle, is_grad_enabled
from tinyt.autograd.hooks import add_hook
from tinyt.compiler import api
from tinyt.nn.hook_tables import Hook, HookFlags, HookTable, LoadHook, SaveHook, StateHooks
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from tinyt.nn.module import Module


class CallHooks:
    """The hooks of one module. A module without any has no such object, and costs nothing."""

    def __init__(self) -> None:
        self.forward_pre: dict[int, Hook] = {}
        self.forward: dict[int, Hook] = {}
        self.backward_pre: dict[int, Hook] = {}
        self.backward: dict[int, Hook] = {}

    def run(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`module.forward` with the hooks around it, those of all modules outermost."""
        if _of_all is None:
            return self._run(module, args, kwargs)
        of_all = _of_all
        if not (of_all.forward_pre or of_all.forward or of_all.backward_pre or of_all.backward):
            share_hooks(None)  # the last one was removed
            return module(*args, **kwargs)
        hooks = self if self is of_all else of_all._joined(self)
        return hooks._run(module, args, kwargs)

    def _joined(self, others: CallHooks) -> CallHooks:
        """These hooks and then others."""
        both = CallHooks()
        for name, table in vars(both).items():
            hooks = (*getattr(self, name).values(), *getattr(others, name).values())
            table.update(enumerate(hooks))
        return both

    def _run(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        try:
            for hook in tuple(self.forward_pre.values()):
                args, kwargs = _call_pre_hook(hook, module, args, kwargs)
            watch = _Watch(module, self) if self.backward or self.backward_pre else None
            if watch is not None:
                args = watch.enter(args)
            result = module.forward(*args, **kwargs)
            for hook in tuple(self.forward.values()):
                called.add(id(hook))
                result = _call_hook(hook, module, args, kwargs, result)
            return result if watch is None else watch.leave(result)
        except Exception:
            for hook in self.forward.values():
                if hook.always and id(hook) not in called:
                    _call_always(hook, module, args, kwargs)
            raise


# The hooks of all modules; None while there are none.
_of_all: CallHooks | None = None


def share_hooks(hooks: CallHooks | None) -> None:
    """Sets the hooks of all modules.

    They are the class's own hooks, so that calls of modules without any cost no look at them.
    """
    global _of_all
    _of_all = Hooked._call_hooks = hooks


class CompiledCalls(CallHooks):
    """The hooks of a module whose calls, hooks included, are compiled."""

    def __init__(self, module: Module, compile_: Callable[..., Any]) -> None:
        super().__init__()
        own = module.__dict__.get("_call_hooks")
        self.__dict__.update({name: getattr(own, name) for name in vars(self)} if own else {})

        def call(*args: Any, **kwargs: Any) -> Any:
            # Not by a weak reference: a program follows what it reads of a module that it knows.
            # The cycle is the garbage collector's.
            return CallHooks.run(self, module, args, kwargs)

        call.__name__ = call.__qualname__ = type(module).__name__
        self.compiled = compile_(call)

    def run(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A run of the program; inside of a function that is compiled, a part of that one's."""
        if is_recording():
            return super().run(module, args, kwargs)
        return self.compiled(*args, **kwargs)

    def __reduce__(self) -> Any:
        """Copies are not compiled, as in PyTorch."""
        return CallHooks, (), {k: v for k, v in self.__dict__.items() if k != "compiled"}


def _call_hook(
    hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    if hook.with_kwargs:
        changed = hook.function(module, args, kwargs, result)
    else:
        changed = hook.function(module, args, result)
    return result if changed is None else changed


def _call_always(hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A hook that runs after an error too; its own error must not hide the first."""
    try:
        _call_hook(hook, module, args, kwargs, None)
    except Exception as error:
        warnings.warn(
            "module forward hook with ``always_call=True`` raised an exception that was silenced "
            f"as another error was raised in forward: {error}",
            UserWarning,
            stacklevel=2,
        )


def _call_pre_hook(
    hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments after one hook has seen them."""
    if not hook.with_kwargs:
        changed = hook.function(module, args)
        if changed is None:
            return args, kwargs
        return (changed if isinstance(changed, tuple) else (changed,)), kwargs
    changed = hook.function(module, args, kwargs)
    if changed is None:
        return args, kwargs
    if not (isinstance(changed, tuple) and len(changed) == 2):
        raise RuntimeError(
            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
            f"but got {changed}."
        )
    return changed


class _Boundary(Function):
    """The identity; backward passes the gradients through a function."""

    @staticmethod
    def forward(ctx: FunctionCtx, passing: Any, *tensors: Tensor) -> Any:
        ctx.passing = passing  # type: ignore[attr-defined]
        ctx.mark_non_differentiable(*(x for x in tensors if not x.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        wanted = ctx.needs_input_grad[1:]
        known = tuple(g if needs else None for g, needs in zip(grads, wanted, strict=True))
        return (None, *ctx.passing(known))


class _Watch:
    """One call of a module with backward hooks: sees the gradients of its outputs and inputs."""

    def __init__(self, module: Module, hooks: CallHooks) -> None:
        self._module = module
        self._hooks = hooks
        self._outputs: tuple[Any, ...] = ()
        self._sizes = (0, 0)  # how many values go in and come out
        self._places: tuple[list[int], list[int]] = ([], [])  # which of them are tensors
        self._inputs_wanted = False

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, such that their gradients are seen."""
        places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        self._inputs_wanted = is_grad_enabled() and any(args[i].requires_grad for i in places)
        self._sizes = (len(args), 0)
        self._places = (places, [])
        if not self._inputs_wanted:
            return args
        return self._through(self._on_inputs, args, places)

    def leave(self, result: Any) -> Any:
        """The result, such that its gradients are seen."""
        values = (result,) if isinstance(result, Tensor) else result
        if not isinstance(values, (tuple, list)):
            return result
        places = [i for i, x in enumerate(values) if isinstance(x, Tensor)]
        if not is_grad_enabled() or not any(values[i].requires_grad for i in places):
            return result
        self._sizes = (self._sizes[0], len(values))
        self._places = (self._places[0], places)
        passed = self._through(self._on_outputs, tuple(values), places)
        if isinstance(result, Tensor):
            return passed[0]
        return list(passed) if isinstance(result, list) else passed

    @staticmethod
    def _through(passing: Any, values: tuple[Any, ...], places: list[int]) -> tuple[Any, ...]:
        changed = list(values)
        passed = _Boundary.apply(passing, *(values[i] for i in places))
        for i, x in zip(places, passed, strict=True):
            changed[i] = x
        return tuple(changed)

    def _spread(self, grads: Any, which: int) -> tuple[Any, ...]:
        """Gradients of the tensors in the places of all values; None for the rest."""
        spread: list[Any] = [None] * self._sizes[which]
        for i, g in zip(self._places[which], grads, strict=True):
            spread[i] = g
        return tuple(spread)

    def _on_outputs(self, grads: tuple[Any, ...]) -> list[Any]:
        outputs = self._spread(grads, 1)
        for hook in tuple(self._hooks.backward_pre.values()):
            outputs = _replaced(outputs, hook.function(self._module, outputs), "pre hook")
        if self._inputs_wanted:
            self._outputs = outputs
        else:
            nothing = (None,) * self._sizes[0]
            for hook in tuple(self._hooks.backward.values()):
                changed = hook.function(self._module, nothing, outputs)
                if changed is not None and any(g is not None for g in _as_tuple(changed)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
        return [outputs[i] for i in self._places[1]]

    def _on_inputs(self, grads: tuple[Any, ...]) -> list[Any]:
        inputs, outputs = self._spread(grads, 0), self._outputs
        self._outputs = ()
        for hook in tuple(self._hooks.backward.values()):
            inputs = _replaced(inputs, hook.function(self._module, inputs, outputs), "hook")
        return [inputs[i] for i in self._places[0]]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _replaced(grads: tuple[Any, ...], changed: Any, kind: str) -> tuple[Any, ...]:
    if changed is None:
        return grads
    new = _as_tuple(changed)
    if len(new) != len(grads):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of grad, got {len(new)}, but expected "
            f"{len(grads)}"
        )
    return new


class Hooked:
    """The part of `Module` that registers hooks."""

    _call_hooks: CallHooks | None = None
    _state_hooks: StateHooks | None = None

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before `forward`; what it returns replaces the arguments.

        With `with_kwargs`: `hook(module, args, kwargs)`, which returns both.
        """
        return register(self._own_call_hooks().forward_pre, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` after `forward`; what it returns replaces it.

        With `with_kwargs`: `hook(module, args, kwargs, output)`; with `always_call` also where
        `forward` raised.
        """
        entry = Hook(hook, with_kwargs, always_call)
        return register(self._own_call_hooks().forward, entry, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, grad_output)` in backward; what it returns replaces the tuple."""
        return register(self._own_call_hooks().backward_pre, Hook(hook), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` when the gradients of the inputs are
        known; what it returns replaces `grad_input`. Both are tuples with None for what is no
        tensor or wants no gradient."""
        return register(self._own_call_hooks().backward, Hook(hook), prepend)

    register_backward_hook = register_full_backward_hook

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before `state_dict`."""
        return register(self._own_state_hooks().save_pre, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after `state_dict`, which it may
        change in place."""
        return register(self._own_state_hooks().save_post, SaveHook(hook, False))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after `state_dict`; what it
        returns takes the place of the root's result."""
        return register(self._own_state_hooks().save_post, SaveHook(hook, True))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before loading; it may change a copy of the state dict in
        place."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As `register_load_state_dict_pre_hook`; without the module unless `with_module`."""
        return register(self._own_state_hooks().load_pre, LoadHook(hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after loading; it may change the two lists."""
        return register(self._own_state_hooks().load_post, hook)

    def _get_backward_hooks(self) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
        """The functions in backward, those of all modules first; none is of the older form."""
        of_all = () if _of_all is None else (h.function for h in _of_all.backward.values())
        return [*of_all, *self._backward_hooks.values()], []

    def _get_backward_pre_hooks(self) -> list[Callable[..., Any]]:
        """The functions before backward, those of all modules first."""
        of_all = () if _of_all is None else (h.function for h in _of_all.backward_pre.values())
        return [*of_all, *self._backward_pre_hooks.values()]

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles the calls of this module, in place: `tinyt.compile` with these arguments.

        The module stays what it is, with the same state dict; a copy of it is not compiled.

        >>> import tinyt
        >>> layer = tinyt.nn.Linear(2, 3)
        >>> layer.compile()
        >>> layer(tinyt.ones(1, 2)).shape
        tinyt.Size([1, 3])
        """
        self._call_hooks = CompiledCalls(
            self,  # type: ignore[arg-type]
            lambda call: api.compile(call, *args, **kwargs),
        )

    # PyTorch's names, by which programs look hooks up, take them out and clear them.
    _forward_pre_hooks = HookTable("call", "forward_pre", Hook)
    _forward_pre_hooks_with_kwargs = HookFlags("forward_pre", "with_kwargs")
    _forward_hooks = HookTable("call", "forward", Hook)
    _forward_hooks_with_kwargs = HookFlags("forward", "with_kwargs")
    _forward_hooks_always_called = HookFlags("forward", "always")
    _backward_pre_hooks = HookTable("call", "backward_pre", Hook)
    _backward_hooks = HookTable("call", "backward", Hook)
    _state_dict_pre_hooks = HookTable("state", "save_pre", None)
    _state_dict_hooks = HookTable("state", "save_post", SaveHook)
    _load_state_dict_pre_hooks = HookTable("state", "load_pre", LoadHook)
    _load_state_dict_post_hooks = HookTable("state", "load_post", None)

    def _own_call_hooks(self) -> CallHooks:
        own: CallHooks | None = self.__dict__.get("_call_hooks")
        if own is None:
            own = self._call_hooks = CallHooks()
        return own

    def _own_state_hooks(self) -> StateHooks:
        if self._state_hooks is None:
            self._state_hooks = StateHooks()
        return self._state_hooks


def register(hooks: dict[int, Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Adds a hook to a table; TypeError where it cannot be called."""
    function = hook.function if isinstance(hook, (Hook, LoadHook, SaveHook)) else hook
    if not callable(function):
        raise TypeError(f"register hook: the hook must be callable, got {type(function).__name__}")
    return add_hook(hooks, hook, prepend)
