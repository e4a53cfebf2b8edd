"""No attribute of the compiled classes crashes: of instances made without arguments, with wrong
values, or with indices out of range."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tinyt
from fuzz.calls.targets import exports
from tinyt import _autograd, _capture, _core
from tinyt.tensor import node_of

# Makes an instance of every compiled class without its arguments; where that works, calls each
# of its attributes with and without arguments, and sets them.
POKE = """
import warnings
import tinyt
from tinyt import _autograd, _capture, _core, _tensor
from tinyt.tensor import node_of
from tinyt.tensor import node_of

warnings.simplefilter("ignore")
SKIPPED = {"__class__", "__init_subclass__", "__subclasshook__", "__new__", "__init__",
           "__delattr__", "__setattr__", "__getattribute__", "__dir__"}
ARGUMENTS = [(), (0,), (-1,), (10**6,), (10**30,), (None,), ("x",), (0, 0), (None, None), ([], [])]

def poke(instance):
    for name in dir(instance):
        if name in SKIPPED:
            continue
        try:
            value = getattr(instance, name)
        except Exception as error:
            assert not isinstance(error, SystemError), name
            continue
        for args in [*ARGUMENTS, (instance,), (instance, instance)] if callable(value) else ():
            try:
                value(*args)
            except Exception as error:
                assert not isinstance(error, SystemError), (name, args)
        for wrong in (3, None, "x", [3], value):
            try:
                setattr(instance, name, wrong)
            except Exception:
                pass

for module in (_core, _tensor, _autograd, _capture):
    for cls in list(vars(module).values()):
        if not isinstance(cls, type) or issubclass(cls, BaseException):
            continue
        try:
            bare = cls.__new__(cls)
        except TypeError:
            continue
        print(cls.__name__, flush=True)
        poke(bare)
poke(tinyt.ones(2, 3))
poke((tinyt.ones(2, requires_grad=True) * 2).grad_fn)
poke(_core.Graph())
poke(_core.Program(_core.Graph()))
print("done")
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stdout[-300:], done.stderr[-2000:])
    return done.stdout


def test_no_attribute_of_a_bare_instance_crashes() -> None:
    assert run(POKE).endswith("done\n")


CORE_CLASSES = [c for c in vars(_core).values() if inspect.isclass(c) and issubclass(c, object)]
CORE_CLASSES = [c for c in CORE_CLASSES if not issubclass(c, BaseException)]
MADE_INSIDE = [
    _autograd.Node,
    _capture.SymScalar,
    _capture.SymInt,
    _capture.SymFloat,
    _autograd.Vjp,
]


@pytest.mark.parametrize("cls", [*CORE_CLASSES, *MADE_INSIDE], ids=lambda c: c.__name__)
def test_an_instance_without_its_memory_is_a_type_error(cls: Any) -> None:
    with pytest.raises(TypeError):
        cls.__new__(cls)
    with pytest.raises(TypeError):
        object.__new__(cls)


def test_subclasses_of_core_classes_are_made_as_ever() -> None:
    class Mine(_core.Arena):
        pass

    assert Mine(1 << 12).used_bytes == 0
    with pytest.raises(TypeError):
        Mine.__new__(Mine)


def test_no_attribute_of_a_bare_instance_asks_for_itself_for_ever() -> None:
    """Of each public class, where `__init__` has not run."""
    endless = []
    for path, cls in exports().items():
        if not isinstance(cls, type) or cls in (tinyt.Tensor, type):
            continue
        try:
            bare = cls.__new__(cls)
        except Exception:
            continue  # `__new__` wants arguments
        for name in dir(cls):
            try:
                getattr(bare, name)
            except RecursionError:
                endless.append(f"{path}.{name}")
            except Exception:
                pass
    assert not endless


@pytest.mark.parametrize("at", [1, -1, 10**6, 2**31 - 1])
def test_an_input_out_of_range_is_an_index_error(at: int) -> None:
    node: Any = (tinyt.ones(2, requires_grad=True).exp()).grad_fn
    for method in (node.shape, node.dtype, node.edge_of, node.needs_input, node.input):
        with pytest.raises(IndexError, match="out of range"):
            method(at)
    with pytest.raises(IndexError, match="out of range"):
        node.fit(at, tinyt.ones(2))


class Twice(tinyt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: tinyt.Tensor) -> tinyt.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: tinyt.Tensor) -> tinyt.Tensor:
        return grads[0] * 2


def test_facts_of_a_function_s_node() -> None:
    node: Any = Twice.apply(tinyt.ones(2, requires_grad=True)).grad_fn
    assert node.attrs == ()
    with pytest.raises(IndexError):
        node.shape(10**6)


def test_too_few_gradients_of_a_node_s_function_are_an_error() -> None:
    y = Twice.apply(tinyt.ones(2, requires_grad=True))
    node: Any = node_of(y)
    node.function = lambda node, grads: []
    with pytest.raises(RuntimeError, match="gave 0 gradients for 1 inputs"):
        y.sum().backward(retain_graph=True)


@pytest.mark.parametrize("name", ["_grad", "_hooks", "_post_hooks"])
def test_a_slot_of_a_tensor_takes_its_own_type_only(name: str) -> None:
    x = tinyt.ones(2, requires_grad=True)
    for wrong in (3, "x", np.ones(2), object()):
        with pytest.raises(TypeError):
            setattr(x, name, wrong)
    setattr(x, name, None)
    (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("cls", [_capture.SizeGuards, _capture.CaptureLog])
def test_an_address_is_taken_of_a_graph_only(cls: Any) -> None:
    class Looks:
        address = 8

    with pytest.raises(TypeError, match="expected a Graph, got Looks"):
        cls(Looks())
