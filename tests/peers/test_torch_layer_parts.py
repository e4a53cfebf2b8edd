"""What programs do with the inner parts of PyTorch's layers: the same here."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from both import close, error_of, filled, plain, ramp

torch = pytest.importorskip("torch")

Case = Callable[[Any], Any]
CASES: list[Case] = []
Pair = namedtuple("Pair", ["first", "second"])


def case(function: Case) -> Case:
    CASES.append(function)
    return function


# Modules ----------------------------------------------------------------------------------------


@case
def setstate(tt: Any) -> Any:
    class Layer(tt.nn.Linear):  # type: ignore[name-defined,misc]
        def __setstate__(self, state: dict[str, Any]) -> None:
            state = {"extra": 3, **state}
            super().__setstate__(state)
            if "activation" not in state:
                self.activation = tt.nn.functional.relu

    layer = filled(tt, Layer(2, 1))
    other = copy.deepcopy(layer)
    empty = Layer.__new__(Layer)
    empty.__setstate__({"training": False})
    return (
        other.extra,
        other.activation is tt.nn.functional.relu,
        other.weight,
        other.weight is layer.weight,
        hasattr(empty, "_non_persistent_buffers_set"),
        len(empty._forward_pre_hooks),
        empty.training,
    )


@case
def pickled(tt: Any) -> Any:
    layer = pickle.loads(pickle.dumps(filled(tt, tt.nn.Conv2d(1, 1, 2))))
    return layer.weight, layer(ramp(tt, 1, 1, 3, 3))


@case
def named_members(tt: Any) -> Any:
    net = tt.nn.Sequential(tt.nn.Linear(1, 1), tt.nn.BatchNorm1d(1))
    return (
        [name for name, _ in net._named_members(lambda m: m._parameters.items())],
        [n for n, _ in net._named_members(lambda m: m._buffers.items(), "p", recurse=True)],
        [n for n, _ in net[0]._named_members(lambda m: m._parameters.items(), recurse=False)],
    )


@case
def call_impl(tt: Any) -> Any:
    class Twice(tt.nn.Identity):  # type: ignore[name-defined,misc]
        def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
            return super()._call_impl(*args, **kwargs) * 2

    return Twice()(tt.ones(2)), tt.nn.ReLU()._call_impl(tt.ones(1))


@case
def constructors(tt: Any) -> Any:
    class Base:
        def __init__(self, x: int = 0) -> None:
            self.x = x

    class Both(tt.nn.Module, Base):  # type: ignore[name-defined,misc]
        call_super_init = True

        def __init__(self) -> None:
            super().__init__(x=3)

    class Alone(tt.nn.Module):  # type: ignore[name-defined,misc]
        pass

    return Both().x, error_of(lambda: Alone(3)), error_of(lambda: Alone(k=3))


# Hooks ------------------------------------------------------------------------------------------


@case
def hooks_of_all_modules(tt: Any) -> Any:
    names = tt.nn.modules.module
    net = filled(tt, tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.ReLU()))
    x = ramp(tt, 1, 2).requires_grad_()
    seen: list[Any] = []
    own = net[0].register_forward_hook(lambda m, a, o: seen.append("own"))
    handles = [
        names.register_module_forward_pre_hook(lambda m, a: seen.append(("pre", plain(a)))),
        names.register_module_forward_hook(
            lambda m, a, o: seen.append(("after", type(m).__name__, plain(o)))
        ),
        names.register_module_forward_hook(
            lambda m, a, k, o: seen.append((dict(k), o is None)), with_kwargs=True
        ),
        names.register_module_full_backward_pre_hook(
            lambda m, g: seen.append(("before backward", plain(g)))
        ),
        names.register_module_full_backward_hook(
            lambda m, i, o: seen.append(("backward", plain(i), plain(o)))
        ),
    ]
    net(x).sum().backward()
    seen.append(len(net._get_backward_hooks()[0]))
    for handle in handles:
        handle.remove()
    net(x)
    own.remove()
    net(x)
    return seen, x.grad


@case
def hooks_that_change(tt: Any) -> Any:
    names = tt.nn.modules.module
    layer = tt.nn.Identity()
    found = []
    with names.register_module_forward_pre_hook(lambda m, a: (a[0] + 1,)):
        with names.register_module_forward_hook(lambda m, a, o: o * 10):
            layer.register_forward_hook(lambda m, a, o: o + 5)
            found.append(layer(tt.ones(1)))
        found.append(layer(tt.ones(1)))
    found.append(layer(tt.ones(1)))
    return found


@case
def hooks_after_errors(tt: Any) -> Any:
    class Fails(tt.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            raise KeyError("no")

    seen: list[Any] = []
    hook = tt.nn.modules.module.register_module_forward_hook
    with hook(lambda m, a, o: seen.append(o), always_call=True):
        seen.append(error_of(lambda: Fails()(1)))
    seen.append(error_of(lambda: Fails()(1)))
    return seen


@case
def hooks_of_registration(tt: Any) -> Any:
    names = tt.nn.modules.module
    seen: list[Any] = []

    def see(kind: str) -> Any:
        return lambda m, name, value: seen.append((kind, type(m).__name__, name, value is None))

    with (
        names.register_module_parameter_registration_hook(see("parameter")),
        names.register_module_buffer_registration_hook(see("buffer")),
        names.register_module_module_registration_hook(see("module")),
    ):
        net = tt.nn.Sequential(tt.nn.Linear(1, 1, bias=False), tt.nn.BatchNorm1d(1, affine=False))
        net.extra = tt.nn.ReLU()
        net.extra = None
        net.register_buffer("x", tt.ones(1))
        net.x = tt.zeros(1)
    net.other = tt.nn.ReLU()
    hook = names.register_module_parameter_registration_hook
    with hook(lambda m, name, p: tt.nn.Parameter(p.detach() * 0 + 2)):
        changed = tt.nn.Module()
        changed.weight = tt.nn.Parameter(tt.ones(1))
    return seen, changed.weight


@case
def tables_of_hooks(tt: Any) -> Any:
    layer = tt.nn.Identity()
    found: list[Any] = [len(layer._forward_hooks), len(layer._state_dict_hooks)]
    layer.register_forward_hook(lambda m, a, o: o * 3)
    layer.register_forward_pre_hook(lambda m, a, k: None, with_kwargs=True)
    layer._register_state_dict_hook(lambda m, s, p, meta: {"other": 1})
    layer.register_load_state_dict_post_hook(lambda m, keys: found.append("loaded"))
    found += [layer(tt.ones(1)), layer.state_dict()]
    layer.load_state_dict({})
    found += [len(layer._forward_hooks), list(layer._forward_pre_hooks_with_kwargs.values())]
    layer._forward_hooks = OrderedDict()
    layer._forward_pre_hooks = OrderedDict()
    layer._backward_hooks = OrderedDict()
    layer._state_dict_hooks = OrderedDict()
    layer._load_state_dict_post_hooks.clear()
    layer.load_state_dict({})
    found += [layer(tt.ones(1)), layer.state_dict()]
    layer._forward_hooks = OrderedDict({7: lambda m, a, o: o + 1})
    return [*found, layer(tt.ones(1)), copy.deepcopy(layer)(tt.ones(1))]


# Containers -------------------------------------------------------------------------------------


def numbered(tt: Any, *sizes: int) -> list[Any]:
    return [tt.nn.Dropout(n / 10) for n in sizes]


def shown(tt: Any, make: Callable[[], Any]) -> str:
    try:
        return repr(make())
    except Exception as error:
        return type(error).__name__


def deleted(container: Any, index: Any) -> Any:
    del container[index]
    return container


@case
def sequentials(tt: Any) -> Any:
    def some() -> Any:
        return tt.nn.Sequential(*numbered(tt, 1, 2, 3))

    def named() -> Any:
        return tt.nn.Sequential(OrderedDict(zip("abc", numbered(tt, 1, 2, 3), strict=True)))

    def inplace(times: Any) -> Any:
        found = some()
        found *= times
        return found

    def added(other: Any) -> Any:
        found = named()
        found += other
        return found

    calls = [
        lambda: some() + named(), lambda: some() + numbered(tt, 1), lambda: some() * 2,
        lambda: 3 * some(), lambda: some() * 0, lambda: some() * 1.5, lambda: inplace(2),
        lambda: inplace(-1), lambda: added(some()), lambda: added(numbered(tt, 1)),
        lambda: some().insert(1, tt.nn.ReLU()), lambda: some().insert(-1, tt.nn.ReLU()),
        lambda: some().insert(4, tt.nn.ReLU()), lambda: some().insert(0, 3),
        lambda: some().extend(numbered(tt, 4, 5)), lambda: some().pop(1), lambda: named().pop(-1),
        lambda: some().pop(slice(0, 2)), lambda: deleted(some(), slice(0, 2)),
        lambda: deleted(named(), 1), lambda: deleted(named(), slice(1, None)),
        lambda: named()[1:], lambda: some()[::2], lambda: some()[3], lambda: named().append(None),
        lambda: named() + named(), lambda: list(named()._modules),
    ]  # fmt: skip
    return [shown(tt, call) for call in calls]


@case
def lists_and_dicts(tt: Any) -> Any:
    def some() -> Any:
        return tt.nn.ModuleList(numbered(tt, 1, 2, 3))

    def inserted(index: int) -> Any:
        found = some()
        found.insert(index, tt.nn.ReLU())
        return found

    def added(other: Any) -> Any:
        found = some()
        found += other
        return found

    pair = {"b": tt.nn.ReLU(), "a": tt.nn.Tanh()}
    make = tt.nn.ModuleDict
    calls = [
        lambda: some() + numbered(tt, 4), lambda: some() + some(), lambda: added(numbered(tt, 4)),
        lambda: added(3), lambda: inserted(0), lambda: inserted(2), lambda: some().pop(0),
        lambda: some().pop(9), lambda: deleted(some(), slice(None, None, 2)),
        lambda: deleted(some(), -1), lambda: some()[::-1], lambda: some().extend(some()),
        lambda: make(pair), lambda: make(list(pair.items())), lambda: make(make(pair)),
        lambda: make([["x", tt.nn.ReLU()]]), lambda: make(3), lambda: make([3]),
        lambda: make([["x", 1, 2]]), lambda: list(make(pair).items()), lambda: make(pair).pop("b"),
        lambda: deleted(make(pair), "b"), lambda: "a" in make(pair), lambda: list(make(pair)),
        lambda: make({"keys": tt.nn.ReLU()}), lambda: make({"a.b": tt.nn.ReLU()}),
    ]  # fmt: skip
    return [shown(tt, call) for call in calls]


@case
def parameters_in_containers(tt: Any) -> Any:
    pair = {"b": tt.ones(1), "a": tt.zeros(2)}
    make = tt.nn.ParameterDict
    both = make(pair) | make({"c": 3})
    calls = [
        lambda: list(make(pair)), lambda: list(make(OrderedDict(pair))),
        lambda: list(make(list(pair.items()))), lambda: list(make(make(OrderedDict(pair)))),
        lambda: [n for n, _ in make(pair).named_parameters()], lambda: both.c, lambda: both["c"],
        lambda: sorted(both), lambda: make(3), lambda: make(pair).get("z", 4),
        lambda: list(reversed(make(pair))), lambda: make(pair).popitem()[0],
        lambda: len(tt.nn.ParameterList(pair.values())), lambda: tt.nn.ParameterList([tt.ones(1)]),
        lambda: make({"x": 3, "y": tt.ones(2, 1)}),
    ]  # fmt: skip
    return [shown(tt, call).replace("tinyt.", "torch.") for call in calls]


@case
def older_layers(tt: Any) -> Any:
    with pytest.warns(FutureWarning):
        container = tt.nn.Container(a=tt.nn.ReLU())
    with pytest.warns(FutureWarning):
        loss = tt.nn.NLLLoss2d()
    return repr(container), loss(ramp(tt, 2, 3, 1, 1), tt.tensor([[[0]], [[2]]]))


# Convolutions -----------------------------------------------------------------------------------


@case
def conv_forward(tt: Any) -> Any:
    class Standardized(tt.nn.Conv2d):  # type: ignore[name-defined,misc]
        def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
            return super()._conv_forward(input, weight - weight.mean(), bias) + 1

    x = ramp(tt, 1, 1, 4, 4)
    found = []
    for mode in ("zeros", "circular", "reflect"):
        layer = filled(tt, Standardized(1, 2, 3, padding=1, padding_mode=mode))
        found += [layer(x), layer._conv_forward(x, layer.weight * 2, None)]
    return found


@case
def mode_of_padding_that_is_set_later(tt: Any) -> Any:
    layer = filled(tt, tt.nn.Conv2d(1, 1, 3, padding=(1, 2)))
    layer.padding_mode = "circular"
    return layer(ramp(tt, 1, 1, 4, 4)), layer._reversed_padding_repeated_twice


@case
def base_of_convolutions(tt: Any) -> Any:
    base = tt.nn.modules.conv._ConvNd

    class Own(base):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            pair = tt.nn.modules.utils._pair
            super().__init__(
                2, 4, pair(3), pair(1), pair(1), pair(1), False, pair(0), 2, True, "zeros"
            )

        def forward(self, x: Any) -> Any:
            return tt.nn.functional.conv2d(
                x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
            )

    layer = filled(tt, Own())
    plain_one = base(1, 1, (1,), (1,), (0,), (1,), False, (0,), 1, True, "zeros")
    other = base(2, 4, (1,), (1,), (0,), (1,), True, (0,), 2, False, "zeros")
    state = dict(plain_one.__dict__)
    del state["padding_mode"]
    old = base.__new__(base)
    old.__setstate__(state)
    return (
        layer(ramp(tt, 1, 2, 3, 3)),
        repr(layer),
        tuple(other.weight.shape),
        old.padding_mode,
        error_of(lambda: base(1, 1, (1,), (1,), (0,), (1,), False, (0,), 2, True, "zeros")),
        isinstance(tt.nn.ConvTranspose2d(1, 1, 1), base),
    )


@case
def base_of_transposed_convolutions(tt: Any) -> Any:
    base = tt.nn.modules.conv._ConvTransposeNd

    class Own(base):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            super().__init__(1, 1, (3,), (2,), (1,), (1,), True, (0,), 1, True, "zeros")

        def forward(self, x: Any, output_size: Any = None) -> Any:
            extra = self._output_padding(
                x, output_size, self.stride, self.padding, self.kernel_size, 1, self.dilation
            )
            return tt.nn.functional.conv_transpose1d(
                x, self.weight, self.bias, self.stride, self.padding, extra, self.groups
            )

    layer = filled(tt, Own())
    x = ramp(tt, 1, 1, 4)
    return layer(x), layer(x, [8]), error_of(lambda: layer(x, [9]))


@case
def gradients_of_convolutions(tt: Any) -> Any:
    found = []
    for n in (1, 2, 3):
        x = ramp(tt, 2, 4, *[5] * n)
        weight = ramp(tt, 6, 2, *[3] * n)
        options = (2, 1, 1, 2)
        out = getattr(tt.nn.functional, f"conv{n}d")(x, weight, None, *options)
        grad = ramp(tt, *out.shape)
        forms = tt.nn.functional.grad
        found.append(getattr(forms, f"conv{n}d_input")(x.shape, weight, grad, *options))
        found.append(getattr(tt.nn.grad, f"conv{n}d_weight")(x, weight.shape, grad, *options))
    return found


# Norms ------------------------------------------------------------------------------------------


@case
def checks_of_norms(tt: Any) -> Any:
    norms = tt.nn.modules.batchnorm

    class Any1d(norms._BatchNorm):  # type: ignore[name-defined,misc]
        def _check_input_dim(self, input: Any) -> None:
            if input.dim() < 2:
                raise ValueError("too few")

    layer = filled(tt, Any1d(2))
    batch = tt.nn.BatchNorm2d(2)
    return (
        layer(ramp(tt, 3, 2, 1, 2, 1)),
        error_of(lambda: layer(ramp(tt, 3))),
        error_of(lambda: batch._check_input_dim(ramp(tt, 1, 2, 1))),
        error_of(lambda: norms._BatchNorm(2)(ramp(tt, 1, 2))),
        isinstance(batch, norms._NormBase),
        isinstance(tt.nn.InstanceNorm1d(1), tt.nn.modules.instancenorm._InstanceNorm),
        isinstance(tt.nn.InstanceNorm1d(1), norms._BatchNorm),
        isinstance(tt.nn.SyncBatchNorm(1), norms._BatchNorm),
    )


@case
def own_instance_norms(tt: Any) -> Any:
    class Wide(tt.nn.modules.instancenorm._InstanceNorm):  # type: ignore[name-defined,misc]
        def _get_no_batch_dim(self) -> int:
            return 5

        def _check_input_dim(self, input: Any) -> None:
            if input.dim() not in (5, 6):
                raise ValueError("other rank")

    layer = filled(tt, Wide(2, affine=True))
    return error_of(lambda: layer(ramp(tt, 2))), layer._get_no_batch_dim()


@case
def cross_map(tt: Any) -> Any:
    found = []
    for size in (1, 2, 3, 4, 5):
        for channels in (1, 2, 3, 7):
            layer = tt.nn.CrossMapLRN2d(size, 0.3, 0.6, 2)
            found.append(layer(ramp(tt, 2, channels, 2, 1)))
    return found, error_of(lambda: tt.nn.CrossMapLRN2d(2)(ramp(tt, 2, 3)))


# Transformers and recurrent layers --------------------------------------------------------------


@case
def parts_of_transformers(tt: Any) -> Any:
    names = tt.nn.modules.transformer
    layer = tt.nn.Linear(1, 1)
    clones = names._get_clones(layer, 3)
    mask = names._generate_square_subsequent_mask(3)
    x = ramp(tt, 2, 1, 4)
    encoder = filled(tt, tt.nn.TransformerEncoderLayer(4, 2, 3, 0.0))
    decoder = filled(tt, tt.nn.TransformerDecoderLayer(4, 2, 3, 0.0))
    return (
        type(clones).__name__,
        len(clones),
        clones[0] is layer,
        mask,
        names._get_activation_fn("gelu") is tt.nn.functional.gelu,
        error_of(lambda: names._get_activation_fn("tanh")),
        names._get_seq_len(ramp(tt, 2, 3, 4), True),
        names._get_seq_len(ramp(tt, 2, 3, 4), False),
        names._get_seq_len(ramp(tt, 2, 3), True),
        names._detect_is_causal_mask(mask),
        names._detect_is_causal_mask(mask * 0),
        names._detect_is_causal_mask(None, True),
        names._detect_is_causal_mask(mask, None, 2),
        encoder._sa_block(x, None, None),
        encoder._ff_block(x),
        decoder._mha_block(x, x + 1, None, None),
        decoder._sa_block(x, None, None, is_causal=False),
        encoder.activation_relu_or_gelu,
        tt.nn.TransformerEncoderLayer(4, 2, activation="gelu").activation_relu_or_gelu,
        encoder.self_attn.merge_masks(mask[:2, :2], None, ramp(tt, 1, 2, 4)),
        encoder.self_attn.merge_masks(mask[:2, :2], ramp(tt, 1, 2).float(), ramp(tt, 1, 2, 4)),
        encoder.self_attn.merge_masks(None, None, x),
        encoder.self_attn.merge_masks(None, ramp(tt, 1, 2), x),
    )


@case
def copied_transformer_layers(tt: Any) -> Any:
    class Layer(tt.nn.TransformerEncoderLayer):  # type: ignore[name-defined,misc]
        def __setstate__(self, state: dict[str, Any]) -> None:
            if "activation" not in state:
                state["activation"] = tt.nn.functional.relu
            super().__setstate__(state)

        def _ff_block(self, x: Any) -> Any:
            return super()._ff_block(x) * 2

    layer = filled(tt, Layer(4, 2, 3, 0.0, batch_first=True))
    stack = filled(tt, tt.nn.TransformerEncoder(layer, 2))
    state = dict(layer.__dict__)
    del state["activation"]
    old = Layer.__new__(Layer)
    old.__setstate__(state)
    return stack(ramp(tt, 1, 3, 4)), old.activation is tt.nn.functional.relu


@case
def checks_of_recurrent_layers(tt: Any) -> Any:
    layer = tt.nn.LSTM(2, 4, 2, bidirectional=True, proj_size=3)
    x = ramp(tt, 5, 1, 2).float()
    hidden, memory = ramp(tt, 4, 1, 3).float(), ramp(tt, 4, 1, 4).float()
    order = tt.tensor([0])
    return (
        layer.get_expected_hidden_size(x, None),
        layer.get_expected_cell_size(x, tt.tensor([2, 1])),
        layer.check_forward_args(x, (hidden, memory), None),
        error_of(lambda: layer.check_forward_args(x, (memory, memory), None)),
        error_of(lambda: layer.check_input(x[0], None)),
        error_of(lambda: layer.check_input(x.transpose(0, 2), None)),
        error_of(lambda: layer.check_hidden_size(hidden, (1, 2, 3))),
        layer.permute_hidden((hidden, memory), order),
        tt.nn.GRU(1, 1).permute_hidden(hidden, None) is hidden,
        layer._all_weights,
        layer._flat_weights_names,
        [tuple(w.shape) for w in layer._flat_weights],
        [[tuple(w.shape) for w in weights] for weights in layer.all_weights],
    )


@case
def own_cells(tt: Any) -> Any:
    class Cell(tt.nn.RNNCellBase):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__(2, 3, bias=True, num_chunks=2)

        def forward(self, x: Any, h: Any) -> Any:
            gates = tt.nn.functional.linear(x, self.weight_ih, self.bias_ih)
            return gates.chunk(2, 1)[0] + h

    cell = filled(tt, Cell())
    return cell(ramp(tt, 1, 2), ramp(tt, 1, 3)), [tuple(p.shape) for p in cell.parameters()]


@case
def packed_sequences(tt: Any) -> Any:
    rnn = tt.nn.utils.rnn
    packed = rnn.pack_sequence([ramp(tt, 2, 1), ramp(tt, 3, 1) + 1], enforce_sorted=False)
    names = ("double", "float", "half", "long", "int", "short", "char", "byte")
    made = rnn.PackedSequence(packed.data, packed.batch_sizes, packed.sorted_indices)
    return (
        [str(getattr(packed, name)().data.dtype).rpartition(".")[2] for name in names],
        [getattr(packed, name)().data for name in names],
        packed.cpu() is packed,
        packed.double() is packed,
        packed.to(tt.float32).unsorted_indices,
        (packed.is_cuda, packed.is_pinned()),
        rnn.unpack_sequence(packed),
        rnn.unpack_sequence(rnn.pack_sequence([ramp(tt, 3), ramp(tt, 1)])),
        made.unsorted_indices,
        type(made._replace(data=made.data)).__name__,
        rnn.invert_permutation(tt.tensor([2, 0, 1])),
        rnn.invert_permutation(None),
        pickle.loads(pickle.dumps(packed)).data,
        [x if x is None else x.shape for x in rnn.PackedSequence(ramp(tt, 2), tt.tensor([1, 1]))],
    )


# Several devices, of which there is one ---------------------------------------------------------


@case
def parallel(tt: Any) -> Any:
    names = tt.nn.parallel
    layer = filled(tt, tt.nn.Sequential(tt.nn.Linear(2, 1), tt.nn.BatchNorm1d(1)))
    x = ramp(tt, 4, 2)
    return (
        names.scatter_gather.scatter_kwargs((), None, []),
        names.scatter(3, []),
        names.scatter([1, "a"], []),
        names.data_parallel is not None,
        tt.nn.DataParallel(layer).module is layer,
        tt.nn.DataParallel(layer)(x),
        list(tt.nn.DataParallel(layer).state_dict()),
        names.parallel_apply.__module__.rpartition(".")[2],
    )


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_parts(function: Case) -> None:
    ours, theirs = plain(function(tinyt)), plain(function(torch))
    assert close(ours, theirs), (ours, theirs)
