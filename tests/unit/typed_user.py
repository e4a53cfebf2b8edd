"""What a user of tinyt writes. `test_stubs.py` runs it, and lets `mypy --strict` infer its types.

A call that a type checker has to refuse carries its `type: ignore`: one that is not needed is an
error under `--strict`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tinyt
from tinyt import Tensor, nn
from tinyt.return_types import ValuesIndices

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value: Any, kind: Any) -> Any:
        return value


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(tinyt.relu(self.hidden(x)))
        return out


def functions() -> None:
    x = assert_type(tinyt.randn(3, 4), Tensor)
    assert_type(tinyt.exp(x), Tensor)
    assert_type(tinyt.add(x, 1.5, alpha=2), Tensor)
    assert_type(tinyt.multiply(x, x, out=tinyt.empty(3, 4)), Tensor)
    assert_type(tinyt.where(x > 0, x, 0.0), Tensor)
    assert_type(tinyt.where(x > 0), tuple[Tensor, ...])
    assert_type(tinyt.max(x), Tensor)
    assert_type(tinyt.max(x, 1), ValuesIndices)
    assert_type(tinyt.sort(x).indices, Tensor)
    assert_type(tinyt.split(x, 2), tuple[Tensor, ...])
    assert_type(tinyt.allclose(x, x), bool)
    assert_type(tinyt.nonzero(x, as_tuple=True), tuple[Tensor, ...])
    assert_type(tinyt.promote_types(tinyt.int8, tinyt.float), tinyt.dtype)


def methods() -> None:
    x = tinyt.tensor([[1.0, -2.0]], requires_grad=True)
    assert_type(x.shape, tinyt.Size)
    assert_type(x.size(0), int)
    assert_type(x.dtype, tinyt.dtype)
    assert_type(x.T @ x, Tensor)
    assert_type(2 * x - x / 3, Tensor)
    assert_type(-x < 1, Tensor)
    assert_type(x == 1, Tensor)
    assert_type(x[0, ..., None], Tensor)
    assert_type([row for row in x], list[Tensor])
    assert_type(x.tanh().mean(dim=0, keepdim=True), Tensor)
    values, indices = x.max(1)
    assert_type(values, Tensor)
    assert_type(indices, Tensor)
    assert_type(x.detach().clone().exp_(), Tensor)
    assert_type(x.float(), Tensor)
    assert_type(x.numel(), int)
    x.sum().backward()
    assert_type(x.grad, Tensor | None)


def training() -> None:
    model = Net()
    optimizer = tinyt.optim.AdamW(model.parameters(), lr=1e-2)
    loss = nn.CrossEntropyLoss()(model(tinyt.randn(5, 4)), tinyt.zeros(5, dtype=tinyt.int64))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with tinyt.no_grad():
        for parameter in model.parameters():
            assert_type(parameter, nn.Parameter)
            parameter.add_(parameter, alpha=-0.1)


def mistakes(x: Tensor) -> None:
    tinyt.exp("x")  # type: ignore[arg-type]
    tinyt.exp(x, dim=1)  # type: ignore[call-arg]
    tinyt.no_such_function(x)  # type: ignore[attr-defined]
    x.no_such_method()  # type: ignore[attr-defined]
    x.sum(keepdim="yes")  # type: ignore[arg-type]
    x.is_leaf = False  # type: ignore[misc]
    x + "1"  # type: ignore[operator]
