"""`Module`: a tree of parameters, buffers and child modules with a `forward`.

Its bases hold what is a subject of its own: walking the tree (`tree.py`), hooks (`hooks.py`) and
state dicts (`state.py`).

Names, order of iteration, state layout and error texts follow PyTorch's `torch.nn.Module`, so
that its training scripts and state dicts work unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from tinyt._tensor import dtype, move_to_shared, shown_as
from tinyt.compiler.api import wrap_compiled
from tinyt.dtypes import as_dtype, bfloat16, float16, float32, float64
from tinyt.nn.parameter import Buffer, Parameter, clear_grads
from tinyt.nn.state import Stateful
from tinyt.nn.tree import registered, type_name
from tinyt.ops import empty_like
from tinyt.ops.convert import cuda_device
from tinyt.tensor import Tensor

Self = TypeVar("Self", bound="Module")


# Of PyTorch's scripted modules.
_ABSENT = {"save": "there is no TorchScript; use tinyt.save(module.state_dict(), path)"}


def _forward_unimplemented(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(f"{type(self).__name__}: the module has no forward()")


def _addindent(s_: str, numSpaces: int) -> str:
    """A text whose lines after the first are moved to the right."""
    return s_.replace("\n", "\n" + numSpaces * " ")


class Module(Stateful):
    """Base class of every network part.

    A subclass calls `super().__init__()` first, assigns parameters (`Parameter`), buffers
    (`register_buffer`) and child modules as attributes, and defines `forward`.
    """

    training: bool
    forward: Callable[..., Any] = _forward_unimplemented

    T_destination = TypeVar("T_destination", bound=dict[str, Any])
    call_super_init = False  # whether the constructor passes its arguments on
    dump_patches = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            given = (
                f"got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"takes 1 positional argument but {len(args) + 1} were given"
            )
            raise TypeError(f"{type(self).__name__}.__init__() {given}")
        # Written past __setattr__, which looks these tables up.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_call_impl" in vars(cls) and "__call__" not in vars(cls):
            cls.__call__ = cls._call_impl  # type: ignore[method-assign]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward`, with the hooks around it."""
        if self._call_hooks is None:
            return self.forward(*args, **kwargs)
        return self._call_hooks.run(self, args, kwargs)

    _call_impl = _wrapped_call_impl = __call__

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes the attributes of a pickle or a copy; a subclass may change them first."""
        self.__dict__.update(state)
        for table in ("_parameters", "_buffers", "_modules"):
            self.__dict__.setdefault(table, {})
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    # Registration ---------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter under `name`; None reserves the name (as `bias=False` does)."""
        self._check_new_name("parameter", name, self._table("_parameters", "parameter"))
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{type_name(param)}' object to parameter '{name}' "
                    f"({shown_as()}.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    "be created explicitly; compute the value in forward() instead."
                )
            param = registered("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is state but no parameter; in `state_dict` only if persistent."""
        self._check_new_name("buffer", name, self._table("_buffers", "buffer"))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' "
                f"({shown_as()}.Tensor or None required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child module under `name`."""
        self._check_new_name("module", name, self._table("_modules", "module"))
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type_name(module)} is not a Module subclass")
        self._modules[name] = registered("module", self, name, module)

    register_module = add_module

    def _table(self, table: str, kind: str) -> dict[str, Any]:
        found: dict[str, Any] | None = self.__dict__.get(table)
        if found is None:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        return found

    def _check_new_name(self, kind: str, name: str, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type_name(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if isinstance(value, Buffer):
            self._table("_buffers", "buffers")
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif isinstance(value, Parameter):
            self._table("_parameters", "parameters")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._table("_modules", "module")
            self._forget(name, keep="_modules")
            self.add_module(name, value)
        elif name in tables.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as parameter '{name}' "
                    f"({shown_as()}.nn.Parameter or None expected)"
                )
            self._parameters[name] = None
        elif name in tables.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as child module '{name}' "
                    f"({shown_as()}.nn.Module or None expected)"
                )
            self._modules[name] = registered("module", self, name, None)
        elif name in tables.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as buffer '{name}' "
                    f"({shown_as()}.Tensor or None expected)"
                )
            self._buffers[name] = registered("buffer", self, name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str) -> None:
        """Takes `name` out of every table but `keep`: the last assignment wins."""
        self.__dict__.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table != keep:
                self.__dict__[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        # Reached only when normal lookup fails, so ordinary attributes cost nothing extra.
        tables = self.__dict__
        if "_parameters" in tables:
            for entries in (tables["_parameters"], tables["_buffers"], tables["_modules"]):
                if name in entries:
                    return entries[name]
        hint = _ABSENT.get(name)
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}'"
            + (f": {hint}" if hint else "")
        )

    def __delattr__(self, name: str) -> None:
        for table in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(name for name in names if not name[0].isdigit())

    # Changing all of it ---------------------------------------------------------------------

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Calls `fn` on every module below, children first, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: Self, fn: Callable[[Tensor], Tensor]) -> Self:
        for module in self.children():
            module._apply(fn)
        for param in self._parameters.values():
            if param is not None:
                # Same Parameter object, new data: optimisers keep their references.
                grad = param.grad
                param.grad = None
                param.data = fn(param.detach())
                if grad is not None:
                    param.grad = fn(grad.detach())
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Converts floating parameters and buffers in place: `to(dtype)`, `to(device)`,
        `to(device, dtype)` or `to(tensor)`; integer tensors keep their dtype. A
        `memory_format` is that of parameters and buffers of 4 and 5 dimensions."""
        target, device, order = _parse_to(args, kwargs)
        if target is not None and not (target.is_floating_point or target.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, "
                f"but got desired dtype={target}"
            )

        def convert(tensor: Tensor) -> Tensor:
            if device is not None:
                tensor = tensor.to(device)
            real = tensor.dtype.is_floating_point or tensor.dtype.is_complex
            tensor = tensor.to(target) if target is not None and real else tensor
            ordered = order is not None and tensor.dim() in (4, 5)
            return tensor.to(memory_format=order) if ordered else tensor

        return self._apply(convert)

    def _cast_floats(self: Self, target: dtype) -> Self:
        return self._apply(lambda t: t.to(target) if t.dtype.is_floating_point else t)

    def float(self: Self) -> Self:
        """Converts floating parameters and buffers to float32."""
        return self._cast_floats(float32)

    def double(self: Self) -> Self:
        """Converts floating parameters and buffers to float64."""
        return self._cast_floats(float64)

    def half(self: Self) -> Self:
        """Converts floating parameters and buffers to float16."""
        return self._cast_floats(float16)

    def bfloat16(self: Self) -> Self:
        """Converts floating parameters and buffers to bfloat16."""
        return self._cast_floats(bfloat16)

    def type(self: Self, dst_type: dtype) -> Self:
        """Converts all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.to(dst_type))

    def cpu(self: Self) -> Self:
        """Moves all parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self: Self, device: object = None) -> Self:
        """Moves all parameters and buffers to a CUDA device, by default the current one;
        RuntimeError where it is not there."""
        return self.to(cuda_device(device))

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Gives every parameter and buffer new memory, uninitialised."""
        for module in self.modules() if recurse else [self]:
            for owned in (module._parameters, module._buffers):
                for tensor in owned.values():
                    if tensor is not None:
                        tensor.data = empty_like(tensor.detach(), device=device)
        return self

    def share_memory(self: Self) -> Self:
        """Moves all parameters, buffers and gradients into memory that other processes can map, as
        `Tensor.share_memory_` does."""
        for tensor in (*self.parameters(), *self.buffers()):
            move_to_shared(tensor)
            if tensor.grad is not None:
                move_to_shared(tensor.grad)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Sets training mode (dropout on, batch statistics) for this module and all below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Sets evaluation mode; the same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Switches gradients on or off for every parameter."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops every parameter's gradient, or zeroes it if `set_to_none` is False."""
        clear_grads(self.parameters(), set_to_none)

    def _replicate_for_data_parallel(self: Self) -> Self:
        """A shallow copy with tables of its own."""
        replica = type(self).__new__(type(self))
        tables = ("_parameters", "_buffers", "_modules")
        own = {name: self.__dict__[name].copy() for name in tables}
        replica.__dict__.update({**self.__dict__, **own})
        return replica

    # Printing -------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The text between the parentheses of this module's own line in `repr`."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()
        ]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dtype | None, Any, Any]:
    """The (dtype, device, memory format) that the arguments of `Module.to` ask for."""
    unknown = set(kwargs) - {"dtype", "device", "non_blocking", "memory_format"}
    if unknown:
        raise TypeError(f"to: unexpected keyword arguments {sorted(unknown)}")
    target, device = as_dtype(kwargs.get("dtype")), kwargs.get("device")
    for arg in map(as_dtype, args):
        if isinstance(arg, Tensor):
            target, device = arg.dtype, arg.device
        elif isinstance(arg, dtype):
            target = arg
        elif not isinstance(arg, bool):  # a bool is non_blocking, which the CPU ignores
            device = arg
    return target, device, kwargs.get("memory_format")


def _optimized(module: Module, compiled: Any) -> Module:
    """What `tinyt.compile` returns of a module."""
    made: Module = import_module(f"{__package__}.optimized").OptimizedModule(module, compiled)
    return made


wrap_compiled(Module, _optimized)
