"""For the tests of users: `torch.testing.assert_close`, tensors of random values, and how many
steps a program has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

from tinyt._tensor import dtype as DType
from tinyt._tensor import dtype_by_name
from tinyt.compiler.api import compiled_type
from tinyt.dtypes import finfo, float64, iinfo
from tinyt.nn.optimized import OptimizedModule
from tinyt.ops import as_tensor, complex, empty, full_like, rand, randint, where
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from numpy import ndarray

# PyTorch's (rtol, atol) per dtype; 0 for all others.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


# PyTorch's (rtol, atol) of the older `assert_allclose`.
_OLDER_TOLERANCES = {
    "float16": (1e-3, 1e-3),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1e-4, 1e-5),
    "float64": (1e-5, 1e-8),
}


def make_tensor(
    *shape: int | Sequence[int],
    dtype: DType,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of values drawn evenly from [low, high), cut to what the dtype holds.

    By default these are 0 and 2 for bool, 0 and 10 for uint8, -9 and 10 for other integers, -9 and
    9 for floats and both parts of complex numbers.

    Args:
        shape: sizes, or one sequence of them.
        dtype, device: of the tensor.
        low, high: limits of the values.
        requires_grad: whether the result records gradients.
        noncontiguous: whether its elements lie apart, where there are two or more.
        exclude_zero: whether zeros become 1, or the smallest normal float.
        memory_format: of the result.

    Raises:
        ValueError: ``low`` is not below ``high`` or is NaN, gradients of integers are asked for,
            or both a memory format and elements that lie apart.

    >>> import tinyt
    >>> tinyt.testing.make_tensor(2, 3, dtype=tinyt.int64, low=1, high=2)
    tensor([[1, 1, 1],
            [1, 1, 1]])
    """
    sizes: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    floating = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not floating:
        raise ValueError(f"make_tensor: {dtype.name} tensors have no gradients")
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format exclude each other")
    first, last = _limits(dtype, low, high)
    if dtype.is_complex:
        part = "float32" if dtype.name == "complex64" else "float64"
        values = complex(*(_evenly(sizes, first, last, part) for _ in range(2)))
    elif floating:
        values = _evenly(sizes, first, last, dtype.name)
    else:
        values = randint(math.ceil(first), math.ceil(last), sizes).to(dtype)
    if exclude_zero:
        least = finfo(dtype).tiny if floating else 1
        values = where(values == 0, full_like(values, least), values)
    if noncontiguous and values.numel() > 1:
        apart = empty(*values.shape[:-1], 2 * values.shape[-1], dtype=dtype)[..., ::2]
        values = apart.copy_(values)
    if memory_format is not None:
        values = values.contiguous(memory_format=memory_format)
    return values.to(device).requires_grad_(requires_grad)


def _limits(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """The limits of values, those of the dtype applied."""
    if dtype.is_floating_point or dtype.is_complex:
        default, largest = (-9, 9), finfo(dtype).max
        held: tuple[float, float] = -largest, largest
    elif dtype.name == "bool":
        default, held = (0, 2), (0, 2)
    else:
        info = iinfo(dtype)
        default, held = ((0, 10) if dtype.name == "uint8" else (-9, 10)), (info.min, info.max)
    first, last = default[0] if low is None else low, default[1] if high is None else high
    if math.isnan(first) or math.isnan(last):
        raise ValueError(f"make_tensor: the limits must not be NaN, got {first} and {last}")
    if first > last or (first == last and not dtype.is_floating_point and not dtype.is_complex):
        raise ValueError(f"make_tensor: low must be less than high, got {first} and {last}")
    return min(max(first, held[0]), held[1]), min(max(last, held[0]), held[1])


def _evenly(sizes: Any, low: float, high: float, dtype: str) -> Tensor:
    drawn: Tensor = low + (high - low) * rand(sizes, dtype=float64)
    return drawn.to(dtype_by_name(dtype))


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older `assert_close`: with larger tolerances, and without a look at dtypes.

    Raises:
        AssertionError: the values differ.
    """
    if not isinstance(actual, Tensor):
        actual = as_tensor(actual)
    if not isinstance(expected, Tensor):
        expected = as_tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        pairs = [_OLDER_TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (actual, expected)]
        rtol, atol = (max(values) for values in zip(*pairs, strict=True))
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Asserts |actual - expected| <= atol + rtol * |expected|, element by element.

    Args:
        actual, expected: tensors, arrays, numbers, None, or sequences and mappings of them.
        allow_subclasses: without it both must have the same class.
        rtol, atol: both or none; by default PyTorch's for the less precise of the dtypes.
        equal_nan: NaN equals NaN.
        check_device: the devices must be the same, too.
        check_layout: taken for PyTorch's sake; there is one.
        check_dtype: the dtypes must be the same, too.
        check_stride: the strides must be the same, too.
        msg: the message, or what makes it from the one that would be given.

    Raises:
        AssertionError: they differ; says where most, and where in the containers.
        TypeError: a container beside something else, or what is no tensor.
        ValueError: one of `rtol` and `atol` alone.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: give both tolerances or none, got {rtol=}, {atol=}")

    def pair(a: Any, b: Any, where: str) -> None:
        problem = _container(a, b, pair, where)
        if problem is None:
            problem = _difference(
                *_leaves(a, b, allow_subclasses),
                rtol,
                atol,
                equal_nan,
                check_device,
                check_dtype,
                check_stride,
            )
        if problem:
            text = problem + (f"\n\nThe failure occurred for item {where}" if where else "")
            raise AssertionError(msg(text) if callable(msg) else msg or text)

    pair(actual, expected, "")


def assert_kernels(
    fn: Callable[..., Any], at_most: int, *, backward_at_most: int | None = None
) -> None:
    """Asserts that a compiled function or module runs in no more steps than these.

    Args:
        fn: what `tinyt.compile` returned, after the call in question: counted are the steps of the
            program that stood for it, each one kernel.
        at_most: steps of the call.
        backward_at_most: steps of the backward pass that a call's results have a program for.

    Raises:
        AssertionError: there are more; lists them.
        RuntimeError: no call has made a program yet; or none for a backward pass.
        TypeError: `fn` is not compiled.
    """
    compiled = fn.compiled if isinstance(fn, OptimizedModule) else fn
    if not isinstance(compiled, compiled_type()):
        kind = type(fn).__name__
        raise TypeError(f"assert_kernels: expected what tinyt.compile returned, got {kind}")
    programs = {"call": at_most}
    if backward_at_most is not None:
        programs["backward"] = backward_at_most
    report = compiled.report()
    for name, most in programs.items():
        if all(total.program != name for total in report.totals):
            raise RuntimeError("assert_kernels: the results of the call have no backward program")
        steps = [row for row in report.rows if row.program == name]
        if len(steps) > most:
            lines = [f"  {row.number}: {' '.join(row.ops)}, then {row.reason}" for row in steps]
            raise AssertionError(
                "\n".join([f"The {name} takes {len(steps)} steps, not at most {most}:", *lines])
            )


def _container(a: Any, b: Any, pair: Callable[[Any, Any, str], None], where: str) -> str | None:
    """Compares two containers; None where `a` and `b` are none."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            return f"The keys of the mappings do not match: {sorted(a)} != {sorted(b)}"
        for key in a:
            pair(a[key], b[key], f"{where}[{key!r}]")
        return ""
    if _is_sequence(a) and _is_sequence(b):
        if len(a) != len(b):
            return f"The length of the sequences mismatch: {len(a)} != {len(b)}"
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            pair(x, y, f"{where}[{i}]")
        return ""
    return None


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _leaves(a: Any, b: Any, allow_subclasses: bool) -> tuple[Any, Any]:
    """As tensors; both None stay so."""
    if a is None and b is None:
        return a, b
    related = isinstance(a, type(b)) or isinstance(b, type(a)) if allow_subclasses else False
    numbers = all(isinstance(x, Number) for x in (a, b))
    if not (related or numbers or type(a) is type(b)) or isinstance(a, str):
        raise TypeError(
            f"assert_close: cannot compare {type(a).__name__} with {type(b).__name__}; "
            "convert one of them"
        )
    return as_tensor(a), as_tensor(b)


def _difference(
    a: Tensor | None,
    b: Tensor | None,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_device: bool,
    check_dtype: bool,
    check_stride: bool,
) -> str:
    """What is wrong, or ""."""
    if a is None or b is None:
        return ""
    for what, wanted, x, y in (
        ("shape", True, tuple(a.shape), tuple(b.shape)),
        ("device", check_device, a.device, b.device),
        ("dtype", check_dtype, a.dtype, b.dtype),
        ("stride()", check_stride, a.stride(), b.stride()),
    ):
        if wanted and x != y:
            return f"The values for attribute '{what}' do not match: {x} != {y}."
    default = [_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (a, b)]
    rtol = max(r for r, _ in default) if rtol is None else rtol
    atol = max(t for _, t in default) if atol is None else atol
    import numpy as np

    got, want = _values(a), _values(b)
    with np.errstate(all="ignore"):
        gap, size = _gap(got, want), abs(want.astype("complex128"))
        close = (got == want) | (np.isfinite(gap) & (gap <= atol + rtol * size))
        relative = gap / size
    if equal_nan:
        close |= np.isnan(got) & np.isnan(want)
    return "" if close.all() else _report(close, gap, relative, rtol, atol, got, want)


def _values(x: Tensor) -> ndarray[Any, Any]:
    wide = x.detach().resolve_conj()
    return (wide.float() if wide.dtype.name == "bfloat16" else wide).numpy(force=True)


def _gap(x: Any, y: Any) -> Any:
    """|x - y| in float64; a difference of integers may not fit their dtype."""
    import numpy as np

    wide = "object" if x.dtype.kind in "iub" else "complex128"
    return np.asarray(abs(x.astype(wide) - y.astype(wide)), dtype="float64")


def _report(close: Any, gap: Any, relative: Any, rtol: float, atol: float, x: Any, y: Any) -> str:
    if close.ndim == 0:
        allowed = f"(up to {rtol} allowed)" if rtol else ""
        return (
            f"Scalars are not close!\n\nExpected {y} but got {x}.\n"
            f"Absolute difference: {gap} (up to {atol} allowed)\n"
            f"Relative difference: {relative} {allowed}".rstrip()
        )
    import numpy as np

    wrong, total = int((~close).sum()), close.size
    lines = [
        "Tensor-likes are not close!",
        "",
        f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
    ]
    for name, values, limit in (("absolute", gap, atol), ("relative", relative, rtol)):
        shown = np.where(close, 0, values).astype("float64")
        at = np.unravel_index(int(np.argmax(shown)), close.shape)
        where = tuple(int(i) for i in at)
        lines.append(
            f"Greatest {name} difference: {shown[at]} at index {where} (up to {limit} allowed)"
        )
    return "\n".join(lines)
