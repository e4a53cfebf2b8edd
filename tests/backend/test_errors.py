"""Every wrong call of the table: the exception class, a message with the operation and the values,
and inputs that are as they were."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import tinyt
from op_rows import Bad, Op, f, i
from op_samples import BY_NAME, OPS
from sampling import arrays_in, build, flat, to_numpy
from waiting import find_faults

CASES = [
    pytest.param(op, wrong, id=f"{op.name}-{number}")
    for op in OPS
    for number, wrong in enumerate(op.errors)
]


@pytest.mark.parametrize(("op", "wrong"), CASES)
def test_wrong_call(op: Op, wrong: Bad) -> None:
    args, kwargs = build(tinyt, wrong.args), build(tinyt, wrong.kwargs)
    found_later = r"|: index -?\d+ is out of range" if tinyt.accelerator.is_available() else ""
    with pytest.raises(wrong.exception, match=wrong.message + found_later):
        op.function(tinyt)(*args, **kwargs)
        find_faults()
    held = [t for t in flat([args, list(kwargs.values())]) if isinstance(t, tinyt.Tensor)]
    given = [a for a, _ in arrays_in([wrong.args, wrong.kwargs])]
    for tensor, array in zip(held, given, strict=True):
        np.testing.assert_array_equal(to_numpy(tensor), array)
        assert tensor._version == 0


def test_library_goes_on_after_errors() -> None:
    for op in OPS:
        for wrong in op.errors[:1]:
            with pytest.raises(wrong.exception):
                op.function(tinyt)(*build(tinyt, wrong.args), **build(tinyt, wrong.kwargs))
                find_faults()
    assert tinyt.ones(3).sum().item() == 3.0


# ------------------------------------------------------------------ out= and in-place


@pytest.mark.parametrize("name", ["add", "mul", "exp", "matmul", "cat"])
def test_out_of_another_dtype(name: str) -> None:
    """A float result does not fit into integers."""
    calls: dict[str, tuple[Any, ...]] = {
        "add": (f(2), f(2)),
        "mul": (f(2), f(2)),
        "exp": (f(2),),
        "matmul": (f(2, 2), f(2)),
        "cat": ([f(1), f(1)],),
    }
    out = tinyt.tensor([5, 6])
    with pytest.raises((RuntimeError, TypeError), match=rf"{name}.*(int64|Long)"):
        getattr(tinyt, name)(*build(tinyt, calls[name]), out=out)
    assert out.tolist() == [5, 6]


@pytest.mark.parametrize("name", ["add", "exp", "maximum"])
def test_out_that_overlaps_an_input(name: str) -> None:
    base = tinyt.tensor([1.0, 2.0, 3.0, 4.0])
    operands = [base[:3]] * (1 if name == "exp" else 2)
    with pytest.raises(RuntimeError, match=rf"{name}.*overlap"):
        getattr(tinyt, name)(*operands, out=base[1:])
    assert base.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_out_that_overlaps_itself() -> None:
    out = tinyt.zeros(1).expand(3)
    with pytest.raises(RuntimeError, match=r"add.*(overlap|expand|more than one)|single memory"):
        tinyt.add(tinyt.ones(3), tinyt.ones(3), out=out)
    assert out.tolist() == [0.0, 0.0, 0.0]


def test_empty_out_that_cannot_take_the_result() -> None:
    """A view of a tensor keeps its shape, and so does what is written inside a recording."""
    base = tinyt.ones(3)
    with pytest.raises(RuntimeError, match=r"add.*\(3,\).*\(0,\)"):
        tinyt.add(base, base, out=base[:0])
    out = tinyt.empty(0, dtype=tinyt.int64)
    with pytest.raises((RuntimeError, TypeError), match=r"add.*int64"):
        tinyt.add(base, base, out=out)
    assert tuple(out.shape) == (0,)


def test_out_that_is_the_input() -> None:
    x = tinyt.tensor([1.0, 2.0])
    assert tinyt.add(x, x, out=x) is x
    assert x.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("name", ["exp", "nn.functional.gelu", "nn.functional.softplus", "cumsum"])
def test_out_that_requires_grad(name: str) -> None:
    """An error while gradients are recorded; fine, and no part of a graph, while they are not."""
    function = attrgetter(name)(tinyt)
    x, out = tinyt.ones(3), tinyt.zeros(3, requires_grad=True)
    args = (x, 0) if name == "cumsum" else (x,)
    with pytest.raises(RuntimeError, match=r"out=.*automatic differentiation"):
        function(*args, out=out)
    assert out.tolist() == [0.0, 0.0, 0.0]
    with tinyt.no_grad():
        assert function(*args, out=out) is out
    assert out.grad_fn is None
    assert out.tolist() == function(*args).tolist()


@pytest.mark.parametrize("name", ["add_", "mul_", "copy_"])
def test_inplace_on_an_expanded_tensor(name: str) -> None:
    x = tinyt.zeros(1).expand(3)
    with pytest.raises(RuntimeError, match=r"(overlap|expand|more than one|single memory)"):
        getattr(x, name)(tinyt.ones(3))
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_inplace_that_overlaps_its_operand() -> None:
    base = tinyt.tensor([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(RuntimeError, match=r"overlap"):
        base[1:].add_(base[:3])
    assert base.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_inplace_does_not_grow() -> None:
    x = tinyt.ones(3)
    with pytest.raises(RuntimeError, match=r"add.*\(2, 3\).*\(3,\)"):
        x.add_(tinyt.ones(2, 3))
    assert x.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "value"), [("add_", 1.5), ("mul_", 0.5), ("div_", 2), ("sub_", 0.5)]
)
def test_inplace_does_not_change_the_dtype(name: str, value: float) -> None:
    x = tinyt.tensor([1, 2])
    with pytest.raises(RuntimeError, match=r"(float32|Float).*(int64|Long)"):
        getattr(x, name)(value)
    assert x.tolist() == [1, 2]


# ------------------------------------------------------------------ methods and conversions

RAISES: dict[str, tuple[type[Exception], str, Any]] = {
    "item": (RuntimeError, r"(item|scalar).*|2 elements", lambda: tinyt.ones(2).item()),
    "bool": (RuntimeError, r"(bool|Boolean|ambiguous)", lambda: bool(tinyt.ones(2))),
    "int": ((TypeError, ValueError, RuntimeError), r"2|only", lambda: int(tinyt.ones(2))),
    "iter": (TypeError, r"0-d", lambda: list(tinyt.tensor(1.0))),
    "len": (TypeError, r"0-d", lambda: len(tinyt.tensor(1.0))),
    "size": (IndexError, r"2", lambda: tinyt.ones(2, 3).size(2)),
    "index": (TypeError, r"(integer|index)", lambda: [1, 2][tinyt.ones(1)]),
    "to": ((TypeError, RuntimeError), r"float33", lambda: tinyt.ones(1).to("float33")),
    "numpy": (RuntimeError, r"(grad|detach)", lambda: tinyt.ones(1, requires_grad=True).numpy()),
    "dtype": ((TypeError, RuntimeError), r"dtype", lambda: tinyt.ones(1, dtype="float32")),
    "add_text": (TypeError, r"str", lambda: tinyt.ones(1) + "one"),
    "add_none": (TypeError, r"NoneType", lambda: tinyt.ones(1) + None),
    "integer_grad": (RuntimeError, r"(float|complex)", lambda: tinyt.tensor([1]).requires_grad_()),
    "too_big": (
        (RuntimeError, MemoryError),
        r"4611686018427387904 bytes",
        lambda: tinyt.empty(2**40, 2**20),
    ),
    "negative": (RuntimeError, r"-2", lambda: tinyt.empty(3, -2)),
    "overflowing_reshape": (RuntimeError, r"reshape", lambda: tinyt.ones(2).reshape(2**62, 2**3)),
    "step": (ValueError, r"step", lambda: tinyt.ones(4)[::0]),
    "assign_shape": (RuntimeError, r"\(2,\)|\[2\]|size", lambda: set_item(tinyt.ones(3), f(2))),
    "assign_index": (IndexError, r"7", lambda: set_item(tinyt.ones(3), 1.0, 7)),
}


def set_item(x: Any, value: Any, at: Any = slice(None)) -> None:
    x[at] = build(tinyt, value)


@pytest.mark.parametrize("name", RAISES)
def test_wrong_use_of_a_tensor(name: str) -> None:
    exception, message, use = RAISES[name]
    with pytest.raises(exception, match=message):
        use()


def test_setitem_out_of_range_writes_nothing() -> None:
    x = tinyt.zeros(4)
    with pytest.raises(IndexError, match=r"9"):
        x[tinyt.tensor([0, 9])] = 1.0
        find_faults()
    if x.device.type not in ("cuda", "opencl", "webgpu"):  # whose kernels find it while they write
        assert x.tolist() == [0.0] * 4


def test_embedding_does_not_take_negative_indices() -> None:
    with pytest.raises(IndexError, match=r"embedding.*-1|out of range"):
        tinyt.nn.functional.embedding(tinyt.tensor([-1]), tinyt.ones(3, 2))
        find_faults()


def test_extreme_indices() -> None:
    x = tinyt.ones(3)
    for at in (2**62, -(2**62)):
        with pytest.raises(IndexError, match=str(at)):
            x[at]
        with pytest.raises((IndexError, RuntimeError), match=r"gather|out of bounds"):
            tinyt.gather(x, 0, tinyt.tensor([at]))
            find_faults()


# ------------------------------------------------------------------ the classes


def test_typed_errors() -> None:
    """Each class is also the one that a PyTorch user catches."""
    for name, base in {
        "ShapeError": RuntimeError,
        "DTypeError": RuntimeError,
        "DeviceError": RuntimeError,
        "OutOfMemoryError": RuntimeError,
    }.items():
        assert issubclass(getattr(tinyt, name), base)
    with pytest.raises(tinyt.ShapeError):
        tinyt.ones(2) + tinyt.ones(3)
    with pytest.raises(tinyt.ShapeError, match=r"matmul.*inner.*\(2, 3\) @ \(4, 5\)"):
        BY_NAME["matmul"].function(tinyt)(tinyt.ones(2, 3), tinyt.ones(4, 5))
    with pytest.raises(tinyt.DTypeError, match=r"bitwise_and"):
        tinyt.ones(2) & tinyt.ones(2)
    assert i(1).tolist() == [0]
