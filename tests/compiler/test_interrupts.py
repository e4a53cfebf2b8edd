"""An interrupt that comes as something begins: nothing of it is left on the thread."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt import CaptureError, Tensor, _core
from tinyt._capture import Recorder, recorder
from tinyt.amp import autocast_mode
from tinyt.autograd import anomaly, mode
from tinyt.autograd import graph as autograd_graph
from tinyt.compiler.api import compile
from tinyt.compiler.capture.recording import recording


def interrupted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with Ctrl-C as it returns."""

    def call(*args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)
        raise KeyboardInterrupt

    return call


def require_ordinary() -> None:
    """Operations run at once, in the modes of a thread that has done nothing."""
    x = tinyt.ones(3, requires_grad=True)
    y = (x * 2).sum()
    y.backward()
    assert not _core.is_recording()
    assert not _core.is_lazy()
    assert not tinyt.is_inference_mode_enabled()
    assert not tinyt.is_anomaly_enabled()
    assert not y._is_recorded
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3
    assert (tinyt.ones(2, 2) @ tinyt.ones(2, 2)).dtype is tinyt.float32


def capture() -> Any:
    w = tinyt.nn.Parameter(tinyt.ones(3))
    return compile(lambda x: (x * w).sum())(tinyt.ones(3))


def eager_cond() -> Any:
    w = tinyt.nn.Parameter(tinyt.ones(3))
    return tinyt.cond(w.sum() > 0, lambda: w * 2, lambda: w * 3)


def captured_cond() -> Any:
    def step(x: Tensor) -> Tensor:
        return tinyt.cond(x.sum() > 0, lambda x: x * tinyt.rand(3), lambda x: -tinyt.rand(3), (x,))

    return compile(step)(tinyt.ones(3))


@pytest.mark.parametrize("call", [capture, eager_cond, captured_cond])
@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_recording_that_begins(
    call: Callable[[], Any], which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of itself and of the parts in it; the memory of one that is left would be read later."""
    begin, count = _core.Graph.begin, 0

    def counted(*args: Any) -> None:
        nonlocal count
        begin(*args)
        count += 1
        if count == which:
            raise KeyboardInterrupt

    monkeypatch.setattr(_core.Graph, "begin", counted)
    for _ in range(3):
        count = 0
        with contextlib.suppress(KeyboardInterrupt):
            call()
        gc.collect()
        require_ordinary()
    monkeypatch.undo()
    call()


def test_the_owner_of_a_recording_lives_as_long_as_it_does() -> None:
    graph = _core.Graph()
    graph.begin(Recorder())
    try:
        junk = [[Recorder() for _ in range(10)] for _ in range(100)]
        owner = recorder()
        y = tinyt.ones(2) + 1
        assert type(owner) is Recorder
        assert not any(owner is x for row in junk for x in row)
        assert y._is_recorded
    finally:
        graph.end()
    require_ordinary()


def test_the_end_of_a_recording_that_has_not_begun() -> None:
    with recording() as (core, _):
        _core.Graph().end()
        assert _core.is_recording()
        with pytest.raises(CaptureError, match="already under way"), recording():
            pass
        assert _core.is_recording()
    core.end()
    require_ordinary()


def test_a_part_that_is_left_open() -> None:
    with recording() as (_, recorder):
        _core.new_part().begin(recorder)
    require_ordinary()


def test_the_trace_function(monkeypatch: pytest.MonkeyPatch) -> None:
    before, settrace = sys.gettrace(), sys.settrace

    def once(function: Any) -> None:
        monkeypatch.undo()
        settrace(function)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "settrace", once)
    with pytest.raises(KeyboardInterrupt):
        capture()
    assert sys.gettrace() is before
    require_ordinary()


def test_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    was_enabled = gc.isenabled()
    gc.enable()
    try:
        monkeypatch.setattr(gc, "disable", interrupted(gc.disable))
        with pytest.raises(KeyboardInterrupt):
            capture()
        monkeypatch.undo()
        assert gc.isenabled()
    finally:
        (gc.enable if was_enabled else gc.disable)()
    require_ordinary()


def test_a_lazy_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "begin_lazy", interrupted(_core.begin_lazy))
    with pytest.raises(KeyboardInterrupt), tinyt.lazy():
        pass
    require_ordinary()
    monkeypatch.undo()
    monkeypatch.setattr(_core, "end_lazy", interrupted(_core.end_lazy))
    with pytest.raises(KeyboardInterrupt), tinyt.lazy():
        tinyt.ones(3) * 2
    require_ordinary()


def test_a_lazy_block_in_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with tinyt.lazy():
        with monkeypatch.context() as patch:
            patch.setattr(_core, "begin_lazy", interrupted(_core.begin_lazy))
            with pytest.raises(KeyboardInterrupt), tinyt.lazy():
                pass
        assert _core.is_lazy()
    require_ordinary()


def test_an_autocast_block(monkeypatch: pytest.MonkeyPatch) -> None:
    set_state = autocast_mode.set_autocast_state

    def once(*args: Any) -> None:
        monkeypatch.undo()
        set_state(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(autocast_mode, "set_autocast_state", once)
    with pytest.raises(KeyboardInterrupt), tinyt.autocast("cpu"):
        pass
    assert not tinyt.is_autocast_enabled("cpu")
    assert not autocast_mode._outer.states
    require_ordinary()


def test_a_block_of_saved_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = tinyt.autograd.graph.saved_tensors_hooks(lambda x: 1 / 0, lambda x: x)
    push = interrupted(autograd_graph.push_saved_hooks)
    monkeypatch.setattr(autograd_graph, "push_saved_hooks", push)
    with pytest.raises(KeyboardInterrupt), hooks:
        pass
    require_ordinary()


def test_an_inference_block(monkeypatch: pytest.MonkeyPatch) -> None:
    enter = mode.GradMode.__enter__
    monkeypatch.setattr(mode._Mode, "__enter__", interrupted(enter), raising=False)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), tinyt.inference_mode():
            pass
        require_ordinary()


def test_other_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is interrupted as its setter returns the first time."""
    threads = tinyt.get_num_threads()
    blocks = {
        (mode, "_set_grad_enabled"): lambda: tinyt.set_grad_enabled(True),
        (anomaly, "set_anomaly_hooks"): tinyt.autograd.detect_anomaly,
        (_core, "set_num_threads"): lambda: tinyt.num_threads(threads + 1),
    }
    for (module, name), make in blocks.items():
        block, function = make(), getattr(module, name)
        block.mode = False  # of `set_grad_enabled`, as it enters

        def once(*args: Any, function: Any = function) -> None:
            monkeypatch.undo()
            function(*args)
            raise KeyboardInterrupt

        monkeypatch.setattr(module, name, once)
        with pytest.raises(KeyboardInterrupt), block:
            pass
        require_ordinary()
        assert tinyt.get_num_threads() == threads
