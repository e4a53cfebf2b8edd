"""Weights that are computed from others: parametrizations and norms, as PyTorch has them."""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import numpy as np
import pytest

import tinyt

torch = pytest.importorskip("torch")
importlib.import_module("torch.nn.utils.parametrizations")  # PyTorch loads it when asked


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """What PyTorch's optimisers import at their first step keeps the frames below it alive."""
    param = torch.nn.Parameter(torch.zeros(1))
    param.grad = torch.ones(1)
    torch.optim.SGD([param]).step()


KINDS = ["weight_norm", "spectral_norm", "parametrizations.weight_norm",
         "parametrizations.spectral_norm"]  # fmt: skip
LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear": (3, 4),
    "Conv1d": (3, 4, 2),
    "Conv2d": (3, 4, 2),
    "ConvTranspose2d": (3, 4, 2),
}
INPUTS = {"Linear": (5, 3), "Conv1d": (2, 3, 6), "Conv2d": (2, 3, 5, 5),
          "ConvTranspose2d": (2, 3, 4, 4)}  # fmt: skip


def applied(tt: Any, kind: str, layer: Any, **options: Any) -> Any:
    function = tt.nn.utils
    for part in kind.split("."):
        function = getattr(function, part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return function(layer, **options)


def pair(kind: str, layer: str, **options: Any) -> tuple[Any, Any]:
    """The same layer in both libraries, with the same values."""
    theirs, ours = (
        applied(tt, kind, getattr(tt.nn, layer)(*LAYERS[layer], dtype=tt.float64), **options)
        for tt in (torch, tinyt)
    )
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def trained(tt: Any, net: Any, values: list[np.ndarray[Any, Any]]) -> list[Any]:
    """Losses of some steps, one with two calls of the layer."""
    optimizer = tt.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for value in values:
        optimizer.zero_grad()
        x = tt.tensor(value)
        loss = (net(x) ** 2).mean() - 0.1 * net(x * 0.5).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    return [*losses, net(tt.tensor(values[0])).sum().item()]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", KINDS)
def test_training(kind: str, layer: str, rng: np.random.Generator) -> None:
    theirs, ours = pair(kind, layer)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert repr(ours) == repr(theirs)
    values = [rng.normal(size=INPUTS[layer]) for _ in range(5)]
    expected = trained(torch, theirs, values)
    np.testing.assert_allclose(trained(tinyt, ours, values), expected, rtol=1e-10)
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), rtol=1e-9)
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("weight_norm", {"dim": None}),
        ("weight_norm", {"dim": 1}),
        ("parametrizations.weight_norm", {"dim": None}),
        ("parametrizations.weight_norm", {"dim": -2}),
        ("parametrizations.weight_norm", {"name": "bias"}),
        ("spectral_norm", {"n_power_iterations": 3, "eps": 1e-3}),
        ("spectral_norm", {"dim": 1}),
        ("parametrizations.spectral_norm", {"n_power_iterations": 2, "dim": -1}),
        ("parametrizations.spectral_norm", {"name": "bias"}),
    ],
)
def test_options(kind: str, options: dict[str, Any], rng: np.random.Generator) -> None:
    theirs, ours = pair(kind, "Linear", **options)
    values = [rng.normal(size=(5, 3)) for _ in range(3)]
    expected = trained(torch, theirs, values)
    np.testing.assert_allclose(trained(tinyt, ours, values), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_removal(kind: str, rng: np.random.Generator) -> None:
    theirs, ours = pair(kind, "Linear")
    for tt, net in ((torch, theirs), (tinyt, ours)):
        trained(tt, net, [rng.normal(size=(5, 3)) * 0 + 1.0])
        with pytest.raises(RuntimeError, match="Cannot register two"):
            applied(tt, kind, net)
        getattr(tt.nn.utils, f"remove_{kind}")(net)
        with pytest.raises(ValueError, match=f"{kind} of 'weight' not found"):
            getattr(tt.nn.utils, f"remove_{kind}")(net)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy())
    assert isinstance(ours.weight, tinyt.nn.Parameter)
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    assert not ours._forward_pre_hooks
    assert not ours._forward_hooks


def module_of(tt: Any, what: str) -> Any:
    class Double(tt.nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x

        def right_inverse(self, x: Any) -> Any:
            return x / 2

    class Shift(tt.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1

    class Pair(tt.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a * b

        def right_inverse(self, x: Any) -> Any:
            return x, tt.ones_like(x)

    class Odd(tt.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:1] if what == "shape" else x.float() if what == "dtype" else [x]

    class OddBack(tt.nn.Module):
        def forward(self, x: Any) -> Any:
            return x

        def right_inverse(self, x: Any) -> Any:
            return x.float() if what == "back" else 3 if what == "number" else (x, 3)

    odd = {"shape": Odd, "dtype": Odd, "list": Odd}
    kinds = {"double": Double, "shift": Shift, "pair": Pair, **odd}
    return kinds.get(what, OddBack)()


def parametrized(tt: Any, *kinds: str, **options: Any) -> Any:
    layer = tt.nn.Linear(2, 2, dtype=tt.float64)
    with tt.no_grad():
        layer.weight.copy_(tt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    for kind in kinds:
        tt.nn.utils.parametrize.register_parametrization(
            layer, "weight", module_of(tt, kind), **options
        )
    return layer


def chain(tt: Any) -> Any:
    layer = parametrized(tt, "double", "shift", "double")
    made = layer.parametrizations.weight
    seen = [layer.weight.tolist(), made.original.tolist(), repr(layer), list(layer.state_dict())]
    layer.weight.sum().backward()
    seen.append(made.original.grad.tolist())
    return seen


def assignment(tt: Any) -> Any:
    layer = parametrized(tt, "double")
    layer.weight = tt.full((2, 2), 6.0, dtype=tt.float64)
    return layer.weight.tolist(), layer.parametrizations.weight.original.tolist()


def assignment_without_inverse(tt: Any) -> Any:
    layer = parametrized(tt, "shift")
    layer.weight = tt.ones(2, 2, dtype=tt.float64)


def several_originals(tt: Any) -> Any:
    layer = parametrized(tt, "pair", "double")
    layer.weight = tt.full((2, 2), 6.0, dtype=tt.float64)
    made = layer.parametrizations.weight
    return list(layer.state_dict()), made.original0.tolist(), made.ntensors, made.is_tensor


def removal(tt: Any) -> Any:
    seen = []
    for kinds in (("double",), ("shift", "double"), ("pair",)):
        for leave in (True, False):
            layer = parametrized(tt, *kinds)
            inner = tt.nn.utils.parametrize
            before = [inner.is_parametrized(layer), inner.is_parametrized(layer, "bias")]
            names = [inner.type_before_parametrizations(layer).__name__, type(layer).__name__]
            if kinds == ("pair",) and not leave:
                with pytest.raises(ValueError, match="Cannot leave unparametrized"):
                    inner.remove_parametrizations(layer, "weight", leave)
                continue
            inner.remove_parametrizations(layer, "weight", leave)
            with pytest.raises(ValueError, match="does not have a parametrization on weight"):
                inner.remove_parametrizations(layer, "weight")
            seen.append((before, names, type(layer).__name__, layer.weight.tolist()))
            seen.append([type(layer.weight).__name__, list(layer.state_dict())])
    return seen


def caching(tt: Any) -> Any:
    layer = parametrized(tt, "double")
    with tt.nn.utils.parametrize.cached():
        inside = layer.weight is layer.weight
        with tt.nn.utils.parametrize.cached():
            nested = layer.weight is layer.weight
    return inside, nested, layer.weight is layer.weight


def copies(tt: Any) -> Any:
    layer = parametrized(tt, "double")
    other = copy.deepcopy(layer)
    with tt.no_grad():
        layer.parametrizations.weight.original.fill_(0.0)
    return type(other).__name__, other.weight.tolist(), layer.weight.tolist(), repr(other)


def buffers(tt: Any) -> Any:
    layer = tt.nn.BatchNorm1d(2)
    inner = tt.nn.utils.parametrize
    inner.register_parametrization(layer, "running_mean", module_of(tt, "shift"))
    seen = [list(layer.state_dict()), layer.running_mean.tolist()]
    inner.remove_parametrizations(layer, "running_mean")
    return seen, sorted(layer.state_dict()), type(layer.running_mean).__name__


def transfer(tt: Any) -> Any:
    source, target = parametrized(tt, "double"), parametrized(tt)
    tt.nn.utils.parametrize.transfer_parametrizations_and_params(source, target)
    pairs, other = parametrized(tt, "pair"), parametrized(tt)
    tt.nn.utils.parametrize.transfer_parametrizations_and_params(pairs, other, "weight")
    return target.weight.tolist(), list(target.state_dict()), list(other.state_dict())


def training_mode(tt: Any) -> Any:
    layer = parametrized(tt).eval()
    tt.nn.utils.parametrize.register_parametrization(layer, "weight", module_of(tt, "double"))
    return layer.parametrizations.weight[0].training


def unsafe(tt: Any) -> Any:
    layer = parametrized(tt, "shape", unsafe=True)
    return layer.weight.tolist(), layer.parametrizations.weight.unsafe


def pickled(tt: Any) -> Any:
    parametrized(tt, "double").__getstate__()


CASES = [chain, assignment, several_originals, removal, caching, copies, buffers, transfer,
         training_mode, unsafe]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_parametrize(case: Any) -> None:
    assert case(tinyt) == case(torch)


@pytest.mark.parametrize("kinds", [("shape",), ("dtype",), ("list",), ("back",), ("number",),
                                   ("parts",), ("double", "shape"), ("double", "dtype"),
                                   ("double", "list"), ("double", "back"), ("double", "number"),
                                   ("double", "parts")])  # fmt: skip
def test_what_changes_the_kind(kinds: tuple[str, ...]) -> None:
    for tt in (torch, tinyt):
        with pytest.raises(ValueError, match=r"dtype|shape|return|[Ss]equence"):
            parametrized(tt, *kinds)


@pytest.mark.parametrize("case", [assignment_without_inverse, pickled])
def test_errors(case: Any) -> None:
    for tt in (torch, tinyt):
        with pytest.raises(RuntimeError):
            case(tt)


def test_no_such_tensor() -> None:
    for tt in (torch, tinyt):
        with pytest.raises(ValueError, match="does not have a parameter, a buffer"):
            tt.nn.utils.parametrize.register_parametrization(
                tt.nn.Linear(1, 1), "w", module_of(tt, "double")
            )
        with pytest.raises(ValueError, match="has no parameter or buffer"):
            tt.nn.utils.parametrizations.spectral_norm(tt.nn.Linear(1, 1), "w")
        with pytest.raises(ValueError, match="n_power_iterations"):
            tt.nn.utils.parametrizations.spectral_norm(tt.nn.Linear(1, 1), n_power_iterations=0)
        with pytest.raises(IndexError):
            tt.nn.utils.parametrizations.spectral_norm(tt.nn.Linear(1, 1), dim=2)


def test_older_state_dicts() -> None:
    old = applied(torch, "weight_norm", torch.nn.Linear(3, 4)).state_dict()
    for tt in (torch, tinyt):
        layer = applied(tt, "parametrizations.weight_norm", tt.nn.Linear(3, 4))
        layer.load_state_dict(old)
        np.testing.assert_array_equal(
            layer.parametrizations.weight.original0.detach().numpy(), old["weight_g"].numpy()
        )


@pytest.mark.parametrize("dim", [-1, 0, 1, 2])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1, 1)])
def test_norm_except_dim(dim: int, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    value = rng.normal(size=shape)
    ours, theirs = (tt.norm_except_dim(tt.tensor(value), 2, dim) for tt in (tinyt, torch))
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-14)
    ours, theirs = (
        tt._weight_norm(tt.tensor(value), tt.norm_except_dim(tt.tensor(value * 2), 2, dim), dim)
        for tt in (tinyt, torch)
    )
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-14)


def functional(tt: Any) -> Any:
    net = tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.BatchNorm1d(2))
    for i, p in enumerate(net.parameters()):
        with tt.no_grad():
            p.fill_(i + 1.0)
    call = tt.nn.utils.stateless.functional_call if tt is tinyt else tt.func.functional_call
    x = tt.tensor([[1.0, 2.0], [3.0, 5.0]])
    mean = tt.zeros(2)
    seen = [
        call(net, {"0.weight": tt.eye(2), "1.running_mean": mean}, (x,)).detach().numpy().round(5),
        mean.tolist(),
        net[0].weight.tolist(),
        net[1].running_mean.tolist(),
        call(net, ({"0.weight": tt.eye(2)}, {"0.bias": tt.zeros(2)}), x).shape,
    ]
    with pytest.raises(RuntimeError, match="Missing"):
        call(net, {"0.weight": tt.eye(2)}, x, strict=True)
    seen.append(call(net, {"0.nothing": tt.eye(2)}, x).shape)
    with pytest.raises(AttributeError, match="7"):
        call(net, {"7.weight": tt.eye(2)}, x)
    return str(seen).replace("tinyt", "torch")


def test_functional_call() -> None:
    assert functional(tinyt) == functional(torch)


def tied(tt: Any) -> Any:
    net = tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    call = tt.nn.utils.stateless.functional_call if tt is tinyt else tt.func.functional_call
    zeros = {"0.bias": tt.zeros(2), "1.bias": tt.zeros(2)}
    seen = [call(net, {**zeros, "0.weight": 2 * tt.eye(2)}, tt.ones(2)).tolist()]
    with pytest.raises(ValueError, match=r"tied|appears in|multiple"):
        call(net, {"0.weight": tt.eye(2), "1.weight": tt.ones(2, 2)}, tt.ones(2))
    return seen


def test_tied_weights() -> None:
    assert tied(tinyt) == tied(torch)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_fusion(transpose: bool, bias: bool, affine: bool, rng: np.random.Generator) -> None:
    kind = "ConvTranspose2d" if transpose else "Conv2d"
    theirs, ours = (
        tt.nn.Sequential(
            getattr(tt.nn, kind)(3, 4, 2, bias=bias), tt.nn.BatchNorm2d(4, affine=affine)
        ).double()
        for tt in (torch, tinyt)
    )
    for _ in range(2):
        theirs(torch.tensor(rng.normal(size=(4, 3, 5, 5))))
    ours.load_state_dict(theirs.state_dict())
    fused = [
        tt.nn.utils.fuse_conv_bn_eval(*net.eval(), transpose=transpose)
        for tt, net in ((torch, theirs), (tinyt, ours))
    ]
    for name, value in fused[0].state_dict().items():
        np.testing.assert_allclose(fused[1].state_dict()[name].numpy(), value.numpy(), rtol=1e-12)
    x = rng.normal(size=(2, 3, 5, 5))
    np.testing.assert_allclose(
        fused[1](tinyt.tensor(x)).detach().numpy(),
        ours(tinyt.tensor(x)).detach().numpy(),
        atol=1e-10,
    )
    with pytest.raises(AssertionError, match="only for eval"):
        tinyt.nn.utils.fuse_conv_bn_eval(*ours.train())


def test_fusion_of_linear() -> None:
    theirs, ours = (
        tt.nn.Sequential(tt.nn.Linear(3, 4), tt.nn.BatchNorm1d(4)).eval() for tt in (torch, tinyt)
    )
    theirs[1].running_var.fill_(3.0)
    ours.load_state_dict(theirs.state_dict())
    a, b = (tt.nn.utils.fuse_linear_bn_eval(*net) for tt, net in ((torch, theirs), (tinyt, ours)))
    np.testing.assert_allclose(b.weight.detach().numpy(), a.weight.detach().numpy(), rtol=1e-6)
    wrong = tinyt.nn.BatchNorm1d(3).eval()
    with pytest.raises(AssertionError, match="To fuse"):
        tinyt.nn.utils.fuse_linear_bn_eval(ours[0], wrong)


def test_skip_init() -> None:
    for tt in (torch, tinyt):
        layer = tt.nn.utils.skip_init(tt.nn.Linear, 5, out_features=2, dtype=tt.float64)
        assert layer.weight.shape == (2, 5)
        assert layer.weight.dtype == tt.float64
        assert layer.weight.requires_grad
        with pytest.raises(RuntimeError, match="Expected a Module"):
            tt.nn.utils.skip_init(int)
        with pytest.raises(RuntimeError, match="device"):
            tt.nn.utils.skip_init(tt.nn.Identity if tt is torch else tt.nn.ReLU)


SIZES = [(4, 4), (6, 3), (3, 6), (2, 5, 3), (3, 2, 2), (1, 1)]


class Holder:
    """A module with a weight of any shape, in either library."""

    @staticmethod
    def of(tt: Any, value: np.ndarray[Any, Any]) -> Any:
        made = tt.nn.Module()
        made.weight = tt.nn.Parameter(tt.tensor(value))
        return made


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("kind", ["matrix_exp", "householder"])
@pytest.mark.parametrize("shape", SIZES)
def test_orthogonal(
    shape: tuple[int, ...], kind: str, base: bool, rng: np.random.Generator
) -> None:
    value = rng.normal(size=shape)
    theirs, ours = Holder.of(torch, value), Holder.of(tinyt, value)
    for tt, module in ((torch, theirs), (tinyt, ours)):
        tt.nn.utils.parametrizations.orthogonal(
            module, orthogonal_map=kind, use_trivialization=base
        )
    assert repr(ours.parametrizations) == repr(theirs.parametrizations)
    if base and shape[-1] != shape[-2]:  # completed by random columns: another base each
        q = ours.weight.detach().numpy()
        tall = q.swapaxes(-1, -2) if shape[-2] < shape[-1] else q
        identity = np.broadcast_to(np.eye(tall.shape[-1]), (*shape[:-2], *[tall.shape[-1]] * 2))
        np.testing.assert_allclose(tall.swapaxes(-1, -2) @ tall, identity, atol=1e-12)
        ours.load_state_dict(theirs.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    np.testing.assert_allclose(
        ours.weight.detach().numpy(), theirs.weight.detach().numpy(), atol=1e-12
    )
    weights = rng.normal(size=shape)
    for tt, module in ((torch, theirs), (tinyt, ours)):
        optimizer = tt.optim.SGD(module.parameters(), lr=0.3)
        for _ in range(3):
            optimizer.zero_grad()
            (module.weight * tt.tensor(weights)).sum().backward()
            optimizer.step()
    np.testing.assert_allclose(
        ours.weight.detach().numpy(), theirs.weight.detach().numpy(), atol=1e-11
    )
    for name, held in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), held.numpy(), atol=1e-11)


@pytest.mark.parametrize("size", [0.0, 1e-8, 0.3, 3.0, 40.0, 900.0])
def test_exponential(size: float, rng: np.random.Generator) -> None:
    from scipy.linalg import expm

    from tinyt.nn.utils.orthogonal import exponential

    value = rng.normal(size=(2, 5, 5)) * size
    value = value - value.swapaxes(-1, -2)
    found = exponential(tinyt.tensor(value)).numpy()
    np.testing.assert_allclose(found, np.stack([expm(x) for x in value]), atol=1e-11)


def test_assignment_and_errors_of_orthogonal() -> None:
    make = tinyt.nn.utils.parametrizations.orthogonal
    layer = make(tinyt.nn.Linear(3, 3, dtype=tinyt.float64))
    turn = tinyt.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=tinyt.float64)
    layer.weight = turn
    assert tinyt.allclose(layer.weight, turn, atol=1e-14)
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices of shape"):
        layer.weight = tinyt.ones(2, 2, dtype=tinyt.float64)
    plain = make(tinyt.nn.Linear(3, 3), use_trivialization=False)
    with pytest.raises(NotImplementedError, match="not possible to assign"):
        plain.weight = tinyt.eye(3)
    with pytest.raises(NotImplementedError, match="needs a solver"):
        make(tinyt.nn.Linear(3, 3), orthogonal_map="cayley")
    with pytest.raises(ValueError, match="has to be one of"):
        make(tinyt.nn.Linear(3, 3), orthogonal_map="qr")
    with pytest.raises(ValueError, match="of 1 dimensions"):
        make(tinyt.nn.Linear(3, 3), "bias")
    with pytest.raises(ValueError, match="has no parameter or buffer"):
        make(tinyt.nn.Linear(3, 3), "w")
