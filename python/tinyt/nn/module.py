"""`Module`: a tree of parameters, buffers and child modules with a `forward`.

Names, order of iteration, state layout and error texts follow PyTorch's `torch.nn.Module`, so
that its training scripts and state dicts work unchanged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tinyt._tensor import dtype
from tinyt.autograd import no_grad
from tinyt.dtypes import bfloat16, float16, float32, float64
from tinyt.nn.hooks import NO_HOOKS, Hooked
from tinyt.nn.parameter import Buffer, Parameter
from tinyt.nn.state import EXTRA, IncompatibleKeys, load_into
from tinyt.ops import empty_like
from tinyt.tensor import Tensor

Self = TypeVar("Self", bound="Module")
Member = TypeVar("Member")


def _no_forward(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(f"{type(self).__name__}: the module has no forward()")


class Module(Hooked):
    """Base class of every network part.

    A subclass calls `super().__init__()` first, assigns parameters (`Parameter`), buffers
    (`register_buffer`) and child modules as attributes, and defines `forward`.
    """

    training: bool
    forward: Callable[..., Any] = _no_forward
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    def __init__(self) -> None:
        # Written past __setattr__, which looks these tables up.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward`, with the hooks around it."""
        if self._call_hooks is None:
            return self.forward(*args, **kwargs)
        return self._call_hooks.run(self, args, kwargs)

    # Registration ---------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter under `name`; None reserves the name (as `bias=False` does)."""
        self._check_new_name("parameter", name, self._table("_parameters", "parameter"))
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_type_name(param)}' object to parameter '{name}' "
                    "(tinyt.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    "be created explicitly; compute the value in forward() instead."
                )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is state but no parameter; in `state_dict` only if persistent."""
        self._check_new_name("buffer", name, self._table("_buffers", "buffer"))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' "
                "(tinyt.Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child module under `name`."""
        self._check_new_name("module", name, self._table("_modules", "module"))
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        self._modules[name] = module

    register_module = add_module

    def _table(self, table: str, kind: str) -> dict[str, Any]:
        found: dict[str, Any] | None = self.__dict__.get(table)
        if found is None:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        return found

    def _check_new_name(self, kind: str, name: str, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_type_name(name)}")
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
                    f"cannot assign '{_type_name(value)}' as parameter '{name}' "
                    "(tinyt.nn.Parameter or None expected)"
                )
            self._parameters[name] = None
        elif name in tables.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as child module '{name}' "
                    "(tinyt.nn.Module or None expected)"
                )
            self._modules[name] = None
        elif name in tables.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as buffer '{name}' "
                    "(tinyt.Tensor or None expected)"
                )
            self._buffers[name] = value
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
        for table in ("_parameters", "_buffers", "_modules"):
            entries = self.__dict__.get(table)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

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

    # Iteration ------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yields (dotted name, module) for this module and all below it, parents first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yields this module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields (name, module) of the direct children, each module once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yields the direct children, each once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yields (dotted name, parameter); a shared parameter once unless told otherwise."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yields every parameter once: what an optimiser takes."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yields (dotted name, buffer)."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields every buffer once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in owners:
            for name, member in getattr(module, table).items():
                if member is None or (remove_duplicate and id(member) in seen):
                    continue
                seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; AttributeError if there is none."""
        module = self
        for name in target.split(".") if target else ():
            found = module._modules.get(name)
            if found is None:
                raise AttributeError(f"{type(module).__name__} has no module '{name}'")
            module = found
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts `module` at a dotted path; with `strict` there must be one already.

        Raises ValueError for an empty path and AttributeError where its parent is missing.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and name not in owner._modules:
            raise AttributeError(f"{type(owner).__name__} has no module '{name}'")
        if not isinstance(module, Module):
            raise AttributeError(f"`{name}` is not an nn.Module: {_type_name(module)}")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path; AttributeError if there is none."""
        param: Parameter = self._get_member("_parameters", "parameter", target)
        return param

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path; AttributeError if there is none."""
        buffer: Tensor = self._get_member("_buffers", "buffer", target)
        return buffer

    def _get_member(self, table: str, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = getattr(owner, table).get(name)
        if found is None:
            raise AttributeError(f"{type(owner).__name__} has no {kind} '{name}'")
        return found

    # State ----------------------------------------------------------------------------------

    def state_dict(
        self,
        *,
        destination: OrderedDict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> OrderedDict[str, Any]:
        """Maps dotted names to parameters, persistent buffers and extra state.

        The tensors share memory with the module; they are detached unless `keep_vars`.
        """
        state: OrderedDict[str, Any] = OrderedDict() if destination is None else destination
        hooks = self._state_hooks or NO_HOOKS
        for hook in tuple(hooks.save_pre):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(hooks.save_post):
            changed = hook(self, state, prefix, {})
            if changed is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return state

    def _save_to_state_dict(
        self, destination: OrderedDict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Adds this module's own state, without its children's."""
        for name, value in self._own_state():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """What belongs to the state besides tensors; a subclass that defines it defines
        `set_extra_state` too."""
        raise RuntimeError("Module.get_extra_state: a subclass must define it")

    def set_extra_state(self, state: Any) -> None:
        """Takes what `get_extra_state` returned."""
        raise RuntimeError("Module.set_extra_state: a subclass must define it")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copies `state_dict` into this module's parameters and buffers.

        Everything is checked before anything is written: on an error the module is unchanged.

        Args:
            state_dict: as `state_dict()` returns it.
            strict: whether a missing or unexpected key is an error.
            assign: whether its tensors, with their dtypes, take the place of the module's
                instead of being copied; make the optimiser after that.

        Returns:
            The named tuple `(missing_keys, unexpected_keys)`.

        Raises:
            RuntimeError: listing every missing key, unexpected key and size mismatch.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        given: OrderedDict[str, Any] = OrderedDict(state_dict)
        keys, errors = IncompatibleKeys([], []), list[str]()
        for prefix, module in self._with_prefixes(""):
            for hook in tuple((module._state_hooks or NO_HOOKS).load_pre):
                hook(module, given, prefix, {}, strict, *keys, errors)
        own = self.state_dict(keep_vars=True)
        places = {
            prefix + name: (module, name)
            for prefix, module in self._with_prefixes("")
            for name, _ in module._own_state()
        }

        def store(name: str, target: Tensor, value: Tensor) -> None:
            if assign:
                places[name][0]._replace(places[name][1], value)
            else:
                target.copy_(value)

        with no_grad():
            load_into(type(self).__name__, own, given, strict, keys, errors, store)
        for prefix, module in self._with_prefixes(""):
            if prefix + EXTRA in given and prefix + EXTRA in own:
                module.set_extra_state(given[prefix + EXTRA])
        for _, module in reversed(list(self._with_prefixes(""))):
            for hook in tuple((module._state_hooks or NO_HOOKS).load_post):
                if hook(module, keys) is not None:
                    raise RuntimeError(
                        "load_state_dict post hook must return None; change the given "
                        "incompatible_keys in place"
                    )
        return keys

    def _replace(self, name: str, value: Tensor) -> None:
        """Puts another tensor in the place of a parameter or buffer."""
        param = self._parameters.get(name)
        if param is None:
            self._buffers[name] = value
        elif isinstance(value, Parameter):
            self._parameters[name] = value
        else:
            self._parameters[name] = Parameter(value, requires_grad=param.requires_grad)

    def _with_prefixes(self, prefix: str) -> Iterator[tuple[str, Module]]:
        """Every module with the prefix of its names in a state dict; shared ones again."""
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module._with_prefixes(f"{prefix}{name}.")

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        for name, param in self._parameters.items():
            if param is not None:
                yield name, param
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer

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
        `to(device, dtype)` or `to(tensor)`; integer tensors keep their dtype."""
        target, device = _parse_to(args, kwargs)
        if target is not None and not (target.is_floating_point or target.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, "
                f"but got desired dtype={target}"
            )

        def convert(tensor: Tensor) -> Tensor:
            if device is not None:
                tensor = tensor.to(device)
            real = tensor.dtype.is_floating_point or tensor.dtype.is_complex
            return tensor.to(target) if target is not None and real else tensor

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
        """Stays on the CPU."""
        return self

    def cuda(self: Self, device: object = None) -> Self:
        """RuntimeError: this build has no CUDA."""
        return self.to("cuda")

    def to_empty(self: Self, *, device: object, recurse: bool = True) -> Self:
        """Gives every parameter and buffer new memory, uninitialised."""
        for module in self.modules() if recurse else [self]:
            for owned in (module._parameters, module._buffers):
                for tensor in owned.values():
                    if tensor is not None:
                        tensor.data = empty_like(tensor.detach())
        return self

    def share_memory(self: Self) -> Self:
        """Stays as it is: threads share memory anyway."""
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
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad = param.grad.detach()
                param.grad.zero_()

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
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _type_name(value: Any) -> str:
    """The full name of the type of `value`, as PyTorch's messages print it."""
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return module + kind.__qualname__


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dtype | None, Any]:
    """The (dtype, device) that the arguments of `Module.to` ask for."""
    unknown = set(kwargs) - {"dtype", "device", "non_blocking"}
    if unknown:
        raise TypeError(f"to: unexpected keyword arguments {sorted(unknown)}")
    target, device = kwargs.get("dtype"), kwargs.get("device")
    for arg in args:
        if isinstance(arg, Tensor):
            target, device = arg.dtype, arg.device
        elif isinstance(arg, dtype):
            target = arg
        elif not isinstance(arg, bool):  # a bool is non_blocking, which the CPU ignores
            device = arg
    return target, device
