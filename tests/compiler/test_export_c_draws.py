"""Random numbers of C programs: those of tinyt, to the bit, from run to run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import compile_c, memory, same_bits
from tinyt import nn, optim

pytestmark = [compiles, has_fma, pytest.mark.host]

SIZES = [(), (0,), (1,), (3, 5), (255,), (256,), (70, 11)]


class Drawing:
    """A compiled function that draws, and its C; both begin with one seed."""

    def __init__(
        self, folder: Path, function: Callable[..., Any], *args: tinyt.Tensor, calls: int = 1
    ) -> None:
        self.step, self.args = tinyt.compile(function), args
        for _ in range(calls):
            self.step(*args)
        self.step.export_c(folder, *args, name="program", weights="arrays")
        self.library = ctypes.CDLL(str(compile_c(folder, "program")))

    def seed(self, seed: int) -> None:
        tinyt.manual_seed(seed)
        self.library.program_seed(0, ctypes.c_int64(seed))

    def run(self) -> list[tuple[tinyt.Tensor, tinyt.Tensor]]:
        """(in C, in Python) of all results."""
        want = [x.detach() for x in self.step(*self.args)]
        outputs = [np.zeros(max(1, x.numel() * x.dtype.itemsize), np.uint8) for x in want]
        arrays = [*map(memory, self.args), *outputs]
        assert self.library.program_run(*[x.ctypes.data_as(ctypes.c_void_p) for x in arrays]) == 0
        return [
            (tinyt.from_numpy(y).view(x.dtype).reshape(x.shape), x) if x.numel() else (x, x)
            for x, y in zip(want, outputs, strict=True)
        ]


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 3])
def test_draws(tmp_path: Path, seed: int) -> None:
    types = [tinyt.float32, tinyt.float64, tinyt.float16, tinyt.bfloat16]

    def function() -> list[tinyt.Tensor]:
        made = [tinyt.rand(size, dtype=t) for t in types for size in SIZES]
        made += [tinyt.randn(size, dtype=t) for t in types for size in SIZES]
        made += [tinyt.randint(-5, 12, size) for size in SIZES]
        return [*made, tinyt.randn(20000), tinyt.randn(20000, dtype=tinyt.float64)]

    drawing = Drawing(tmp_path, function)
    text = (tmp_path / "program.c").read_text()
    assert all(f"tt_{name}(" in text for name in ("random_bits", "normal_f32", "uniform_f64"))
    drawing.seed(seed)
    for _ in range(2):  # the second run goes on where the first one ends
        for have, want in drawing.run():
            assert same_bits(have, want)


def test_two_generators(tmp_path: Path) -> None:
    own = tinyt.Generator().manual_seed(11)

    def function() -> list[tinyt.Tensor]:
        first = tinyt.rand(5)
        return [first, tinyt.rand(9, generator=own), tinyt.randn(2, generator=own), tinyt.rand(7)]

    drawing = Drawing(tmp_path, function)
    drawing.seed(3)
    own.manual_seed(2)
    drawing.library.program_seed(1, ctypes.c_int64(2))
    for _ in range(3):
        for have, want in drawing.run():
            assert same_bits(have, want)


def test_dropout_in_a_training_step(tmp_path: Path) -> None:
    w = nn.Parameter(tinyt.randn(40, 3))
    optimiser, dropout = optim.SGD([w], lr=0.1), nn.Dropout(0.3)

    def step(x: tinyt.Tensor) -> list[tinyt.Tensor]:
        optimiser.zero_grad()
        out = dropout(x * w)
        out.square().sum().backward()
        optimiser.step()
        return [out]

    drawing = Drawing(tmp_path, step, tinyt.randn(40, 3), calls=3)
    drawing.seed(5)
    for _ in range(3):
        for have, want in drawing.run():
            assert same_bits(have, want)


def test_other_draws_say_so(tmp_path: Path) -> None:
    step = tinyt.compile(lambda x: tinyt.poisson(x))
    with pytest.raises(NotImplementedError, match="poisson has no form in C"):
        step.export_c(tmp_path, tinyt.ones(3))
