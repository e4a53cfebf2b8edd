"""The table is whole: every public operation has a row, an alias, or a test of its own; and every
name promised in surface.txt is there in each of its forms."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import tinyt
from op_samples import ALIASES, BY_NAME
from sampling import assert_same_bits, build
from tinyt.ops import inplace

# Operations that a reference of their values does not describe.
ELSEWHERE = {
    "unit/test_ctc.py": {"ctc_loss"},
    "unit/test_sequence_layers.py": {"multi_head_attention_forward"},
    "unit/test_complex.py": {"is_complex", "is_conj", "is_floating_point", "is_neg"},
    "unit/test_tensor.py": {"allclose", "clone", "equal", "is_tensor", "broadcast_shapes"},
    "unit/test_tensor_class.py": {"is_nonzero", "is_same_size"},
    "unit/test_views.py": {"numel"},
    "unit/test_interop.py": {"as_tensor", "asarray", "from_dlpack", "from_numpy"},
    "unit/test_memory.py": {"empty", "empty_like"},
    "unit/test_creation.py": {"empty_permuted", "empty_strided"},
    "unit/test_dropout.py": {
        "alpha_dropout_",
        "dropout_",
        "feature_alpha_dropout_",
        "feature_dropout",
        "feature_dropout_",
    },
    "unit/test_older_names.py": {
        "_weight_norm",
        "bartlett_window",
        "blackman_window",
        "conv_tbc",
        "detach",
        "fill",
        "frombuffer",
        "get_device",
        "hamming_window",
        "hann_window",
        "is_signed",
        "kaiser_window",
        "norm_except_dim",
        "range",
        "unsafe_chunk",
        "unsafe_split",
        "unsafe_split_with_sizes",
        "vander",
    },
    "unit/test_inplace_functions.py": {"embedding_renorm_", *inplace.NAMES},
    "unit/test_activation.py": {
        "celu_",
        "elu_",
        "gumbel_softmax",
        "hardtanh_",
        "leaky_relu_",
        "relu_",
        "rrelu_",
        "selu_",
        "threshold_",
    },
    "unit/test_variates.py": {
        "_sample_dirichlet",
        "_sample_von_mises",
        "_standard_gamma",
        "binomial",
        "poisson",
    },
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
    names = {*tinyt.ops.EXPORTS, *tinyt.ops.FUNCTIONAL}
    assert sorted(names - known) == []


def promises() -> list[list[str]]:
    """Name, flags and aliases of every line."""
    text = (Path(__file__).parents[1] / "surface.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def is_there(name: str) -> bool:
    try:
        attrgetter(name)(tinyt)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: promise[0])
def test_promised_forms(promise: list[str]) -> None:
    name, flags, *aliases = promise
    short = name.rpartition(".")[2]
    forms = {name: is_there(name) or is_there(f"Tensor.{short}") or is_there(f"Tensor.{short}_")}
    if "m" in flags:
        forms[f"Tensor.{short}"] = is_there(f"Tensor.{short}")
    if "i" in flags and not short.endswith("_"):
        forms[f"{short}_"] = is_there(f"{name}_") or is_there(f"Tensor.{short}_")
    forms.update((alias, is_there(alias)) for alias in aliases)
    assert [form for form, there in forms.items() if not there] == []


def test_promises_are_differentiable() -> None:
    """As far as a row tells: those of the flag g have gradient tests."""
    rows = {op.name: op for op in BY_NAME.values()}
    lost = [
        name
        for name, flags, *_ in promises()
        if "g" in flags and (op := rows.get(name.rpartition(".")[2])) and not op.grad
    ]
    assert lost == []


@pytest.mark.parametrize("alias", ALIASES)
def test_alias(alias: str, rng: np.random.Generator) -> None:
    """The same values, as a function and as a method."""
    op = BY_NAME[ALIASES[alias]]
    sample = op.samples(rng, op.dtypes[0])[-1]
    args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
    want = op.function(tinyt)(*args, **kwargs)
    assert_same_bits(getattr(tinyt, alias)(*args, **kwargs), want)
    if op.method:
        assert_same_bits(getattr(args[0], alias)(*args[1:], **kwargs), want)
