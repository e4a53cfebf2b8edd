"""`inplace=True` in every function of `nn.functional` and every layer where PyTorch has it, and the
older names of initialisers, which work in place too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from sampling import assert_same_bits, draw, to_numpy

Array = np.ndarray
WITHOUT_EFFECT = {"AlphaDropout", "FeatureAlphaDropout"}  # PyTorch's layers do not pass it on
ARGUMENTS: dict[str, tuple[Any, ...]] = {"threshold": (0.1, 2.0), "Threshold": (0.1, 2.0)}
SHAPES = {"2d": (2, 3, 2, 4), "3d": (2, 3, 2, 1, 4)}


def takers(module: Any) -> list[str]:
    """Public names in a module of PyTorch whose signature has an argument `inplace`."""
    found = []
    for name in dir(module):
        member = getattr(module, name)
        call = member.__init__ if inspect.isclass(member) else member
        if name[0] != "_" and inspect.isfunction(call):
            found += [name] if "inplace" in inspect.signature(call).parameters else []
    return found


FUNCTIONS, LAYERS = takers(torch.nn.functional), takers(torch.nn)


def function(tt: Any, name: str, inplace: bool, training: bool = False) -> Callable[..., Any]:
    """The function, or a layer, with all arguments but the input."""
    args = ARGUMENTS.get(name, ())
    if name in LAYERS:
        return getattr(tt.nn, name)(*args, inplace=inplace).train(training)
    options = {"inplace": inplace, "training": training}
    known = inspect.signature(getattr(torch.nn.functional, name)).parameters
    options = {key: value for key, value in options.items() if key in known}
    return lambda x: getattr(tt.nn.functional, name)(x, *args, **options)


def run(tt: Any, call: Callable[..., Any], array: Array) -> tuple[Any, Any, Any]:
    """What a call was given, what it returned, and the gradient before it."""
    x = tt.tensor(array, requires_grad=True)
    given = x * 1.0
    result = call(given)
    (result * tt.arange(1, array.size + 1).reshape(array.shape)).sum().backward()
    return given, result, x.grad


def values(name: str, rng: np.random.Generator) -> Array:
    return draw(rng, SHAPES.get(name[-2:].lower(), (2, 3, 4)), "float32")


NAMES = [*FUNCTIONS, *LAYERS]


@pytest.mark.parametrize("training", [False, True], ids=["", "training"])
@pytest.mark.parametrize("name", NAMES)
def test_equals_the_other_form(name: str, training: bool, rng: np.random.Generator) -> None:
    """The very tensor comes back, with the values and gradients of a call without."""
    array = values(name, rng)
    results = []
    for inplace in (False, True):
        tinyt.manual_seed(3)
        call = function(tinyt, name, inplace, training)
        given, result, gradient = run(tinyt, call, array)
        assert result is given or not inplace or (training and name in WITHOUT_EFFECT)
        results.append((result, gradient))
    for plain, written in zip(*results, strict=True):
        assert_same_bits(written, plain, name)


@pytest.mark.parametrize("name", NAMES)
def test_equals_pytorch(name: str, rng: np.random.Generator) -> None:
    array = values(name, rng)
    ours, theirs = (run(tt, function(tt, name, True), array) for tt in (tinyt, torch))
    assert (ours[0] is ours[1]) == (theirs[0] is theirs[1])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), 1e-5, 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_leaves(name: str, rng: np.random.Generator) -> None:
    """A leaf that requires grad is refused where PyTorch refuses it, and not changed."""
    array = values(name, rng)
    refused = []
    for tt in (tinyt, torch):
        x = tt.tensor(array, requires_grad=True)
        try:
            function(tt, name, True, training=True)(x)
            refused.append(False)
        except RuntimeError:
            refused.append(True)
            np.testing.assert_array_equal(to_numpy(x), array)
    assert refused[0] == refused[1]


@pytest.mark.parametrize("name", NAMES)
def test_through_a_view(name: str, rng: np.random.Generator) -> None:
    """What a strided view was taken from is written too, and nothing beside the view."""
    array = values(name, rng)
    plain = function(tinyt, name, False)(tinyt.tensor(array))
    base = tinyt.full((*array.shape, 2), 7.0)
    view = base[..., 1]
    view.copy_(tinyt.tensor(array))
    assert function(tinyt, name, True)(view) is view
    assert_same_bits(base[..., 1].clone(), plain)
    assert bool((base[..., 0] == 7.0).all())


@pytest.mark.parametrize("name", LAYERS)
def test_layers_say_so(name: str) -> None:
    ours, theirs = (function(tt, name, True) for tt in (tinyt, torch))
    assert repr(ours) == repr(theirs)


OLDER = [n for n in dir(torch.nn.init) if n[0] != "_" and hasattr(torch.nn.init, n + "_")]


@pytest.mark.parametrize("name", OLDER)
def test_older_names_of_initialisers(name: str) -> None:
    args = {"constant": (2.5,), "sparse": (0.5,)}.get(name, ())
    shape = (3, 4, 5) if name == "dirac" else (3, 4)
    results = []
    for form in (name, name + "_"):
        tinyt.manual_seed(3)
        x = tinyt.zeros(shape)
        if form == name:
            with pytest.warns(FutureWarning, match=rf"nn\.init\.{name}.*nn\.init\.{name}_"):
                assert getattr(tinyt.nn.init, form)(x, *args) is x
        else:
            getattr(tinyt.nn.init, form)(x, *args)
        results.append(x)
    assert_same_bits(*results)
