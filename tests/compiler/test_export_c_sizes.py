"""Sizes that are arguments in C: one program for all sizes up to a bound, with the bits that an
export of each size alone has."""

from __future__ import annotations

import ctypes
import io
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
from c_library import ENVIRONMENT, FLAGS, compiles, has_fma
from c_program import CProgram, compile_c, memory, same_bits
from tinyt import Tensor, nn, optim
from tinyt.compiler import load, mark_dynamic
from tinyt.compiler.export.sizes import Size, _Numbers

pytestmark = [pytest.mark.host, compiles, has_fma]


class Sized:
    """A program whose sizes are arguments."""

    def __init__(
        self, folder: Path, function: Callable[..., Any], *args: Tensor, name: str = "sized"
    ) -> None:
        self.step = tinyt.compile(function)
        self.folder = folder
        with tinyt.no_grad():
            self.step(*args)
            self.step.export_c(folder, *args, name=name, weights="arrays")
        self.library = ctypes.CDLL(str(compile_c(folder, name)))
        self.run = getattr(self.library, f"{name}_run")

    def __call__(
        self, sizes: Sequence[int], args: Sequence[Tensor], like: Sequence[Tensor]
    ) -> list[Tensor]:
        """Results, which are as ``like``; a number that is no 0 is an error."""
        outputs = [np.zeros(max(1, x.numel() * x.dtype.itemsize), np.uint8) for x in like]
        inputs = [memory(x) for x in args]
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (*inputs, *outputs)]
        code = self.run(*map(ctypes.c_int64, sizes), *pointers)
        assert code == 0
        return [
            tinyt.from_numpy(y[: x.numel() * x.dtype.itemsize]).view(x.dtype).reshape(x.shape)
            for x, y in zip(like, outputs, strict=True)
        ]


def check_one(
    tmp_path: Path,
    function: Callable[..., Any],
    shape: tuple[int, ...],
    dim: int,
    least: int,
    most: int,
    exact: bool = True,
) -> Sized:
    """Every size gives what the compiled function does, and some what an export of it alone does,
    to the bit."""
    x = tinyt.randn(shape)
    mark_dynamic(x, dim, min=least, max=most)
    sized = Sized(tmp_path / "sized", function, x)
    for n in range(least, most + 1):
        own = tinyt.randn([n if d == dim else size for d, size in enumerate(shape)])
        with tinyt.no_grad():
            want = function(own)
        (got,) = sized([n], [own], [want])
        if exact:
            assert same_bits(got, want), n
        np.testing.assert_allclose(got.numpy(), want.numpy(), 2e-5, 2e-6)
        if n in (least, most, (least + most) // 2):
            alone = CProgram(tmp_path / f"alone{n}", function, own)
            assert same_bits(alone([own], [want])[0], got), n
    return sized


def run_test_program(folder: Path, name: str = "sized") -> None:
    sources = [str(folder / f"{name}{end}.c") for end in ("", "_weights", "_test")]
    command = ["cc", *FLAGS, "-O1", "-ffp-contract=off", "-fno-strict-aliasing", *sources, "-lm"]
    subprocess.run([*command, "-o", str(folder / "test")], check=True, env=ENVIRONMENT)
    subprocess.run([folder / "test"], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)


NETWORK = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
CONVOLUTIONS = nn.Sequential(
    nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(6 * 16, 4),
).eval()  # fmt: skip
LAYER = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True).eval()

CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], int, int, int, bool]] = {
    "elementwise": (lambda x: (x * 2).exp() + x.sin(), (5, 3), 0, 1, 40, True),
    "inner": (lambda x: x.exp() * x[:, :1], (3, 6), 1, 2, 40, True),
    "softmax of columns": (lambda x: x.softmax(0), (5, 8), 0, 1, 33, True),
    "softmax of rows": (lambda x: x.softmax(1), (3, 7), 1, 1, 40, True),
    "mean": (lambda x: x.mean(1) + x.var(1), (3, 7), 1, 2, 50, True),
    "layer norm": (lambda x: nn.functional.layer_norm(x, (6,)), (4, 6), 0, 1, 20, True),
    "moved": (lambda x: x.transpose(0, 1).contiguous().flip(0).roll(1, 0), (3, 5), 1, 2, 20, True),
    "joined": (lambda x: tinyt.cat([x, x * 2, x[:1]], 0).cumsum(0), (4, 3), 0, 2, 20, True),
    "padded": (lambda x: nn.functional.pad(x, (1, 2, 3, 0)), (4, 3), 0, 1, 20, True),
    "positions": (lambda x: x + tinyt.arange(x.shape[1]), (2, 6), 1, 1, 20, True),
    "scores": (lambda x: (x @ x.transpose(1, 2)).softmax(-1), (2, 5, 4), 1, 2, 20, False),
    "network": (NETWORK, (5, 8), 0, 1, 30, False),
    "convolutions": (CONVOLUTIONS, (3, 1, 8, 8), 0, 1, 9, False),
    "sizes of images": (lambda x: CONVOLUTIONS[0](x).relu(), (1, 1, 8, 8), 3, 3, 20, False),
    "attention": (LAYER, (1, 10, 32), 1, 2, 20, False),
}


@pytest.mark.parametrize("case", CASES)
def test_all_sizes(case: str, tmp_path: Path) -> None:
    function, shape, dim, least, most, exact = CASES[case]
    check_one(tmp_path, lambda x: function(x), shape, dim, least, most, exact)


def test_two_sizes(tmp_path: Path) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = x @ y
        return z.relu(), (z - z.mean()).sum(0)

    x, y = tinyt.randn(4, 6), tinyt.randn(6, 5)
    mark_dynamic(x, 0, min=1, max=12)
    mark_dynamic(y, 1, min=1, max=9)
    sized = Sized(tmp_path, function, x, y)
    header = (tmp_path / "sized.h").read_text("utf-8")
    assert "int sized_run(int64_t n_0,\n" in header
    assert "SIZED_INPUT_1_SIZE 54 // float32[6, n_0]" in header  # the larger one comes first
    assert "SIZED_OUTPUT_0_SIZE 108 // float32[n_1, n_0]" in header
    for m in range(1, 13):
        for n in range(1, 10):
            args = tinyt.randn(m, 6), tinyt.randn(6, n)
            want = function(*args)
            for got, y in zip(sized([n, m], args, want), want, strict=True):
                np.testing.assert_allclose(got.numpy(), y.numpy(), 2e-5, 2e-5)


def test_equal_sizes_are_one_argument(tmp_path: Path) -> None:
    x, y = tinyt.randn(4, 3), tinyt.randn(4)
    for given in (x, y):
        mark_dynamic(given, 0, min=1, max=16)
    sized = Sized(tmp_path, lambda x, y: x * y[:, None], x, y)
    for n in range(1, 17):
        args = tinyt.randn(n, 3), tinyt.randn(n)
        want = args[0] * args[1][:, None]
        assert same_bits(sized([n], args, [want])[0], want)


def test_a_training_step(tmp_path: Path) -> None:
    """Batches of other sizes, one after another, train as in Python."""
    tinyt.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = optim.AdamW(net.parameters(), lr=0.01)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = tinyt.randn(6, 4), tinyt.zeros(6, dtype=tinyt.int64)
    for given in (x, y):
        mark_dynamic(given, 0, min=2, max=12)
    compiled = tinyt.compile(step)
    for _ in range(3):
        compiled(x, y)
    compiled.export_c(tmp_path, x, y, name="sized", weights="arrays")
    library = ctypes.CDLL(str(compile_c(tmp_path, "sized")))
    for n in (3, 12, 2, 7, 12, 5):
        x, y = tinyt.randn(n, 4), tinyt.randint(0, 2, (n,))
        want = compiled(x, y)
        loss = np.zeros(1, np.float32)
        arrays = [memory(x), memory(y), loss]
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays]
        assert library.sized_run(ctypes.c_int64(n), *pointers) == 0
        np.testing.assert_allclose(loss[0], want.item(), 2e-5)


def test_numbers_of_equal_value_stay_apart(tmp_path: Path) -> None:
    """Counters of parameters that are equal at the export, and a rate that equals a decay."""
    net = nn.Linear(4, 2)
    optimizer = optim.Adamax(net.parameters(), lr=0.01, weight_decay=0.01)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = tinyt.randn(6, 4)
    mark_dynamic(x, 0, min=2, max=9)
    compiled = tinyt.compile(step)
    for _ in range(3):
        compiled(x)
    compiled.export_c(tmp_path, x, name="sized", weights="arrays")
    library = ctypes.CDLL(str(compile_c(tmp_path, "sized")))
    for n in (3, 9, 2, 7):
        x = tinyt.randn(n, 4)
        want, loss = compiled(x), np.zeros(1, np.float32)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (memory(x), loss)]
        assert library.sized_run(ctypes.c_int64(n), *pointers) == 0
        np.testing.assert_allclose(loss[0], want.item(), 2e-5)


def test_the_test_program_of_steps_that_count(tmp_path: Path) -> None:
    """The run that it repeats is that of the weights that are written, and memory that no run has
    written yet is not."""
    nets = {name: nn.Linear(4, 2) for name in ("Adamax", "NAdam", "RAdam", "ASGD")}
    nets |= {name: nn.Linear(4, 2) for name in ("Adadelta", "Adafactor")}
    optimizers = [getattr(optim, name)(net.parameters(), lr=0.05) for name, net in nets.items()]

    def step(x: Tensor) -> Tensor:
        losses = []
        for net, optimizer in zip(nets.values(), optimizers, strict=True):
            optimizer.zero_grad()
            losses.append(net(x).square().mean())
            losses[-1].backward()
            optimizer.step()
        return tinyt.stack(losses).detach()

    x = tinyt.randn(5, 4)
    mark_dynamic(x, 0, min=4, max=6)
    compiled = tinyt.compile(step)
    for _ in range(2):
        compiled(x)
    texts = []
    for value in (1e30, -3.0):
        junk = [tinyt.full((n,), value) for n in range(1, 40) for _ in range(100)]
        del junk
        files = compiled.export_c(tmp_path, x, name="sized", weights="arrays")
        texts.append([path.read_bytes() for path in files])
    assert texts[0] == texts[1]
    run_test_program(tmp_path)


def test_random_numbers_go_on(tmp_path: Path) -> None:
    """A run takes as many counters as its sizes ask for."""
    x = tinyt.ones(5, 3)
    mark_dynamic(x, 0, min=1, max=20)
    function = lambda x: x * tinyt.rand(x.shape[0], 3)  # noqa: E731
    sized = Sized(tmp_path, function, x)
    sized.library.sized_seed(ctypes.c_int(0), ctypes.c_int64(9))
    tinyt.manual_seed(9)
    for n in (4, 1, 20, 7):
        own = tinyt.ones(n, 3)
        want = function(own)
        assert same_bits(sized([n], [own], [want])[0], want)


def test_the_test_program_and_errors(tmp_path: Path) -> None:
    x = tinyt.randn(5, 8)
    mark_dynamic(x, 0, min=2, max=20)
    sized = Sized(tmp_path, lambda x: NETWORK(x), x)
    run_test_program(tmp_path)
    sized.library.sized_error.restype = ctypes.c_char_p
    for n in (1, 21, -1):
        code = sized.run(ctypes.c_int64(n), None, None)
        assert sized.library.sized_error(code) == b"n must be from 2 to 20"


def last_channels(*shape: int) -> Tensor:
    return tinyt.randn(shape).to(memory_format=tinyt.channels_last)


ORDERS: dict[str, tuple[Callable[..., Tensor], Callable[[int], tuple[Tensor, ...]], str]] = {
    "transposed": (
        lambda x, w: (x * w).exp() + x.sum(1, keepdim=True),
        lambda n: (tinyt.randn(4, n).t(), tinyt.randn(4)),
        "INPUT_0_SIZE 44 // float32[n, 4], strides [1, n]",
    ),
    "channels last": (
        lambda x, w: x.relu() * w[:, None, None],
        lambda n: (last_channels(n, 3, 2, 5), tinyt.randn(3)),
        "INPUT_0_SIZE 330 // float32[n, 3, 2, 5], strides [30, 1, 15, 3]",
    ),
    "not marked": (
        lambda x, w: x * w.exp(),
        lambda n: (tinyt.randn(n, 3, 4), tinyt.randn(4, 3).t()),
        "INPUT_1_SIZE 12 // float32[3, 4], strides [1, 3]",
    ),
}


@pytest.mark.parametrize("case", ORDERS)
def test_orders_of_dimensions(case: str, tmp_path: Path) -> None:
    """Arguments that are not row-major lie for each size as they do in the call."""
    function, arguments, described = ORDERS[case]
    x, w = arguments(5)
    mark_dynamic(x, 0, min=1, max=11)
    sized = Sized(tmp_path, lambda x, w: function(x, w), x, w)
    assert described in (tmp_path / "sized.h").read_text("utf-8")
    run_test_program(tmp_path)
    for n in range(2, 12):
        own = arguments(n)
        want = function(*own)
        assert same_bits(sized([n], own, [want])[0], want)


@pytest.mark.parametrize(
    "sliced", [lambda x: x[:, ::2], lambda x: x[:, :2], lambda x: x[:, :1].expand(5, 3)]
)
def test_arguments_with_gaps_have_no_other_sizes(
    sliced: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    for which in (0, 1):
        x, y = (sliced(tinyt.randn(5, 4)), tinyt.randn(5, 1))[:: 1 - 2 * which]
        mark_dynamic(x, 0, min=1, max=6)
        mark_dynamic(y, 0, min=1, max=6)
        with pytest.raises(NotImplementedError, match=rf"argument {which}.*pass contiguous\(\)"):
            Sized(tmp_path, lambda x, y: x * y, x, y)


def test_what_has_no_form(tmp_path: Path) -> None:
    def export(function: Callable[..., Any], **marks: Any) -> None:
        x = tinyt.randn(5, 4)
        mark_dynamic(x, 0, **marks)
        step = tinyt.compile(function)
        step(x)
        step.export_c(tmp_path, x, name="odd")

    def decides(x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 3 else x + 1

    with pytest.raises(NotImplementedError, match=r"n = 3 the function does something else"):
        export(decides, min=1, max=8)
    export(decides, min=4, max=8)
    with pytest.raises(NotImplementedError, match=r"2000 combinations of sizes .* at most 1024"):
        export(lambda x: x * 2, min=1, max=2000)
    with pytest.raises(ValueError, match=r"the sizes of the call, \(5,\), are not within"):
        export(lambda x: x * 2, min=6, max=8)
    with pytest.raises(
        NotImplementedError, match=r"it compares sizes at .*: 5 > 3 in the call, 3 ="
    ):
        export(decides, min=3, max=8)
    for function in (
        lambda x: x * x.shape[0] ** 2,
        lambda x: (x * 2, x.shape[0]),
        lambda x: x + tinyt.full((1,), float(x.shape[0])),
        lambda x: nn.functional.adaptive_avg_pool1d(x.t(), 2),
    ):
        with pytest.raises(
            NotImplementedError,
            match=r"for a size of 5 alone at .*\(5 == 5 in the call, 8 > 5 then\).*as a number",
        ):
            export(function, min=1, max=8)
    with pytest.raises(
        NotImplementedError, match=r"a number is 10\.0* in the call and 16\.0* then"
    ):
        export(lambda x: nn.functional.interpolate(x.t()[None], scale_factor=2), min=1, max=8)
    export(lambda x: x * 2)  # without a bound: the size of the call
    assert "int odd_run(const float* input_0" in (tmp_path / "odd.h").read_text("utf-8")


def signature(step: Any, folder: Path, *args: Tensor) -> str:
    step.export_c(folder, *args, name="p")
    return re.findall(r"p_run\((.*)\);", (folder / "p.h").read_text("utf-8"))[0]


SIZED, FIXED = (
    "int64_t n, const float* input_0, float* output_0",
    "const float* input_0, float* out",
)


def test_marks_of_a_call_that_has_a_program(tmp_path: Path) -> None:
    """Are those of the export: captured anew, without a call, where the program has others."""
    counts = tinyt.zeros(1)

    def function(x: Tensor) -> Tensor:
        counts.add_(1)
        return x * 2 + counts

    x, step = tinyt.randn(5, 4), tinyt.compile(function)
    step(x)
    assert signature(step, tmp_path, x).startswith(FIXED)
    mark_dynamic(x, 0, min=1, max=9)
    assert signature(step, tmp_path, x) == SIZED
    assert signature(step, tmp_path, x) == SIZED
    mark_dynamic(x, 0, min=1, max=7)
    assert signature(step, tmp_path, x) == SIZED
    assert "P_N_MAX 7\n" in (tmp_path / "p.h").read_text("utf-8")
    assert counts.item() == 1
    assert step.cache_info().currsize == 1
    file = io.BytesIO()
    step.save(file)
    loaded = load(io.BytesIO(file.getvalue()))
    assert signature(loaded, tmp_path, tinyt.randn(5, 4)).startswith(FIXED)
    with pytest.raises(NotImplementedError, match="a program of a file, whose sizes are fixed"):
        signature(loaded, tmp_path, x)


def test_sizes_without_a_bound_are_those_of_the_call(tmp_path: Path) -> None:
    x, y = tinyt.randn(5, 4), tinyt.randn(4, 6)
    mark_dynamic(x, 0, max=8)
    mark_dynamic(y, 1)
    for dynamic in (None, True):
        step = tinyt.compile(lambda x, y: x @ y, dynamic=dynamic)
        assert signature(step, tmp_path, x, y).startswith("int64_t n, const float* input_0")
        header = (tmp_path / "p.h").read_text("utf-8")
        assert "float32[4, 6]" in header
        assert "P_N_MIN 1\n" in header


def test_a_size_of_zero(tmp_path: Path) -> None:
    for n in (0, 5):
        x = tinyt.randn(n, 4)
        mark_dynamic(x, 0, min=0, max=6)
        step = tinyt.compile(lambda x: x * 2)
        if n:
            assert signature(step, tmp_path, x) == SIZED
            assert "P_N_MIN 1\n" in (tmp_path / "p.h").read_text("utf-8")
            continue
        with pytest.raises(NotImplementedError, match=r"is 0, for which there is no C: .* from 1"):
            signature(step, tmp_path, x)


def test_formulas() -> None:
    size = Size("n", 1, 60, 5, ())
    points = [(n,) for n in range(1, 61)]
    numbers = _Numbers([size], points)
    for function, text in (
        (lambda n: 7, "7"),
        (lambda n: 4 * n, "4 * n"),
        (lambda n: n * n + 3 * n + 1, "n * n + 3 * n + 1"),
        (lambda n: 60 - n, "-1 * n + 60"),
        (lambda n: -(-n // 16) * 64, "64 * ((n + 15) / 16)"),
        (lambda n: n // 8 + 2, "(n / 8) + 2"),
        (lambda n: n % 5, None),
    ):
        found = numbers.formula([function(n) for (n,) in points])
        assert found == text
        if found is not None:
            code = found.replace("/", "//")
            assert [eval(code, {"n": n}) for (n,) in points] == [function(n) for (n,) in points]
