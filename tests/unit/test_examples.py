"""The programs under examples/, written for PyTorch, run as they are.

Where PyTorch is installed they run with it too, from the same initial weights and in the same
order of the data, and must print the same losses.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyt import stand_in

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NUMBER = re.compile(r"(loss|bits|accuracy|rate) (\d+\.\d+)")


def test_the_readme_names_the_command() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert "\ntinyt run examples/mnist.py" in text
    assert {p.name for p in EXAMPLES.glob("*.py")} == set(re.findall(r"\]\((\w+\.py)\)", text))


def run(name: str, *options: str, library: str = "tinyt") -> list[tuple[str, float]]:
    """The named numbers that a program printed."""
    command = ["-m", "tinyt", "run"] if library == "tinyt" else []
    done = subprocess.run(
        [sys.executable, *command, str(EXAMPLES / name), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(name, float(value)) for name, value in NUMBER.findall(done.stdout)]


def weights_of(program: str, make: str, path: Path) -> None:
    """Initial weights drawn with NumPy for the network that `make` builds."""
    namespace: dict[str, Any] = {"__name__": "example"}
    with warnings.catch_warnings():
        # Another test of this process may have imported PyTorch.
        warnings.filterwarnings("ignore", "as_torch: PyTorch was imported before")
        stand_in.install()
    try:
        exec(compile((EXAMPLES / program).read_text("utf-8"), program, "exec"), namespace)
    finally:
        stand_in.remove()
    random = np.random.default_rng(5)
    state = {
        name: np.zeros(tuple(t.shape), t.numpy().dtype)
        if t.dim() < 2
        else random.normal(0, 1 / np.sqrt(t.numel() / t.shape[0]), tuple(t.shape)).astype("float32")
        for name, t in eval(make, namespace).state_dict().items()
    }
    for name in state:
        if "norm" in name and name.endswith(("weight", "running_var")):
            state[name] = np.ones_like(state[name])
        if name in ("token.weight", "head.weight"):
            state[name] = state["token.weight"] * 0.1
    np.savez(path, **state)


CASES = [
    (
        "mnist.py",
        "Net(0.0)",
        ["--epochs=2", "--train-size=640", "--dropout=0", "--no-shuffle", "--workers=1"],
    ),
    (
        "chars.py",
        "Model({alphabet}, 32, 32, 2, 1, 0.0)",
        [
            "--epochs=2",
            "--characters=12000",
            "--length=32",
            "--width=32",
            "--heads=2",
            "--layers=1",
            "--batch-size=16",
            "--warmup=5",
            "--no-shuffle",
            "--generate=20",
        ],
    ),
]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="compares with PyTorch")
@pytest.mark.parametrize(("name", "make", "options"), CASES)
def test_losses_equal_pytorch(name: str, make: str, options: list[str], tmp_path: Path) -> None:
    from pydoc_data.topics import topics

    text = "\n".join(topics[key] for key in sorted(topics))[:12000]
    make = make.format(alphabet=len(set(text)))
    weights_of(name, make, tmp_path / "init.npz")
    options = [*options, f"--init={tmp_path / 'init.npz'}"]
    ours = run(name, *options, f"--checkpoint={tmp_path / 'tinyt'}")
    theirs = run(name, *options, f"--checkpoint={tmp_path / 'torch'}", library="torch")
    assert [n for n, _ in ours] == [n for n, _ in theirs]
    assert len(ours) >= 6
    for (kind, a), (_, b) in zip(ours, theirs, strict=True):
        # A picture between two digits may fall either way.
        allowed = {"abs": 0.5} if kind == "accuracy" else {"rel": 1e-3}
        assert a == pytest.approx(b, **allowed), kind
    losses = [value for kind, value in ours if kind == "loss"]
    assert losses[-1] < losses[0]


def test_resuming_from_a_checkpoint_is_exact(tmp_path: Path) -> None:
    program = "mnist.py"
    options = ["--train-size=256", "--dropout=0", "--no-shuffle"]
    whole = run(program, *options, "--epochs=2")
    first = run(program, *options, "--epochs=1", f"--checkpoint={tmp_path / 'run'}")
    rest = run(program, *options, "--epochs=2", f"--checkpoint={tmp_path / 'run'}")
    assert whole == first + rest
