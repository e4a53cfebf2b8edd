"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import gc
import importlib

import pytest

MODULES = [
    "autograd.profiler", "compiler.graph.graph", "compiler.graph.parse", "compiler.switches",
    "distributed", "distributed.group",
    "distributed.optim", "distributed.store", "jit", "multiprocessing", "nn.hooks",
    "nn.parallel.distributed", "onnx", "onnx.operators", "profiler", "profiler.profiler",
    "utils._pytree", "utils.benchmark", "utils.benchmark.compare", "utils.data.distributed",
    "utils.tensorboard",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    if name == "utils.tensorboard":
        pytest.importorskip("tensorboard")
    module = importlib.import_module(f"tinyt.{name}")
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    gc.collect()  # what examples leave: errors, and modules that compile their calls
    assert found.attempted > 0
    assert found.failed == 0
