"""Cross-entropy as C, with the CPU's bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import CProgram, run_both, same_bits
from tinyt.tensor import prim

pytestmark = [compiles, has_fma, pytest.mark.host]

FLOATS = ["float32", "float64", "float16", "bfloat16"]
SHAPES = [(7, 10), (3, 5000), (5000, 3), (10,), (2, 6, 5), (4, 5, 3, 3), (40, 33), (0, 4), (1, 1)]
IGNORED = 2


def check(folder: Path, function: Callable[..., Any], *args: tinyt.Tensor, uses: str) -> None:
    """Bits of all results, and that a function is in the program's text."""
    for i, (have, want) in enumerate(run_both(folder, function, *args)):
        assert same_bits(have, want), (i, want.shape, want.dtype, (have - want).abs().max())
    assert uses in (folder / "program.c").read_text(encoding="utf-8")


def logits(dtype: str) -> list[tinyt.Tensor]:
    draws = tinyt.Generator().manual_seed(1)
    return [(tinyt.randn(s, generator=draws) * 4).to(getattr(tinyt, dtype)) for s in SHAPES]


def classes() -> list[tinyt.Tensor]:
    """Targets, some of which do not count."""
    draws, found = tinyt.Generator().manual_seed(2), []
    for shape in SHAPES:
        count = shape[1] if len(shape) > 1 else shape[0]
        kept = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
        found.append((tinyt.rand(kept, generator=draws) * count).to(tinyt.int64))
    return found


def weights(dtype: str) -> list[tinyt.Tensor]:
    draws = tinyt.Generator().manual_seed(3)
    sizes = [s[1] if len(s) > 1 else s[0] for s in SHAPES]
    return [tinyt.rand((n,), generator=draws).to(getattr(tinyt, dtype)) for n in sizes]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_softmax_nll(tmp_path: Path, dtype: str, reduction: int) -> None:
    none, n = tinyt.zeros(()), len(SHAPES)

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for x, target, weight in zip(args[:n], args[n : 2 * n], args[2 * n :], strict=True):
            found += prim.softmax_nll(x, target, weight, IGNORED, reduction)
            found += prim.softmax_nll(x, target, none, -100, reduction)
        return found

    args = [*logits(dtype), *classes(), *weights(dtype)]
    check(tmp_path, function, *args, uses="tt_softmax_nll_f")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_softmax_nll_input(tmp_path: Path, dtype: str, reduction: int) -> None:
    none, n = tinyt.zeros(()), len(SHAPES)
    args = [*logits(dtype), *classes(), *weights(dtype)]
    for i in range(n):
        loss, stats = prim.softmax_nll(args[i], args[n + i], args[2 * n + i], IGNORED, reduction)
        _, plain = prim.softmax_nll(args[i], args[n + i], none, -100, reduction)
        args += [tinyt.randn(loss.shape).to(loss.dtype), stats, plain]

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for i, (x, target, weight) in enumerate(
            zip(args[:n], args[n : 2 * n], args[2 * n : 3 * n], strict=True)
        ):
            g, stats, plain = args[3 * n + 3 * i : 3 * n + 3 * i + 3]
            found.append(prim.softmax_nll_input(g, x, target, weight, stats, IGNORED, reduction))
            found.append(prim.softmax_nll_input(g, x, target, none, plain, -100, reduction))
        return found

    check(tmp_path, function, *args, uses="tt_softmax_nll_input_f")


def test_odd_logits(tmp_path: Path) -> None:
    x = logits("float32")[0]
    x[1, 3] = float("nan")
    x[2, 3] = float("inf")
    x[3, 3] = -float("inf")
    x[4] *= 100
    target = classes()[0]
    target[3] = 3
    check(
        tmp_path, lambda x, t: prim.softmax_nll(x, t, tinyt.zeros(()), -100, 0), x, target,
        uses="tt_softmax_nll_f",
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [-1, 10, 2**40])
def test_a_class_out_of_range(tmp_path: Path, wrong: int) -> None:
    x, target = logits("float32")[0], classes()[0]
    program = CProgram(
        tmp_path, lambda x, t: prim.softmax_nll(x, t, tinyt.zeros(()), -100, 1), x, target
    )
    like = list(program.step(x, target))
    assert same_bits(program([x, target], like)[0], like[0])
    target[6] = wrong
    with pytest.raises(ValueError, match="softmax_nll: a class is out of range"):
        program([x, target], like)
    target[6] = -100
    program([x, target], like)


def test_the_loss_of_a_network(tmp_path: Path) -> None:
    x, target = logits("float32")[5], classes()[5]
    check(
        tmp_path, lambda x, t: tinyt.nn.functional.cross_entropy(x, t), x, target,
        uses="tt_softmax_nll_f",
    )  # fmt: skip
