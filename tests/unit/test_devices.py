"""Devices as attributes of operations: where there is the CPU alone, copies and refusals."""

import numpy as np
import pytest

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
        lambda *device: prim.uniform((3,), tinyt.float32, 1, 2, *device),
        lambda *device: prim.normal((3,), tinyt.float32, 1, 2, *device),
        lambda *device: prim.random_bits((3,), 1, 2, *device),
        lambda *device: prim.to_device(tinyt.ones(3), *device),
    ],
)
def test_what_makes_tensors_takes_a_device(make):
    expected = make().tolist()
    for device in (tinyt.device("cpu"), 0, None):
        assert make(device).tolist() == expected
    with pytest.raises(RuntimeError, match="cuda"):
        make(tinyt.device("cuda"))
    with pytest.raises(TypeError, match="expected a device, got str"):
        make("cpu")
    for number in (-1, 1 << 20):
        with pytest.raises(ValueError, match="no device has number"):
            make(number)
    with pytest.raises(RuntimeError, match="this process has no"):
        make(3)  # the CPU's fourth
