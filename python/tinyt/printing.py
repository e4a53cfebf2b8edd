"""How tensors print: PyTorch's layout, shortened so that a terminal is never flooded."""

from __future__ import annotations

import math
from typing import Any

from tinyt._tensor import default_dtype_object

_OPTIONS: dict[str, Any] = {
    "precision": 4,
    "threshold": 1000,
    "edgeitems": 3,
    "linewidth": 80,
    "sci_mode": None,
}


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
    profiles: dict[str, dict[str, Any]] = {
        "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
        "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
    }
    if profile is not None:
        if profile not in profiles:
            raise ValueError(f"set_printoptions: unknown profile {profile!r}")
        _OPTIONS.update(profiles[profile])
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _OPTIONS.update({k: v for k, v in given.items() if v is not None})
    _OPTIONS["sci_mode"] = sci_mode


class _Formatter:
    """Chooses one format for all shown numbers, as wide as the widest."""

    def __init__(self, values: list[Any], dtype: Any) -> None:
        self.floating = dtype.is_floating_point
        self.integral = True
        self.scientific = False
        self.width = 1
        if not self.floating:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        finite = [abs(v) for v in values if math.isfinite(v) and v != 0]
        if finite:
            self.integral = all(v == math.ceil(v) for v in finite)
            low, high = min(finite), max(finite)
            limit = 1e5 if not self.integral else 1e8
            self.scientific = high / low > 1000.0 or high > 1e8 or low < 1e-4
            if self.integral:
                self.scientific = high / low > 1000.0 or high > limit
        if _OPTIONS["sci_mode"] is not None:
            self.scientific = _OPTIONS["sci_mode"]
        # As PyTorch: zeros and non-finite values do not widen the columns.
        self.width = max((len(self.text(v)) for v in values if math.isfinite(v) and v), default=1)

    def text(self, value: Any) -> str:
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


def _complex_text(value: complex) -> str:
    digits = _OPTIONS["precision"]
    return f"{value.real:.{digits}f}{value.imag:+.{digits}f}j"


def _corner(x: Any, edge: int) -> Any:
    """The nested list with only the ends of long dimensions; None marks the gap."""
    if x.dim() == 0:
        return x.item()
    n = x.shape[0]
    if n > 2 * edge:
        head = [_corner(x.select(0, i), edge) for i in range(edge)]
        tail = [_corner(x.select(0, i), edge) for i in range(n - edge, n)]
        return [*head, None, *tail]
    return [_corner(x.select(0, i), edge) for i in range(n)]


def _leaves(nested: Any) -> list[Any]:
    if not isinstance(nested, list):
        return [] if nested is None else [nested]
    return [leaf for item in nested for leaf in _leaves(item)]


def _lines(nested: Any, indent: int, show: Any) -> str:
    if not isinstance(nested, list):
        return str(show(nested))
    if not any(isinstance(item, list) for item in nested):
        words = [" ..." if item is None else show(item) for item in nested]
        width = max((len(w) for w in words if w != " ..."), default=1)
        per_line = max(1, (_OPTIONS["linewidth"] - indent) // (width + 2))
        rows = [words[i : i + per_line] for i in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(", ".join(row) for row in rows) + "]"
    depth = 1
    probe = next(item for item in nested if isinstance(item, list))
    while any(isinstance(item, list) for item in probe):
        probe = next(item for item in probe if isinstance(item, list))
        depth += 1
    parts = ["..." if item is None else _lines(item, indent + 1, show) for item in nested]
    return "[" + ("," + "\n" * depth + " " * (indent + 1)).join(parts) + "]"


def _suffixes(x: Any, default_dtype: Any) -> list[str]:
    out = []
    usual = x.dtype is default_dtype or x.dtype.name in ("int64", "bool")
    if x.numel() == 0:
        if x.dim() != 1:
            out.append(f"size={tuple(x.shape)}")
        usual = x.dtype is default_dtype
    if not usual:
        out.append(f"dtype={x.dtype}")
    if x.grad_fn is not None:
        out.append(f"grad_fn={x.grad_fn!r}")
    elif x.requires_grad:
        out.append("requires_grad=True")
    return out


def format_tensor(x: Any) -> str:
    """The repr of a tensor."""
    prefix = "tensor("
    suffix = "".join(f", {s}" for s in _suffixes(x, default_dtype_object()))
    if x._is_recorded:
        return f"{prefix}<recorded>, shape={tuple(x.shape)}, dtype={x.dtype})"
    data = x.detach()
    if x.numel() == 0:
        return f"{prefix}[]{suffix})"
    if x.dtype.is_complex:
        show: Any = _complex_text
        nested = (
            data.tolist()
            if x.numel() <= _OPTIONS["threshold"]
            else _corner(data, _OPTIONS["edgeitems"])
        )
    else:
        whole = x.numel() <= _OPTIONS["threshold"]
        nested = data.tolist() if whole else _corner(data, _OPTIONS["edgeitems"])
        show = _Formatter(_leaves(nested), x.dtype)
    body = _lines(nested, len(prefix), show)
    last = len(body) - body.rfind("\n") - 1
    if suffix and last + len(suffix) + 1 > _OPTIONS["linewidth"]:
        suffix = ",\n" + " " * len(prefix) + suffix[2:]
    return f"{prefix}{body}{suffix})"
