"""Optimisers and schedules: the same trajectories, rates and state layout as PyTorch's."""

import math

import numpy as np
import pytest

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
        (lambda p: optim.SGD([p, p]), ValueError, "the same parameter twice"),
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
        (lambda p: optim.Adam([p], eps=-1.0), ValueError, "Invalid epsilon value"),
    ],
)
def test_wrong_arguments(make, kind, message):
    with pytest.raises(kind, match=message):
        make(nn.Parameter(ops.ones(2)))


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


def rates(schedule, optimizer, steps):
    seen = [[group["lr"] for group in optimizer.param_groups]]
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        seen.append([group["lr"] for group in optimizer.param_groups])
        assert schedule.get_last_lr() == seen[-1]
    return seen


@needs_torch
@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_rates_equal_pytorch_exactly(name, options):
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    reference = two_groups(torch.ones, torch.nn.Parameter, torch.optim.SGD)
    schedule = getattr(lr_scheduler, name)(optimizer, **options)
    expected = getattr(torch.optim.lr_scheduler, name)(reference, **options)
    assert rates(schedule, optimizer, 20) == rates(expected, reference, 20)


@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_schedule_resumes_exactly(name, options):
    kind = getattr(lr_scheduler, name)
    optimizer = two_groups(ops.ones, nn.Parameter, optim.SGD)
    schedule = kind(optimizer, **options)
    rates(schedule, optimizer, 6)
    saved = schedule.state_dict(), optimizer.state_dict()
    assert "optimizer" not in saved[0]
    resumed = two_groups(ops.ones, nn.Parameter, optim.SGD)
    twin = kind(resumed, **options)
    resumed.load_state_dict(saved[1])
    twin.load_state_dict(saved[0])
    assert rates(twin, resumed, 9) == rates(schedule, optimizer, 9)


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
