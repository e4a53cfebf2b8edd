"""Inside `autocast` every operation gives the dtypes that PyTorch's gives: each sample of the op
table, in float32 and in bfloat16. Which operations have a policy is read off PyTorch itself."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from op_rows import Op
from op_samples import OPS
from sampling import Sample, arrays_in, build, dtype_name, flat
from tinyt.ops import autocast

# PyTorch's names of what is called otherwise here, and of what is inside a function here.
OTHER_NAMES = {
    "cross_entropy_loss": "cross_entropy",
    "grid_sampler": "grid_sample",
    "grid_sampler_2d": "grid_sample",
    "grid_sampler_3d": "grid_sample",
    "linalg_vecdot": "vecdot",
    "nll_loss2d": "nll_loss",
}


def policies() -> list[str]:
    """Operations that PyTorch has a policy for and that exist here, by our names."""
    found = set()
    for path in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"):
        name = path.removeprefix("aten::").partition(".")[0]
        name = OTHER_NAMES.get(name, name)
        in_linalg = name.startswith("linalg_") and name.removeprefix("linalg_")
        if (
            hasattr(tinyt, name)
            or hasattr(tinyt.nn.functional, name)
            or (in_linalg and hasattr(tinyt.linalg, in_linalg))
        ):
            found.add(name)
    return sorted(found)


@pytest.mark.parametrize("name", policies())
def test_policies(name: str) -> None:
    assert autocast.policy_of(name) is not None


def test_names_exist() -> None:
    for name in autocast.LOWER | autocast.FULL | autocast.WIDEST:
        spaces = (tinyt, tinyt.nn.functional, tinyt.linalg)
        assert any(hasattr(space, name.removeprefix("linalg_")) for space in spaces), name


def cast(tt: Any, value: Any, dtype: str) -> Any:
    """An argument with its float32 tensors in another dtype."""
    if isinstance(value, tt.Tensor):
        return value.to(getattr(tt, dtype)) if value.dtype is tt.float32 else value
    return type(value)(cast(tt, x, dtype) for x in value) if type(value) in (list, tuple) else value


def call(tt: Any, op: Op, sample: Sample, dtype: str) -> list[str] | str:
    """Names of the dtypes of the results; the error where the call is refused."""
    args, kwargs = build(tt, sample.args), build(tt, sample.kwargs)
    try:
        with tt.autocast("cpu", dtype=tt.bfloat16):
            out = op.function(tt)(*cast(tt, args, dtype), **kwargs)
    except Exception as error:
        return repr(error)
    return [dtype_name(x) for x in flat(out) if isinstance(x, tt.Tensor)]


def is_excused(op: Op, sample: Sample) -> bool:
    """Of more than two operands the order of the products decides which dtypes meet in them, and
    the two libraries choose it by different rules."""
    return op.name == "einsum" and len(arrays_in(sample.args)) > 2


def differences(op: Op, dtype: str, rng: np.random.Generator) -> list[str]:
    """Samples whose results have other dtypes than PyTorch's."""
    found = []
    for sample in op.samples(rng, "float32"):
        want = call(torch, op, sample, dtype)
        got = call(tinyt, op, sample, dtype)
        if isinstance(want, list) and got != want and not is_excused(op, sample):
            found.append(f"{sample}: {got}, not {want}")
    return found


DTYPES = ("float32", "bfloat16")
FLOATING = [op for op in OPS if "float32" in op.dtypes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", FLOATING, ids=lambda op: op.name)
def test_dtypes(op: Op, dtype: str, rng: np.random.Generator) -> None:
    assert differences(op, dtype, rng) == []


def recurrent_dtypes(tt: Any, layer: str, form: str, dtype: str) -> list[str]:
    """Of the output and the states of a recurrent layer under autocast."""
    kind, _, name = layer.rpartition(" ")
    size = 2 if kind == "projected" else 0
    options = {"bidirectional": kind == "bidirectional"} | ({"proj_size": size} if size else {})
    module = getattr(tt.nn, name)(3, 4, **options)
    x = tt.ones(5, 2, 3, dtype=getattr(tt, dtype))
    if form == "packed":
        x = tt.nn.utils.rnn.pack_padded_sequence(x, [5, 4])
    lead = (1 + options["bidirectional"], 2)
    states = [tt.zeros(*lead, size or 4, dtype=getattr(tt, dtype))]
    if name == "LSTM":
        states.append(tt.zeros(*lead, 4, dtype=getattr(tt, dtype)))
    hx = (tuple(states) if name == "LSTM" else states[0]) if form == "states" else None
    with tt.autocast("cpu"):
        out, last = module(x[:, 0] if form == "one sequence" else x, hx)
    tensors = [out.data if form == "packed" else out, *flat(last)]
    return [dtype_name(t) for t in tensors]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("form", ["zeros", "states", "one sequence", "packed"])
@pytest.mark.parametrize("layer", ["RNN", "GRU", "LSTM", "bidirectional LSTM", "projected LSTM"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_recurrent_layers(layer: str, form: str, dtype: str) -> None:
    """The output's and the states' dtypes."""
    try:
        want = recurrent_dtypes(torch, layer, form, dtype)
    except RuntimeError as error:
        if "could not create a primitive" not in str(error):
            raise
        pytest.skip("PyTorch has no LSTM of bfloat16 on a processor without AVX-512")
    assert recurrent_dtypes(tinyt, layer, form, dtype) == want


SWITCHES = {
    "enabled": lambda tt, device: tt.is_autocast_enabled(device),
    "dtype": lambda tt, device: str(tt.get_autocast_dtype(device)).rpartition(".")[2],
    "set enabled": lambda tt, device: tt.set_autocast_enabled(device, False),
    "set dtype": lambda tt, device: tt.set_autocast_dtype(device, tt.get_autocast_dtype(device)),
    "block": lambda tt, device: tt.autocast(device, enabled=False).device,
}


@pytest.mark.parametrize("device", ["cpu", "cpu:0", "cuda", "cuda:0", "foo", "tpu:0", "", "CPU", 3])
@pytest.mark.parametrize("switch", SWITCHES)
def test_devices(switch: str, device: Any) -> None:
    """The answer, or the error's class."""
    found: list[Any] = []
    for tt in (tinyt, torch):
        try:
            found.append(SWITCHES[switch](tt, device))
        except Exception as error:
            found.append(type(error))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int64", None, 3])
def test_lower_precisions(dtype: Any) -> None:
    """Those that can be set, and those that a block takes: the product's dtype there."""
    found: list[list[Any]] = []
    for tt in (tinyt, torch):
        to = getattr(tt, dtype) if isinstance(dtype, str) else dtype
        seen: list[Any] = []
        before = tt.get_autocast_dtype("cpu")
        try:
            tt.set_autocast_dtype("cpu", to)
            tt.set_autocast_enabled("cpu", True)
            seen.append(dtype_name(tt.ones(2, 2) @ tt.ones(2, 2)))
        except TypeError as error:
            seen.append(type(error))
        finally:
            tt.set_autocast_enabled("cpu", False)
            tt.set_autocast_dtype("cpu", before)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if isinstance(dtype, str):
                with tt.autocast("cpu:0", dtype=to):
                    seen.append(dtype_name(tt.ones(2, 2) @ tt.ones(2, 2)))
                    seen.append(str(tt.get_autocast_dtype("cpu")).rpartition(".")[2])
        found.append([*seen, len(caught)])
    assert found[0] == found[1]


def network(tt: Any) -> Any:
    """Convolution, norm, products, attention: what has a policy and what has none."""
    nn = tt.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.head = nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            x = tt.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
            x = self.layer(self.attention(x, x, x)[0])
            return self.head(x.mean(1)) + x.mean(1) @ self.head.weight.t()

    return Network()


def trained(
    tt: Any, state: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, *, exact: bool = False
) -> dict[str, Any]:
    """Dtypes, loss and gradients of one step; an exact one is in float64."""
    model = network(tt)
    model.load_state_dict({name: tt.from_numpy(value) for name, value in state.items()})
    images = tt.from_numpy(x)
    if exact:
        model, images = model.double(), images.double()
    with tt.autocast("cpu", dtype=tt.bfloat16, enabled=not exact):
        out = model(images)
        loss = tt.nn.functional.cross_entropy(out, tt.from_numpy(y))
    loss.backward()
    return {
        "dtypes": [dtype_name(t) for t in (out, loss, model.head.weight.grad)],
        "loss": loss.item(),
        "grads": np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]),
    }


def test_training_steps(rng: np.random.Generator) -> None:
    """The gradients of drawn networks are no further from float64's than PyTorch's are: a distance
    of rounding alone, which differs between networks tenfold."""
    ratios = []
    for _ in range(24):
        state = {name: value.numpy() for name, value in network(torch).state_dict().items()}
        x = rng.standard_normal((4, 3, 6, 6)).astype(np.float32)
        y = rng.integers(0, 5, 4)
        got, want = trained(tinyt, state, x, y), trained(torch, state, x, y)
        assert got["dtypes"] == want["dtypes"] == ["bfloat16", "float32", "float32"]
        assert got["loss"] == pytest.approx(want["loss"], rel=0.01)
        exact = trained(torch, state, x, y, exact=True)["grads"]
        ours, theirs = (np.linalg.norm(run["grads"] - exact) for run in (got, want))
        ratios.append(ours / theirs)
    assert np.exp(np.log(ratios).mean()) <= 1.1


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["float32", "bool"])
def test_masked_attention(kind: str, need_weights: bool, rng: np.random.Generator) -> None:
    """The output's and the weights' dtypes, whatever the mask's."""
    x, mask = rng.standard_normal((2, 4, 8)).astype(np.float32), np.triu(np.ones((4, 4)), 1)
    found = []
    for tt in (tinyt, torch):
        layer = tt.nn.MultiheadAttention(8, 2, batch_first=True)
        seen = tt.from_numpy(-mask.astype(np.float32) if kind == "float32" else mask > 0)
        with tt.autocast("cpu", dtype=tt.bfloat16):
            out = layer(*[tt.from_numpy(x)] * 3, attn_mask=seen, need_weights=need_weights)
        found.append([t if t is None else dtype_name(t) for t in out])
    assert found[0] == found[1]


@pytest.mark.parametrize("indices", [False, True])
def test_fractional_pooling_is_in_float32(indices: bool) -> None:
    def dtypes(tt: Any) -> list[str]:
        image, samples = tt.ones(1, 1, 4, 4, dtype=tt.bfloat16), tt.full((1, 1, 2), 0.5)
        with tt.autocast("cpu"):
            found = tt.nn.functional.fractional_max_pool2d(
                image, 2, 2, return_indices=indices, _random_samples=samples.bfloat16()
            )
        return [dtype_name(x) for x in flat(found)]

    assert dtypes(tinyt) == dtypes(torch)
