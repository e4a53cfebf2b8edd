"""Training steps as C programs: several runs give the parameters of as many calls."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
from c_library import ENVIRONMENT, FLAGS, compiles, has_fma
from c_program import KEEP_BITS, compile_c, memory, same_bits
from tinyt import nn, optim
from tinyt.compiler.export.api import _graph_of
from tinyt.compiler.export.program import Weight, export_program

pytestmark = [compiles, has_fma, pytest.mark.host]

Pair = tuple[tinyt.Tensor, tinyt.Tensor]


class TrainingStep:
    """A compiled training step that was called three times, and its C."""

    def __init__(self, folder: Path, function: Callable[..., Any], *args: tinyt.Tensor) -> None:
        self.step, self.args = tinyt.compile(function), args
        for _ in range(3):
            self.step(*args)
        self.step.export_c(folder, *args, name="program", weights="arrays")
        self.library = ctypes.CDLL(str(compile_c(folder, "program")))
        capture = self.step.entries[0].capture
        graph, wanted = _graph_of(capture)
        part = 1 if graph.split_point()[0] >= 0 else 0
        self.parts = export_program(tinyt._core.Program(graph, part), wanted, graph)

    def array(self, w: Weight) -> tinyt.Tensor:
        """What C has of what it writes."""
        nbytes = w.tensor.numel() * w.tensor.dtype.itemsize
        found = (ctypes.c_uint8 * nbytes).in_dll(self.library, f"program_{w.name}")
        return tinyt.from_numpy(np.array(found)).view(w.tensor.dtype)

    def runs(self, times: int) -> list[Pair]:
        """(in C, in Python) of the results of the last of several runs, and of what they write."""
        for _ in range(times):
            want = self.step(*self.args)
            want = [] if want is None else [want] if isinstance(want, tinyt.Tensor) else list(want)
            outputs = [np.zeros(max(1, x.numel() * x.dtype.itemsize), np.uint8) for x in want]
            inputs = [memory(x) for x in self.args]
            pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (*inputs, *outputs)]
            assert self.library.program_run(*pointers) == 0
        have = [
            tinyt.from_numpy(y).view(x.dtype).reshape(x.shape)
            for x, y in zip(want, outputs, strict=True)
        ]
        found = [(a, b.detach()) for a, b in zip(have, want, strict=True)]
        # What is no memory of this one is the program's own.
        there = {x.data_ptr() for _, x in self.step.entries[0].program_object.outside()}
        written = [w for w in self.parts.weights if w.written and w.tensor.data_ptr() in there]
        return found + [(self.array(w), w.tensor) for w in written]


OPTIMISERS: dict[str, list[Callable[[list[Any]], Any]]] = {
    "sgd": [
        lambda p: optim.SGD(p, lr=0.1),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    ],
    "adam": [
        lambda p: optim.Adam(p, lr=0.1),
        lambda p: optim.Adam(p, lr=0.1, betas=(0.4, 0.9), weight_decay=0.1, amsgrad=True),
        lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.1, maximize=True),
    ],
    "rmsprop": [
        lambda p: optim.RMSprop(p, lr=0.1),
        lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5, maximize=True),
        lambda p: optim.RMSprop(p, lr=0.1, centered=True, alpha=0.3),
    ],
    "adagrad": [
        lambda p: optim.Adagrad(p, lr=0.1),
        lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1, maximize=True),
    ],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("rule", OPTIMISERS)
def test_rules(tmp_path: Path, rule: str, dtype: str) -> None:
    t = getattr(tinyt, dtype)
    tinyt.manual_seed(1)
    x, y = tinyt.randn(5, 7).to(t), tinyt.randn(5, 7).to(t)
    x[0, 0], x[1, 1], x[2, 2] = 0.0, float("nan"), float("inf")
    of = []
    for make in OPTIMISERS[rule]:
        params = [nn.Parameter(tinyt.randn(5, 7).to(t)) for _ in range(2)]
        of.append((params, make(params)))

    def step(x: tinyt.Tensor, y: tinyt.Tensor) -> list[tinyt.Tensor]:
        losses = []
        for (w, b), optimiser in of:
            optimiser.zero_grad()
            loss = (x * w + b - y).square()
            loss.sum().backward()
            optimiser.step()
            losses.append(loss.detach())
        return losses

    program = TrainingStep(tmp_path, step, x, y)
    assert f"tt_{rule}_step" in (tmp_path / "program.c").read_text()
    for have, want in program.runs(3):
        assert same_bits(have.view(-1), want.reshape(-1))


def test_several_parameters_and_no_result(tmp_path: Path) -> None:
    params = [nn.Parameter(tinyt.randn(n)) for n in (1, 3, 1000)]
    optimiser = optim.Adam(params, lr=0.01)

    def step(x: tinyt.Tensor) -> None:
        optimiser.zero_grad(set_to_none=True)
        for p in params:
            (p * x).square().sum().backward()
        optimiser.step()

    for have, want in TrainingStep(tmp_path, step, tinyt.randn(1)).runs(2):
        assert same_bits(have.view(-1), want.reshape(-1))


def test_a_step_that_may_be_left_out(tmp_path: Path) -> None:
    w = nn.Parameter(tinyt.randn(5, 7))
    optimiser, scaler = optim.SGD([w], lr=0.1, momentum=0.5), tinyt.amp.GradScaler("cpu")

    def step(x: tinyt.Tensor) -> None:
        optimiser.zero_grad()
        scaler.scale((w * x).square().sum()).backward()
        scaler.step(optimiser)
        scaler.update()

    x = tinyt.randn(5, 7)
    program = TrainingStep(tmp_path, step, x)
    for value in (1.0, float("inf"), 2.0):
        x[0, 0] = value
        for have, want in program.runs(1):
            assert same_bits(have.view(-1), want.reshape(-1))


COUNTING: dict[str, dict[str, float]] = {
    "Adamax": {},
    "NAdam": {"decoupled_weight_decay": True},
    "RAdam": {},
    "Adafactor": {},
    "ASGD": {"lr": 0.01, "t0": 2.0},
}


@pytest.mark.parametrize("name", COUNTING)
def test_counters_that_are_numbers(tmp_path: Path, name: str) -> None:
    """Each run reads what the run before has counted, and computes with it as Python does."""
    w = nn.Parameter(tinyt.randn(6, 2))
    optimiser = getattr(optim, name)([w], **COUNTING[name])

    def step(x: tinyt.Tensor) -> tinyt.Tensor:
        optimiser.zero_grad()
        loss = (w * x).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    x = tinyt.randn(6, 2)
    compiled = tinyt.compile(step)
    for _ in range(8):  # RAdam's first steps are others
        compiled(x)
    compiled.export_c(tmp_path, x, name="program", weights="arrays")
    library = ctypes.CDLL(str(compile_c(tmp_path, "program")))
    loss = np.zeros(1, np.float32)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (memory(x), loss)]
    for _ in range(7):
        want = compiled(x)
        assert library.program_run(*pointers) == 0
        np.testing.assert_allclose(loss[0], want.item(), 1e-6)


def test_a_number_that_decides_is_an_error_when_it_is_another(tmp_path: Path) -> None:
    """RAdam's first five steps are others: a program that was captured in one is for these."""
    w = nn.Parameter(tinyt.randn(6, 2))
    optimiser = optim.RAdam([w])

    def step(x: tinyt.Tensor) -> None:
        optimiser.zero_grad()
        (w * x).square().mean().backward()
        optimiser.step()

    compiled, x = tinyt.compile(step), tinyt.randn(6, 2)
    for _ in range(3):
        compiled(x)
    compiled.export_c(tmp_path, x, name="program", weights="arrays")
    library = ctypes.CDLL(str(compile_c(tmp_path, "program")))
    given = memory(x)
    codes = [library.program_run(given.ctypes.data_as(ctypes.c_void_p)) for _ in range(4)]
    assert codes[:2] == [0, 0]
    assert codes[2] == codes[3] > 0
    library.program_error.restype = ctypes.c_char_p
    text = library.program_error(codes[-1])
    assert text == b"a number that the program was made for is another one now"


def _perceptron() -> tuple[nn.Module, Callable[..., tinyt.Tensor]]:
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    optimiser = optim.AdamW(model.parameters(), lr=0.01)

    def step(x: tinyt.Tensor, y: tinyt.Tensor) -> tinyt.Tensor:
        optimiser.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimiser.step()
        return loss

    return model, step


def test_a_perceptron(tmp_path: Path) -> None:
    """Its own test looks at what the step writes, too."""
    _, step = _perceptron()
    x, y = tinyt.randn(9, 6), tinyt.randn(9, 3)
    for have, want in TrainingStep(tmp_path, step, x, y).runs(5):
        assert tinyt.allclose(have.view(-1), want.reshape(-1), rtol=1e-4, atol=1e-5)
    sources = [str(path) for path in tmp_path.glob("*.c")]
    command = ["cc", *FLAGS, *KEEP_BITS, "-O1", *sources, "-o", str(tmp_path / "test"), "-lm"]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    found = subprocess.run([str(tmp_path / "test")], check=True, capture_output=True, text=True)
    assert found.stdout.count("weight_") == 16  # 4 parameters: 2 states and a counter of each


def test_a_rate_may_be_set(tmp_path: Path) -> None:
    w = nn.Parameter(tinyt.randn(6))
    optimiser = optim.SGD([w], lr=0.125)

    def step(x: tinyt.Tensor) -> None:
        optimiser.zero_grad()
        (w * x).square().sum().backward()
        optimiser.step()

    program = TrainingStep(tmp_path, step, tinyt.randn(6))
    text = (tmp_path / "program.h").read_text()
    name = re.search(r"extern double (program_weight_\d+)\[1\]; // 0.125\n", text)
    assert name is not None
    ctypes.c_double.in_dll(program.library, name[1]).value = 0.25
    optimiser.param_groups[0]["lr"] = 0.25
    for have, want in program.runs(2):
        assert same_bits(have.view(-1), want.reshape(-1))


MAIN = """
#include "program.h"
int main(int argc, char** argv) {
  float x[54] = {1}, y[27] = {2}, loss[1];
  int error = program_load(argv[argc - 2]);
  for (int i = 0; i < 3 && error == 0; ++i) error = program_run(x, y, loss);
  return error == 0 ? program_save(argv[argc - 1]) : error;
}
"""


def test_files_are_written_back(tmp_path: Path) -> None:
    """Runs go on from a file as they would without; the project's own test passes."""
    _, step = _perceptron()
    x, y = tinyt.zeros(9, 6), tinyt.zeros(9, 3)
    x[0, 0], y[0, 0] = 1.0, 2.0
    compiled = tinyt.compile(step)
    for _ in range(3):
        compiled(x, y)
    compiled.export_c(tmp_path, x, y, name="program", weights="file")
    (tmp_path / "main.c").write_text(MAIN, encoding="utf-8")
    flags = [*FLAGS, *KEEP_BITS, "-O1", f"-I{tmp_path}"]
    for file in ("program_test", "main"):
        sources = [str(tmp_path / f"{file}.c"), str(tmp_path / "program.c")]
        command = ["cc", *flags, *sources, "-o", str(tmp_path / file), "-lm"]
        subprocess.run(command, check=True, env=ENVIRONMENT)
    saved = [str(tmp_path / name) for name in ("program.weights", "after", "later")]
    subprocess.run([str(tmp_path / "program_test"), saved[0]], check=True)
    for source, target in pairwise(saved):
        subprocess.run([str(tmp_path / "main"), source, target], check=True)
    first, after, later = (Path(name).read_bytes() for name in saved)
    assert len(first) == len(after) == len(later)
    assert first != after != later
