"""For the tests of users: `torch.testing.assert_close`, and how many steps a program has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

from tinyt.compile import OptimizedModule, compiled_type
from tinyt.ops import as_tensor
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
        check_device, check_layout: taken for PyTorch's sake; there is one of each.
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
                *_leaves(a, b, allow_subclasses), rtol, atol, equal_nan, check_dtype, check_stride
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
    check_dtype: bool,
    check_stride: bool,
) -> str:
    """What is wrong, or ""."""
    if a is None or b is None:
        return ""
    for what, wanted, x, y in (
        ("shape", True, tuple(a.shape), tuple(b.shape)),
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
    return (wide.float() if wide.dtype.name == "bfloat16" else wide).numpy()


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
