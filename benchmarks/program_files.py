"""Loading a saved program beside capturing it.

``python -m benchmarks.program_files`` prints, for a transformer's training step, the milliseconds
of its capture (a first call less the run itself), of loading its file, and of reading the tensors
of that file alone, with their ratios: once within a process, and once in a new one each time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tinyt
from tinyt import nn, optim
from tinyt.nn import functional as F

ROUNDS = 7


def transformer_step() -> tuple[Callable[..., tinyt.Tensor], nn.Module, list[tinyt.Tensor]]:
    """Four causal layers of width 128 over 64 letters, 8 texts at a time, AdamW."""
    tinyt.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.ModuleDict(
        {
            "letters": nn.Embedding(65, 128),
            "layers": nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
            "head": nn.Linear(128, 65),
        }
    )
    mask = nn.Transformer.generate_square_subsequent_mask(64)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: tinyt.Tensor, y: tinyt.Tensor) -> tinyt.Tensor:
        optimizer.zero_grad()
        hidden = model["layers"](model["letters"](x), mask=mask, is_causal=True)
        loss = F.cross_entropy(model["head"](hidden).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, model, [tinyt.randint(0, 65, (8, 64)), tinyt.randint(0, 65, (8, 64))]


def milliseconds(call: Callable[[], Any]) -> float:
    """Of one call."""
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def capture_time(step: Callable[..., Any], args: list[tinyt.Tensor]) -> float:
    """Of the first call of a compiled function, less that of the run in it."""
    plain = min(milliseconds(lambda: step(*args)) for _ in range(3))
    compiled = tinyt.compile(step)
    return milliseconds(lambda: compiled(*args)) - plain


def here(path: Path) -> list[float]:
    """Capture, load and tensors alone, each as fast as it was once in this process."""
    step, model, args = transformer_step()
    for _ in range(2):
        step(*args)
    compiled = tinyt.compile(step)
    for _ in range(2):
        compiled(*args)
    compiled.save(path, model.state_dict())
    return [
        min(capture_time(step, args) for _ in range(ROUNDS)),
        min(milliseconds(lambda: tinyt.compiler.load(path)) for _ in range(ROUNDS)),
        min(milliseconds(lambda: tinyt.load(path)) for _ in range(ROUNDS)),
    ]


def once(what: str, path: str) -> float:
    """The first of its kind in this process."""
    if what == "capture":
        step, _, args = transformer_step()
        for _ in range(2):
            step(*args)
        return capture_time(step, args)
    if what == "load":
        return milliseconds(lambda: tinyt.compiler.load(path))
    return milliseconds(lambda: tinyt.load(path))


def in_new_processes(path: Path) -> list[float]:
    """As `here`, each the first in a process of its own, the fastest of several."""
    found = []
    for what in ("capture", "load", "tensors"):
        command = [sys.executable, "-m", __spec__.name, "--once", what, str(path)]
        times = [
            float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(ROUNDS)
        ]
        found.append(min(times))
    return found


def main() -> None:
    """Prints both tables, or one time for `in_new_processes`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", nargs=2, metavar=("WHAT", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(once(*options.once))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.tinyt"
        for title, times in (("in one process", here(path)), ("new", in_new_processes(path))):
            capture, load, tensors = times
            print(
                f"{title}: capture {capture:.1f} ms, load {load:.1f} ms ({load / capture:.2f}), "
                f"its tensors {tensors:.1f} ms, the program {load - tensors:.1f} ms "
                f"({(load - tensors) / capture:.2f})"
            )


if __name__ == "__main__":
    main()
