"""Composites that have a form without a Python frame: it gives what the Python function gives."""

import copy
import inspect
import weakref

import numpy as np
import pytest

import tinyt
from tinyt import _tensor
from tinyt.compiler.capture.recording import record

F = tinyt.nn.functional
MATRIX = (3, 4)
# Name -> (shape of the first tensor, the other arguments, keywords).
CALLS = [
    ("view", MATRIX, (2, 6), {}),
    ("view", MATRIX, ((-1,),), {}),
    ("view", MATRIX, ([2, -1],), {}),
    ("view", (0, 3), (0, 5), {}),
    ("view", (), (1, 1), {}),
    ("view", MATRIX, (tinyt.int32,), {}),
    ("view", MATRIX, (np.int64(12),), {}),
    ("view", MATRIX, ((tinyt.tensor(6), 2),), {}),
    ("reshape", MATRIX, (-1,), {}),
    ("reshape", (1,), ((),), {}),
    ("reshape", MATRIX, (tinyt.Size((2, 6)),), {}),
    ("permute", (2, 3, 4), (2, 0, -2), {}),
    ("permute", (2, 3, 4), ((1, 0, 2),), {}),
    ("permute", (2, 3, 4), (), {"dims": (1, 0, 2)}),
    ("expand", (1, 3), (2, -1), {}),
    ("expand", (3,), ((2, 3),), {}),
    ("transpose", (2, 3, 4), (0, -1), {}),
    ("transpose", (2, 3, 4), (1, 1), {}),
    ("transpose", (), (0, -1), {}),
    ("transpose", MATRIX, (), {"dim0": 0, "dim1": 1}),
    ("t", MATRIX, (), {}),
    ("t", (3,), (), {}),
    ("t", (), (), {}),
    ("unsqueeze", MATRIX, (0,), {}),
    ("unsqueeze", MATRIX, (2,), {}),
    ("unsqueeze", MATRIX, (-3,), {}),
    ("unsqueeze", (), (-1,), {}),
    ("unsqueeze", MATRIX, (), {"dim": 1}),
    ("squeeze", (1, 3, 1), (), {}),
    ("squeeze", (1, 3, 1), (0,), {}),
    ("squeeze", (1, 3, 1), (1,), {}),
    ("squeeze", (1, 3, 1), ((0, 2),), {}),
    ("squeeze", (), (0,), {}),
    ("flatten", (2, 3, 4), (), {}),
    ("flatten", (2, 3, 4), (1,), {}),
    ("flatten", (2, 3, 4), (0, -2), {}),
    ("flatten", (2, 3, 4), (), {"end_dim": 1}),
    ("flatten", (), (), {}),
    ("clone", MATRIX, (), {}),
    ("contiguous", MATRIX, (), {}),
    ("to", MATRIX, (tinyt.float64,), {}),
    ("to", MATRIX, (tinyt.float32,), {}),
    ("to", MATRIX, (tinyt.int64,), {}),
    ("to", MATRIX, ("cpu",), {}),
    ("sum", MATRIX, (), {}),
    ("sum", MATRIX, (-1,), {}),
    ("sum", MATRIX, (0, True), {}),
    ("sum", MATRIX, (0,), {"keepdim": True}),
    ("sum", MATRIX, ((0, 1),), {}),
    ("sum", MATRIX, (), {"dtype": tinyt.float64}),
    ("sum", (), (0,), {}),
    ("mean", MATRIX, (), {}),
    ("mean", MATRIX, (1,), {}),
    ("mean", MATRIX, (-2, True), {}),
    ("mean", (0, 3), (), {}),
    ("mean", (0, 3), (1,), {}),
    ("mean", (), (-1,), {}),
    ("softmax", MATRIX, (1,), {}),
    ("softmax", MATRIX, (), {"dim": 0}),
    ("log_softmax", MATRIX, (-2,), {}),
    ("relu", MATRIX, (), {}),
]  # fmt: skip


def name_of(call):
    name, shape, args, kwargs = call
    return f"{name} {shape} {args} {kwargs}"


def facts(x):
    """All that can be told of a tensor."""
    source = x.grad_fn and x.grad_fn.name()
    bits = x.detach().numpy().tobytes()
    return (
        tuple(x.shape),
        x.stride(),
        x.storage_offset(),
        x.dtype,
        source,
        x._base is not None,
        bits,
    )


def forms(name):
    """The composite and the Python function in it."""
    direct = F.relu if name == "relu" else getattr(tinyt.Tensor, name)
    return direct, direct.__wrapped__


@pytest.mark.parametrize("call", CALLS, ids=name_of)
@pytest.mark.parametrize("strided", [False, True], ids=["dense", "strided"])
@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "leaf"])
def test_direct_form_is_the_function(call, strided, requires_grad):
    name, shape, args, kwargs = call
    direct, function = forms(name)
    x = tinyt.randn(tuple(2 * n for n in shape))[tuple(slice(None, None, 2) for _ in shape)]
    x = (x if strided else x.clone()).detach().requires_grad_(requires_grad)
    try:
        expected = function(x, *args, **kwargs)
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            direct(x, *args, **kwargs)
        return
    got = direct(x, *args, **kwargs)
    assert facts(got) == facts(expected)
    assert (got is x) == (expected is x)
    assert (got._base is x) == (expected._base is x)


@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_constants(name):
    direct = getattr(tinyt, name)
    for args, kwargs in (
        ((4,), {}), ((2, 3), {}), (((2, 3),), {}), (([2],), {}), (((),), {}), ((0,), {}),
        ((2,), {"dtype": tinyt.int64}), ((2,), {"dtype": None}), ((2,), {"dtype": tinyt.bool}),
        ((2,), {"dtype": tinyt.complex64}), ((2,), {"requires_grad": True}),
        ((np.int32(2),), {}), ((), {"size": (2,)}),
    ):  # fmt: skip
        expected = direct.__wrapped__(*args, **kwargs)
        got = direct(*args, **kwargs)
        assert facts(got) == facts(expected)
        assert got.requires_grad == expected.requires_grad
    with pytest.raises(RuntimeError, match="must not be negative, got"):
        direct(-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'color'"):
        direct(2, color=1)


def test_cat_and_linear():
    a, b = tinyt.randn(2, 3), tinyt.randn(2, 3, dtype=tinyt.float64).requires_grad_()
    for args in (((a, b),), ([a, b], 1), ((a, b), -1), ((a,),)):
        assert facts(tinyt.cat(*args)) == facts(tinyt.cat.__wrapped__(*args))
    row = tinyt.randn(2)
    biases = (None, row, tinyt.randn(1), tinyt.randn(2, 2))
    for x, w, bias in (*((a, a, bias) for bias in biases), (a[0], a, row), (a, a[0], None)):
        assert facts(F.linear(x, w, bias)) == facts(F.linear.__wrapped__(x, w, bias))
    with pytest.raises(RuntimeError, match="linear: the last dimension must match weight's"):
        F.linear(a, tinyt.randn(2, 4))
    with pytest.raises(TypeError, match="cat: expected tensors, got int"):
        tinyt.cat((a, 1))


def test_errors_are_those_of_the_function():
    x = tinyt.randn(3, 4)
    for name, args, kind, text in (
        ("view", (5, 2), RuntimeError, r"view: shape \(5, 2\) does not hold 12 elements"),
        ("view", (3.0,), TypeError, "sizes must be integers"),
        ("t", (1,), TypeError, r"t\(\) takes 1 positional argument but 2 were given"),
        ("transpose", (0, 2), IndexError, "transpose: dim 2 is out of range"),
        ("unsqueeze", (4,), IndexError, "unsqueeze: dim 4 is out of range"),
        ("sum", (2,), IndexError, "sum: dim 2 is out of range"),
        ("flatten", (1, 0), RuntimeError, "flatten: start_dim 1 cannot come after"),
    ):
        with pytest.raises(kind, match=text):
            getattr(x, name)(*args)
    with pytest.raises(RuntimeError, match=r"view: size .* is not compatible"):
        x.t().view(12)
    with pytest.raises(TypeError, match="unsqueeze: expected a Tensor, got str"):
        tinyt.unsqueeze("x", 0)


def test_other_names_of_arguments():
    x = tinyt.randn(3, 4)
    assert facts(x.sum(axis=1, keepdims=True)) == facts(x.sum(1, True))


def test_recording_keeps_direct_forms():
    def chain(x):
        return F.linear(x.view(4, 3).t().unsqueeze(0), x).mean(-1).squeeze()

    x = tinyt.randn(3, 4)
    recording = record(chain, x)
    (got,) = recording.run()
    assert got.numpy().tobytes() == chain(x).numpy().tobytes()


def test_composite_is_like_a_function():
    for function in (tinyt.Tensor.view, tinyt.unsqueeze, F.linear, F.mse_loss):
        assert isinstance(function, _tensor.Composite)
        assert function.__doc__ == function.__wrapped__.__doc__
        assert function.__module__.startswith("tinyt.ops.")
        assert inspect.signature(function) == inspect.signature(function.__wrapped__)
        assert function.__name__ in repr(function)
        assert copy.deepcopy(function) is function
        assert callable(function)
    assert tinyt.Tensor.swapdims is tinyt.Tensor.transpose

    class Layer:
        act = F.mse_loss

    with pytest.raises(TypeError, match="mse_loss"):  # bound, as a function is
        Layer().act()
    x = tinyt.randn(2, 3)
    assert facts(x.unsqueeze.__func__(x, 0)) == facts(x.unsqueeze(0))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = F.mse_loss.nonsense
    weak = weakref.ref(_tensor.composite(Layer, Layer))
    assert weak() is None
    assert weakref.ref(F.mse_loss)() is F.mse_loss


@pytest.mark.parametrize(
    "call",
    [
        ((6, 5), (5,)), ((6, 5), (5,), None), ((6, 5), (5,), tinyt.ones(5)),
        ((6, 5), (5,), None, tinyt.ones(5)), ((2, 3, 4), (3, 4), tinyt.ones(3, 4), None, 0.1),
        ((6, 5), [5]), ((6, 5), (6,)), ((6, 5), ()), ((6, 5), (5,), tinyt.ones(4)),
        ((6, 5), (5,), tinyt.ones(5, dtype=tinyt.float64)), ((0, 5), (5,)),
    ],
    ids=str,
)  # fmt: skip
def test_layer_norm(call):
    shape, *args = call
    x = tinyt.randn(shape, requires_grad=True)
    try:
        expected = F.layer_norm.__wrapped__(x, *args)
    except RuntimeError:
        with pytest.raises(RuntimeError, match="layer_norm: "):
            F.layer_norm(x, *args)
        return
    assert facts(F.layer_norm(x, *args)) == facts(expected)


def test_mse_loss():
    x = tinyt.randn(3, 4, requires_grad=True)
    whole, empty = tinyt.ones(3, 4, dtype=tinyt.int64), tinyt.randn(0, 3)
    for args in ((x, x * 2), (x, x.double()), (x, whole), (x, x, None, None, "sum")):
        assert facts(F.mse_loss(*args)) == facts(F.mse_loss.__wrapped__(*args))
    assert F.mse_loss(empty, empty).isnan().item()
    with pytest.warns(UserWarning, match="mse_loss: the target has shape"):
        F.mse_loss(x, x[:1])


def test_tensor_of_numbers():
    for data in (1, 2.5, True, [], [1, 2], (1.0, 2), [True, 2.5], [[1, 2]], [np.float64(1)], 1j):
        for kwargs in ({}, {"dtype": None}, {"dtype": tinyt.float64}):
            if data == 1j and kwargs.get("dtype"):
                continue
            expected = tinyt.tensor.__wrapped__(data, **kwargs)
            assert facts(tinyt.tensor(data, **kwargs)) == facts(expected)
    assert tinyt.tensor([1.0], requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="tensor: "):
        tinyt.tensor([[1], [2, 3]])
    with pytest.raises(TypeError, match="tensor: "):
        tinyt.tensor("text")


def test_transposed_properties():
    for x in (tinyt.randn(2, 3, 4, requires_grad=True), tinyt.randn(3, 4), tinyt.randn(())):
        assert facts(x.T) == facts(x.permute(tuple(reversed(range(x.dim())))))
    assert facts(x.mT) == facts(x.permute(()))
    assert tinyt.randn(2, 3, 4).mT.shape == (2, 4, 3)
    with pytest.raises(RuntimeError, match="mT: needs at least 2 dimensions"):
        _ = tinyt.randn(3).mT


def test_shape_is_a_size():
    for shape in ((), (3,), (2, 0, 4)):
        size = tinyt.zeros(shape).shape
        assert type(size) is tinyt.Size
        assert size == shape
        assert hash(size) == hash(shape)


def test_new_tensors_small_and_large():
    for name in ("zeros", "ones"):
        whole = getattr(tinyt, name)(300, 400)  # large enough to give up the interpreter lock
        assert (whole == (name == "ones")).all()
    assert tinyt.arange(100_000)[-1].item() == 99_999
