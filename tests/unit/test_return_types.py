"""Results with names: what they are, print as, and that they can be copied and pickled."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt import Tensor, return_types

X = tinyt.tensor([3.0, 1.0, 2.0])
CALLS: dict[str, Callable[..., Any]] = {
    "aminmax": lambda **out: tinyt.aminmax(X, **out),
    "cummax": lambda **out: tinyt.cummax(X, 0, **out),
    "cummin": lambda **out: tinyt.cummin(X, 0, **out),
    "frexp": lambda **out: tinyt.frexp(X, **out),
    "histogram": lambda **out: tinyt.histogram(X, 2, **out),
    "histogramdd": lambda **out: tinyt.histogramdd(X.reshape(1, 3), 2, **out),
    "kthvalue": lambda **out: tinyt.kthvalue(X, 2, **out),
    "linalg_cholesky_ex": lambda **out: tinyt.linalg.cholesky_ex(tinyt.eye(2), **out),
    "max": lambda **out: tinyt.max(X, 0, **out),
    "median": lambda **out: tinyt.median(X, 0, **out),
    "min": lambda **out: tinyt.min(X, 0, **out),
    "mode": lambda **out: tinyt.mode(X, **out),
    "nanmedian": lambda **out: tinyt.nanmedian(X, 0, **out),
    "sort": lambda **out: tinyt.sort(X, **out),
    "topk": lambda **out: tinyt.topk(X, 2, **out),
}


def test_every_type_belongs_to_a_function() -> None:
    assert {name.removesuffix("_out") for name in return_types.__all__} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_type_of_their_function(name: str) -> None:
    found = CALLS[name]()
    assert type(found) is getattr(return_types, name)
    assert isinstance(found, tuple)
    assert found.n_fields == found.n_sequence_fields == len(found) == 2
    first, second = found
    assert repr(found).startswith(f"tinyt.return_types.{name}(\n")
    if name != "histogramdd":
        pair = tinyt.empty_like(first), tinyt.empty_like(second)
        written = CALLS[name](out=pair)
        assert type(written) is getattr(return_types, name + "_out")
        assert written[0] is pair[0]
        assert written[1] is pair[1]


def test_fields() -> None:
    found = X.sort()
    assert found.values is found[0]
    assert found.indices is found[1]
    assert repr(found) == (
        "tinyt.return_types.sort(\nvalues=tensor([1., 2., 3.]),\nindices=tensor([1, 2, 0]))"
    )
    with pytest.raises(AttributeError):
        found.values = X  # type: ignore[misc]
    with pytest.raises(AttributeError):
        found.other = X  # type: ignore[attr-defined]


def test_made_from_a_sequence() -> None:
    pair = return_types.sort([1, 2])
    assert pair == (1, 2)
    assert pair.indices == 2
    with pytest.raises(TypeError, match=r"sort\(\) takes a 2-sequence \(3-sequence given\)"):
        return_types.sort((1, 2, 3))
    with pytest.raises(AttributeError, match="no attribute 'sorted'"):
        return_types.sorted  # noqa: B018


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    found = pickle.loads(pickle.dumps(X.max(0), protocol))
    assert type(found) is return_types.max
    assert (found.values.item(), found.indices.item()) == (3.0, 0)


def test_copies() -> None:
    found = X.topk(2)
    shallow, deep = copy.copy(found), copy.deepcopy(found)
    assert type(shallow) is type(deep) is return_types.topk
    assert shallow.values is found.values
    assert isinstance(deep.values, Tensor)
    assert deep.values.data_ptr() != found.values.data_ptr()
    assert deep.values.tolist() == found.values.tolist()


def test_types_are_made_when_they_are_needed() -> None:
    code = (
        "import tinyt, pickle; t = tinyt.return_types; assert 'mode' not in vars(t); "
        "assert 'mode' in dir(t); t.mode; assert 'mode' in vars(t)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
