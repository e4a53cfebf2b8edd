"""Every operation as C, beside the program that it is exported from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import CProgram, same_bits
from op_rows import COMPLEX, Op
from op_samples import OPS
from sampling import build, flat

pytestmark = [compiles, has_fma, pytest.mark.host]

# Programs that depend on data, or are none.
REFUSED = "depends on data|value is not known while recording"


class Leaves:
    """The tensors of a sample, in the order in which a program takes them."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.tensors: list[tinyt.Tensor] = []
        self._collect(value)

    def _collect(self, x: Any) -> None:
        if isinstance(x, tinyt.Tensor):
            self.tensors.append(x)
        elif isinstance(x, (list, tuple)):
            for part in x:
                self._collect(part)
        elif isinstance(x, dict):
            for part in x.values():
                self._collect(part)

    def with_tensors(self, tensors: list[tinyt.Tensor]) -> Any:
        """The same with other tensors."""
        rest = iter(tensors)

        def put(x: Any) -> Any:
            if isinstance(x, tinyt.Tensor):
                return next(rest)
            if isinstance(x, (list, tuple)):
                return type(x)(map(put, x))
            return {k: put(v) for k, v in x.items()} if isinstance(x, dict) else x

        return put(self.value)


def export(folder: Path, op: Op, dtype: str, rng: np.random.Generator) -> str:
    """Compares all samples of a row in one program; what is wrong, or why there is no program."""
    samples = [build(tinyt, (s.args, s.kwargs)) for s in op.samples(rng, dtype)]
    leaves = [Leaves(s) for s in samples]
    counts = [len(x.tensors) for x in leaves]
    given = [t for x in leaves for t in x.tensors]

    def function(*tensors: tinyt.Tensor) -> list[tinyt.Tensor]:
        found, at = [], 0
        for one, count in zip(leaves, counts, strict=True):
            args, kwargs = one.with_tensors(list(tensors[at : at + count]))
            at += count
            found += [
                y.clone()
                for y in flat(op.function(tinyt)(*args, **kwargs))
                if isinstance(y, tinyt.Tensor)
            ]
        return found

    try:
        program = CProgram(folder, function, *given)
    except NotImplementedError as error:
        return str(error)
    except tinyt.CaptureError as error:
        if re.search(REFUSED, str(error)):
            return "refused"
        raise
    with tinyt.no_grad():
        want = program.step(*given)
    have = program(given, want)
    worst = 0.0
    for x, y in zip(have, want, strict=True):
        if not same_bits(x, y):
            worst = max(worst, far(x, y))
    return "" if worst == 0 else f"{worst:.3g}"


def far(x: tinyt.Tensor, y: tinyt.Tensor) -> float:
    """The largest difference in units of rounding of the largest element."""
    if not y.dtype.is_floating_point:
        return float("inf")
    if bool((x.isfinite() != y.isfinite()).any()):
        return float("inf")
    eps = {"float32": 2.0**-24, "float64": 2.0**-53}.get(y.dtype.name, 2.0**-9)
    ok = y.isfinite()
    difference = (x.double() - y.double()).where(ok, 0).abs().max()
    scale = y.double().where(ok, 0).abs().max()
    return float(difference / (scale * eps)) if float(scale) else float(difference > 0) * 1e9
