"""Devices as attributes of operations: where there is the CPU alone, copies and refusals."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import host2
import tinyt
from tinyt.tensor import prim


def test_to_the_same_device_is_a_copy_with_a_gradient():
    x = tinyt.arange(12.0).reshape(3, 4).t().requires_grad_()
    y = prim.to_device(x, tinyt.device("cpu"))
    assert y.is_contiguous()
    assert y.data_ptr() != x.data_ptr()
    assert y.device == x.device
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.detach().numpy())


def test_it_is_recorded():
    step = tinyt.compile(lambda x: prim.to_device(x.t() * 2, 0) + 1, verify=True)
    for _ in range(3):
        x = tinyt.rand(3, 5)
        np.testing.assert_array_equal(step(x).numpy(), (x.t() * 2 + 1).numpy())
    with tinyt.lazy():
        z = prim.to_device(x + 1, 0)
    np.testing.assert_array_equal(z.numpy(), x.numpy() + 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda *device: prim.fill((3,), tinyt.float32, 1.0, 1, 0.0, *device),
        lambda *device: prim.iota(3, tinyt.float32, 0.0, 1.0, 0, 1, *device),
        lambda device=None: prim.uniform((3,), tinyt.float32, device, 1, 2),
        lambda device=None: prim.normal((3,), tinyt.float32, device, 1, 2),
        lambda device=None: prim.random_bits((3,), device, 1, 2),
        lambda *device: prim.to_device(tinyt.ones(3), *device),
    ],
)
def test_what_makes_tensors_takes_a_device(make):
    expected = make().tolist()
    for device in (tinyt.device("cpu"), 0, None):
        assert make(device).tolist() == expected
    with pytest.raises(RuntimeError, match="'xpu' is not available"):
        make(tinyt.device("xpu"))
    assert make("cpu").tolist() == expected
    with pytest.raises(TypeError, match="expected a device, got float"):
        make(1.5)
    for number in (-1, 1 << 20):
        with pytest.raises(ValueError, match="no device has number"):
            make(number)
    with pytest.raises(RuntimeError, match="this process has no"):
        make(3)  # the CPU's fourth


def test_an_int_is_an_index_of_an_accelerator_and_there_is_none():
    x, text = tinyt.ones(2), "0 is the index of an accelerator, .* uses none yet.* as 'cuda:0'"
    for call in (
        lambda: tinyt.device(0),
        lambda: tinyt.ones(1, device=0),
        lambda: tinyt.tensor([1.0], device=0),
        lambda: tinyt.zeros_like(x, device=0),
        lambda: x.to(0),
        lambda: x.to(device=0),
        lambda: tinyt.nn.Linear(2, 2).to(0),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(TypeError, match="a name beside an index, got 1"):
        tinyt.device(1, 1)


# What a device has no kernel for, and whether the CPU runs that instead.
LACKS = ["digamma", "acosh.float64", "mul.complex64", "acosh.complex128", "asinh.float64"]
LACKING = [
    {
        "HOST2_LACKS": ",".join([*host2.FUSED, *LACKS]),
        "HOST2_FAILS": "adam_step",
    },
    {"HOST2_LACKS": "*", "TINYT_HOST_FALLBACK": "1"},
]


@pytest.mark.parametrize(
    ("file", "variables"),
    [
        ("cases", {}),
        ("cases", {"HOST2_BUFFERS": "6"}),
        ("cases", {"HOST2_BUFFERS": "4", "PYTEST_ADDOPTS": "-k row"}),  # others are exact
        ("programs", {}),
        ("programs", {"HOST2_FUSES": "0"}),
        ("programs", {"HOST2_BUFFERS": "4"}),
        ("programs", {"HOST2_LACKS": ",".join(host2.FUSED)}),
        *(("without_kernels", x) for x in LACKING),
    ],
    ids=[
        "all kernels",
        "few buffers",
        "fewer buffers",
        "programs",
        "programs step by step",
        "programs of few buffers",
        "programs of decompositions",
        "decompositions",
        "the CPU's kernels",
    ],
)
def test_on_a_device_of_a_library(file, variables):
    """`tests/host2`: memory that the host cannot read; in a process of its own."""
    if host2.library() is None:
        pytest.skip("no C compiler")
    cases = str(Path(__file__).parents[1] / "host2" / f"{file}.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", cases, "-q", "-n", "0", "-p", "no:cacheprovider"],
        env=os.environ | {"PYTEST_ADDOPTS": ""} | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_brings_no_device_is_told(tmp_path):
    with pytest.raises(RuntimeError, match="load_backend"):
        tinyt.backends.load(tmp_path / "none.so")
    with pytest.raises(RuntimeError, match="does not export tinyt_backend"):
        tinyt.backends.load(tinyt._core.__file__)
    with pytest.raises(TypeError):
        tinyt.backends.load(3)
    assert tinyt.get_default_device() == tinyt.device("cpu")
