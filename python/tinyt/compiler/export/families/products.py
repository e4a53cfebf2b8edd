"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import bits_type, c_type
from tinyt.compiler.export.values import Value, broadcast, merged
from tinyt.compiler.passes.views import contiguous

_FLOATS = {dtypes.float32, dtypes.float64}
_FEW = 4  # rows that are multiplied one by one
_COLUMNS = 2 * 64  # bytes: the most that a row of a panel has


@emits("matmul", "matmul_add")
def _matmul(call: Call) -> None:
    product(call, call.x[0], call.x[1], call.x[2] if len(call.x) > 2 else None, call.y[0])


@emits("linear")
def _linear(call: Call) -> None:
    x, weight, bias = call.x
    columns = Value(weight.shape[::-1], weight.stride[::-1], weight.dtype, weight.at)
    product(call, x, columns, bias if bias.shape else None, call.y[0])


@emits("int_mm")
def _int_mm(call: Call) -> None:
    a, b = call.x
    sizes = call.y[0].shape[0], call.y[0].shape[1], a.shape[1]
    call.run("whole_products", "tt_int_mm", a, *a.stride, b, *b.stride, call.y[0], *sizes)


def product(call: Call, a: Value, b: Value, d: Value | None, y: Value) -> None:
    """Writes y = a b + d, over batches that broadcast; d is null or broadcasts to y."""
    if len(a.shape) == 1 or len(b.shape) == 1:
        return _vector(call, a, b, d, y)
    if y.dtype.is_floating_point and y.dtype not in _FLOATS:
        wide = call.scratch(y.shape, dtypes.float32)
        a, b = call.dense(a, dtypes.float32), call.dense(b, dtypes.float32)
        product(call, a, b, None if d is None else call.dense(d, dtypes.float32), wide)
        return call.cast(wide, y)
    t = y.dtype
    a, b = (x if x.dtype is t else call.dense(x, t) for x in (a, b))
    if d is not None and d.dtype is not t:
        d = call.dense(d, t)
    if y.numel == 0:
        return None
    if not t.is_floating_point:
        return _whole(call, a, b, d, y)
    batch, (m, n), k = y.shape[:-2], y.shape[-2:], a.shape[-1]
    strides = [broadcast(x, (*batch, *x.shape[-2:]))[: len(batch)] for x in (a, b)]
    strides.append(contiguous(y.shape)[: len(batch)])
    add = (0,) * len(y.shape) if d is None else broadcast(d, y.shape)
    strides.append(add[: len(batch)])
    # Rows of a batch whose B is one and the same are rows of one product.
    if batch and a.shape[-2] * a.stride[-2] == strides[0][-1] and not any(strides[1]):
        joined, (sa, sc, sd) = merged(
            (*batch, m), [(*strides[0], a.stride[-2]), contiguous(y.shape)[:-1], add[:-1]]
        )
        if len(joined) == 1 and sc == [n]:
            return _one(
                call, a, (sa[0], a.stride[-1]), b, d, (sd[0], add[-1]), y, (joined[0], n, k)
            )
    outer, steps = merged(batch, strides)
    if outer == [1]:
        return _one(call, a, a.stride[-2:], b, d, add[-2:], y, (m, n, k))
    return _batch(call, a, b, d, add[-2:], y, outer, steps)


def _vector(call: Call, a: Value, b: Value, d: Value | None, y: Value) -> None:
    """The same where an operand has one dimension: a row on the left, a column on the right."""
    shape, added = list(y.shape), () if d is None else broadcast(d, y.shape)
    steps = list(added)
    if len(a.shape) == 1:
        a = Value((1, *a.shape), (0, *a.stride), a.dtype, a.at)
        at = len(shape) - (len(b.shape) > 1)
        shape.insert(at, 1)
        steps.insert(at, 0)
    if len(b.shape) == 1:
        b = Value((*b.shape, 1), (*b.stride, 0), b.dtype, b.at)
        shape.append(1)
        steps.append(0)
    if d is not None:
        d = Value(shape, steps, d.dtype, d.at)
    product(call, a, b, d, Value(shape, contiguous(tuple(shape)), y.dtype, y.at))


def _arguments(
    call: Call,
    ra: Sequence[int],
    b: Value,
    has_d: bool,
    rd: Sequence[int],
    y: Value,
    sizes: tuple[int, int, int],
) -> tuple[str, list[str]]:
    """The function that suits a product, and its arguments behind the pointers: a format with the
    names of pointers a, b, d and y."""
    m, n, k = sizes
    rb = b.stride[-2:]
    t = c_type(y.dtype)
    few = m <= _FEW and (rb[1] == 1 or (rb[0] == 1 and ra[1] == 1) or k == 1)
    if few:
        function, scratch = "tt_rows_T", call.scratch_bytes(n * y.dtype.itemsize, t)
    else:
        function, scratch = "tt_product_T", call.scratch_bytes(k * (_COLUMNS + 8), t)
    parts = [
        *("{a}", str(ra[0]), str(ra[1]), "{b}", str(rb[0]), str(rb[1])),
        *("{d}", str(rd[0] if has_d else 0), str(rd[1] if has_d else 0), "{y}"),
        *(str(m), str(n), str(k), str(scratch)),
    ]
    return function, parts


def _one(
    call: Call,
    a: Value,
    ra: Sequence[int],
    b: Value,
    d: Value | None,
    rd: Sequence[int],
    y: Value,
    sizes: tuple[int, int, int],
) -> None:
    function, parts = _arguments(call, ra, b, d is not None, rd, y, sizes)
    names = {"a": str(a), "b": str(b), "d": "NULL" if d is None else str(d), "y": str(y)}
    call.run("products", function, *(p.format(**names) for p in parts), T=c_type(y.dtype))


def _batch(
    call: Call,
    a: Value,
    b: Value,
    d: Value | None,
    rd: Sequence[int],
    y: Value,
    outer: Sequence[int],
    steps: Sequence[Sequence[int]],
) -> None:
    """A loop over each dimension of the batch."""
    sizes = y.shape[-2], y.shape[-1], a.shape[-1]
    function, parts = _arguments(call, a.stride[-2:], b, d is not None, rd, y, sizes)
    function = call.out.use("products", function, T=c_type(y.dtype))
    loops = "".join(f"for (int64_t i{i} = 0; i{i} < {n}; ++i{i}) " for i, n in enumerate(outer))

    def at(x: Value | None, step: Sequence[int]) -> str:
        if x is None:
            return "NULL"
        return str(x) + "".join(f" + i{i} * {s}" for i, s in enumerate(step) if s)

    names = {name: at(x, s) for name, x, s in zip("abyd", (a, b, y, d), steps, strict=True)}
    call.out.statements.append(f"{loops}{function}({', '.join(p.format(**names) for p in parts)});")


def _whole(call: Call, a: Value, b: Value, d: Value | None, y: Value) -> None:
    """The same of integers."""
    made = y if d is None else call.scratch(y.shape, y.dtype)
    batch, (m, n), k = y.shape[:-2], y.shape[-2:], a.shape[-1]
    strides = [broadcast(x, (*batch, *x.shape[-2:]))[: len(batch)] for x in (a, b)]
    outer, (sa, sb, sy) = merged(batch, [*strides, contiguous(y.shape)[: len(batch)]])
    t, u = c_type(y.dtype), bits_type(y.dtype)
    function = call.out.use("whole_products", "tt_whole_product_T_U", T=t, U=u)
    loops = "".join(f"for (int64_t i{i} = 0; i{i} < {c}; ++i{i}) " for i, c in enumerate(outer))
    x, z, to = (
        str(v) + "".join(f" + i{i} * {s}" for i, s in enumerate(step) if s)
        for v, step in ((a, sa), (b, sb), (made, sy))
    )
    arguments = (x, *a.stride[-2:], z, *b.stride[-2:], to, m, n, k)
    call.out.statements.append(f"{loops}{function}({', '.join(map(str, arguments))});")
    if d is not None:
        call.elementwise("add", [made, d], y)
