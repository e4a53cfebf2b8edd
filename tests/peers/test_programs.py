"""The programs under tests/programs, in the style of public ones, unchanged under both libraries.

`tests/programs/harness.py` runs one of them with one library; it says how draws are made the same.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
NAMES = sorted(p.stem for p in PROGRAMS.glob("*.py") if not p.stem.startswith("harness"))
WITH_STEP = [n for n in NAMES if "def train_step(" in (PROGRAMS / f"{n}.py").read_text("utf-8")]
TOLERANCE = 1e-9
STEPS = 30

# How many losses of a program are compared whose steps make rounding errors grow.
CHAOTIC = {
    "style_transfer": 20,  # two steps of LBFGS; its quotients of small differences lose digits
}

# Parts of a step that a program of tinyt cannot hold, as docs/compile.md says.
NOT_CAPTURED = {
    "moe": "nonzero: the size of the result depends on data",
    "simclr": "masked_select: the size of the result depends on data",
}

# Every batch has other lengths, and each their program: docs/compile.md, packed sequences.
NEW_EACH_TIME = {"seq2seq"}


class Run(NamedTuple):
    """What a program printed, and what the harness recorded."""

    printed: str
    losses: list[float]
    programs: int = 0
    hits: int = 0


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of this Python on one thread, with this process's modules."""
    threads = {"OMP_NUM_THREADS": "1", "TINYT_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def attempt(library: str, name: str, *options: str) -> tuple[subprocess.CompletedProcess[str], Run]:
    """A program under the harness; PyTorch warns of what is old in some."""
    warnings = ["-W", "error"] if library == "tinyt" else []
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        harness, program = str(PROGRAMS / "harness.py"), str(PROGRAMS / f"{name}.py")
        done = python(*warnings, harness, library, program, "--record", str(record), *options)
        found = json.loads(record.read_text("utf-8")) if record.exists() else {"losses": []}
    return done, Run(done.stdout, **found)


def run(library: str, name: str, *options: str) -> Run:
    """The record of a program that ends well."""
    done, found = attempt(library, name, *options)
    assert done.returncode == 0, done.stderr
    return found


def form(printed: str) -> list[str]:
    """Printed lines with numbers and the width of blanks left out; PyTorch's profiler adds some."""
    lines = [line for line in printed.splitlines() if not line.startswith("USDT:")]
    return [re.sub(r"\s+", " ", re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "#", line)) for line in lines]


def test_there_are_twenty() -> None:
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_printed_lines_are_those_of_pytorch(name: str) -> None:
    theirs, ours = run("torch", name), run("tinyt", name)
    count = CHAOTIC.get(name, len(theirs.losses))
    assert len(theirs.losses) >= STEPS
    assert len(ours.losses) == len(theirs.losses)
    assert all(map(math.isfinite, theirs.losses))
    assert ours.losses[:count] == pytest.approx(theirs.losses[:count], rel=TOLERANCE, abs=0)
    assert form(ours.printed) == form(theirs.printed)

    # As users run it: without the harness, in float32.
    done = python("-W", "error", "-m", "tinyt", "run", str(PROGRAMS / f"{name}.py"))
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert form(done.stdout) == form(theirs.printed)


@pytest.mark.parametrize("name", [n for n in WITH_STEP if n not in NOT_CAPTURED])
def test_compiled_steps_have_the_bits_of_eager_ones(name: str) -> None:
    eager, compiled = run("tinyt", name, "--own-draws"), run("tinyt", name, "--compile")
    assert len(eager.losses) >= STEPS
    assert compiled.losses == eager.losses
    assert compiled.printed == eager.printed
    assert compiled.programs >= 1
    if name not in NEW_EACH_TIME:
        assert compiled.hits >= STEPS // 2  # programs did the work, not the function


@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_steps_that_are_not_captured_say_why(name: str) -> None:
    done, _ = attempt("tinyt", name, "--compile")
    assert done.returncode != 0
    assert f"CaptureError: {NOT_CAPTURED[name]}" in done.stderr


# ---- the forms that programs have, which tools like to tidy away

FORMS: dict[str, tuple[str, Callable[[bytes], Any]]] = {
    "CRLF": ("dqn", lambda text: text.count(b"\r\n") == text.count(b"\n")),
    "two modules on a line": ("word2vec", lambda text: b"\nimport torch, math\n" in text),
    "two names on a line": ("dqn", lambda text: b"\nimport torch, torch.optim as optim" in text),
    "two aliases": ("word2vec", lambda t: b"torch.nn as nn, torch.nn.functional as F\n" in t),
    "blanks after an import": ("reinforce", lambda text: b"import torch   \n" in text),
    "a tab after an import": ("reinforce", lambda text: b"torch.nn as nn\t\n" in text),
    "import in try": ("char_lstm", lambda text: b"try:\n    import torch\n" in text),
    "import in if": ("char_lstm", lambda text: re.search(rb"\nif .*:\n    from torch", text)),
    "import in a function": ("char_lstm", lambda text: b"    from torch.distributions" in text),
    "the user's torch_something": ("gcn", lambda text: b"\nimport torch_helpers\n" in text),
}


@pytest.mark.parametrize("kind", FORMS)
def test_forms_of_programs_are_there(kind: str) -> None:
    name, is_there = FORMS[kind]
    assert is_there((PROGRAMS / f"{name}.py").read_bytes())


# ---- the harness finds what it is there for


def written(folder: Path, text: str) -> Path:
    program = folder / "program.py"
    program.write_text(text, encoding="utf-8")
    return program


@pytest.mark.parametrize("library", ["tinyt", "torch"])
def test_a_draw_from_elsewhere_is_found(library: str, tmp_path: Path) -> None:
    program = written(
        tmp_path, "import torch\ntorch.nn.functional.rrelu(-torch.ones(3), training=True)"
    )
    done = python(str(PROGRAMS / "harness.py"), library, str(program))
    assert f"{library} drew numbers that do not come from the stream" in done.stderr
    assert done.returncode != 0


def test_the_harness_records_every_loss(tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "from torch.autograd import grad\n"
        "w = torch.ones(2, requires_grad=True)\n"
        "(w * 3).sum().backward()\n"
        "grad((w * w).sum() / 4, w)\n"
        "def train_step(x):\n"
        "    return x, {'half': x / 2}\n"
        "train_step(torch.ones(()) * 8)\n"
    )
    program = written(tmp_path, text)
    record = tmp_path / "record.json"
    for options, losses in ([], [6.0, 0.5]), (["--own-draws"], [8.0, 4.0]):
        for library in "tinyt", "torch":
            harness = str(PROGRAMS / "harness.py")
            done = python(harness, library, str(program), "--record", str(record), *options)
            assert done.returncode == 0, done.stderr
            assert json.loads(record.read_text("utf-8"))["losses"] == losses


DRAWS = """
import torch, torch.nn as nn
from torch.utils.data import DataLoader
torch.manual_seed(3)
g = torch.Generator().manual_seed(5)
x = torch.randn(3, 2, generator=g)
draws = [
    torch.rand(2), torch.rand(size=(2,)), torch.rand_like(x), torch.randn_like(x),
    torch.randint(4, (5,)), torch.randint(2, 9, size=(5,)), torch.randint_like(x, 3),
    torch.randperm(6), torch.normal(x, 2.0), torch.normal(0.0, 1.0, (3,)),
    torch.bernoulli(torch.rand(4)), torch.rand(4).bernoulli(),
    torch.rand(3, 4).multinomial(2), torch.multinomial(torch.rand(4), 7, replacement=True),
    torch.empty(3).exponential_(2.0), torch.empty(4).bernoulli_(0.3), torch.empty(4).random_(5),
    torch.empty(3).geometric_(0.4), nn.Dropout(0.5)(x), nn.Dropout1d(0.5)(x),
    nn.functional.gumbel_softmax(x), nn.init.trunc_normal_(torch.empty(4), std=0.5),
    nn.init.orthogonal_(torch.empty(2, 5)), nn.init.orthogonal_(torch.empty(5, 2)),
    nn.init.kaiming_normal_(torch.empty(5, 2)), nn.init.xavier_uniform_(torch.empty(5, 2)),
]
layers = [
    nn.Linear(2, 3), nn.Bilinear(2, 3, 2), nn.Conv2d(2, 4, 3, groups=2), nn.LSTM(2, 3),
    nn.GRUCell(2, 2), nn.Embedding(3, 2, padding_idx=0), nn.MultiheadAttention(4, 2),
    nn.TransformerEncoderLayer(4, 2, 8), nn.ConvTranspose1d(2, 2, 3),
]
draws += [p for layer in layers for p in layer.parameters()]
draws += list(DataLoader(torch.arange(7), 3, shuffle=True))
for k, x in enumerate(draws):
    print(k, x.dtype, tuple(x.shape), [round(v, 12) for v in x.double().flatten().tolist()])
"""


def test_both_libraries_draw_the_same(tmp_path: Path) -> None:
    """Draws of each kind, and the order and shapes of those that layers begin with."""
    program = written(tmp_path, DRAWS)
    harness = str(PROGRAMS / "harness.py")
    theirs, ours = (python(harness, lib, str(program)) for lib in ("torch", "tinyt"))
    assert (theirs.returncode, ours.returncode) == (0, 0), theirs.stderr + ours.stderr
    assert ours.stdout.splitlines() == theirs.stdout.splitlines()
