"""`out=` wherever PyTorch takes it. Which functions those are is found by calling PyTorch's: each
is called as the row of the op table says, once more with `out=`, and where that is accepted ours
must accept it too, return it, and have written the same values there as without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from op_rows import Op
from op_samples import ALIASES, OPS
from sampling import assert_same_bits, build, flat

SPACES = ("", "nn.functional", "linalg", "special")
OTHER_NAMES = ALIASES | {
    "expit": "sigmoid",
    "gammaln": "lgamma",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
}
# What has no row, and what PyTorch's function takes in another way than the row says.
CALLS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "bartlett_window": lambda tt: (4,),
    "blackman_window": lambda tt: (4,),
    "conv_tbc": lambda tt: (tt.ones(5, 2, 3), tt.ones(2, 3, 4), tt.zeros(4)),
    "fill": lambda tt: (tt.ones(3), 2.0),
    "fractional_max_pool2d": lambda tt: (tt.ones(1, 4, 4), 2, 2),
    "fractional_max_pool3d": lambda tt: (tt.ones(1, 4, 4, 4), 2, 2),
    "from_file": lambda tt: (__file__, False, 4),
    "hamming_window": lambda tt: (4,),
    "hann_window": lambda tt: (4,),
    "kaiser_window": lambda tt: (4,),
    "range": lambda tt: (0, 3),
    "unsafe_split": lambda tt: (tt.ones(4), 2),
    "unsafe_split_with_sizes": lambda tt: (tt.ones(4), [1, 3]),
    "bernoulli": lambda tt: (tt.full((5,), 0.5),),
    "binomial": lambda tt: (tt.full((5,), 3.0), tt.full((5,), 0.5)),
    "clone": lambda tt: (tt.ones(3),),
    "empty": lambda tt: ((2, 3),),
    "empty_like": lambda tt: (tt.ones(3),),
    "empty_permuted": lambda tt: ((2, 3), (1, 0)),
    "empty_strided": lambda tt: ((2, 3), (3, 1)),
    "multinomial": lambda tt: (tt.ones(5), 2),
    "normal": lambda tt: (tt.zeros(5), tt.ones(5)),
    "poisson": lambda tt: (tt.full((5,), 2.0),),
    "polygamma": lambda tt: (1, tt.ones(3)),
    "rand": lambda tt: ((2, 3),),
    "rand_like": lambda tt: (tt.ones(3),),
    "randint": lambda tt: (2, 9, (2, 3)),
    "randint_like": lambda tt: (tt.ones(3), 9),
    "randn": lambda tt: ((2, 3),),
    "randn_like": lambda tt: (tt.ones(3),),
    "randperm": lambda tt: (7,),
    "sort": lambda tt: (tt.ones(3), 0),
}
# PyTorch's functions that take `out=` and ours that do not: why.
WITHOUT: dict[str, str] = {}


def member(tt: Any, path: str) -> Any:
    return attrgetter(path)(tt)


def functions() -> Iterator[str]:
    """All functions that both packages have, with the module they are in."""
    for space in SPACES:
        ours, theirs = (member(tt, space) if space else tt for tt in (tinyt, torch))
        for name in sorted(set(dir(ours)) & set(dir(theirs))):
            function = getattr(ours, name)
            if name[0] != "_" and callable(function) and not isinstance(function, type):
                yield f"{space}.{name}".strip(".")


def rows(path: str) -> list[Op]:
    space, _, name = path.rpartition(".")
    name = OTHER_NAMES.get(name, name)
    return [op for op in OPS if op.call == path or op.name in (path, name, f"{space}_{name}")]


def calls(path: str, rng: np.random.Generator) -> Iterator[Callable[[Any], Any]]:
    """Functions that make the arguments of a call in a package."""
    besides = CALLS.get(path.rpartition(".")[2])
    if besides:
        yield lambda tt: (besides(tt), {})
        return
    for op in rows(path):
        for dtype in op.dtypes:
            for sample in op.samples(rng, dtype)[:6]:
                yield lambda tt, s=sample: (build(tt, s.args), build(tt, s.kwargs))


def blank(result: Any) -> Any:
    """Something for `out`: tensors like those of a result, filled with ones."""
    if isinstance(result, (tuple, list)):
        return tuple(x.new_ones(tuple(x.shape)) for x in result)
    return result.new_ones(tuple(result.shape))


def takes_out(path: str, arguments: Callable[[Any], Any]) -> bool | None:
    """Whether PyTorch's function does; None where this is no call of it."""
    function = member(torch, path)
    args, kwargs = arguments(torch)
    try:
        result = function(*args, **kwargs)
        results = list(flat(result))
        if not results or not all(isinstance(x, torch.Tensor) for x in results):
            return None
        out = blank(result)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        return None
    args, kwargs = arguments(torch)
    try:
        function(*args, **kwargs, out=out)
    except TypeError:
        return False
    return True


def has_out_form(path: str) -> bool:
    """Whether PyTorch's dispatcher knows such a form, which its function may or may not take."""
    space, _, name = path.rpartition(".")
    name = f"{space}_{name}" if space in ("linalg", "special") else name
    forms = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return any(argument.is_out for form in forms for argument in form.arguments)


def compare(path: str, arguments: Callable[[Any], Any]) -> None:
    function = member(tinyt, path)
    args, kwargs = arguments(tinyt)
    tinyt.manual_seed(0)
    want = function(*args, **kwargs)
    out = blank(want)
    tinyt.manual_seed(0)
    got = function(*args, **kwargs, out=out)
    for g, o, w in zip(flat(got), flat(out), flat(want), strict=True):
        assert g is o
        if not path.startswith("empty"):
            assert_same_bits(o, w, path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", list(functions()))
def test_out(path: str, rng: np.random.Generator) -> None:
    answers = set()
    for arguments in calls(path, rng):
        answer = takes_out(path, arguments)
        answers.add(answer)
        if answer and path not in WITHOUT:
            compare(path, arguments)
            break
    assert answers - {None} or not has_out_form(path), "nothing calls PyTorch's function"
    assert path not in WITHOUT or True in answers, "PyTorch's function does not take out="
