"""How tensors print: PyTorch's layout, shortened so that a terminal is never flooded."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import Any

from tinyt import _capture, _tensor
from tinyt._tensor import default_dtype_object

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_OPTIONS: dict[str, Any] = {**_PROFILES["default"], "sci_mode": None}
# As many rows as a summary may show: those of four dimensions with three at each end.
_MOST_ROWS = 6**3


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors print.

    ``precision``: digits after the point; ``threshold``: elements above which only ``edgeitems``
    at each end of a dimension are shown; ``linewidth``: characters in a line; ``profile``:
    "default", "short" or "full"; ``sci_mode``: scientific notation always, never or as needed.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: unknown profile {profile!r}")
        _OPTIONS.update(_PROFILES[profile])
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _OPTIONS.update({k: v for k, v in given.items() if v is not None})
    _OPTIONS["sci_mode"] = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options that :func:`set_printoptions` sets."""
    return dict(_OPTIONS)


class _Formatter:
    """One format for all shown numbers, as wide as the widest finite one that is not zero."""

    def __init__(self, values: list[Any], floating: bool) -> None:
        self.floating = floating
        self.integral = True
        self.scientific = False
        self.width = 1
        if not floating:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        finite = [v for v in values if math.isfinite(v) and v != 0]
        if not finite:
            return
        self.integral = all(v == math.ceil(v) for v in finite)
        low, high = min(map(abs, finite)), max(map(abs, finite))
        self.scientific = high / low > 1000.0 or high > 1e8 or (low < 1e-4 and not self.integral)
        if _OPTIONS["sci_mode"] is not None:
            self.scientific = _OPTIONS["sci_mode"]
        self.width = max(len(self.text(v)) for v in finite)

    def text(self, value: Any) -> str:
        """The number without padding."""
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{_OPTIONS['precision']}e}"
        if self.integral:
            text = f"{value:.0f}"
            return text + "." if math.isfinite(value) else text
        return f"{value:.{_OPTIONS['precision']}f}"

    def __call__(self, value: Any) -> str:
        return self.text(value).rjust(self.width)


class _ComplexFormatter:
    """A format for the real parts and one for the imaginary parts."""

    def __init__(self, values: list[complex]) -> None:
        self.real = _Formatter([v.real for v in values], True)
        self.imag = _Formatter([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self.imag(value.imag).lstrip() + "j"
        return self.real(value.real) + (imag if imag[0] in "+-" else "+" + imag)


def _edges(shape: tuple[int, ...]) -> list[int]:
    """How many elements of each dimension a summary shows at each end.

    As many as asked for in the last one; fewer where many dimensions would still give hundreds of
    rows, from the outermost on. 0: the first element only.
    """
    edges = [max(int(_OPTIONS["edgeitems"]), 0)] * len(shape)
    for fewer in (1, 0):
        for d in range(len(shape) - 1):
            if math.prod(map(_shown, shape[:-1], edges)) <= _MOST_ROWS:
                return edges
            edges[d] = min(edges[d], fewer)
    return edges


def _shown(size: int, edge: int) -> int:
    return min(size, max(2 * edge, 1))


def _summary(x: Any, edges: list[int]) -> Any:
    """The nested lists of what is shown of x, without the gaps."""
    if all(size <= _shown(size, edge) for size, edge in zip(x.shape, edges, strict=True)):
        return x.tolist()
    size, edge = x.shape[0], edges[0]
    cut = size > _shown(size, edge)
    places = [*range(max(edge, 1)), *range(size - edge, size)] if cut else range(size)
    if len(edges) == 1:
        return [x[i].item() for i in places]
    return [_summary(x[i], edges[1:]) for i in places]


def _leaves(nested: Any) -> list[Any]:
    if not isinstance(nested, list):
        return [nested]
    return [leaf for item in nested for leaf in _leaves(item)]


class _Layout:
    """Lays nested lists out, with "..." where ``edges`` left elements out."""

    def __init__(self, shape: tuple[int, ...], edges: list[int], show: Any) -> None:
        self.shape, self.edges, self.show = shape, edges, show

    def text(self, nested: Any, depth: int, indent: int) -> str:
        """The text of ``nested``, which is ``depth`` dimensions deep, ``indent`` columns in."""
        if not isinstance(nested, list):
            return str(self.show(nested))
        inner = depth + 1 == len(self.shape)
        word: Callable[[Any], str] = (
            self.show if inner else lambda item: self.text(item, depth + 1, indent + 1)
        )
        parts = [word(item) for item in nested]
        if self.shape[depth] > len(nested):
            parts.insert(max(self.edges[depth], 1), " ..." if inner else "...")
        if not inner:
            rank = len(self.shape) - depth
            return "[" + ("," + "\n" * (rank - 1) + " " * (indent + 1)).join(parts) + "]"
        per_line = max(1, (_OPTIONS["linewidth"] - indent) // (self.show.width + 2))
        rows = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(rows) + "]"


def _suffixes(x: Any) -> list[str]:
    default = default_dtype_object()
    out = [] if x.device.type == "cpu" else [f"device='{x.device}'"]
    if x.numel() == 0 or x.is_meta:
        if x.dim() != 1 or x.is_meta:
            out.append(f"size={tuple(x.shape)}")
        usual = x.dtype is default
    else:
        usual = x.dtype in (default, _complex_of(default)) or x.dtype.name in ("int64", "bool")
    if not usual:
        out.append(f"dtype={x.dtype}")
    if x.grad_fn is not None:
        out.append(f"grad_fn={x.grad_fn!r}")
    elif x.requires_grad:
        out.append("requires_grad=True")
    return out


def _complex_of(d: Any) -> Any:
    """The dtype of complex numbers that are written as such while ``d`` is the default."""
    return _tensor.dtype_by_name("complex128" if d.name == "float64" else "complex64")


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if last + len(suffix) + 2 > _OPTIONS["linewidth"]:
            text += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text + ")"


def format_tensor(x: Any) -> str:
    """The repr of a tensor."""
    prefix = "tensor("
    if x._is_recorded:
        return f"{prefix}<recorded>, shape={tuple(x.shape)}, dtype={x.dtype})"
    suffixes = _suffixes(x)
    shape = tuple(x.shape)
    if x.is_meta:
        return _with_suffixes(prefix + "...", suffixes, len(prefix))
    if x.numel() == 0:
        return _with_suffixes(prefix + "[]", suffixes, len(prefix))
    data, edges = x.detach(), list(shape)
    if x.numel() > _OPTIONS["threshold"]:
        edges = _edges(shape)
    nested = _capture.aside(_summary, data, edges)
    values = _leaves(nested)
    show: Any = (
        _ComplexFormatter(values)
        if x.dtype.is_complex
        else _Formatter(values, x.dtype.is_floating_point)
    )
    body = _Layout(shape, edges, show).text(nested, 0, len(prefix))
    return _with_suffixes(prefix + body, suffixes, len(prefix))


def abbreviated(value: object, limit: int = 80) -> str:
    """`repr(value)` in at most `limit` characters, in time that does not grow with the value.

    For messages about values that come from a file or a caller: whatever they hold, the text is
    one short line. Objects of other types than JSON's are named by their type.
    """
    text = _abbreviated(value, limit, 3)
    return text if len(text) <= limit else text[: limit - 3] + "..."


_MOST_ITEMS = 8


def _abbreviated(value: object, limit: int, depth: int) -> str:
    if isinstance(value, (str, bytes)):
        return repr(value if len(value) <= limit else value[:limit])
    if isinstance(value, int) and value.bit_length() > 4 * limit:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, (list, tuple, dict)):
        return type(value).__name__[:limit]
    first, last = ("[", "]") if isinstance(value, list) else ("(", ")")
    if isinstance(value, dict):
        first, last = "{", "}"
    if depth == 0:
        return f"{first}...{last}" if value else first + last
    parts = [_abbreviated(item, limit, depth - 1) for item in islice(value, _MOST_ITEMS)]
    if isinstance(value, dict):
        values = islice(value.values(), _MOST_ITEMS)
        parts = [
            f"{key}: {_abbreviated(item, limit, depth - 1)}"
            for key, item in zip(parts, values, strict=True)
        ]
    if len(value) > _MOST_ITEMS:
        parts.append("...")
    comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
    return f"{first}{', '.join(parts)}{comma}{last}"
