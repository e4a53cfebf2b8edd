"""Layers of several inputs or outputs, against PyTorch's layers with the same weights."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyt

torch = pytest.importorskip("torch")


def to_tinyt(value: Any) -> Any:
    """A tinyt copy of PyTorch tensors, alone or in containers."""
    if isinstance(value, torch.Tensor):
        return tinyt.from_numpy(value.detach().numpy().copy())
    if isinstance(value, (tuple, list)):
        return type(value)(to_tinyt(v) for v in value)
    if isinstance(value, dict):
        return {k: to_tinyt(v) for k, v in value.items()}
    return value


def tensors(value: Any) -> Iterator[Any]:
    """The tensors of a result that may be a tuple of tuples of them."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
    elif value is not None:
        yield value


def leaves(value: Any, found: list[Any]) -> Any:
    """The same arguments with every float tensor asking for a gradient."""
    if isinstance(value, (tuple, list)):
        return type(value)(leaves(v, found) for v in value)
    if hasattr(value, "requires_grad") and value.dtype.is_floating_point:
        value = value.detach().clone().requires_grad_()
        found.append(value)
    return value


def compare(make: Callable[[Any], Any], *inputs: Any, training: bool = True, **kwargs: Any) -> None:
    """Outputs and all gradients of the layer that make(nn) builds; in float64."""
    torch.manual_seed(1)
    theirs = make(torch.nn).double().train(training)
    for param in theirs.parameters():  # zeros would hide a missing bias
        torch.nn.init.uniform_(param, -0.5, 0.5)
    ours = make(tinyt.nn).to(tinyt.float64).train(training)
    state = OrderedDict((k, to_tinyt(v)) for k, v in theirs.state_dict().items())
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    gradients = []
    outputs = []
    for layer, args, options in (
        (theirs, inputs, kwargs),
        (ours, to_tinyt(inputs), to_tinyt(kwargs)),
    ):
        found: list[Any] = []
        results = list(tensors(layer(*leaves(args, found), **options)))
        outputs.append([t.detach().numpy() for t in results])
        total = sum(((i + 1) * (t * t).sum() for i, t in enumerate(results)), 0)
        total.backward()
        found += list(layer.parameters())
        gradients.append([None if x.grad is None else x.grad.numpy() for x in found])
    for want, got in zip(outputs[0], outputs[1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)
    for want, got in zip(gradients[0], gradients[1], strict=True):
        if want is None or got is None:
            assert want is got or not np.any(want if got is None else got)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)
    assert repr(ours) == repr(theirs)


def rand(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("bias", [True, False])
def test_bilinear(bias: bool) -> None:
    compare(lambda nn: nn.Bilinear(3, 4, 2, bias=bias), rand(5, 3), rand(5, 4))
    compare(lambda nn: nn.Bilinear(3, 4, 2, bias=bias), rand(2, 5, 3), rand(2, 5, 4))
