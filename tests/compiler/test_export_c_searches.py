"""Scans, sorting and searching as C, beside the programs themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
from c_library import LEVEL, compiles, has_fma
from export_values import DTYPES, FLOATS, check, values

pytestmark = [compiles, has_fma, pytest.mark.host]

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]


def shaped(dtype: str, special: bool = True) -> list[tinyt.Tensor]:
    """A cube, a matrix of long lines, a number, and tensors of no and one element."""
    shapes = (3, 4, 5), (2, 4500), (), (0, 3), (1, 1)
    return [values(dtype, *shape, special=special) for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("special", [False, True])
def test_sums_and_products(tmp_path: Path, dtype: str, special: bool) -> None:
    if special and not getattr(tinyt, dtype).is_floating_point:
        pytest.skip("has no special values")

    def scanned(x, long, one, none, single):
        return [
            y
            for f in (tinyt.cumsum, tinyt.cumprod)
            for y in (
                f(x, 0), f(x, 1), f(x.transpose(0, 2), 2), f(x[:, ::2], 1), f(long, 1), f(long, 0),
                f(one, 0), f(none, 0), f(none, 1), f(single, 0), f(x[:, :1].expand(3, 4, 5), 1),
            )
        ]  # fmt: skip

    args = shaped(dtype, special)
    if getattr(tinyt, dtype).is_floating_point and not special:
        args = [(x * 1.37).abs() ** 0.03 for x in args]
    # Blocks of running sums are as wide as a register: the C has those of level v3.
    is_other = dtype == "float64" and "v3" not in LEVEL and not special
    within = 1e-14 if is_other else 0
    check(tmp_path, ["tt_cumsum", "tt_cumprod"], scanned, *args, within=within)


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes(tmp_path: Path, dtype: str) -> None:
    def scanned(x, long, one, none, single, plain):
        wide = long.reshape(9, 10, 100)
        finders = () if x.dtype is tinyt.bool else (tinyt.argmax, tinyt.argmin)
        return [
            y
            for f in (tinyt.cummax, tinyt.cummin)
            for z in (
                f(x, 0), f(x, 1), f(x.transpose(0, 2), 2), f(x[:, ::2], 1), f(long, 1), f(one, 0),
                f(none, 0), f(single, 0), f(x[:, :1].expand(3, 4, 5), 1),
            )
            for y in z
        ] + [
            y
            for f in finders
            for y in (
                f(x, 0), f(x, 1, keepdim=True), f(x, -1), f(x.transpose(0, 2), 2), f(long, 1),
                f(x), f(one), f(none, 0), f(single), f(x[:, :1].expand(3, 4, 5), 1), f(wide, 1),
                f(plain, 1), f(plain, 0), f(plain[:, :75], 1), f(plain[1].reshape(45, 100), 0),
            )
        ]  # fmt: skip

    args = shaped(dtype)
    args[3] = values(dtype, 3, 0)
    args.append(values(dtype, 2, 4500, special=False))
    check(tmp_path, ["tt_cummax", *(["tt_argmax"] if dtype != "bool" else [])], scanned, *args)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("special", [False, True])
def test_logcumsumexp(tmp_path: Path, dtype: str, special: bool) -> None:
    def scanned(x, long, one, none, single):
        f = tinyt.logcumsumexp
        return (
            f(x, 0), f(x.transpose(0, 2), 2), f(x[:, ::2], 1), f(long, 1), f(one, 0), f(none, 0),
            f(single, 0), f(x[:, :1].expand(3, 4, 5), 1),
        )  # fmt: skip

    check(tmp_path, ["tt_logcumsumexp"], scanned, *shaped(dtype, special))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(tmp_path: Path, dtype: str) -> None:
    def ordered(x, long, one, none, single):
        made = []
        for descending in (False, True):
            for y in (x, x.transpose(0, 2), long, none, single, x[:, :1].expand(3, 4, 5)):
                made += y.sort(-1, descending=descending)
            made += x.sort(0, descending=descending)
            made += long.reshape(9, 100, 10).sort(1, descending=descending)
            made += one.sort(0, descending=descending)
        return made

    check(tmp_path, ["tt_sort"], ordered, *shaped(dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_selection(tmp_path: Path, dtype: str) -> None:
    def selected(x, long, one, none, single):
        made = []
        for largest in (False, True):
            made += x.topk(3, largest=largest)
            made += x.topk(2, 0, largest=largest)
            made += x.topk(5, largest=largest)
            made += x.transpose(0, 2).topk(2, 1, largest=largest)
            made += long.topk(16, largest=largest)
            made += long.topk(700, largest=largest)
            made += long.reshape(9, 100, 10).topk(20, 1, largest=largest)
            made += one.topk(1, 0, largest=largest)
            made += none.topk(2, largest=largest)
            made += single.topk(1, largest=largest)
        for y in (x, x.transpose(0, 2), long, x[:, :1].expand(3, 4, 5)):
            for k in (1, 2, 3):
                made += y.kthvalue(k)
            made += y.median(-1)
            made += y.nanmedian(-1)
        made += long.kthvalue(4500, keepdim=True)
        made += long.kthvalue(2250)
        made += long.median(0)
        made += [*x.median(1, keepdim=True), *one.median(0), *one.kthvalue(1, 0), *single.median(0)]
        return made

    check(tmp_path, ["tt_sort_lines", "tt_first_of_lines", "tt_select"], selected, *shaped(dtype))


def test_medians_of_nan(tmp_path: Path) -> None:
    nan = float("nan")
    x = tinyt.tensor([[nan, 1.0, nan, 2.0, 5.0], [nan] * 5, [3.0, 1.0, 2.0, 9.0, -0.0]])

    def medians(x):
        return *x.median(1), *x.nanmedian(1), *x.kthvalue(4, 1), x[2].median()

    check(tmp_path, ["tt_select"], medians, x)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_searchsorted(tmp_path: Path, dtype: str) -> None:
    lines, line = values(dtype, 3, 37).sort(-1).values, values(dtype, 100).sort().values
    x, y = values(dtype, 3, 20), values(dtype, 3, 1)

    def searched(lines, line, x, y):
        return [
            z
            for right in (False, True)
            for z in (
                tinyt.searchsorted(lines, x, right=right),
                tinyt.searchsorted(line, x.t(), right=right),
                tinyt.searchsorted(lines[:, ::2], x[:, 1:3], right=right),
                tinyt.searchsorted(lines[:, :0], y, right=right),
                tinyt.searchsorted(line, x[0, 0], right=right),
                tinyt.bucketize(x, line[:9], right=right),
            )
        ]

    check(tmp_path, ["tt_searchsorted"], searched, lines, line, x, y)
