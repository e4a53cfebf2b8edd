"""An element's result does not depend on what its neighbours in a register are."""

from __future__ import annotations

import numpy as np
import pytest

from scalar_values import COMPUTE, ROWS, call, operands, same_bits, takes

CASES = [(name, dtype) for name in ROWS for dtype in COMPUTE[:3] if takes(name, dtype)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_other_neighbours_same_bits(name: str, dtype: str, rng: np.random.Generator) -> None:
    n = 3000
    arrays = operands(name, dtype, rng, n)
    if dtype != "int64":  # half of them where most functions are defined and series take turns
        for k in range(len(arrays)):
            if arrays[k].dtype != bool:
                arrays[k][: n // 2] = np.exp(rng.uniform(-3, 4, n // 2)).astype(dtype)
    order = rng.permutation(n)
    there = call(name, *(a[order] for a in arrays))
    here = call(name, *arrays)
    different = np.nonzero(~same_bits(there, here[order]))[0]
    assert not different.size, [[a[order[i]] for a in arrays] for i in different[:3]]


def test_one_alone(rng: np.random.Generator) -> None:
    """As the loop above, for what converges at a rate of its own."""
    a, x = np.exp(rng.uniform(-2, 4, (2, 40)))
    for name in ("gammainc", "gammaincc", "standard_gamma_grad"):
        together = call(name, a, x)
        alone = [call(name, a[i : i + 1], x[i : i + 1])[0] for i in range(len(a))]
        np.testing.assert_array_equal(together, alone)
