"""Record mode: what is captured, what the interpreter makes of it, and that bits equal eager."""

from __future__ import annotations

import numpy as np
import pytest

import tinyt
from tinyt import _core
from tinyt.compiler import interpret, record


def bits(x):
    """The bytes of a tensor's elements."""
    return x.detach().contiguous().numpy(force=True).tobytes()


def check(function, *args, reset=()):
    """Eager, interpreted and planned runs must give the same bits, and leave the same memory."""
    before = [x.clone() for x in reset]
    recording = record(function, *args)
    recording.graph.verify()
    runs = []
    for run in (
        lambda: function(*args),
        lambda: interpret(recording.graph),
        recording.run,
    ):
        for x, old in zip(reset, before, strict=True):
            x.copy_(old)
        result = run()
        outputs = [result] if isinstance(result, tinyt.Tensor) else list(result)
        runs.append(([bits(x) for x in outputs], [bits(x) for x in reset]))
    assert runs[0] == runs[1]
    assert runs[0] == runs[2]
    return recording


def softmax_by_hand(x):
    e = (x - x.amax(1, True)).exp()
    return e / e.sum(1, keepdim=True)


@pytest.mark.parametrize("shape", [(3, 5), (7, 513), (2, 4096), (3, 9001), (1, 1)])
def test_three_fused_ops_and_a_reduction_equal_eager(shape):
    tinyt.manual_seed(1)
    x, y = tinyt.randn(*shape), tinyt.randn(shape[1])
    recording = check(lambda a, b: ((a * b).exp() + 1.5).sum(1), x, y)
    assert recording.steps() == [("mul", "exp", "add", "sum")]


@pytest.mark.parametrize("reduction", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64, tinyt.int64])
def test_every_reduction_and_dtype(reduction, dtype):
    tinyt.manual_seed(2)
    x = (tinyt.randn(5, 300) * 3).to(dtype)

    def function(a):
        return getattr((a * 2 - a).relu(), reduction)(1)

    assert check(function, x).steps() == [("mul", "sub", "relu", reduction)]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x[1:2].expand(4, 6),
        lambda x: x[:, :1].expand(6, 5),
        lambda x: x[2],
    ],
)
def test_inputs_of_any_strides(view):
    x = view(tinyt.arange(36, dtype=tinyt.float32).reshape(6, 6) / 7)
    recording = check(lambda a: (a * a - 1.0).tanh(), x)
    assert recording.steps()[-1] == ("mul", "sub", "tanh")


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_ops_of_four_operands(name):
    x, y, z = (tinyt.randn(4, 300) for _ in range(3))

    def function(a, b, c):
        return getattr(a.exp(), name)(b, c, value=0.3).tanh()

    assert check(function, x, y, z).steps() == [("exp", name, "tanh")]


def test_values_used_twice_end_a_region():
    x = tinyt.randn(4, 6)

    def function(a):
        e = a.exp()
        f = e + 1.0
        return f * e, e

    check(function, x)
    check(softmax_by_hand, x)


def test_comparisons_and_where():
    x = tinyt.randn(5, 40)
    check(lambda a: tinyt.where(a > 0.0, a, 0.5).square(), x)


def test_structural_ops():
    x, w = tinyt.randn(2, 3, 8, 8), tinyt.randn(4, 3, 3, 3)

    def function(a, b):
        y = tinyt.conv2d(a, b, padding=1).relu()
        y = tinyt.max_pool2d(y, 2)
        y = tinyt.cat([y.flatten(1), y.flatten(1)], 1)
        return tinyt.log_softmax(y @ y.t(), 1), y.sum(0).cumsum(0)

    check(function, x, w)


def test_writes_to_captured_memory_come_last():
    x = tinyt.randn(3, 4)

    def function(a):
        a.mul_(2.0)
        a[1].add_(1.0)
        a[:, ::2] = a[:, 1::2]
        return a.sum(), a

    recording = check(function, x, reset=[x])
    assert len(recording.graph.writes) == 1
    assert any(node.op == "update" for node in recording.graph.nodes)


def test_writes_through_views_of_recorded_values():
    x = tinyt.randn(3, 4)

    def function(a):
        y = a * 2.0
        column = y[:, 1]
        row = y[2]
        column.zero_()
        row += 1.0
        return y, column, row

    check(function, x)


def test_one_buffer_shifted_onto_itself():
    x = tinyt.arange(10, dtype=tinyt.float32)

    def function(a):
        a[1:] = a[:-1].clone()
        a[:5], a[5:] = a[5:] * 2.0, a[:5] * 3.0
        return a * 1.0

    check(function, x, reset=[x])


def test_recording_computes_and_writes_nothing():
    x = tinyt.ones(4)
    allocations = tinyt.memory.statistics()["allocations"]
    recording = record(lambda a: a.add_(tinyt.ones(4)).exp(), x)
    # Only the recorded 0-d numbers and the like may allocate; no value of the graph does.
    assert x.tolist() == [1.0] * 4
    assert tinyt.memory.statistics()["allocations"] - allocations <= 2
    assert "update" not in [node.op for node in recording.graph.nodes]
    recording.run()
    assert x.tolist() == [2.0] * 4


def test_inputs_are_read_at_each_run():
    x = tinyt.zeros(3)
    recording = record(lambda a: (a + 1.0) * 2.0, x)
    assert recording.run()[0].tolist() == [2.0] * 3
    x.fill_(4.0)
    assert recording.run()[0].tolist() == [10.0] * 3


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.item(),
        lambda x: float(x),
        lambda x: bool(x > 0),
        lambda x: x.numpy(force=True),
        lambda x: x.tolist(),
        lambda x: x.nonzero(),
        lambda x: x.data_ptr(),
    ],
)
def test_looking_at_a_value_is_a_capture_error(look):
    x = tinyt.ones(())
    with pytest.raises(tinyt.CaptureError):
        record(lambda a: look(a + 1.0), x)
    assert not _core.is_recording()
    assert (x + 1.0).item() == 2.0


def test_recorded_tensors_do_not_escape():
    kept = []
    record(lambda a: kept.append(a * 2.0) or a, tinyt.ones(2))
    with pytest.raises(tinyt.CaptureError, match="after its recording"):
        kept[0] + 1.0
    with pytest.raises(tinyt.CaptureError, match="another recording"):
        record(lambda: kept[0] + 1.0)
    assert "recorded" in repr(kept[0])


def test_nested_recording_is_refused():
    with pytest.raises(tinyt.CaptureError, match="already under way"):
        record(lambda a: record(lambda b: b, a).run(), tinyt.ones(2))
    assert not _core.is_recording()


def test_interpreter_against_numpy():
    x = tinyt.randn(6, 50, dtype=tinyt.float64)
    recording = record(softmax_by_hand, x)
    (got,) = interpret(recording.graph)
    a = x.numpy(force=True)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(got.numpy(force=True), e / e.sum(1, keepdims=True), rtol=1e-13)


def test_equal_recordings_give_equal_graphs():
    x = tinyt.randn(3, 4)
    first, second = (str(record(softmax_by_hand, x).graph) for _ in range(2))
    assert first == second


def test_verify_finds_a_broken_graph():
    graph = record(lambda a: (a + 1.0) * 2.0, tinyt.ones(2)).graph
    graph.nodes.reverse()
    with pytest.raises(RuntimeError, match="too early"):
        graph.verify()


def test_threads_do_not_change_bits():
    x = tinyt.randn(300, 700)
    recording = record(lambda a: ((a * 1.1).sin() + a).sum(1), x)
    seen = set()
    for n in (1, 2, 3):
        with tinyt.num_threads(n):
            seen.add(bits(recording.run()[0]))
    assert len(seen) == 1
