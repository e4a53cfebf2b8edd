"""Optimisers and schedules: the same trajectories, rates and state layout as PyTorch's."""

import copy
import math

import numpy as np
import pytest

import tinyt
from tinyt import nn, ops, optim
from tinyt.optim import lr_scheduler

try:
    import torch
except ImportError:
    torch = None
else:
    # PyTorch imports more on first use and keeps the frames alive that asked for it, which the
    # leak check would hold against a test.
    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])

needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")

SHAPES = [(4, 3), (3,), ()]

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True, "maximize": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.2, "amsgrad": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.05, "alpha": 0.9, "momentum": 0.5, "centered": True}),
    ("RMSprop", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.5, "lr_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adagrad", {"weight_decay": 0.1, "maximize": True, "eps": 1e-3}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "d": 2.0, "weight_decay": 0.1, "eps": (1e-4, 0.1)}),
    ("Adafactor", {"beta2_decay": -0.5, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.6, 1.3), "step_sizes": (0.01, 0.2), "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "t0": 3, "weight_decay": 0.1}),
]


def starts_and_grads(steps=15):
    random = np.random.default_rng(3)
    starts = [random.normal(size=shape).astype(np.float32) for shape in SHAPES]
    grads = [
        [np.asarray(random.normal(size=shape), dtype=np.float32) for shape in SHAPES]
        for _ in range(steps)
    ]
    return [np.asarray(start) for start in starts], grads


def ours(name, starts, **options):
    params = [nn.Parameter(ops.from_numpy(start.copy())) for start in starts]
    return params, getattr(optim, name)(params, **options)


def theirs(name, starts, **options):
    params = [torch.nn.Parameter(torch.from_numpy(start.copy())) for start in starts]
    return params, getattr(torch.optim, name)(params, **options)


def apply(params, optimizer, grads, wrap):
    for step in grads:
        for param, grad in zip(params, step, strict=True):
            param.grad = wrap(grad.copy())
        optimizer.step()


def assert_close(params, expected):
    for param, other in zip(params, expected, strict=True):
        np.testing.assert_allclose(
            param.detach().numpy(), other.detach().numpy(), rtol=2e-5, atol=2e-6
        )


@needs_torch
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_trajectory_equals_pytorch(name, options):
    starts, grads = starts_and_grads()
    params, optimizer = ours(name, starts, **options)
    expected, reference = theirs(name, starts, **options)
    apply(params, optimizer, grads, ops.from_numpy)
    apply(expected, reference, grads, torch.from_numpy)
    assert_close(params, expected)


@needs_torch
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_trajectory_in_float64_equals_pytorch(name, options):
    starts, grads = starts_and_grads()
    starts = [start.astype(np.float64) for start in starts]
    grads = [[np.asarray(g, dtype=np.float64) for g in step] for step in grads]
    params, optimizer = ours(name, starts, **options)
    expected, reference = theirs(name, starts, **options)
    apply(params, optimizer, grads, ops.from_numpy)
    apply(expected, reference, grads, torch.from_numpy)
    for param, other in zip(params, expected, strict=True):
        np.testing.assert_allclose(
            param.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12
        )


@needs_torch
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_trajectory_in_bfloat16_is_near_pytorchs(name, options):
    """Within some units in the last place: PyTorch rounds `x + a y` once, tinyt each operation."""
    starts, grads = starts_and_grads(4)
    params = [nn.Parameter(ops.from_numpy(x.copy()).bfloat16()) for x in starts]
    expected = [torch.nn.Parameter(torch.from_numpy(x.copy()).bfloat16()) for x in starts]
    optimizer = getattr(optim, name)(params, **options)
    reference = getattr(torch.optim, name)(expected, **options)
    apply(params, optimizer, grads, lambda g: ops.from_numpy(g).bfloat16())
    apply(expected, reference, grads, lambda g: torch.from_numpy(g).bfloat16())
    for param, other in zip(params, expected, strict=True):
        np.testing.assert_allclose(
            param.detach().float().numpy(), other.detach().float().numpy(), rtol=0.05, atol=0.05
        )


@needs_torch
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_state_layout_is_pytorchs_and_its_state_resumes(name, options):
    starts, grads = starts_and_grads()
    expected, reference = theirs(name, starts, **options)
    apply(expected, reference, grads[:7], torch.from_numpy)
    saved = reference.state_dict()
    middle = [param.detach().numpy().copy() for param in expected]
    params, optimizer = ours(name, middle)
    converted = {
        "state": {
            i: {
                key: ops.from_numpy(np.array(value.numpy())) if torch.is_tensor(value) else value
                for key, value in values.items()
            }
            for i, values in saved["state"].items()
        },
        "param_groups": saved["param_groups"],
    }
    optimizer.load_state_dict(converted)
    apply(expected, reference, grads[7:], torch.from_numpy)
    apply(params, optimizer, grads[7:], ops.from_numpy)
    assert_close(params, expected)
    state, saved = optimizer.state_dict(), reference.state_dict()
    assert state["param_groups"] == saved["param_groups"]
    assert list(state["state"]) == list(saved["state"])
    for i, values in saved["state"].items():
        assert set(state["state"][i]) == set(values)
        for key, value in values.items():
            assert tuple(state["state"][i][key].shape) == tuple(value.shape)


def test_own_state_dict_round_trip_is_exact():
    starts, grads = starts_and_grads()
    params, optimizer = ours("AdamW", starts, lr=0.01)
    apply(params, optimizer, grads[:5], ops.from_numpy)
    twins, resumed = ours("AdamW", [param.detach().numpy().copy() for param in params])
    resumed.load_state_dict(optimizer.state_dict())
    apply(params, optimizer, grads[5:], ops.from_numpy)
    apply(twins, resumed, grads[5:], ops.from_numpy)
    for param, twin in zip(params, twins, strict=True):
        np.testing.assert_array_equal(param.detach().numpy(), twin.detach().numpy())


def test_sgd_by_hand_in_float64():
    start, grads = np.array([1.0, -2.0]), [np.array([0.5, 1.0]), np.array([-1.0, 0.25])]
    param = nn.Parameter(ops.from_numpy(start.copy()))
    apply([param], optim.SGD([param], lr=0.1, momentum=0.9), [[g] for g in grads], ops.from_numpy)
    velocity = 0.9 * grads[0] + grads[1]
    expected = start - 0.1 * grads[0] - 0.1 * velocity
    np.testing.assert_allclose(param.detach().numpy(), expected, rtol=1e-14)


def test_groups_have_their_own_options():
    a, b, c = (nn.Parameter(ops.ones(2)) for _ in range(3))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    optimizer.add_param_group({"params": [c], "lr": 0.0})
    for param in (a, b, c):
        param.grad = ops.ones(2)
    optimizer.step()
    np.testing.assert_allclose(a.tolist(), [0.9, 0.9])
    assert b.tolist() == [0.5, 0.5]
    assert c.tolist() == [1, 1]
    packed = optimizer.state_dict()["param_groups"]
    assert [group["params"] for group in packed] == [[0], [1], [2]]
    assert "lr: 0.5" in repr(optimizer)


def test_named_parameters_are_taken():
    net = nn.Linear(2, 2)
    optimizer = optim.SGD(net.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][1] is net.bias


def test_parameters_without_gradient_stay():
    a, b = nn.Parameter(ops.ones(1)), nn.Parameter(ops.ones(1))
    optimizer = optim.AdamW([a, b])
    a.grad = ops.ones(1)
    optimizer.step()
    assert b.item() == 1
    assert list(optimizer.state_dict()["state"]) == [0]
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.item() == 0
    optimizer.zero_grad()
    assert a.grad is None


def test_closure_runs_with_gradients():
    param = nn.Parameter(ops.ones(1))
    optimizer = optim.SGD([param], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1
    assert param.item() == 0.5


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda p: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda p: optim.SGD(p, lr=0.1), TypeError, "should be an iterable of Tensors"),
        (lambda p: optim.SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda p: optim.SGD([1]), TypeError, "can only optimize Tensors"),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (
            lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]),
            ValueError,
            "more than one parameter group",
        ),
        (lambda p: optim.SGD([p], lr=-1.0), ValueError, "Invalid learning rate: -1.0"),
        (lambda p: optim.SGD([p], momentum=-1.0), ValueError, "Invalid momentum value"),
        (lambda p: optim.SGD([p], lr=math.nan), ValueError, "Invalid learning rate: nan"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda p: optim.SGD([p], differentiable=True), ValueError, "not supported"),
        (lambda p: optim.AdamW([p], betas=(0.9, 1.0)), ValueError, "beta parameter at index 1"),
        (lambda p: optim.Adadelta([p], rho=1.5), ValueError, "Invalid rho value"),
        (lambda p: optim.Rprop([p], etas=(1.0, 1.2)), ValueError, "Invalid eta values"),
        (lambda p: optim.Adagrad([p], lr_decay=-1.0), ValueError, "Invalid lr_decay"),
        (lambda p: optim.Adam([p], eps=-1.0), ValueError, "Invalid epsilon value"),
    ],
)
def test_wrong_arguments(make, kind, message):
    with pytest.raises(kind, match=message):
        make(nn.Parameter(ops.ones(2)))


def test_hooks_and_own_step():
    """Hooks run around `step`, also one that a subclass defines, as in PyTorch."""
    seen = []

    class Own(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            seen.append(("step", closure))

    own = Own([nn.Parameter(ops.ones(1))], lr=0.1)
    own.register_step_post_hook(lambda o, args, kwargs: seen.append(("post", args[1:])))
    first = own.register_step_pre_hook(lambda o, args, kwargs: ((o, "changed"), kwargs))
    own.step("given")
    first.remove()
    own.step("given")
    assert seen == [
        ("step", "changed"),
        ("post", ("changed",)),
        ("step", "given"),
        ("post", ("given",)),
    ]
    own.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        own.step()


def test_state_dict_hooks():
    seen = []
    optimizer = optim.SGD([nn.Parameter(ops.ones(1))], lr=0.1)
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    state = optimizer.state_dict()
    assert state["extra"] == 1
    state["param_groups"][0]["lr"] = 0.2

    def half(optimizer, state):
        group = {**state["param_groups"][0], "lr": state["param_groups"][0]["lr"] / 2}
        return {**state, "param_groups": [group]}

    optimizer.register_load_state_dict_pre_hook(half)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("load"))
    optimizer.load_state_dict(state)
    assert (optimizer.param_groups[0]["lr"], seen) == (0.1, ["save", "load"])


def test_rate_in_a_tensor():
    param = nn.Parameter(ops.ones(1))
    optimizer = optim.Adam([param], lr=ops.tensor(0.5))
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    param.grad = ops.ones(1)
    optimizer.step()
    assert param.item() == pytest.approx(0.5)
    rate = optimizer.param_groups[0]["lr"]
    schedule.step()
    assert rate.item() == 0.25


def test_load_state_dict_refuses_what_does_not_fit():
    _, optimizer = ours("SGD", starts_and_grads(0)[0], lr=0.3)
    state = optimizer.state_dict()
    other = optim.SGD([nn.Parameter(ops.ones(1))], lr=0.1)
    with pytest.raises(ValueError, match="doesn't match the size"):
        other.load_state_dict(state)
    other.add_param_group({"params": [nn.Parameter(ops.ones(1))]})
    with pytest.raises(ValueError, match="different number of parameter groups"):
        other.load_state_dict(state)
    assert other.param_groups[0]["lr"] == 0.1


# Schedules -------------------------------------------------------------------------------------

SCHEDULES = [
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.9 if epoch % 2 else 1.05}),
    ("MultiStepLR", {"milestones": [3, 3, 8], "gamma": 0.5}),
    ("ConstantLR", {"factor": 0.3, "total_iters": 4}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"total_iters": 9, "power": 1.5}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2, "eta_min": 0.01}),
    ("OneCycleLR", {"max_lr": 0.4, "total_steps": 20}),
    ("OneCycleLR", {"max_lr": [0.4, 1.0], "epochs": 5, "steps_per_epoch": 6, "three_phase": True}),
    (
        "OneCycleLR",
        {"max_lr": 0.3, "total_steps": 25, "anneal_strategy": "linear", "cycle_momentum": False},
    ),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 3}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": [0.2, 0.3], "step_size_up": 3, "step_size_down": 2}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 2, "mode": "triangular2"}),
    (
        "CyclicLR",
        {"base_lr": 0.1, "max_lr": 0.2, "step_size_up": 4, "mode": "exp_range", "gamma": 0.9},
    ),
    (
        "CyclicLR",
        {"base_lr": 0.1, "max_lr": 0.2, "scale_fn": lambda x: 1 / x, "step_size_up": 2},
    ),
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.25, "end_factor": 0.75, "total_iters": 7}),
    ("CosineAnnealingLR", {"T_max": 8}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.9**epoch}),
    ("LambdaLR", {"lr_lambda": [lambda epoch: 1 / (epoch + 1), lambda epoch: 1.0]}),
]


def two_groups(tensor, parameter, sgd):
    groups = [{"params": [parameter(tensor(2))]}, {"params": [parameter(tensor(2))], "lr": 0.7}]
    return sgd(groups, lr=0.1)


def options_of(optimizer):
    """What schedules change: rates and momenta."""
    return [
        (group["lr"], group.get("momentum"), group.get("betas")) for group in optimizer.param_groups
    ]


def rates(schedule, optimizer, steps):
    seen = [options_of(optimizer)]
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        seen.append(options_of(optimizer))
        assert schedule.get_last_lr() == [lr for lr, _, _ in seen[-1]]
    return seen


def plain(state):
    """A schedule's state without what only names its implementation."""
    return {
        key: [plain(part) if isinstance(part, dict) else part for part in value]
        if isinstance(value, list)
        else value
        for key, value in state.items()
    }


@needs_torch
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_rates_and_state_equal_pytorch_exactly(name, options, kind):
    optimizer = two_groups(ops.ones, nn.Parameter, getattr(optim, kind))
    reference = two_groups(torch.ones, torch.nn.Parameter, getattr(torch.optim, kind))
    schedule = getattr(lr_scheduler, name)(optimizer, **options)
    expected = getattr(torch.optim.lr_scheduler, name)(reference, **options)
    assert rates(schedule, optimizer, 19) == rates(expected, reference, 19)
    assert plain(schedule.state_dict()) == plain(expected.state_dict())


@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_schedule_resumes_exactly(name, options, tmp_path):
    kind = getattr(lr_scheduler, name)
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    schedule = kind(optimizer, **options)
    rates(schedule, optimizer, 6)
    tinyt.save((schedule.state_dict(), optimizer.state_dict()), tmp_path / "state")
    saved = tinyt.load(tmp_path / "state")
    assert "optimizer" not in saved[0]
    resumed = two_groups(ops.ones, nn.Parameter, optim.SGD)
    twin = kind(resumed, **options)
    resumed.load_state_dict(saved[1])
    twin.load_state_dict(saved[0])
    assert rates(twin, resumed, 9) == rates(schedule, optimizer, 9)


def combined(tt, optimizer, name):
    s = tt.optim.lr_scheduler
    if name == "chained":
        return s.ChainedScheduler(
            [s.ConstantLR(optimizer, 0.1, 3), s.ExponentialLR(optimizer, 0.9)], optimizer
        )
    parts = [
        s.LinearLR(optimizer, 0.1, total_iters=4),
        s.CosineAnnealingLR(optimizer, 6),
        s.StepLR(optimizer, 2, 0.5),
        s.PolynomialLR(optimizer, 5),
    ]
    return s.SequentialLR(optimizer, parts, milestones=[4, 9, 13])


@needs_torch
@pytest.mark.parametrize("name", ["chained", "sequential"])
def test_combined_schedules_equal_pytorch_and_resume(name):
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    reference = two_groups(torch.ones, torch.nn.Parameter, torch.optim.SGD)
    schedule, expected = combined(tinyt, optimizer, name), combined(torch, reference, name)
    assert rates(schedule, optimizer, 6) == rates(expected, reference, 6)
    assert plain(schedule.state_dict()) == plain(expected.state_dict())
    resumed = two_groups(ops.ones, nn.Parameter, optim.SGD)
    twin = combined(tinyt, resumed, name)
    resumed.load_state_dict(reference.state_dict())
    twin.load_state_dict(expected.state_dict())
    assert rates(twin, resumed, 11) == rates(expected, reference, 11)


PLATEAUS = [
    {"patience": 2},
    {"mode": "max", "factor": 0.5, "patience": 0, "cooldown": 2},
    {"threshold": 0.3, "threshold_mode": "abs", "patience": 1, "min_lr": [0.01, 0.5]},
    {"mode": "max", "threshold": 0.3, "threshold_mode": "abs", "patience": 1, "min_lr": 0.05},
]


@needs_torch
@pytest.mark.parametrize("options", PLATEAUS)
def test_plateau_equals_pytorch(options):
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    reference = two_groups(torch.ones, torch.nn.Parameter, torch.optim.SGD)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    expected = torch.optim.lr_scheduler.ReduceLROnPlateau(reference, **options)
    for metric in np.random.default_rng(1).normal(size=30):
        schedule.step(ops.tensor(metric))
        expected.step(metric)
        assert options_of(optimizer) == options_of(reference)
    ours, theirs = schedule.state_dict(), expected.state_dict()
    assert ours.pop("best") == pytest.approx(theirs.pop("best"))
    assert ours == theirs


@needs_torch
@pytest.mark.parametrize(("epochs", "strategy"), [(5, "cos"), (4, "linear"), (0, "cos")])
def test_swa_rates_equal_pytorch(epochs, strategy):
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    reference = two_groups(torch.ones, torch.nn.Parameter, torch.optim.SGD)
    schedule = optim.swa_utils.SWALR(optimizer, [0.02, 0.9], epochs, strategy)
    expected = torch.optim.swa_utils.SWALR(reference, [0.02, 0.9], epochs, strategy)
    assert rates(schedule, optimizer, 9) == rates(expected, reference, 9)
    assert plain(schedule.state_dict()) == plain(expected.state_dict())


def test_warm_restarts_within_an_epoch():
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=3)
    schedule.step(5.0)
    assert (schedule.T_cur, schedule.T_i) == (3, 6)
    assert schedule.get_last_lr()[0] == pytest.approx(0.05)
    with pytest.raises(ValueError, match="non-negative epoch"):
        schedule.step(-1)


def test_step_before_the_optimizer_warns():
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()


def test_schedule_errors():
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        lr_scheduler.StepLR(3, 1)
    with pytest.raises(KeyError, match="'initial_lr' is not specified"):
        lr_scheduler.StepLR(optimizer, 1, last_epoch=4)
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        lr_scheduler.LambdaLR(optimizer, [lambda epoch: 1.0])
    with pytest.raises(ValueError, match="Starting multiplicative factor"):
        lr_scheduler.LinearLR(optimizer, start_factor=0)
    with pytest.raises(ValueError, match="step_size must be positive"):
        lr_scheduler.StepLR(optimizer, 0)
    with pytest.raises(ValueError, match="T_max must be positive"):
        lr_scheduler.CosineAnnealingLR(optimizer, 0)
    with pytest.raises(ValueError, match="anneal_strategy must be one of"):
        optim.swa_utils.SWALR(optimizer, 0.1, anneal_strategy="square")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0"):
        optim.swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(ValueError, match=r"Factor should be < 1"):
        lr_scheduler.ReduceLROnPlateau(optimizer, factor=1.0)
    with pytest.raises(ValueError, match="mode up is unknown"):
        lr_scheduler.ReduceLROnPlateau(optimizer, mode="up")
    with pytest.raises(ValueError, match=r"must define either total_steps"):
        lr_scheduler.OneCycleLR(optimizer, 0.1)
    with pytest.raises(ValueError, match="max_lr must have the same length"):
        lr_scheduler.OneCycleLR(optimizer, [0.1], total_steps=3)
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        lr_scheduler.CyclicLR(optim.Adagrad([nn.Parameter(ops.ones(1))]), 0.1, 0.2)
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        rates(lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=2), optimizer, 3)
    step = lr_scheduler.StepLR(optimizer, 1)
    with pytest.raises(ValueError, match="number of milestones to be equal to 2"):
        lr_scheduler.SequentialLR(optimizer, [step], milestones=[1, 2])
    with pytest.raises(ValueError, match="at least one scheduler"):
        lr_scheduler.ChainedScheduler([])
    other = two_groups(ops.ones, nn.Parameter, optim.SGD)
    with pytest.raises(ValueError, match="same optimizer"):
        lr_scheduler.ChainedScheduler([step, lr_scheduler.StepLR(other, 1)])


def test_set_state_of_a_subclass_fills_in_what_older_states_lack():
    seen = []

    class Counting(optim.SGD):
        def __setstate__(self, state):
            seen.append(sorted(state))
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("count", 7)

    p = nn.Parameter(tinyt.ones(2))
    optimizer = Counting([p], lr=0.1, momentum=0.5)
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [["param_groups", "state"]]
    assert optimizer.param_groups[0]["count"] == 7
    assert copy.deepcopy(optimizer).param_groups[0]["count"] == 7
    assert len(seen) == 2


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Rprop"])
def test_options_that_a_saved_group_lacks_have_their_defaults(kind):
    """As in a file of before they were there."""
    p = nn.Parameter(tinyt.ones(2))
    optimizer = getattr(optim, kind)([p], lr=0.25)
    state = optimizer.state_dict()
    state["param_groups"] = [{"lr": 0.125, "params": [0], "initial_lr": 1.0}]
    optimizer.load_state_dict(state)
    p.grad = tinyt.ones(2)
    optimizer.step()
    twin = nn.Parameter(tinyt.ones(2))
    twin.grad = tinyt.ones(2)
    getattr(optim, kind)([twin], lr=0.125).step()
    assert p.tolist() == twin.tolist()
    assert optimizer.param_groups[0]["initial_lr"] == 1.0
