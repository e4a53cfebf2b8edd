"""The table is whole: every public operation has a row, an alias, or a test of its own."""

from __future__ import annotations

import pytest

import tinyt
from op_samples import BY_NAME

ALIASES = {
    "absolute": "abs",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "true_divide": "div",
}
# Operations that a reference of their values does not describe.
ELSEWHERE = {
    "unit/test_tensor.py": {"allclose", "clone", "equal", "is_tensor", "broadcast_shapes"},
    "unit/test_interop.py": {"as_tensor", "asarray", "from_dlpack", "from_numpy"},
    "unit/test_memory.py": {"empty", "empty_like"},
    "backend/test_random.py": {
        "bernoulli",
        "multinomial",
        "normal",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
    },
}


def test_every_operation_has_a_row() -> None:
    known = set(BY_NAME) | set(ALIASES) | set().union(*ELSEWHERE.values())
    assert sorted(set(tinyt.ops.EXPORTS) - known) == []


@pytest.mark.parametrize("alias", ALIASES)
def test_alias(alias: str) -> None:
    """The same operation, as a function and as a method."""
    assert getattr(tinyt, alias) is getattr(tinyt, ALIASES[alias])
    if hasattr(tinyt.Tensor, ALIASES[alias]):
        assert hasattr(tinyt.Tensor, alias)
