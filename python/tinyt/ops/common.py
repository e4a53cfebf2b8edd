"""What the op families share: argument forms and attaching primitives as methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from numbers import Integral
from typing import Any, TypedDict, TypeVar, cast

from tinyt import _core, _tensor
from tinyt._autograd import is_grad_enabled
from tinyt._capture import index
from tinyt._tensor import TensorBase, device, dtype
from tinyt.dtypes import ALL, as_dtype, can_cast, float32, float64, result_type
from tinyt.ops.autocast import policy_of
from tinyt.ops.old_orders import has_old_order, in_new_order
from tinyt.printing import abbreviated
from tinyt.tensor import Tensor, prim

F = TypeVar("F", bound=Callable[..., Any])
Number = bool | int | float
Scalar = Number | complex
Sizes = int | Sequence[int]
OP_TABLE = _core.op_table()


class Placement(TypedDict, total=False):
    """What PyTorch's creation functions take beside sizes and dtype.

    There is one memory layout, so ``layout`` must be strided. ``pin_memory``: in memory that CUDA
    devices copy from on their own; it changes nothing where there is none.
    """

    device: Any
    layout: Any
    requires_grad: bool
    pin_memory: bool


def placed(op: str, x: Tensor, place: Placement) -> Tensor:
    """A new tensor as its :class:`Placement` says; errors for what there is not."""
    if not place:
        return x
    for name in place:
        if name not in Placement.__annotations__:
            raise TypeError(f"{op}: unexpected keyword argument {name!r}")
    where = place.get("device")
    layout = place.get("layout")
    if layout is not None and str(layout).rpartition(".")[2] != "strided":
        raise RuntimeError(f"{op}: layout must be strided, got {layout}")
    x = x if where is None else on_device(x, where)
    x = pinned(op, x) if place.get("pin_memory") else x
    return x.requires_grad_() if place.get("requires_grad") else x


def on_device(x: Tensor, where: str | int | device, later: bool = False) -> Tensor:
    """A tensor on a device: itself where it is there.

    ``later``: a copy from pinned memory to a CUDA device may be under way, and so may one from it,
    which is made in pinned memory.
    """
    number = _tensor.number_of_device(where)
    if _tensor.number_of_device(x.device) == number:
        return x
    if not later:
        return prim.to_device(x, number)
    with _core.CopyScope(number == 0 and x.is_cuda, True):
        return prim.to_device(x, number)


def pinned(op: str, x: Tensor) -> Tensor:
    """A tensor in memory that CUDA devices copy from on their own: itself where it is there, where
    no such device opens, and in a recording."""
    if _core.is_recording() or not _core.has_pinned_memory() or _core.is_pinned(x):
        return x
    if not x.is_cpu:
        raise RuntimeError(
            f"{op}: only tensors of the CPU can be pinned, this one is on {x.device}; use cpu()"
        )
    with _core.CopyScope(True, False):
        made: Tensor = prim.copy(x)
        made.data_ptr()  # what `lazy` has put off is made now
    if x.numel() and not _core.is_pinned(made):
        raise _core.OutOfMemoryError(
            f"{op}: CUDA's driver has no pinned memory for {x.numel() * x.element_size()} bytes; "
            "free some, or do without pin_memory"
        )
    return made


def has_float64(where: str | device | None = None) -> bool:
    """Whether a device computes in float64; None: the one where this thread makes tensors."""
    return _core.has_kernel("add", float64, _tensor.number_of_device(where))


def in_float64(make: Callable[[], Tensor]) -> Tensor:
    """What a function without operands makes by way of float64: by the CPU where tensors are made
    on a device that does not compute in it."""
    if has_float64():
        return make()
    with device("cpu"):
        made = make()
    return on_creation_device(made)


def on_creation_device(x: Tensor) -> Tensor:
    """A tensor where this thread makes tensors: itself where it is there."""
    where = _tensor.creation_device()
    return x if x.device is where else prim.to_device(x, where)


INTEGER = (int, Integral)  # NumPy's too


def as_tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    """One integer or several as a tuple."""
    return (value,) if isinstance(value, INTEGER) else tuple(value)


def dims_of(dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """A dim argument as a tuple; empty means all dimensions."""
    return () if dim is None else as_tuple(dim)


def sizes_of(first: Any, more: tuple[Any, ...] = ()) -> tuple[int, ...]:
    """Sizes given as a sequence, or one by one; TypeError for what is no integer.

    Functions that take both forms are ``def f(input, dims, *more)``: so ``f(x, 1, 2)``,
    ``f(x, (1, 2))`` and ``f(x, dims=(1, 2))`` are understood.
    """
    one_by_one = more or isinstance(first, (int, TensorBase)) or not hasattr(first, "__iter__")
    size = (first, *more) if one_by_one else tuple(first)
    try:
        if size and isinstance(size[0], bool):  # a later one is 0 or 1, as in PyTorch
            raise TypeError
        return tuple(map(index, size))  # int() would cut the 3.5 of a `width / 2` to 3
    except TypeError:
        raise TypeError(f"sizes must be integers, got {abbreviated(size)}") from None


def wrap_dim(op: str, dim: int, rank: int) -> int:
    """A dimension number in [0, rank); DimError outside [-rank, rank)."""
    bound = max(rank, 1)
    if isinstance(dim, bool):
        raise TypeError(f"{op}: dim must be an integer, got bool")
    if not -bound <= dim < bound:
        raise _core.DimError(f"{op}: dim {dim} is out of range [{-bound}, {bound - 1}]")
    return dim + bound if dim < 0 else dim


def tuple_of(op: str, name: str, value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One integer for all of ``count`` dimensions, or one each."""
    if isinstance(value, INTEGER):
        return (value,) * count
    values = tuple(value)
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise _core.ShapeError(f"{op}: {name} needs {count} entries, got {values}")
    return values


def need_tensor(op: str, value: object) -> Tensor:
    """The value itself; TypeError when it is not a Tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{op}: expected a Tensor, got {type(value).__name__}")
    return value


def takes_shape(out: Tensor, value: Tensor) -> bool:
    """Whether ``out`` has the shape of a value, or is empty, no view, and can take it."""
    if tuple(out.shape) == tuple(value.shape):
        return True
    return out.numel() == 0 and out._base is None and not _core.is_recording()


def write_out(out: Tensor | None, value: Tensor) -> Tensor:
    """``value`` itself, or ``out`` after it was written there, in the shape of the value."""
    if out is None:
        return value
    if not can_cast(value.dtype, out.dtype):
        raise _core.DTypeError(
            f"out: result type {value.dtype.name} cannot be cast to out's {out.dtype.name}"
        )
    if is_grad_enabled() and (out.requires_grad or value.requires_grad):
        raise RuntimeError(
            "out: functions with out=... arguments don't support automatic differentiation, but "
            "one of the arguments requires grad"
        )
    if not takes_shape(out, value):
        raise _core.ShapeError(
            f"out: the result has shape {tuple(value.shape)}, out has {tuple(out.shape)}"
        )
    if tuple(out.shape) != tuple(value.shape):
        out.data = prim.fill(tuple(value.shape), out.dtype, 0.0, 0)
    out._assign(value)
    return out


def to_dtype(x: Tensor, d: dtype | None) -> Tensor:
    """x in another dtype; itself when it has it already."""
    return x if d is None or x.dtype is d else prim.cast(x, d)


def in_dtype(
    primitive: Callable[..., Tensor],
    x: Tensor,
    dim: Any,
    dtype: dtype | None,
    out: Tensor | None,
    *keepdim: bool,
) -> Tensor:
    """A sum or product in ``dtype``, narrow integers too, which the primitive makes int64."""
    if dtype is None:
        return primitive(x, dim, *keepdim, out=out)
    return write_out(out, to_dtype(primitive(to_dtype(x, dtype), dim, *keepdim), dtype))


def is_half(x: object) -> bool:
    """Whether x is a tensor of float16 or bfloat16."""
    return isinstance(x, TensorBase) and x.dtype.name in ("float16", "bfloat16")


def wide(x: Tensor) -> Tensor:
    """float16 and bfloat16 as float32, in which a composite computes them; others as they are."""
    return prim.cast(x, float32) if is_half(x) else x


def wide_together(*tensors: Tensor | None) -> tuple[dtype | None, list[Any]]:
    """The half dtype that these tensors promote to, else None, and each of them :func:`wide`.

    A composite computes with the latter and converts its result to the former: what lies between is
    rounded to float32, not to halves.
    """
    if not any(map(is_half, tensors)):
        return None, list(tensors)
    given = [x for x in tensors if x is not None]
    found = result_type(given[0], *(given[1:] or given))
    half = found if found.name in ("float16", "bfloat16") else None
    return half, [None if x is None else wide(x) for x in tensors]


def in_float32(function: F) -> F:
    """Decorator of a composite: where the tensors among the arguments promote to a half dtype, they
    go in as float32, and its float32 results come out in that dtype."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not (any(map(is_half, args)) or any(map(is_half, kwargs.values()))):
            return function(*args, **kwargs)
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, TensorBase)]
        half, _ = wide_together(*cast("list[Tensor]", given))
        if half is None:
            return function(*args, **kwargs)
        out = kwargs.pop("out", None)
        value = function(
            *(wide(x) if is_half(x) else x for x in args),
            **{name: wide(x) if is_half(x) else x for name, x in kwargs.items()},
        )
        return write_out(out, to_dtype(value, half if value.dtype is float32 else None))

    return cast("F", call)


def with_gradient_of(smooth: Tensor, value: Tensor) -> Tensor:
    """``value`` to the bit, with the gradient of ``smooth``: of another formula for nearly the same
    number, so that the difference of the two is exact."""
    return smooth - (smooth.detach() - value.detach())


def power_series(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """The sum of ``coefficients[k] * x ** k``."""
    total = prim.fill((), x.dtype, coefficients[-1], 0)
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def overwrite(x: Tensor, function: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """``function(x, *args, **kwargs)`` written over ``x``; backward sees a copy of the old values.

    ShapeError or DTypeError where ``x`` cannot hold the result; nothing is written then.
    """
    source = prim.copy(x) if is_recorded(x, *args, *kwargs.values()) else x
    value = function(source, *args, **kwargs)
    if x.shape != value.shape:
        raise _core.ShapeError(
            f"in_place: the result has shape {tuple(value.shape)}, the tensor {tuple(x.shape)}"
        )
    if not can_cast(value.dtype, x.dtype):
        raise _core.DTypeError(
            f"in_place: result type {value.dtype.name} cannot be cast to the tensor's "
            f"{x.dtype.name}"
        )
    return x._assign(value)


def is_recorded(*arguments: Any) -> bool:
    """Whether a call with these arguments is differentiated."""
    return is_grad_enabled() and any(
        isinstance(argument, TensorBase) and argument.requires_grad for argument in arguments
    )


def float_or_default(x: Tensor) -> dtype:
    """The dtype of x, or the default float for integers and bool."""
    d = x.dtype
    return d if d.is_floating_point or d.is_complex else ALL[_core.default_dtype()]


def attach_primitives(kind: str) -> dict[str, Any]:
    """All primitives of one kind as functions; attaches them as methods of Tensor.

    In-place forms are left out where PyTorch has none; a composite's method of the same name stays.
    Fused rows have their functions in their families.
    """
    functions: dict[str, Any] = {}
    for row in OP_TABLE:
        if row["kind"] != kind or "fused" in row["flags"]:
            continue
        name = row["name"]
        functions[name] = getattr(prim, name)
        if name not in vars(Tensor):
            setattr(Tensor, name, _tensor.primitive_method(name))
        if "no_inplace" not in row["flags"] and name + "_" not in vars(Tensor):
            setattr(Tensor, name + "_", _tensor.primitive_method(name, True))
    return functions


def remembered(function: F) -> F:
    """Keeps the latest results of a function of plain values; for lists that describe a shape."""
    return cast(F, lru_cache(maxsize=256)(function))


# Names of arguments that PyTorch takes too, and ours of the same.
OTHER_NAMES = {
    # NumPy's
    "axis": "dim",
    "keepdims": "keepdim",
    # those of PyTorch's overloads, where one argument of ours takes all kinds of value
    "element": "elements",
    "test_element": "test_elements",
    "indices": "indices_or_sections",
    "sections": "indices_or_sections",
    "tensor_indices_or_sections": "indices_or_sections",
    "split_size": "split_size_or_sections",
    # the package's name of what `nn.functional` calls otherwise, where both are one function here
    "train": "training",
    # a word of Python's own
    "from": "from_",
}


def _others(function: Callable[..., Any]) -> dict[str, str]:
    """Other names of the arguments that a function has."""
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {other: name for other, name in OTHER_NAMES.items() if name in own and other not in own}


def _in_own_names(
    function: Callable[..., Any], kwargs: dict[str, Any], error: Exception
) -> dict[str, Any] | None:
    """The arguments of a call that failed on an unknown one, by their own names, and with dtypes
    for Python's types; None where that changes nothing."""
    if not kwargs or not isinstance(error, (TypeError, AttributeError)):
        return None
    others = _others(function)
    own = {others.get(name, name): as_dtype(value) for name, value in kwargs.items()}
    is_same = all(name in own and own[name] is value for name, value in kwargs.items())
    return None if is_same or len(own) < len(kwargs) else own


def _retried(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> Any:
    """Calls a function that failed on an unknown argument once more, by its own names."""
    if isinstance(error, TypeError):
        new = in_new_order(function.__name__, args, kwargs)
        if new is not None:
            return (function(*new[0], **new[1]),)
    own = _in_own_names(function, kwargs, error)
    return error if own is None else (function(*args, **own),)


def renamed(function: F) -> F:
    """Lets arguments be called by their :data:`OTHER_NAMES`; adds fast path and autocast policy.

    The function itself if there is neither.
    """
    name = function.__name__
    policy = policy_of(name)
    plain = not _others(function) and not has_old_order(name)
    if plain and not _tensor.has_fast_path(name) and policy is None:
        return function
    return cast(F, _tensor.composite(function, _retried, policy))


def _put_name(error: Exception, name: str) -> None:
    """Makes the message of an error begin with the name of a composite, not of what it called."""
    text = str(error.args[0]) if error.args else ""
    inner, colon, rest = text.partition(":")
    if colon and inner.isidentifier() and inner != name.strip("_"):
        error.args = (f"{name}:{rest}", *error.args[1:])
    elif not colon and text.startswith("expected a Tensor"):  # from an operator
        error.args = (f"{name}: {text}", *error.args[1:])


def _explained(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> Any:
    """:func:`_retried`, or the error in the name of the composite."""
    name = function.__name__
    if isinstance(error, TypeError):
        new = in_new_order(name, args, kwargs)
        if new is not None:
            return (named(function)(*new[0], **new[1]),)
    own = _in_own_names(function, kwargs, error)
    if own is not None:
        return (named(function)(*args, **own),)
    if isinstance(error, AttributeError):
        given = error.obj
        values = (*args, *kwargs.values())
        if not isinstance(given, TensorBase) and any(given is value for value in values):
            return TypeError(f"{name}: expected a Tensor, got {type(given).__name__}")
    elif isinstance(error, (RuntimeError, IndexError, TypeError, ValueError)):
        _put_name(error, name)
    return error


def named(function: F) -> F:
    """:func:`renamed`, and errors inside a composite name the composite itself.

    What is no tensor where one is needed gets a TypeError, so composites need not look.
    """
    return cast(F, _tensor.composite(function, _explained, policy_of(function.__name__)))
