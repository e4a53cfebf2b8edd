"""Modules and layers, against PyTorch's layers with the same weights."""

import copy
import math
from collections import OrderedDict

import numpy as np
import pytest

import tinyt
from layer_samples import LAYERS
from tinyt import nn, ops
from tinyt.nn import init

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")


def to_tinyt(value):
    """A tinyt copy of a PyTorch tensor or NumPy array."""
    array = value.detach().numpy() if hasattr(value, "detach") else value
    return ops.from_numpy(np.array(array))


def state_to_tinyt(state):
    return OrderedDict((name, to_tinyt(value)) for name, value in state.items())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, x):
        return self.head(self.body(x))


@needs_torch
@pytest.mark.filterwarnings("ignore:Using padding=.same.")  # PyTorch on even kernels
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "args", "kwargs", "shape"), LAYERS)
def test_layer_equals_pytorch(name, args, kwargs, shape, training):
    torch.manual_seed(1)
    theirs = getattr(torch.nn, name)(*args, **kwargs).train(training)
    ours = getattr(nn, name)(*args, **kwargs).train(training)
    for param in theirs.parameters():  # ones and zeros would hide a missing weight
        torch.nn.init.uniform_(param, 0.5, 1.5)
    ours.load_state_dict(state_to_tinyt(theirs.state_dict()))
    if isinstance(shape, int):
        x = torch.randint(shape, (4, 3))
        y = to_tinyt(x)
    else:
        x = torch.randn(shape)
        y = to_tinyt(x).requires_grad_()
        x.requires_grad_()
    for _ in range(2):  # twice, for running statistics
        expected, actual = theirs(x), ours(y)
        assert tuple(actual.shape) == tuple(expected.shape)
        np.testing.assert_allclose(
            actual.detach().numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-6
        )
    weights = torch.randn(expected.shape)
    if not expected.requires_grad:
        return
    (expected * weights).sum().backward()
    (actual * to_tinyt(weights)).sum().backward()
    pairs = [(x, y)] if x.requires_grad else []
    pairs += list(zip(theirs.parameters(), ours.parameters(), strict=True))
    for mine, other in pairs:
        np.testing.assert_allclose(other.grad.numpy(), mine.grad.numpy(), rtol=1e-4, atol=1e-5)
    for (key, mine), other in zip(
        theirs.state_dict().items(), ours.state_dict().values(), strict=True
    ):
        np.testing.assert_allclose(other.numpy(), mine.numpy(), rtol=1e-5, atol=1e-6, err_msg=key)


@needs_torch
@pytest.mark.parametrize(("name", "args", "kwargs", "shape"), LAYERS)
def test_layer_names_and_repr_are_pytorchs(name, args, kwargs, shape):
    theirs, ours = getattr(torch.nn, name)(*args, **kwargs), getattr(nn, name)(*args, **kwargs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    shapes = [tuple(value.shape) for value in ours.state_dict().values()]
    assert shapes == [tuple(value.shape) for value in theirs.state_dict().values()]
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert repr(ours) == repr(theirs)


def test_dropout_scales_and_stops_in_evaluation():
    tinyt.manual_seed(0)
    layer, ones = nn.Dropout(0.25), ops.ones(4000)
    values = layer(ones).numpy()
    np.testing.assert_allclose(np.unique(values), [0, 1 / 0.75], rtol=1e-6)
    assert abs((values == 0).mean() - 0.25) < 0.03
    np.testing.assert_array_equal(layer.eval()(ones).numpy(), 1)


# Initialisation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), 1 / math.sqrt(200)),
        (
            lambda t: init.kaiming_uniform_(t, nonlinearity="relu", mode="fan_out"),
            math.sqrt(6 / 300),
        ),
        (init.xavier_uniform_, math.sqrt(6 / 500)),
        (lambda t: init.uniform_(t, -0.3, 0.3), 0.3),
    ],
)
def test_uniform_initialisers_fill_their_range(fill, bound):
    tinyt.manual_seed(0)
    values = fill(ops.empty(300, 200)).numpy()
    assert -bound <= values.min() < -0.99 * bound
    assert 0.99 * bound < values.max() <= bound
    assert abs(values.mean()) < 0.02 * bound


@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (init.kaiming_normal_, 0, math.sqrt(2 / 200)),
        (lambda t: init.xavier_normal_(t, gain=2.0), 0, 2 * math.sqrt(2 / 500)),
        (lambda t: init.normal_(t, 3.0, 0.5), 3, 0.5),
    ],
)
def test_normal_initialisers_have_their_moments(fill, mean, std):
    tinyt.manual_seed(0)
    values = fill(ops.empty(300, 200)).numpy()
    assert abs(values.mean() - mean) < 0.02 * std
    assert abs(values.std() / std - 1) < 0.02


@needs_torch
def test_calculate_gain_equals_pytorch():
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain("leaky_relu", 0.2)
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("nothing")


def test_initialisers_refuse_what_has_no_fan():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(ops.empty(3))
    with pytest.raises(ValueError, match="Mode fan not supported"):
        init.kaiming_normal_(ops.empty(3, 3), mode="fan")


def test_default_initialisation_is_within_one_over_sqrt_fan_in():
    tinyt.manual_seed(0)
    for layer, fan_in in ((nn.Linear(64, 500), 64), (nn.Conv2d(4, 300, 3), 36)):
        for param in (layer.weight, layer.bias):
            largest = np.abs(param.detach().numpy()).max()
            assert 0.97 / math.sqrt(fan_in) < largest <= 1 / math.sqrt(fan_in)
    assert nn.Embedding(3, 2, padding_idx=1).weight[1].tolist() == [0, 0]


def test_equal_seeds_give_equal_weights():
    tinyt.manual_seed(5)
    first = Net().state_dict()
    tinyt.manual_seed(5)
    for name, value in Net().state_dict().items():
        np.testing.assert_array_equal(value.numpy(), first[name].numpy())


# Module ----------------------------------------------------------------------------------------


def test_names_in_order_of_assignment():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "body.0.weight",
        "body.0.bias",
        "body.1.weight",
        "body.1.bias",
        "head.weight",
    ]
    assert [name for name, _ in net.named_buffers()] == [
        "body.1.running_mean",
        "body.1.running_var",
        "body.1.num_batches_tracked",
    ]
    assert [name for name, _ in net.named_modules()] == [
        "",
        "body",
        "body.0",
        "body.1",
        "body.2",
        "head",
    ]
    assert [name for name, _ in net.named_children()] == ["body", "head"]
    assert net.get_submodule("body.0") is net.body[0]
    assert net.get_parameter("body.0.bias") is net.body[0].bias
    assert net.get_buffer("body.1.running_var") is net.body[1].running_var
    with pytest.raises(AttributeError, match="has no module 'tail'"):
        net.get_submodule("body.tail")


def test_shared_parameters_and_modules_count_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert len(net.state_dict()) == 4
    layer = nn.ReLU()
    assert len(list(nn.Sequential(layer, layer).modules())) == 2


def test_attributes_move_between_tables():
    net = nn.Module()
    net.x = 1
    net.x = nn.Parameter(ops.ones(2))
    assert list(net._parameters) == ["x"]
    net.x = None
    assert net.x is None
    assert list(net.parameters()) == []
    net.y = nn.ReLU()
    net.y = nn.Tanh()
    assert list(net._modules) == ["y"]
    del net.y
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'y'"):
        _ = net.y
    net.register_buffer("b", ops.zeros(1), persistent=False)
    net.b = ops.ones(1)
    assert net.b.item() == 1
    assert list(net.state_dict()) == []
    assert "b" in dir(net)


def test_calling_a_module_without_forward():
    with pytest.raises(NotImplementedError, match=r"ModuleList: the module has no forward\(\)"):
        nn.ModuleList([nn.ReLU()])(ops.ones(1))


def test_registration_errors():
    class NoInit(nn.Module):
        def __init__(self):
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        NoInit()
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'head'"):
        net.head = 1
    with pytest.raises(TypeError, match="as parameter 'weight'"):
        net.head.weight = ops.ones(1)
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        net.register_parameter("forward", nn.Parameter(ops.ones(1)))
    with pytest.raises(KeyError, match="buffer name can"):
        net.register_buffer("a.b", ops.ones(1))
    with pytest.raises(KeyError, match="empty string"):
        net.add_module("", nn.ReLU())
    with pytest.raises(TypeError, match="is not a Module subclass"):
        net.add_module("a", 3)
    with pytest.raises(TypeError, match="cannot assign 'int' object to buffer 'a'"):
        net.register_buffer("a", 3)
    with pytest.raises(TypeError, match="data must be a Tensor"):
        nn.Parameter([1.0])


def test_parameter():
    base = ops.ones(2)
    param = nn.Parameter(base)
    assert isinstance(param, tinyt.Tensor)
    assert param.requires_grad
    assert param.is_leaf
    assert not base.requires_grad
    base.fill_(3)
    assert param.tolist() == [3, 3]
    assert not nn.Parameter(base, requires_grad=False).requires_grad
    assert repr(param).startswith("Parameter containing:\n")
    assert not isinstance(param * 1, nn.Parameter)


def test_train_eval_apply_and_gradients():
    net = Net()
    assert net.training
    assert not net.eval().body[1].training
    assert net.train().body[1].training
    with pytest.raises(ValueError, match="boolean"):
        net.train("yes")
    visited = []
    assert net.apply(lambda m: visited.append(type(m).__name__)) is net
    assert visited == ["Linear", "BatchNorm1d", "ReLU", "Sequential", "Linear", "Net"]
    net(ops.ones(4, 3)).sum().backward()
    assert all(param.grad is not None for param in net.parameters())
    net.zero_grad(set_to_none=False)
    assert all(param.grad.abs().sum().item() == 0 for param in net.parameters())
    net.zero_grad()
    assert all(param.grad is None for param in net.parameters())
    net.requires_grad_(False)
    assert not net(ops.ones(4, 3)).requires_grad


def test_to_converts_floating_state_in_place():
    net = Net()
    before = list(net.parameters())
    assert net.to(tinyt.float64) is net
    assert [a is b for a, b in zip(before, net.parameters(), strict=True)] == [True] * 5
    assert all(param.dtype == tinyt.float64 for param in net.parameters())
    assert net.body[1].running_mean.dtype == tinyt.float64
    assert net.body[1].num_batches_tracked.dtype == tinyt.int64
    assert net(ops.ones(2, 3, dtype=tinyt.float64)).dtype == tinyt.float64
    assert net.float().head.weight.dtype == tinyt.float32
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(tinyt.int64)


def test_forward_hooks():
    layer, log = nn.Linear(2, 2), []
    x = ops.ones(1, 2)
    plain = layer(x)
    with layer.register_forward_hook(lambda m, args, out: out * 2):
        np.testing.assert_allclose(layer(x).tolist(), (plain * 2).tolist())
    np.testing.assert_array_equal(layer(x).tolist(), plain.tolist())
    pre = layer.register_forward_pre_hook(lambda m, args: args[0] * 0)
    layer.register_forward_pre_hook(lambda m, args: log.append(args[0].tolist()), prepend=True)
    np.testing.assert_array_equal(layer(x).tolist()[0], layer.bias.tolist())
    assert log == [[[1, 1]]]
    pre.remove()
    pre.remove()
    layer.register_forward_pre_hook(lambda m, args, kw: (args, {}), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, kw, out: log.append(kw), with_kwargs=True)
    layer(x)
    assert log[-1] == {}
    with pytest.raises(TypeError, match="must be callable"):
        layer.register_forward_hook(3)


def test_state_dict_round_trip_and_sharing():
    net, other = Net(), Net()
    state = net.state_dict()
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    x = ops.ones(2, 3)
    np.testing.assert_array_equal(net.eval()(x).tolist(), other.eval()(x).tolist())
    assert not any(value.requires_grad for value in state.values())
    state["head.weight"].fill_(7)
    assert net.head.weight.tolist() == [[7] * 4] * 2
    assert net.state_dict(keep_vars=True)["head.weight"] is net.head.weight


def test_load_state_dict_reports_everything_and_changes_nothing():
    net = Net()
    before = {name: value.tolist() for name, value in net.state_dict().items()}
    state = {name: ops.zeros(tuple(v.shape)) for name, v in net.state_dict().items()}
    del state["body.0.bias"]
    state["extra"] = ops.ones(1)
    state["head.weight"] = ops.ones(3)
    state["body.1.bias"] = "text"
    expected = (
        r"(?s)Error\(s\) in loading state_dict for Net:.*"
        r'Missing key\(s\) in state_dict: "body.0.bias"\..*'
        r'Unexpected key\(s\) in state_dict: "extra"\..*'
        r'named "body.1.bias".*'
        r"size mismatch for head.weight: copying a param with shape tinyt.Size\(\[3\]\) from "
        r"checkpoint, the shape in current model is tinyt.Size\(\[2, 4\]\)"
    )
    with pytest.raises(RuntimeError, match=expected):
        net.load_state_dict(state)
    assert {name: value.tolist() for name, value in net.state_dict().items()} == before
    state["head.weight"], state["body.1.bias"] = ops.ones(2, 4), ops.zeros(4)
    keys = net.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["body.0.bias"]
    assert keys.unexpected_keys == ["extra"]
    assert net.head.weight.tolist() == [[1] * 4] * 2
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([1])


def test_deepcopy_is_independent():
    net = Net()
    twin = copy.deepcopy(net)
    with tinyt.no_grad():
        twin.head.weight.fill_(0)
    assert net.head.weight.abs().sum().item() > 0
    assert isinstance(twin.head.weight, nn.Parameter)
    assert list(twin.state_dict()) == list(net.state_dict())


# Containers ------------------------------------------------------------------------------------


def test_sequential():
    net = nn.Sequential(OrderedDict(a=nn.Linear(2, 3), b=nn.ReLU()))
    assert list(net.state_dict()) == ["a.weight", "a.bias"]
    assert net.a is net[0]
    assert net[-1] is net.b
    assert [type(m).__name__ for m in net[:1]] == ["Linear"]
    with pytest.raises(IndexError, match="index 2 is out of range"):
        net[2]
    net = nn.Sequential(nn.Linear(2, 3)).append(nn.ReLU()).extend([nn.Tanh()])
    net.insert(1, nn.Sigmoid())
    assert [type(m).__name__ for m in net] == ["Linear", "Sigmoid", "ReLU", "Tanh"]
    del net[1]
    net[1] = nn.GELU()
    assert net.pop().__class__ is nn.Tanh
    assert list(net._modules) == ["0", "1"]
    assert tuple(net(ops.ones(1, 2)).shape) == (1, 3)


def test_module_list_and_dict():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.ReLU()]
    assert len(layers) == 2
    assert len(layers[0:1]) == 1
    assert isinstance(layers, nn.ModuleList)
    table = nn.ModuleDict({"x": nn.Linear(1, 1)})
    table["y"] = nn.ReLU()
    assert list(table) == ["x", "y"]
    assert "x" in table
    assert list(table.state_dict()) == ["x.weight", "x.bias"]
    assert isinstance(table.pop("y"), nn.ReLU)
    table.clear()
    assert len(table) == 0


@needs_torch
def test_nested_repr_is_pytorchs():

    def build(m):
        inner = m.ModuleList([m.Linear(1, 2), m.Sequential(m.ReLU(), m.Tanh())])
        return m.Sequential(OrderedDict(first=inner, last=m.Dropout(0.5)))

    pattern = repr(build(torch.nn))
    assert repr(build(nn)) == pattern


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: nn.Dropout(1.5), "between 0 and 1, but got 1.5"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(1, 1, 3, groups=0), "groups must be a positive integer"),
        (lambda: nn.Conv2d(1, 1, 3, padding="most"), "Invalid padding string 'most'"),
        (lambda: nn.Conv2d(1, 1, 3, padding="same", stride=2), "not supported for strided"),
        (lambda: nn.Conv2d(1, 1, (3, 3, 3)), "Conv2d: kernel_size must be an int or 2 of them"),
        (lambda: nn.Conv2d(1, 1, 3, padding_mode="most"), "padding_mode.*'most'"),
        (lambda: nn.BatchNorm1d(2)(ops.ones(2, 2, 2, 2)), r"2D or 3D input \(got 4D input\)"),
        (lambda: nn.BatchNorm2d(2)(ops.ones(2, 2)), r"expected 4D input \(got 2D input\)"),
    ],
)
def test_wrong_arguments(make, error):
    with pytest.raises(ValueError, match=error):
        make()
