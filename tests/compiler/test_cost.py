"""Operations and bytes of steps, against counting them one by one."""

from __future__ import annotations

import math
from itertools import product

import pytest

import tinyt
import tinyt.nn.functional as F
from tinyt.compiler.inspect.cost import _FLOPS, flops, traffic
from tinyt.compiler.inspect.facts import read_entry


def steps_of(function, *args):
    """The steps of a compiled function's program."""
    compiled = tinyt.compile(function)
    compiled(*args)
    compiled = getattr(compiled, "compiled", compiled)  # of a module
    return read_entry(compiled.entries[0])[0].steps


def step_of(op, function, *args):
    """The one step that is, or has in it, this op."""
    (found,) = [step for step in steps_of(function, *args) if op in step.ops]
    return found


class Number:
    """Counts what is done with it."""

    count = 0

    def __init__(self, value=0.0):
        self.value = float(value)

    def _counted(self, other=0.0):
        Number.count += 1
        return Number(1.0)

    __add__ = __sub__ = __mul__ = __truediv__ = largest = _counted
    exp = tanh = sigmoid = sqrt = _counted


def counted(function, *args):
    Number.count = 0
    function(*args)
    return Number.count


def numbers(n):
    return [Number(1.0) for _ in range(n)]


def dot(x, y):
    total = Number()
    for a, b in zip(x, y, strict=True):
        total = total + a * b
    return total


def total_of(row):
    total = Number()
    for x in row:
        total = total + x
    return total


def largest_of(row):
    most = Number(-math.inf)
    for x in row:
        most = most.largest(x)
    return most


def softmax(row):
    most = largest_of(row)
    weights = [(x - most).exp() for x in row]
    norm = total_of(weights)
    return [w / norm for w in weights]


def layer_norm(row, weight, bias):
    mean = total_of(row) / Number(len(row))
    centred = [x - mean for x in row]
    deviation = (total_of([x * x for x in centred]) / Number(len(row))).sqrt()
    return [x / deviation * w + b for x, w, b in zip(centred, weight, bias, strict=True)]


def test_matmul():
    m, k, n = 3, 5, 7
    step = step_of("matmul", lambda a, b: a @ b, tinyt.ones(2, m, k), tinyt.ones(2, k, n))
    by_hand = counted(lambda: [dot(numbers(k), numbers(k)) for _ in range(2 * m * n)])
    assert flops(step) == by_hand
    assert traffic(step) == (4 * 2 * (m * k + k * n), 4 * 2 * m * n)


def test_a_complex_product_is_four_products_and_two_sums():
    a, b = tinyt.ones(3, 5, dtype=tinyt.complex64), tinyt.ones(5, 7, dtype=tinyt.complex64)

    def multiply():
        for _ in range(3 * 7):
            real = imaginary = Number()
            for _ in range(5):
                w, x, y, z = numbers(4)
                real = real + (w * y - x * z)
                imaginary = imaginary + (w * z + x * y)

    assert flops(step_of("matmul", lambda x, y: x @ y, a, b)) == counted(multiply)


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias):
    layer = tinyt.nn.Linear(6, 4, bias=bias)

    def by_hand():
        for _ in range(5 * 4):
            out = dot(numbers(6), numbers(6))
            if bias:
                out = out + Number()

    with tinyt.no_grad():
        step = step_of("linear", layer, tinyt.ones(5, 6))
    assert flops(step) == counted(by_hand)


def conv_by_hand(images, out_channels, in_channels, out_size, kernel):
    """Every product of the definition, those with padding's zeros too."""
    for _ in product(range(images), range(out_channels), *map(range, out_size)):
        total = Number()
        for _ in product(range(in_channels), *map(range, kernel)):
            total = total + Number() * Number()


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_and_its_gradients(groups):
    x = tinyt.ones(2, 4, 6, 7)
    w = tinyt.ones(8, 4 // groups, 3, 2)

    def step(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = F.conv2d(x, w, stride=(1, 2), padding=1, groups=groups)
        return tinyt.autograd.grad(y, (x, w), tinyt.ones_like(y))

    by_hand = counted(conv_by_hand, 2, 8, 4 // groups, (6, 4), (3, 2))
    found = steps_of(step, x, w)
    for op in ("conv_backward_input", "conv_backward_weight"):
        (row,) = [s for s in found if s.ops == (op,)]
        assert flops(row) == by_hand, op
    forward = step_of(
        "conv", lambda x, w: F.conv2d(x, w, stride=(1, 2), padding=1, groups=groups), x, w
    )
    assert flops(forward) == by_hand
    assert traffic(forward) == (4 * (x.numel() + w.numel()), 4 * 2 * 8 * 6 * 4)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    batch, heads, length, width = 2, 3, 9, 16
    q, k, v = (tinyt.randn(batch, heads, length, width) for _ in range(3))

    def by_hand():
        for _ in range(batch * heads):
            for i in range(length):
                seen = i + 1 if causal else length
                scores = [dot(numbers(width), numbers(width)) * Number() for _ in range(seen)]
                weights = softmax(scores)
                for _ in range(width):
                    dot(weights, numbers(seen))

    step = step_of(
        "attention",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        q,
        k,
        v,
    )
    assert flops(step) == counted(by_hand)


def test_attention_gradients_are_five_products_for_two():
    q, k, v = (tinyt.randn(2, 3, 8, 64) for _ in range(3))

    def backward(q, k, v):
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        return tinyt.autograd.grad(y, (q, k, v), tinyt.ones_like(y))

    steps = steps_of(backward, q, k, v)
    (forward,) = [s for s in steps if s.ops == ("attention",)]
    (gradients,) = [s for s in steps if s.ops == ("attention_backward",)]
    assert flops(gradients) / flops(forward) == pytest.approx(2.5, rel=0.02)


@pytest.mark.parametrize("which", ["softmax", "log_softmax"])
def test_softmax(which):
    rows, n = 3, 50
    step = step_of(which, lambda x: getattr(F, which)(x, 1), tinyt.randn(rows, n))
    assert flops(step) == counted(lambda: [softmax(numbers(n)) for _ in range(rows)])


def test_layer_norm_but_for_what_is_done_once_a_row():
    rows, n = 3, 400
    layer = tinyt.nn.LayerNorm(n)
    with tinyt.no_grad():
        step = step_of("layer_norm", layer, tinyt.randn(rows, n))
    row = numbers(n)
    by_hand = counted(lambda: [layer_norm(row, row, row) for _ in range(rows)])
    assert flops(step) == by_hand - 3 * rows


def test_batch_norm_in_training_and_after():
    layer = tinyt.nn.BatchNorm1d(4)
    x = tinyt.randn(100, 4)

    def row():
        return layer_norm(numbers(100), numbers(100), numbers(100))

    with tinyt.no_grad():
        step = step_of("batch_norm", layer, x)
        assert flops(step) == counted(lambda: [row() for _ in range(4)]) - 3 * 4
        layer.eval()

        def by_hand():
            for _ in range(400):
                (Number() - Number()) * Number() * Number() + Number()

        assert flops(step_of("batch_norm", layer, x)) == counted(by_hand)


def test_lstm():
    times, samples, hidden = 4, 3, 5
    layer = tinyt.nn.LSTM(2, hidden)

    def by_hand():
        for _ in range(times * samples * hidden):
            i, f, g, o = (Number() + dot(numbers(hidden), numbers(hidden)) for _ in range(4))
            memory = f.sigmoid() * Number() + i.sigmoid() * g.tanh()
            o.sigmoid() * memory.tanh()

    with tinyt.no_grad():
        step = step_of("lstm", layer, tinyt.randn(times, samples, 2))
    assert flops(step) == counted(by_hand)


def gradients_of(function, *inputs):
    """A function that gives the gradients of another one's result."""

    def run(*inputs):
        inputs = [x.detach().requires_grad_() for x in inputs]
        y = function(*inputs)
        return tinyt.autograd.grad(y, inputs, tinyt.ones_like(y))

    return steps_of(run, *inputs)


def test_lstm_gradients():
    times, samples, hidden = 4, 3, 5
    layer = tinyt.nn.LSTM(2, hidden)

    def by_hand():
        one = Number()
        for _ in range(times * samples * hidden):
            dh, dc, c, t, i, f, g, o = numbers(8)
            dh = dh + dot(numbers(4 * hidden), numbers(4 * hidden))
            dc = dc + dh * o * (one - t * t)
            dh * t * o * (one - o)
            dc * c * f * (one - f)
            dc * g * i * (one - i)
            dc * i * (one - g * g)
            dc * f

    steps = gradients_of(lambda x: layer(x)[0], tinyt.randn(times, samples, 2))
    (step,) = [s for s in steps if s.ops == ("lstm_backward",)]
    assert flops(step) == counted(by_hand)


def test_layer_norm_gradients():
    rows, n = 3, 50

    def by_hand():
        for _ in range(rows):
            a = c = db = dw = Number()
            for _ in range(n):
                x, mean, rstd, g, w = numbers(5)
                x = (x - mean) * rstd
                db, dw = db + g, dw + g * x
                g = g * w
                a, c = a + g, c + g * x
            for _ in range(n):
                (Number() - a - Number() * c) * rstd

    steps = gradients_of(
        lambda x, w, b: F.layer_norm(x, (n,), w, b),
        *(tinyt.randn(rows, n), tinyt.randn(n), tinyt.randn(n)),
    )
    (step,) = [s for s in steps if s.ops == ("layer_norm_backward",)]
    assert flops(step) == counted(by_hand)


def test_softmax_gradients():
    def by_hand():
        for _ in range(3):
            pairs = [numbers(2) for _ in range(50)]
            mean = dot(*zip(*pairs, strict=True))
            for g, y in pairs:
                y * (g - mean)

    (step,) = [
        s
        for s in gradients_of(lambda x: F.softmax(x, 1), tinyt.randn(3, 50))
        if s.ops == ("softmax_backward",)
    ]
    assert flops(step) == counted(by_hand)


def test_pooling():
    x = tinyt.randn(2, 3, 8, 8)
    step = step_of("max_pool", lambda x: F.max_pool2d(x, 3, stride=2), x)
    windows = 2 * 3 * 3 * 3
    assert flops(step) == counted(lambda: [largest_of(numbers(9)) for _ in range(windows)])
    step = step_of("resample", lambda x: F.avg_pool2d(x, 2), x)
    assert flops(step) == counted(lambda: [dot(numbers(4), numbers(4)) for _ in range(2 * 3 * 16)])


def adamw(p, g, m, v):
    m = m + (g - m) * Number()
    v = v * Number() + g * g * Number()
    return p + m * Number() / (v.sqrt() / Number() + Number())


def sgd(p, g):
    return p + Number() * g


def sgd_with_momentum(p, g, m):
    m = m * Number() + g * Number()
    return p + Number() * m


@pytest.mark.parametrize(
    ("make", "rule", "states"),
    [
        (lambda p: tinyt.optim.AdamW(p), adamw, 2),
        (lambda p: tinyt.optim.SGD(p, lr=0.1), sgd, 0),
        (lambda p: tinyt.optim.SGD(p, lr=0.1, momentum=0.9), sgd_with_momentum, 1),
    ],
)
def test_optimisers(make, rule, states):
    p = tinyt.randn(6, 7).requires_grad_()
    optimizer = make([p])
    name = "Adam" if rule is adamw else "SGD"

    @tinyt.compile
    def step():
        optimizer.zero_grad()
        (p * 2).sum().backward()
        optimizer.step()

    step()
    (found,) = [s for s in read_entry(step.entries[0])[0].steps if s.ops == (name,)]
    assert flops(found) == 42 * counted(rule, *numbers(2 + states))
    read, written = traffic(found)
    counters = 4 if rule is adamw else 0
    assert written == 4 * 42 * (1 + states) + counters
    # The gradient too, and the numbers of the rule (float64).
    assert 0 <= read - written - 4 * 42 <= 8 * 8


@pytest.mark.tiles
def test_a_region_counts_each_of_its_ops():
    x, y = tinyt.randn(8, 100), tinyt.randn(100)
    (step,) = steps_of(lambda x, y: ((x * y).exp() + 1.5).sum(1), x, y)
    assert step.kind == "region"
    by_hand = counted(
        lambda: [
            total_of([(a * b).exp() + Number() for a, b in zip(*[numbers(100)] * 2, strict=True)])
            for _ in range(8)
        ]
    )
    assert flops(step) == by_hand
    read, written = traffic(step)
    assert (read - 4 * (800 + 100), written) == (4, 4 * 8)  # the number is an operand


def test_what_a_region_does_once_a_row_counts_once_a_row():
    def spread(row):
        mean = total_of(row) / Number()
        return total_of([(x - mean) * (x - mean) for x in row])

    x = tinyt.randn(8, 100)
    (step,) = steps_of(lambda x: (x - x.mean(1, keepdim=True)).square().sum(1), x)
    by_hand = counted(lambda: [spread(numbers(100)) for _ in range(8)])
    # By hand the difference is taken twice.
    assert flops(step) == by_hand - 800


def test_bytes_of_what_is_repeated_or_left_out():
    x = tinyt.randn(1, 64).expand(32, 64)
    (step,) = steps_of(lambda x: x * x, x)
    assert traffic(step) == (4 * 64, 4 * 32 * 64)
    table, index = tinyt.randn(1000, 16), tinyt.tensor([3, 5, 3])
    (step,) = steps_of(lambda t, i: tinyt.gather(t, 0, i[:, None].expand(3, 16)), table, index)
    assert traffic(step) == (4 * 48 + 8 * 3, 4 * 48)
    (step,) = steps_of(lambda x: x + 1, tinyt.zeros(0, 5))
    assert traffic(step) == (8, 0)  # the number


def test_moving_and_searching_count_no_operations():
    x = tinyt.randn(5, 7)
    for function in (
        lambda x: x.t().contiguous(),
        lambda x: tinyt.cat([x, x]),
        lambda x: tinyt.sort(x)[0],
        lambda x: tinyt.zeros_like(x),
        lambda x: x.flip(0),
    ):
        assert all(flops(step) == 0 for step in steps_of(function, x))


def test_factors_of_matrices():
    """n^3 / 3 and n^2 k, of each matrix of a batch."""
    x, b = tinyt.eye(6).expand(2, 6, 6).clone(), tinyt.ones(2, 6, 4)
    (factored,) = steps_of(lambda x: tinyt.linalg.cholesky(x), x)
    assert flops(factored) == 2 * 6**3 // 3
    (solved,) = steps_of(lambda x, b: tinyt.linalg.solve_triangular(x, b, upper=False), x, b)
    assert flops(solved) == 2 * 6 * 6 * 4


def test_every_operation_has_its_row():
    """And nothing else: a row that is misspelt would never be used."""
    rows = {
        row["name"]
        for row in tinyt._core.op_table()
        if row["kind"] == "struct" and not row["flags"] & {"moves", "view", "random"}
    }
    opaque = {"SGD", "Adam", "RMSprop", "Adagrad", "mul_"}
    assert set(_FLOPS) == rows | opaque
