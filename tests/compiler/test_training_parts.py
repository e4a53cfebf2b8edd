"""Parts of training steps: what comes from state, and what tells recordings apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from flow import bits
from tinyt import Tensor, amp, nn, optim
from tinyt.compiler.api import compile
from tinyt.compiler.capture.compare import difference
from tinyt.utils.checkpoint import checkpoint


def test_the_cumulative_average_of_batch_norm() -> None:
    def train(compiled: bool) -> Any:
        tinyt.manual_seed(0)
        net = nn.BatchNorm1d(3, momentum=None)

        def step(x: Tensor) -> Tensor:
            return net(x).detach()

        run = compile(step) if compiled else step
        batches = [tinyt.randn(4, 3) for _ in range(6)]
        found = [bits(run(x)) for x in batches]
        if compiled:
            assert run.cache_info().currsize == 1
        means = np.mean([x.numpy(force=True).mean(0) for x in batches], axis=0)
        np.testing.assert_allclose(net.running_mean.numpy(force=True), means, rtol=1e-5, atol=1e-6)
        return found, bits(dict(net.state_dict()))

    assert train(True) == train(False)


@pytest.mark.parametrize("option", ["nesterov", "maximize"])
def test_recordings_of_optimisers_that_differ_in_an_option_differ(option: str) -> None:
    """Also where what is recorded reads and writes the same tensors."""
    w = nn.Parameter(tinyt.ones(3))
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compile(step)
    for value in (False, True):
        optimizer.param_groups[0][option] = value
        run(tinyt.ones(3))
    one, other = (entry.capture for entry in run.entries)
    assert "was SGD" in str(difference(one, other))
    assert difference(one, one) is None


@pytest.mark.parametrize("when", ["pre", "post"])
def test_hooks_of_a_step_are_those_of_now(when: str) -> None:
    def weights(make: Any) -> list[Any]:
        tinyt.manual_seed(0)
        net = nn.Linear(3, 1)
        optimizer = optim.SGD(net.parameters(), lr=0.1)

        def step(x: Tensor) -> None:
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()

        def halve(*_: Any) -> None:
            net.weight.detach().mul_(0.5)

        run, found = make(step), []
        for i in range(6):
            if i == 2:
                hook = getattr(optimizer, f"register_step_{when}_hook")(halve)
            elif i == 4:
                hook.remove()
            run(tinyt.randn(2, 3))
            found.append(bits(net.weight))
        return found

    assert weights(compile) == weights(lambda f: f)


# ---- activation checkpoints


def blocks(again: bool, **how: Any) -> tuple[Any, Any]:
    """A step over wide blocks with dropout, and what it changes."""
    tinyt.manual_seed(0)
    net = nn.ModuleList(
        nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 16))
        for _ in range(6)
    )
    optimizer = optim.AdamW(net.parameters(), lr=1e-2)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        x = net[0](x)
        for block in net[1:]:
            x = checkpoint(block, x, **how) if again else block(x)
        loss = (x * tinyt.rand(x.shape)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, net


def trained(step: Any, net: nn.Module, calls: int = 5) -> Any:
    tinyt.manual_seed(1)
    losses = [bits(step(tinyt.randn(128, 16))) for _ in range(calls)]
    return losses, bits(dict(net.state_dict())), tinyt.get_rng_state().tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_checkpoint_draws_again_what_it_drew(threads: int) -> None:
    """And takes the memory that it takes in eager mode."""
    with tinyt.num_threads(threads):
        found, peaks = [], []
        for again in (True, False):
            eager, net = blocks(again)
            found.append(trained(eager, net))
            step, net = blocks(again)
            run = compile(step)
            found.append(trained(run, net))
            peaks.append(run.peak_bytes)
    assert found == found[:1] * 4
    assert peaks[0] < peaks[1] * 0.6


@pytest.mark.parametrize("how", [{"preserve_rng_state": False}, {"use_reentrant": True}])
def test_checkpoints_of_other_kinds(how: dict[str, bool]) -> None:
    one, other = (blocks(True, **how) for _ in range(2))
    assert trained(compile(one[0]), one[1]) == trained(*other)


class Checkpointed(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(8, 8), nn.Linear(8, 8), nn.Dropout(dropout)

    def cell(self, h: Tensor, x: Tensor) -> Any:
        h = self.drop(tinyt.tanh(self.b(h) + x))
        return h, h

    def forward(self, x: Tensor) -> Tensor:
        with tinyt.autocast("cpu", dtype=tinyt.bfloat16):
            x = checkpoint(lambda x: tinyt.dropout(self.a(x), 0.3, True), x).float()
        return tinyt.scan(lambda h, x: checkpoint(self.cell, h, x), tinyt.zeros(8), x)[0]


def test_checkpoints_in_autocast_in_modules_and_in_scan() -> None:
    seen = []
    for make in (lambda f: f, compile):
        tinyt.manual_seed(0)
        net = Checkpointed(0.0)
        run = make(net)
        for _ in range(4):
            run(tinyt.randn(5, 8)).sum().backward()
        seen.append(([bits(p.grad) for p in net.parameters()], tinyt.get_rng_state().tolist()))
    assert seen[0] == seen[1]


def test_a_checkpoint_in_scan_that_draws_is_refused() -> None:
    with pytest.raises(tinyt.CaptureError, match="outside of the checkpoint"):
        compile(Checkpointed(0.2))(tinyt.randn(5, 8))


def test_a_checkpoint_around_a_compiled_function_is_refused() -> None:
    run = compile(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.5)))
    with pytest.raises(tinyt.CaptureError, match="into the function"):
        checkpoint(run, tinyt.ones(2, 4))


# ---- GradScaler

STEPS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.1, momentum=0.5),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
}


def scaled(optimizer: Any, net: nn.Module, clip: bool = False) -> tuple[Any, amp.GradScaler]:
    scaler = amp.GradScaler("cpu", init_scale=1000.3, growth_interval=3, growth_factor=1.7)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step, scaler


def one_nan(x: Tensor) -> Tensor:
    """Which of two NaNs comes out of a sum is the C++ compiler's choice."""
    return tinyt.where(x.isnan(), float("nan"), x)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_scaled_step_is_left_out_where_gradients_are_not_finite(name: str, clip: bool) -> None:
    seen = []
    for make in (lambda f: f, compile):
        tinyt.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
        optimizer = STEPS[name](net.parameters())
        step, scaler = scaled(optimizer, net, clip)
        run = make(step)
        found = []
        for i in range(14):
            x = tinyt.randn(6, 4)
            if i in (0, 5, 6, 12):
                x[0, 0] = float("inf") if i % 2 else float("nan")
            loss = bits(one_nan(run(x)))
            found.append((loss, bits(dict(net.state_dict())), scaler.state_dict()))
            found.append([bits(one_nan(p.grad)) for p in net.parameters()])
            found.append([bits(state) for state in optimizer.state.values()])
        seen.append(found)
    assert seen[0] == seen[1]
    assert run.cache_info().currsize == 1
    scales = [entry[2]["scale"] for entry in seen[0][::3]]
    assert scales[0] == 1000.3 / 2
    assert scales[3] == scales[0] * 1.7


def test_a_scaler_that_tells_which_step_it_cannot_leave_out() -> None:
    net = nn.Linear(2, 1)
    step, _ = scaled(optim.NAdam(net.parameters()), net)
    for _ in range(2):  # and goes on in eager mode
        with pytest.raises(tinyt.CaptureError, match=r"NAdam cannot be left out .* outside"):
            compile(step)(tinyt.ones(1, 2))
        step(tinyt.ones(1, 2))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: None)
    step, _ = scaled(optimizer, net)
    with pytest.raises(tinyt.CaptureError, match="hooks of a step"):
        compile(step)(tinyt.ones(1, 2))


def test_a_scaler_that_is_updated_outside_is_refused() -> None:
    net = nn.Linear(2, 1)
    optimizer, scaler = optim.SGD(net.parameters(), lr=0.1), amp.GradScaler("cpu")

    @compile
    def step(x: Tensor) -> None:
        scaler.scale(net(x).sum()).backward()
        scaler.step(optimizer)

    with pytest.raises(tinyt.CaptureError, match="belong together"):
        step(tinyt.ones(1, 2))


def test_what_is_unscaled_outside_is_not_unscaled_again() -> None:
    net = nn.Linear(2, 1)
    optimizer, scaler = optim.SGD(net.parameters(), lr=0.1), amp.GradScaler("cpu")

    @compile
    def finish() -> None:
        scaler.step(optimizer)
        scaler.update()

    def begin() -> None:
        optimizer.zero_grad()
        scaler.scale(net(tinyt.ones(1, 2)).sum()).backward()
        scaler.unscale_(optimizer)

    begin()
    finish()
    begin()
    before = bits(net.weight)
    with pytest.raises(tinyt.CaptureError, match="belong together"):
        finish()
    assert bits(net.weight) == before
    assert net.weight.grad.tolist() == [[1.0, 1.0]]


def test_losses_are_scaled_inside_and_steps_taken_outside() -> None:
    """Two networks, whose losses a compiled function scales, and one update."""

    def states(make: Any) -> list[Any]:
        tinyt.manual_seed(0)
        nets = nn.Linear(2, 1), nn.Linear(2, 1)
        optimizers = [optim.SGD(net.parameters(), lr=0.1) for net in nets]
        scaler = amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)

        def backward(net: nn.Module, x: Tensor) -> None:
            scaler.scale(net(x).sum()).backward()

        run, found = make(backward), []
        for _ in range(4):
            for net, optimizer in zip(nets, optimizers, strict=True):
                optimizer.zero_grad()
                run(net, tinyt.randn(3, 2))
                scaler.step(optimizer)
            scaler.update()
            found.append((scaler.state_dict(), [bits(net.weight) for net in nets]))
        return found

    assert states(compile) == states(lambda f: f)


def test_options_of_a_scaler_are_those_of_now() -> None:
    seen = []
    for make in (lambda f: f, compile):
        tinyt.manual_seed(0)
        net = nn.Linear(4, 1)
        step, scaler = scaled(optim.SGD(net.parameters(), lr=0.1), net)
        run = make(step)
        for i in range(14):
            if i == 3:
                scaler.set_growth_interval(1)
            elif i == 6:
                scaler.set_growth_factor(3.1)
            elif i == 9:
                scaler.set_backoff_factor(0.3)
            x = tinyt.randn(6, 4)
            if i in (4, 11):
                x[0, 0] = float("inf")
            run(x)
            seen.append((bits(net.weight), scaler.state_dict()))
    assert seen[:14] == seen[14:]


def test_a_scaler_goes_on_from_its_saved_state() -> None:
    scaler = amp.GradScaler("cpu", init_scale=1000.3)
    other = amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    other.scale(tinyt.ones(()))
    other.update(0.1)
    assert other.get_scale() == 0.1


def test_an_optimiser_made_in_the_function_is_refused() -> None:
    net = nn.Linear(2, 1)

    @compile
    def step(x: Tensor) -> None:
        optimizer = optim.Adam(net.parameters())
        net(x).sum().backward()
        optimizer.step()

    with pytest.raises(tinyt.CaptureError, match="make the optimiser outside"):
        step(tinyt.ones(1, 2))
