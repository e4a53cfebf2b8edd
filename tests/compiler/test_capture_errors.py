"""A CaptureError says at which line of the user's code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import CaptureError, Tensor, nn
from tinyt.compiler.api import compile
from unseen import drawn, unseen

WEIGHT = tinyt.tensor([1.0, 2.0, 3.0])


def has_item(x: Tensor) -> Any:
    y = x + 1
    return y * y.sum().item()  # here


def has_branch(x: Tensor) -> Any:
    if x.sum() > 0:  # here
        return x
    return -x


def has_numpy(x: Tensor) -> Any:
    return x, x.numpy(force=True)  # here


def has_nonzero(x: Tensor) -> Any:
    return (x + 1).nonzero()  # here


def has_classes(x: Tensor) -> Any:
    return nn.functional.one_hot(x.long())  # here


def has_mask(x: Tensor) -> Any:
    return x[x > 0]  # here


def sets_data(x: Tensor) -> Any:
    x.data = x * 2  # here
    return x


def transposes_in_place(x: Tensor) -> Any:
    x.unsqueeze_(0).t_()  # here
    return x * 2


def resizes(x: Tensor) -> Any:
    return x.resize_(2) * 2  # here


def changes_a_weight(x: Tensor) -> Any:
    WEIGHT.unsqueeze_(0)  # here
    return x * WEIGHT


def reads_a_weight(x: Tensor) -> Any:
    return x * float(WEIGHT.detach().numpy(force=True).sum())  # here


def shares_a_weight(x: Tensor) -> Any:
    return x * tinyt.from_dlpack(WEIGHT).add_(1)  # here


def buffers_a_weight(x: Tensor) -> Any:
    return x * memoryview(WEIGHT)[0]  # here


def draws_in_a_layer(x: Tensor) -> Any:
    tinyt.manual_seed(3)  # here
    return nn.functional.dropout(x)


ONCE = [
    has_item, has_branch, has_numpy, has_nonzero, has_classes, has_mask, sets_data,
    transposes_in_place, resizes, changes_a_weight, reads_a_weight, shares_a_weight,
    buffers_a_weight, draws_in_a_layer,
]  # fmt: skip


def marked(function: Callable[..., Any]) -> str:
    """The line of a function that says "# here", as an error names it."""
    code = function.__code__
    with open(code.co_filename, encoding="utf-8") as file:
        lines = file.read().splitlines()
    first = code.co_firstlineno
    line = next(n for n in itertools.count(first) if lines[n - 1].endswith("# here"))
    return re.escape(f", at {code.co_filename}:{line}")


@pytest.mark.host
@pytest.mark.parametrize("function", ONCE)
def test_the_line_that_cannot_be_captured(function: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError, match=marked(function) + r" \(while .* was captured"):
        compile(function)(tinyt.ones(3))
    WEIGHT.data = tinyt.tensor([1.0, 2.0, 3.0])  # eager has changed it


@pytest.mark.parametrize("several", [False, True])
def test_arguments_that_share_memory(several: bool) -> None:
    """What stands for them is no tensor of the function's own, either."""
    memory = tinyt.ones(6)
    with pytest.raises(CaptureError, match=marked(resizes)):
        compile(lambda x, y: resizes(x) + y)(memory[1:4], memory[2:4] if several else 1.0)


def test_attributes_of_an_argument() -> None:
    def step(x: Tensor) -> Tensor:
        x.seen = True  # type: ignore[attr-defined]
        return x + 1

    with pytest.raises(CaptureError, match=r"sets attributes of an argument \(seen\)"):
        compile(step)(tinyt.ones(3))


ITERATORS = [itertools.cycle([2]), iter([2] * 9), (2 for _ in range(9)), zip([2] * 9, strict=True)]


@pytest.mark.parametrize("values", ITERATORS, ids=lambda x: type(x).__name__)
def test_iterators(values: Any) -> None:
    """What they give next may be another value at the tenth call."""

    def step(x: Tensor) -> Any:
        value = next(values)  # here
        return x, value

    said = f"the iterator of type {type(values).__name__}" + marked(step).replace(",", "", 1)
    with pytest.raises(CaptureError, match=said):
        compile(step)(tinyt.ones(3))


@pytest.mark.parametrize(("name", "value"), [("lr", 0.1), ("betas", (0.9, 0.99))])
def test_options_that_the_function_sets(name: str, value: Any) -> None:
    """Eager sets the rate at each call, a program would leave what was set outside."""
    w = tinyt.ones(3, requires_grad=True)
    optimizer = tinyt.optim.Adam([w], 0.1, betas=(0.9, 0.99))

    @compile
    def step(x: Tensor) -> None:
        optimizer.param_groups[0][name] = value
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    with pytest.raises(CaptureError, match=f"sets '{name}', from which a program reads"):
        step(tinyt.ones(3))


def test_floats_that_the_function_sets() -> None:
    """Known to change from outside: as above."""
    facts = {"rate": 0.5}

    def step(x: Tensor) -> Tensor:
        y = x * facts["rate"]
        facts["rate"] = 0.5
        return y

    compiled = compile(step)
    for _ in range(3):
        compiled(tinyt.ones(3))
    facts["rate"] = 2.0
    with pytest.raises(CaptureError, match="sets 'rate', from which a program reads"):
        compiled(tinyt.ones(3))


def test_classes_that_are_not_given() -> None:
    with pytest.raises(CaptureError, match=r"one_hot: .* depends on data.*; give num_classes"):
        compile(has_classes)(tinyt.ones(3))


def test_a_view_at_a_position_that_is_not_known() -> None:
    """A copy of the row would not see what is written to the tensor later."""
    x = tinyt.randn(4, 3)
    with pytest.raises(CaptureError, match=r"index: .* not known.*; x\[i\.reshape\(1\)\]"):
        compile(lambda x: x[x[:, 0].argmin()])(x)
    row = compile(lambda x: x[x[:, 0].argmin().reshape(1)][0])
    for _ in range(3):
        assert_same_bits(row(x), x[x[:, 0].argmin()])


def test_items_that_the_function_sets() -> None:
    rates = [0.5]

    def step(x: Tensor) -> Tensor:
        y = x * rates[0]
        rates[0] = 0.5
        return y

    compiled = compile(step)
    for _ in range(3):
        compiled(tinyt.ones(3))
    rates[0] = 2.0
    with pytest.raises(CaptureError, match="sets item 0 of a list, from which a program reads"):
        compiled(tinyt.ones(3))


@pytest.mark.parametrize(
    "read",
    [
        tinyt.initial_seed, tinyt.get_rng_state, tinyt.get_num_threads,
        lambda: tinyt.set_num_threads(tinyt.config._core.num_threads()),
        lambda: tinyt.set_float32_matmul_precision("highest"),
    ],
)  # fmt: skip
def test_states_of_the_library(read: Callable[[], Any]) -> None:
    def step(x: Tensor) -> Tensor:
        read()
        return x + 1

    with pytest.raises(CaptureError, match="call it outside the compiled function"):
        compile(step)(tinyt.ones(3))


def test_what_is_not_refused() -> None:
    """Tensors of the function's own, and what Python may read of others."""

    def step(x: Tensor) -> Any:
        y = (x * 2)[None].t_().unsqueeze_(0)
        z = x.detach().unsqueeze_(0)
        z.data = z + 1
        first, *rest = WEIGHT.tolist()
        shown = repr(WEIGHT) + repr(x)
        table = tinyt.from_numpy(np.arange(3.0)).unsqueeze_(0)
        return (
            y,
            z,
            x * first + sum(rest) * WEIGHT[0].item(),
            table * table.numpy(force=True),
            len(shown),
        )

    compiled = compile(step)
    for n in (1.0, 1.0, 4.0, 5.0):
        WEIGHT.fill_(n)
        x = tinyt.randn(3)
        for got, want in zip(compiled(x)[:4], step(x), strict=False):
            assert_same_bits(got, want)
    assert compiled.cache_info().currsize == 1
    WEIGHT.copy_(tinyt.tensor([1.0, 2.0, 3.0]))


def test_integers_of_a_tensor_are_held() -> None:
    sizes = tinyt.tensor([1, 2])
    compiled = compile(lambda x: [part.sum() for part in x.split(sizes.tolist())])
    x = tinyt.tensor([1.0, 10.0, 100.0])
    for first in (1, 1, 2, 2, 1):
        sizes.copy_(tinyt.tensor([first, 3 - first]))
        assert [p.item() for p in compiled(x)] == ([1, 110] if first == 1 else [11, 100])
    assert compiled.cache_info().currsize == 2


def test_a_large_tensor_is_printed_while_captured(capsys: pytest.CaptureFixture[str]) -> None:
    table = tinyt.arange(3000.0)

    def step(x: Tensor) -> Tensor:
        print(table)
        return x + table[0]

    compiled = compile(step)
    for _ in range(4):
        compiled(tinyt.ones(3))
        table.add_(1.0)
    assert "2.9990e+03" in capsys.readouterr().out
    assert compiled.cache_info().currsize == 1


def test_the_line_of_a_callee() -> None:
    """Its own line, not its caller's or the library's."""
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with pytest.raises(CaptureError, match=marked(has_item)):
        compile(lambda x: has_item(net(x)))(tinyt.ones(3))


def test_the_line_of_a_call_that_finds_an_old_program() -> None:
    compiled = compile(lambda x, is_last: has_item(x) if is_last else x * 2)
    compiled(tinyt.ones(3), False)
    compiled(tinyt.ones(3), False)
    with pytest.raises(CaptureError, match=marked(has_item)):
        compiled(tinyt.ones(3), True)


def test_the_line_of_an_error_that_eager_does_not_have() -> None:
    call = unseen(range(100))

    def step(x: Tensor) -> Any:
        if call():
            raise KeyError("late")  # here
        return x + 1

    with pytest.raises(CaptureError, match=r"KeyError\('late'\)" + marked(step)):
        compile(step)(tinyt.ones(3))


@pytest.fixture
def call() -> Callable[[], int]:
    """Counts, as a generator of random numbers."""
    return drawn(range(100))


def second_call(function: Callable[..., Any], says: str) -> None:
    """Requires that the second call says this, and a way out."""
    compiled = compile(function)
    compiled(tinyt.ones(3))
    says = f"the second call is not as the first: {says}.*: pass it as an argument"
    with pytest.raises(CaptureError, match=says):
        compiled(tinyt.ones(3))


def test_the_line_of_a_number(call: Callable[[], int]) -> None:
    def step(x: Tensor) -> Tensor:
        y = x * 2
        return y * (0.5 + call())  # here

    second_call(step, r"a number was 1.5, now it is 2.5" + marked(step))


def test_the_line_of_another_operation(call: Callable[[], int]) -> None:
    def step(x: Tensor) -> Tensor:
        x = x * 2
        return x.exp() if call() < 2 else x.sin()  # here

    second_call(step, r"operation 1 was exp, now it is sin" + marked(step))


@pytest.mark.parametrize("shorter", [False, True])
def test_the_line_of_more_or_fewer_operations(call: Callable[[], int], shorter: bool) -> None:
    def step(x: Tensor) -> Tensor:
        for _ in range(5 - call() if shorter else call()):
            x = x.exp()  # here
        return x

    second_call(step, r"there were \d operations, now there are \d" + marked(step))


def test_the_line_of_a_branch_that_differs(call: Callable[[], int]) -> None:
    def step(x: Tensor) -> Any:
        late = call() > 1
        other = Tensor.sin if late else Tensor.exp
        return tinyt.cond(x.sum() > 0, lambda x: other(x), lambda x: x * 2, (x,))  # here

    second_call(step, r"in cond: operation 0 was exp, now it is sin" + marked(step))


def test_the_line_of_another_tensor(call: Callable[[], int]) -> None:
    tables = [tinyt.ones(3) for _ in range(9)]

    def step(x: Tensor) -> Tensor:
        x = x + 1
        return x * tables[call()]  # here

    second_call(step, r"another tensor of shape \(3,\) is read" + marked(step))


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (lambda x, n: {1, 2}, "a result of type set is another object"),
        (lambda x, n: [x, {"a": (x, object())}], "a result of type object is another object"),
        (lambda x, n: (x, ["all", n]), "a result was 1, now it is 2"),
        (lambda x, n: [x] * n, "how results are nested"),
    ],
)
def test_results_that_differ(
    call: Callable[[], int], result: Callable[..., Any], said: str
) -> None:
    second_call(lambda x: result(x, call()), said)


def test_what_an_object_had_is_put_back() -> None:
    """The call has run: its values stay, and no tensor without one is left."""

    class Average(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("m", tinyt.zeros(2))
            self.last = tinyt.zeros(2)

        def forward(self, x: Tensor) -> Tensor:
            self.m = 0.5 * self.m + x.detach()
            self.last = self.m * 2
            return self.m * x

    module = Average()
    compiled = compile(module)
    for _ in range(2):  # the second call is recorded without being run
        with pytest.raises(CaptureError, match="changes what it reads"):
            compiled(tinyt.ones(2))
        assert module.state_dict()["m"].tolist() == [1, 1]
        assert module.last.tolist() == [2, 2]
    leaf = tinyt.ones(2, requires_grad=True)
    with pytest.raises(CaptureError, match="changes what it reads"):
        compile(module)(leaf)
    assert module.state_dict()["m"].tolist() == [1.5, 1.5]


@pytest.mark.host
def test_a_tensor_that_a_failed_capture_left_says_so() -> None:
    log: list[Tensor] = []

    def keeps(x: Tensor) -> Tensor:
        log.append(x * 2)
        return x

    with pytest.raises(CaptureError, match="the call has run"):
        compile(keeps)(tinyt.ones(2))
    assert log[0].tolist() == [2, 2]
    for read in (Tensor.tolist, Tensor.numpy, lambda x: x + 1):
        with pytest.raises(CaptureError, match="has left it in an object or list; set that anew"):
            read(log[-1])
