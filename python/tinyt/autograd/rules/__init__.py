"""Gradient rules of the primitives: one table, one file a family.

A rule is ``rule(name, ...)`` with one pair for each input: a function ``f(g, n)`` of the output
gradient and the tape node, and what it reads.
"""

from tinyt.autograd.rules import (
    activation,
    attention,
    contract,
    elementwise,
    fused,
    index,
    linalg,
    movement,
    order,
    recurrent,
    reduce,
)

__all__ = [
    "activation",
    "attention",
    "contract",
    "elementwise",
    "fused",
    "index",
    "linalg",
    "movement",
    "order",
    "recurrent",
    "reduce",
]
