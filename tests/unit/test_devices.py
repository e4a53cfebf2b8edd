"""Devices can be named anywhere; there are tensors on the CPU alone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import tinyt
from tinyt import nn


def test_names() -> None:
    cuda = tinyt.device("cuda:0")
    assert (cuda.type, cuda.index, str(cuda)) == ("cuda", 0, "cuda:0")
    assert repr(cuda) == "device(type='cuda', index=0)"
    assert cuda == tinyt.device("cuda", 0) == tinyt.device(cuda)
    assert cuda != tinyt.device("cuda")
    assert cuda != "cuda:0"
    assert {cuda: 1}[tinyt.device("cuda", index=0)] == 1
    assert pickle.loads(pickle.dumps(cuda)) == cuda
    for name in ("meta", "mps", "xpu", "cpu:1"):
        assert str(tinyt.device(name)) == name
    assert tinyt.ones(1).device == tinyt.device("cpu") != tinyt.device("meta")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("foo",), RuntimeError),
        (("cuda:",), RuntimeError),
        (("cuda:01",), RuntimeError),
        (("cuda:x",), RuntimeError),
        (("cuda:1", 1), RuntimeError),
        (("cuda", -1), RuntimeError),
        (("cuda", True), TypeError),
        (("cuda", 1.0), TypeError),
        ((0,), RuntimeError),
        ((1.5,), TypeError),
        ((tinyt.device("cuda"), 1), TypeError),
    ],
)
def test_what_is_no_device(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="device"):
        tinyt.device(*arguments)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "meta", "mps", "xpu", "cpu:1"])
@pytest.mark.parametrize(
    "use",
    [
        lambda d: tinyt.ones(2, device=d),
        lambda d: tinyt.tensor([1.0], device=d),
        lambda d: tinyt.as_tensor([1.0], device=d),
        lambda d: tinyt.ones(2).to(d),
        lambda d: tinyt.ones(2).to(d, tinyt.float64),
        lambda d: tinyt.ones(2).to(device=d),
        lambda d: tinyt.zeros_like(tinyt.ones(2), device=d),
        lambda d: nn.Linear(2, 2).to(d),
        lambda d: nn.Linear(2, 2).to_empty(device=d),
        lambda d: nn.Linear(2, 2, device=d),
        lambda d: tinyt.Generator(d),
        lambda d: tinyt.set_default_device(d),
        lambda d: tinyt.load("nothing", map_location=d),
    ],
)
@pytest.mark.parametrize("as_object", [False, True])
def test_use_says_what_is_missing(name: str, use: Any, as_object: bool) -> None:
    what = "only index 0, got 1" if name == "cpu:1" else f"'{name}' is not available"
    with pytest.raises(RuntimeError, match=what):
        use(tinyt.device(name) if as_object else name)


def test_blocks() -> None:
    with (
        pytest.raises(RuntimeError, match=r"'meta' is not available.*always have data"),
        tinyt.device("meta"),
    ):
        pass
    with tinyt.device("cpu"):
        assert tinyt.ones(1).device.type == "cpu"


def test_queries_of_cuda() -> None:
    cuda = tinyt.cuda
    assert not any((cuda.is_available(), cuda.device_count(), cuda.is_initialized()))
    assert not any((cuda.memory_allocated(), cuda.max_memory_allocated(0)))
    assert not cuda.is_bf16_supported()
    for harmless in (cuda.empty_cache, cuda.ipc_collect, lambda: cuda.manual_seed_all(1)):
        assert harmless() is None


@pytest.mark.parametrize(
    "use",
    [lambda c: c.current_device(), lambda c: c.set_device(0), lambda c: c.get_device_name(0)],
)
def test_what_needs_cuda_says_so(use: Any) -> None:
    with pytest.raises(tinyt.DeviceError, match="this build has no CUDA"):
        use(tinyt.cuda)


def test_marks_for_tools_of_cuda() -> None:
    import tinyt.cuda.nvtx as nvtx

    with pytest.raises(RuntimeError, match="NVTX functions not installed"), nvtx.range("x"):
        pass
    with pytest.raises(RuntimeError, match="record_function"):
        nvtx.range_push("x")
