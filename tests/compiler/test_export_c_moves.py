"""Moves, indices, pools and scans as C, beside the programs themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
import tinyt.nn.functional as F
from c_library import compiles, has_fma
from c_program import CProgram, same_bits
from export_values import DTYPES, FLOATS, check, values

pytestmark = [compiles, has_fma, pytest.mark.host]


@pytest.mark.parametrize("dtype", DTYPES)
def test_moves(tmp_path: Path, dtype: str) -> None:
    x, w, empty = values(dtype, 2, 3, 5, 7), values(dtype, 3, 2, 7, 5), values(dtype, 0, 3, 5, 7)
    t = x.dtype
    pad = 1 if t.is_floating_point else 3

    def moved(x, w, empty):
        w = w.permute(1, 0, 3, 2)
        a = tinyt.cat([x, w, empty, x[:1]])
        b = tinyt.cat([x[:, :, 1:, ::2], w[:, :, 1:, :3]], -1)
        c = x[:, :1].expand(2, 3, 5, 7).flip(1, 3), w.flip(0, -1), empty.flip(1)
        d = F.pad(x, (1, 2, 0, 3), value=pad), F.pad(w, (-1, 2, 3, -2, -1, 1)), F.pad(x, (-7, 1))
        e = F.pad(empty, (1, 1), value=pad), x[0, 0, 0, 0].clone()
        return a, b, *c, *d, *e, F.pad(empty, (0, 0, 0, 0, 0, 0, 1, 1))

    check(tmp_path, ["tt_fill", "tt_copy"], moved, x, w, empty)


@pytest.mark.parametrize("dtype", FLOATS)
def test_borders(tmp_path: Path, dtype: str) -> None:
    x, long = values(dtype, 2, 3, 5, 7), values(dtype, 1, 1, 5000)

    def bordered(x, long):
        made = [
            F.pad(x.transpose(1, 2), (3, 2, 2, 1), mode=mode)
            for mode in ("reflect", "replicate", "circular")
        ]
        return *made, F.pad(x, (0, 0, 2, 2), mode="replicate"), F.pad(long, (5, 1), mode="reflect")

    check(tmp_path, ["tt_copy"], bordered, x, long)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants(tmp_path: Path, dtype: str) -> None:
    t = getattr(tinyt, dtype)
    x = values(dtype, 5)

    def made(x):
        one, two = (1, 1) if dtype == "bool" else (3, -2)
        if dtype == "uint8":
            two = 200
        step = 0.1 if t.is_floating_point else 1
        return (
            tinyt.full((3, 4), one, dtype=t).cumsum(0),
            tinyt.full((), two, dtype=t).flip(()),
            tinyt.full((70,), two, dtype=t),
            tinyt.arange(0, 100 * step, step, dtype=t) if dtype != "bool" else x.flip(0),
            tinyt.arange(5, -6, -2).to(t),
            x.flip(0),
        )

    check(tmp_path, ["tt_fill", "tt_iota"], made, x)


def test_constants_at_the_edges(tmp_path: Path) -> None:
    least = -(2**63)

    def made(x):
        return (
            tinyt.full((2,), least), tinyt.full((2,), float("nan")), tinyt.full((2,), -0.0),
            tinyt.full((3,), float("-inf"), dtype=tinyt.float16), x.flip(0),
            tinyt.arange(least, least + 3), tinyt.arange(2**62, 2**62 + 3),
        )  # fmt: skip

    check(tmp_path, ["tt_fill", "tt_iota"], made, tinyt.arange(4))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather(tmp_path: Path, dtype: str) -> None:
    x, w, one = values(dtype, 4, 6, 5), values(dtype, 9, 33), values(dtype)
    i, j = tinyt.randint(0, 4, (3, 6, 2)), tinyt.randint(0, 9, (2, 7))
    k = tinyt.randint(-6, 6, (5,)).int()
    none, zero = tinyt.zeros(0, dtype=tinyt.int64), tinyt.zeros((), dtype=tinyt.int64)

    def gathered(x, w, one, i, j, k, none, zero):
        return (
            x.gather(0, i), x.transpose(0, 2).gather(2, i.transpose(0, 2)),
            x.gather(0, i[:, :1, :1].expand(3, 6, 5)), x.gather(1, i[..., :1].transpose(0, 2)),
            F.embedding(j, w), w.t()[:, j.t()], w[j[:, :, None] % 9, j[:, None, :]],
            x.index_select(1, i[0, :, 0]), x[1, k], x[:, k], x[none], one.gather(0, zero),
            x.gather(1, none[:, None, None].expand(0, 2, 2)), x[i[0] % 4, k[:1]],
            tinyt.take_along_dim(x, x.float().argmax(-1, keepdim=True), -1),
        )  # fmt: skip

    names = ["tt_gather", "tt_linear", "tt_argmax"]
    check(tmp_path, names, gathered, x, w, one, i, j, k, none, zero)


@pytest.mark.parametrize("bad", [-1, 4, 2**62, -(2**63)])
def test_index_errors(tmp_path: Path, bad: int) -> None:
    x, i = tinyt.randn(4, 3), tinyt.tensor([0, bad, 1])
    good = tinyt.tensor([0, 3, 1])
    cases = [
        lambda x, i: x.gather(0, i[:, None].expand(3, 3)),
        lambda x, i: x.gather(0, i[:, None] + tinyt.zeros(3, 3, dtype=tinyt.int64)),
        lambda x, i: x.scatter_add(0, i[:, None].expand(3, 3), x),
    ]
    if not -4 <= bad < 4:
        cases.append(lambda x, i: x[i])
    for k, case in enumerate(cases):
        folder = tmp_path / str(k)
        folder.mkdir()
        program = CProgram(folder, case, x, good)
        want = case(x, good)
        assert same_bits(program([x, good], [want])[0], want)
        with pytest.raises(ValueError, match="out of range"):
            program([x, i], [want])


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter(tmp_path: Path, dtype: str) -> None:
    x, source, one = values(dtype, 4, 6, 5), values(dtype, 7, 6, 9), values(dtype)
    i, j = tinyt.randint(0, 4, (7, 6, 5)), tinyt.randint(0, 5, (3, 2, 9)).transpose(0, 1)[:, :3]
    zero = tinyt.zeros((), dtype=tinyt.int64)

    def scattered(x, source, one, i, j, zero):
        row = i[:, :1, :1].expand(7, 6, 5)
        made = []
        for op in ("sum", "prod", "amax", "amin"):
            if op == "prod":
                made.append(x.sign().scatter_reduce(0, i, source.sign(), "prod"))
            else:
                made.append(x.scatter_reduce(0, i, source, op))
            made.append(x.scatter_reduce(0, row, source, op))
            made.append(x.transpose(0, 1).scatter_reduce(2, j, source.transpose(0, 1), op))
        return (
            *made, x.scatter(0, i, source), x.scatter(0, row, source), x.scatter_add(2, j, source),
            x.scatter(0, i[:0], source), one.scatter(0, zero, one), one.scatter_add(0, zero, one),
            x.index_add(1, i[0, :, 0], x), x.index_copy(0, i[0, 0, :0], x[:0]),
        )  # fmt: skip

    check(tmp_path, ["tt_scatter"], scattered, x, source, one, i, j, zero)


def test_update(tmp_path: Path) -> None:
    x, w = values("float32", 4, 6), values("float32", 4, 3)

    def updated(x, w):
        y = x * 2
        y[:, ::2] = w
        y[1:, 3] += 5
        z = x.clone()
        z.t()[2:4].copy_(w[:2].repeat(1, 2)[:, :4])
        return y, z

    check(tmp_path, [], updated, x, w)
