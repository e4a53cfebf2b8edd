"""The cases, one file a group: ``FIXED`` ones and those ``drawn`` anew for every seed."""

from __future__ import annotations

import random

from benchmarks.case import Case
from benchmarks.cases import (
    attention,
    compile,
    convolution,
    copies,
    elementwise,
    matmul,
    matmul_low,
    overhead,
    reductions,
    training,
)

MODULES = {
    "overhead": overhead,
    "elementwise": elementwise,
    "reductions": reductions,
    "copies": copies,
    "matmul": matmul,
    "matmul_low": matmul_low,
    "convolution": convolution,
    "attention": attention,
    "training": training,
    "compile": compile,
}
GROUPS = tuple(MODULES)


def collect(seed: int) -> list[Case]:
    """All cases, in the order of the groups. What is drawn depends on seed and group alone."""
    return [
        case.within(group)
        for group, module in MODULES.items()
        for case in (*module.FIXED, *module.drawn(random.Random(f"{seed} {group}")))
    ]


def find(case_id: str, seed: int) -> Case:
    """KeyError for an unknown one."""
    return {case.id: case for case in collect(seed)}[case_id]
