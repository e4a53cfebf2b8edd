"""Any graph keeps its meaning through every pass, and any compiled function its backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, note

import tinyt
from drawn import functions, recorded, same
from tinyt import Tensor, _core
from tinyt.compiler import interpret
from tinyt.compiler.passes import PASSES, simplify

# ---- what a backward pass outside finds


def test_results_may_be_written_to_where_eager_saved_something_else() -> None:
    """A copy is returned, its source is saved for the backward pass: they stay two."""
    w = tinyt.tensor([0.5, 1.0], requires_grad=True)

    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = (w * x).exp()
        return h.clone(), (w * x).exp() * 1.0, h.reshape(2).neg().neg()

    compiled = tinyt.compile(function)
    for of in (function, compiled, compiled, compiled):
        w.grad = None
        results = of(tinyt.ones(2))
        total = sum((y.sum() for y in results), tinyt.zeros(()))
        for y in results:
            y.detach().zero_()
        total.backward()
        assert w.grad is not None
        same(w.grad, 3 * w.detach().exp())


def test_arguments_may_be_written_to_where_eager_saved_a_copy() -> None:
    w = tinyt.tensor([0.5, 1.0], requires_grad=True)

    def function(x: Tensor) -> Tensor:
        return w * x.clone() + w * (x * 1.0) + w * x.neg().neg()

    compiled = tinyt.compile(function)
    for of in (function, compiled, compiled, compiled):
        w.grad = None
        x = tinyt.ones(2)
        y = of(x)
        x.add_(1.0)
        y.sum().backward()
        assert w.grad is not None
        assert w.grad.tolist() == [3.0, 3.0]


# ---- complex numbers, whose parts lie side by side


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x[:2] * 2).t().clone(),
        lambda x: x[:, :1].expand(3, 2) + 1,
        lambda x: (x * 2).narrow(1, 1, 2).clone(),
        lambda x: tinyt.ones(5, 2) * 2,
        lambda x: x[0, 0].expand(2).to(tinyt.float64),
    ],
)
def test_pairs_that_a_pass_lays_out_otherwise(function: Callable[[Tensor], Tensor]) -> None:
    def run(x: Tensor) -> Tensor:
        return tinyt.view_as_complex(function(x))

    x = tinyt.arange(12.0).reshape(3, 4)
    compiled, block = tinyt.compile(run, verify=True), tinyt.lazy()(run)
    for _ in range(2):
        same(compiled(x), run(x))
        same(block(x), run(x))


# ---- any graph


def memory(tensors: Sequence[Tensor]) -> list[bytes]:
    return [x.float().numpy(force=True).tobytes() for x in tensors]


@given(functions(), st.sampled_from([tinyt.float32, tinyt.int64, tinyt.bfloat16]))
def test_every_pass_keeps_the_meaning(
    function: Callable[..., tuple[Tensor, ...]], dtype: Any
) -> None:
    """Of the interpreter, and of programs; results and what is written."""

    def arguments() -> list[Tensor]:
        made = tinyt.tensor([[1.5, -0.0, 0.0], [-2.5, float("inf"), 3.0]], dtype=tinyt.float32)
        if dtype is tinyt.int64:
            made = tinyt.tensor([[1, 0, -5], [7, 2**62, 3]])
        return [made.to(dtype), made.to(dtype)[0].clone()]

    args = arguments()
    recording = recorded(function, *args)
    graph = recording.graph
    draws = [(5, 0)] * len(recording._recorder.draws)

    def meaning(of: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
        for x, fresh in zip(args, arguments(), strict=True):
            x.copy_(fresh)
        return of(), [x.clone() for x in args]

    want, written = meaning(lambda: interpret(graph, (), draws))
    stages = [(name, run(graph)) for name, run in PASSES] + [("all", simplify(graph))]
    for name, stage in stages:
        if stage is graph:
            continue
        note(f"before:\n{graph}\nafter {name}:\n{stage}")
        stage.verify()
        program = _core.Program(stage.to_core())
        for of in (lambda: interpret(stage, (), draws), lambda: program.run([], [], draws)):  # noqa: B023
            got, now = meaning(of)
            for x, y in zip([*got, *now], [*want, *written], strict=True):
                assert x.stride() == y.stride(), name
                same(x, y)


@given(functions())
def test_compiled_functions_with_a_backward_pass(
    function: Callable[..., tuple[Tensor, ...]],
) -> None:
    """Results, gradients, and what writes into results and arguments do to them, are eager's."""

    def run(make: Callable[[Any], Any]) -> list[Any]:
        found: list[Any] = []
        w = tinyt.tensor([[1.5, -0.0, 0.0], [-2.5, 2.0, 3.0]], requires_grad=True)
        f = make(lambda x: function(w * x, x * 1.0))
        for call in range(4):
            tinyt.manual_seed(call)
            x = tinyt.full((2, 3), 1.0 + call)
            try:
                results = f(x)
            except tinyt.CaptureError:
                raise
            except RuntimeError:
                return ["error"]
            leaves = [y for y in results if y.requires_grad and y.is_floating_point()]
            if call == 3:
                for y in results:
                    if all(y.stride()) and y.numel():
                        y.detach()[:1].zero_() if y.dim() else y.detach().zero_()
                x.add_(1.0)
            error = ""
            w.grad = None
            try:
                sum((y.float().sum() for y in leaves), tinyt.zeros(())).backward()
            except RuntimeError as failed:
                error = str(failed)[:40]
            found += [error, w.grad, *results]
        return found

    def silent(make: Callable[[Any], Any]) -> list[Any]:
        try:
            return run(make)
        except tinyt.CaptureError as error:
            return [str(error)[:7]]

    want, got = silent(lambda f: f), silent(tinyt.compile)
    if got == ["compile"]:
        return
    for x, y in zip(got, want, strict=True):
        if isinstance(y, Tensor):
            same(x.detach(), y.detach())
        else:
            assert x == y
