"""Programs that are not to be compiled, or cannot be: `_dynamo.config`, the environment."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

import tinyt
from tinyt import CaptureError, nn
from tinyt._dynamo import config
from tinyt.compiler.switches import OFF, SUPPRESS


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    yield
    config.disable = config.suppress_errors = False


def double(x: Any) -> Any:
    return x * 2


def branch(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else -x


@pytest.mark.parametrize("name", OFF)
def test_the_environment_disables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "0")
    assert tinyt.compile(double) is not double
    monkeypatch.setenv(name, "1")
    assert tinyt.compile(double) is double
    assert tinyt.compile()(double) is double
    model = nn.Linear(2, 2)
    assert tinyt.compile(model) is model
    model.compile()
    assert model(tinyt.ones(2)).shape == (2,)
    del model
    gc.collect()  # a module that is compiled in place is in a cycle


def test_the_setting_disables() -> None:
    before = tinyt.compile(branch)
    config.disable = True
    assert tinyt.compile(double) is double
    assert before(tinyt.ones(2)).tolist() == [2.0, 2.0]
    assert before(-tinyt.ones(2)).tolist() == [1.0, 1.0]
    config.disable = False
    with pytest.raises(CaptureError, match="value is not known"):
        before(tinyt.ones(2))


def test_settings_of_a_block() -> None:
    with config.patch(disable=True):
        assert tinyt.compile(double) is double
    assert tinyt.compile(double) is not double

    @config.patch("suppress_errors", True)
    def run() -> Any:
        return tinyt.compile(branch)(tinyt.ones(2))

    with pytest.warns(UserWarning, match="branch runs as written"):
        assert run().tolist() == [2.0, 2.0]
    assert config.suppress_errors is False
    with pytest.raises(AttributeError, match="no_such"), config.patch({"no_such": 1}):
        pass


def test_an_error_is_a_warning_once() -> None:
    config.suppress_errors = True
    step = tinyt.compile(branch)
    with pytest.warns(UserWarning, match="(?s)branch runs as written.*in `x . 2 if") as said:
        assert step(tinyt.ones(2)).tolist() == [2.0, 2.0]
    assert [w.filename for w in said] == [__file__]
    for _ in range(2):
        assert step(-tinyt.ones(2)).tolist() == [1.0, 1.0]
    assert step.explain().startswith("runs as written: if: a tensor's value")
    step.cache_clear()
    config.suppress_errors = False
    with pytest.raises(CaptureError):
        step(tinyt.ones(2))


def test_the_environment_suppresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUPPRESS, "1")
    with pytest.warns(UserWarning, match="runs as written"):
        assert tinyt.compile(branch)(tinyt.ones(2)).tolist() == [2.0, 2.0]


def test_what_has_a_program_keeps_it() -> None:
    """Another call cannot be captured: programs that are there run on."""
    config.suppress_errors = True

    @tinyt.compile
    def step(x: Any, look: bool) -> Any:
        return x * 2 if not look or x.sum() > 0 else -x

    for _ in range(3):
        step(tinyt.ones(2), False)
    with pytest.warns(UserWarning, match="runs as written"):
        assert step(-tinyt.ones(2), True).tolist() == [1.0, 1.0]
    hits = step.cache_info().hits
    assert step(tinyt.ones(2), False).tolist() == [2.0, 2.0]
    assert step.cache_info().hits == hits + 1


def test_a_second_recording_that_differs() -> None:
    """It is made while there is the first call's result."""
    config.suppress_errors = True
    step = tinyt.compile(lambda x: x * random.random())
    random.seed(0)
    with pytest.warns(UserWarning, match="second call is not as the first"):
        first = step(tinyt.ones(2))
    random.seed(0)
    assert first.tolist() == tinyt.tensor([random.random()] * 2).tolist()
    assert step.entries == []
    assert step(tinyt.ones(2)).tolist() != step(tinyt.ones(2)).tolist()


def test_errors_of_the_function_are_its_own() -> None:
    config.suppress_errors = True

    @tinyt.compile
    def step(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        step(tinyt.ones(2))


def training(compiled: bool) -> list[Any]:
    """What a training step leaves that changes all kinds of Python's objects, and ends in an
    error of the recording."""
    tinyt.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.2), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = tinyt.optim.Adam(model.parameters(), lr=0.1)
    schedule = tinyt.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    log: list[Any] = []
    kept: dict[str, Any] = {"count": 0}
    seen: set[int] = set()
    last: deque[int] = deque(maxlen=3)
    count = 0

    class State:
        __slots__ = ("n",)
        in_class = 0

    state = State()
    state.n = 0

    def step(x: Any, y: Any) -> float:
        nonlocal count
        count += 1
        state.n += 1
        State.in_class += 2
        model.train()
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        log.append(loss.detach())
        kept["loss"] = loss.detach()
        kept["count"] += 1
        seen.add(count)
        last.append(count)
        return float(loss)

    run = tinyt.compile(step) if compiled else step
    data = tinyt.Generator()
    losses = []
    for i in range(5):
        data.manual_seed(i)
        x, y = tinyt.randn(8, 4, generator=data), tinyt.randn(8, 1, generator=data)
        losses.append(run(x, y))
    parameters = [p.tolist() for p in model.parameters()]
    rates = [group["lr"] for group in optimizer.param_groups]
    tensors = [x.item() for x in log], {k: float(v) for k, v in kept.items()}
    counts = [count, state.n, State.in_class, schedule.last_epoch, seen, list(last)]
    return [losses, parameters, rates, *tensors, *counts]


def test_recordings_leave_nothing() -> None:
    config.suppress_errors = True
    with pytest.warns(UserWarning, match="runs as written"):
        found = training(compiled=True)
    assert found == training(compiled=False)


def test_in_a_process_of_its_own(tmp_path: Any) -> None:
    """Under PyTorch's name."""
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\nimport torch._dynamo\ntorch._dynamo.config.suppress_errors = True\n"
        "f = torch.compile(lambda x: x.sum().item())\nprint(f(torch.ones(2)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tinyt", "run", str(program)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("2.0\n", "")
