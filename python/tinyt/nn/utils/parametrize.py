"""Parametrizations: parameters that modules compute from other tensors, as
`torch.nn.utils.parametrize` has them.

A parametrized module gets a class of its own, derived from the one it had, with a property in the
place of the parameter; the tensors behind it are those of a `ParametrizationList` in
`module.parametrizations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NoReturn

from tinyt.autograd import no_grad
from tinyt.nn.containers import ModuleDict, ModuleList
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Cache:
    """Values computed within :func:`cached` blocks, by id of the module and name of the tensor."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """A block in which every parametrized tensor is computed once, when it is first read.

    The values are dropped at the end of the outermost block. Use it where a module is called
    several times with the same parameters, as a recurrent cell is.

    >>> import tinyt
    >>> from tinyt.nn.utils import parametrizations, parametrize
    >>> cell = parametrizations.weight_norm(tinyt.nn.Linear(2, 2))
    >>> with parametrize.cached():
    ...     cell.weight is cell.weight
    True
    """
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and the tensors that they start from.

    `original` holds the tensor, or `original0`, `original1`, ... do where the `right_inverse` of
    the first parametrization returns several. :func:`register_parametrization` makes it.

    Args:
        modules: one or more parametrizations.
        original: the parameter or buffer that they replace.
        unsafe: leaves out the checks that dtype and shape stay as they were.

    Raises:
        ValueError: no modules; a `right_inverse` or a parametrization that returns something else
            than tensors, or, unless `unsafe`, a tensor of another dtype or shape.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        dtype, shape = original.dtype, original.shape
        start = self._start_from(original)
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if isinstance(start, Tensor) else len(start)
        if isinstance(start, Tensor):
            if start.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {start.dtype}"
                )
            _replace_values(original, start)  # the object stays: optimisers refer to it
            _register(self, "original", original)
        else:
            for i, part in enumerate(start):
                _register(self, f"original{i}", _like(original, part, i))
        if not unsafe:
            _require_same(
                self(), dtype, shape, ("unparametrized", "parametrized"), "unless `unsafe` flag"
            )

    def _start_from(self, value: Any) -> Any:
        """What the first parametrization takes to give `value`; one without `right_inverse` is
        taken for its own inverse."""
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        continue
        if not isinstance(value, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(value).__name__}"
            )
        return value

    def right_inverse(self, value: Any) -> None:
        """Sets the originals such that the parametrized tensor is `value`, by the `right_inverse`
        methods from the last parametrization to the first.

        Raises:
            RuntimeError: a parametrization without that method.
            ValueError: a result of another number or other dtypes than the originals.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
        if self.is_tensor:
            if not isinstance(value, Tensor):
                raise ValueError(
                    f"`right_inverse` should return a tensor. Got {type(value).__name__}"
                )
            values = [value]
        else:
            if not isinstance(value, Sequence):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors. "
                    f"Got {type(value).__name__}."
                )
            if len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}."
                )
            values = list(value)
        for name, new in zip(self._names(), values, strict=True):
            held: Tensor = getattr(self, name)
            if not isinstance(new, Tensor) or new.dtype != held.dtype:
                kind = f"dtype {new.dtype}" if isinstance(new, Tensor) else type(new).__name__
                raise ValueError(
                    f"`right_inverse` must return a tensor of dtype {held.dtype} for `{name}`, "
                    f"got {kind}"
                )
        for name, new in zip(self._names(), values, strict=True):
            _replace_values(getattr(self, name), new)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        first, *others = self
        value: Tensor = first(*(getattr(self, name) for name in self._names()))
        for module in others:
            value = module(value)
        return value


def _replace_values(target: Tensor, value: Tensor) -> None:
    """Puts other values, maybe of another shape, into the same object."""
    if value is not target:
        target.data = value.detach()


def _like(original: Tensor, part: Any, place: int) -> Tensor:
    """One of several originals: a parameter where the one before was."""
    if not isinstance(part, Tensor):
        raise ValueError(
            "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
            f"Got element {place} of the sequence with type {type(part).__name__}."
        )
    if isinstance(original, Parameter):
        return Parameter(part, original.requires_grad)
    return part.detach().requires_grad_(original.requires_grad)


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _require_same(value: Any, dtype: Any, shape: Any, names: tuple[str, str], way: str) -> None:
    """ValueError unless a parametrization has given a tensor of this dtype and shape."""
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for kind, before, after in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {kind} of the tensor, {way} is "
                f"enabled.\n{names[0]} {kind}: {before}\n{names[1]} {kind}: {after}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a parameter or buffer of a module the result of `parametrization`; returns the module.

    Reading `module.weight` (say) calls the parametrization on the tensor kept as
    `module.parametrizations.weight.original`, and gradients reach that one. More parametrizations
    on one tensor are called one after another. A parametrization's `right_inverse(value)` gives the
    original's first values, and those of `module.weight = value`; where it returns several tensors
    they are kept as `original0`, `original1`, ..., which an optimiser made before does not know.

    Args:
        module: whose tensor it is.
        tensor_name: name of the parameter or buffer.
        parametrization: takes the tensor (or several) and returns one.
        unsafe: lets dtype and shape change, and calls nothing to check that.

    Raises:
        ValueError: no tensor of this name, or one that changes dtype or shape.

    >>> import tinyt
    >>> from tinyt.nn.utils import parametrize
    >>> class Symmetric(tinyt.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = parametrize.register_parametrization(tinyt.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        known = module.parametrizations[tensor_name]
        known.append(parametrization)
        known.unsafe = known.unsafe or unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _parametrized_class(type(module))
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property(tensor_name))
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_next(module: Module, name: str, parametrization: Any) -> None:
    """ValueError unless one more parametrization keeps dtype and shape, both ways."""
    before: Tensor = getattr(module, name)
    after = parametrization(before)
    names = (f"module.{name}", f"parametrization(module.{name})")
    _require_same(after, before.dtype, before.shape, names, "unless the `unsafe` flag")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for kind, wanted, got in (
        ("dtype", before.dtype, back.dtype),
        ("shape", before.shape, back.shape),
    ):
        if wanted != got:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {kind} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{kind}: {wanted}\nreturned {kind}: {got}"
            )


def _property(name: str) -> property:
    """The attribute that takes a parametrized tensor's place."""

    def compute(self: Module) -> Tensor:
        made = self.parametrizations[name]
        if not _cache.depth:
            value: Tensor = made()
            return value
        key = (id(self), name)
        if key not in _cache.values:
            _cache.values[key] = made()
        return _cache.values[key]

    def assign(self: Module, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(compute, assign)


def _refuse_pickle(self: Module) -> NoReturn:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()"
    )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A copy of a parametrized module, of the same class."""
    if id(self) not in memo:
        copy = memo[id(self)] = object.__new__(type(self))
        copy.__dict__.update(deepcopy(self.__dict__, memo))
    return memo[id(self)]


def _parametrized_class(cls: type[Module]) -> type[Module]:
    """A subclass for one module, that properties can be put on."""
    members: dict[str, Any] = {"__getstate__": _refuse_pickle, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    return type(f"Parametrized{cls.__name__}", (cls,), members)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, on this tensor or, without a name, on any."""
    known = getattr(module, "parametrizations", None)
    if not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Makes a parametrized tensor an ordinary parameter or buffer again; returns the module.

    Args:
        module: whose tensor it is.
        tensor_name: its name.
        leave_parametrized: whether it gets the values it has now; else those of the original.

    Raises:
        ValueError: it is not parametrized, or has several originals of which none is to be left.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made: Any = module.parametrizations[tensor_name]
    tensor: Tensor
    if made.is_tensor:
        tensor = made.original
        if leave_parametrized:
            with no_grad():
                _replace_values(tensor, getattr(module, tensor_name))
    elif leave_parametrized:
        value: Tensor = getattr(module, tensor_name)
        tensor = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not len(module.parametrizations):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module has, or had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives a module the parametrizations of another, and the tensors behind them.

    Args:
        from_module: where they come from; nothing happens where it has none.
        to_module: gets a parameter where it has no such tensor.
        tensor_name: the only tensor to transfer; all parametrized ones if None.
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        for original in source._names():
            setattr(to_module.parametrizations[name], original, getattr(source, original))
    return to_module
