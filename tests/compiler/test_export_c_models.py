"""Three models as projects in C: built without a warning by GCC and Clang, run under sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F
from c_library import ENVIRONMENT, FLAGS, LEVEL, compiles, has_fma
from c_program import KEEP_BITS
from tinyt import nn, optim

pytestmark = [compiles, has_fma, pytest.mark.host]

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def network() -> tuple[Callable[..., Any], list[tinyt.Tensor]]:
    """A convolutional network in inference."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10), nn.LogSoftmax(1)),
    )
    model(tinyt.randn(4, 1, 12, 12))  # so that the norm's statistics are some
    return model.eval(), [tinyt.randn(3, 1, 12, 12)]


def transformer() -> tuple[Callable[..., Any], list[tinyt.Tensor]]:
    """Token indices through an embedding, two layers, and a head."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    embedding, head = nn.Embedding(50, 32), nn.Linear(32, 50)

    def run(tokens: tinyt.Tensor) -> tinyt.Tensor:
        x = embedding(tokens) + tinyt.arange(tokens.shape[1]).unsqueeze(1) / 100
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return F.softmax(head(encoder(x, mask=mask, is_causal=True)), -1)

    return run, [tinyt.randint(0, 50, (2, 11))]


def training_step() -> tuple[Callable[..., Any], list[tinyt.Tensor]]:
    """A perceptron's step with dropout and AdamW."""
    model = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Dropout(0.2), nn.Linear(40, 5))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: tinyt.Tensor, y: tinyt.Tensor) -> tinyt.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, [tinyt.randn(16, 20), tinyt.randint(0, 5, (16,))]


def build(folder: Path, compiler: str, *flags: str) -> Path:
    made = folder / f"test_{compiler}{len(flags)}"
    native = ["-mavx2", "-mfma"] if "x86" in LEVEL else []
    command = [compiler, *FLAGS, *KEEP_BITS, *native, *flags, *map(str, folder.glob("*.c"))]
    subprocess.run([*command, "-o", str(made), "-lm"], check=True, env=ENVIRONMENT)
    return made


@pytest.mark.parametrize(
    ("make", "weights"), [(network, "arrays"), (transformer, "file"), (training_step, "arrays")]
)
def test_model(tmp_path: Path, make: Callable[[], Any], weights: str) -> None:
    tinyt.manual_seed(0)
    function, arguments = make()
    step = tinyt.compile(function)
    compiled = getattr(step, "compiled", step)
    with tinyt.set_grad_enabled(make is training_step):
        for _ in range(2):
            step(*arguments)
        compiled.export_c(tmp_path, *arguments, name="model", weights=weights)
    for compiler in ("gcc", "clang"):
        if shutil.which(compiler) is None:
            continue
        for flags in (("-O3",), ("-O1", *SANITIZERS)):
            run = [str(build(tmp_path, compiler, *flags)), str(tmp_path / "model.weights")]
            done = subprocess.run(run, env=ENVIRONMENT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
