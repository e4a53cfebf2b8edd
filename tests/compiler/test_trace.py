"""Traces of compiled functions, against the trace event format.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import os
from itertools import pairwise

import pytest

import tinyt
import tinyt.nn as nn
import tinyt.nn.functional as F


def bits(x):
    """The bytes of a tensor's elements."""
    return x.detach().contiguous().numpy(force=True).tobytes()


def compiled_step():
    tinyt.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = tinyt.optim.AdamW(model.parameters(), lr=1e-3)

    @tinyt.compile(name='a "step" <of> ours')
    def function(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return function


ARGUMENTS = tinyt.ones(32, 64), tinyt.zeros(32, dtype=tinyt.int64)

# What each kind of event must have, and of which type; `ts` and `dur` are microseconds.
COMMON = {"name": str, "ph": str, "pid": int, "tid": int, "ts": (int, float), "args": dict}
FIELDS = {"X": {**COMMON, "cat": str, "dur": (int, float)}, "M": COMMON, "C": COMMON}


def refuse(constant):
    raise ValueError(f"{constant} is no JSON")


def check_format(text):
    """A JSON object with events that a viewer takes; returns these."""
    trace = json.loads(text, parse_constant=refuse)
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    threads = set()
    for event in events:
        fields = FIELDS[event["ph"]]
        assert set(event) == set(fields)
        for name, kind in fields.items():
            assert isinstance(event[name], kind), (name, event[name])
        assert event["ts"] >= 0
        assert event["pid"] == os.getpid()
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            threads.add(event["tid"])
        elif event["ph"] == "C":
            assert event["args"]
            assert all(isinstance(x, int) and x >= 0 for x in event["args"].values())
        else:
            assert event["dur"] >= 0
            assert event["tid"] in threads
    return events


def test_a_trace_has_every_step_once_and_in_order(tmp_path):
    step = compiled_step()
    path = tmp_path / "trace.json"
    for _ in range(2):
        step(*ARGUMENTS)
    step.profile(path, *ARGUMENTS)
    events = check_format(path.read_text())
    spans = [event for event in events if event["ph"] == "X"]
    rows = step.report().rows
    assert [event["args"]["step"] for event in spans] == list(range(len(rows)))
    for event, row in zip(spans, rows, strict=True):
        args = event["args"]
        assert tuple(args["ops"]) == row.ops
        assert args["inputs"] == [str(x) for x in row.inputs]
        assert args["outputs"] == [str(x) for x in row.outputs]
        assert (args["bytes read"], args["bytes written"]) == (row.bytes_read, row.bytes_written)
        assert args["FLOP"] == row.flops
        assert event["dur"] == pytest.approx(row.seconds * 1e6)
    # Steps of one thread do not overlap.
    for thread in {event["tid"] for event in spans}:
        own = sorted((e for e in spans if e["tid"] == thread), key=lambda event: event["ts"])
        for first, second in pairwise(own):
            assert first["ts"] + first["dur"] <= second["ts"] + 1e-6
    (name,) = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert name == 'tinyt: a "step" <of> ours'


def test_the_memory_tracks_are_the_plan(tmp_path):
    step = compiled_step()
    path = tmp_path / "trace.json"
    for _ in range(2):
        step(*ARGUMENTS)
    step.profile(path, *ARGUMENTS)
    events = check_format(path.read_text())
    memory = [e["args"] for e in events if e["ph"] == "C" and e["name"] == "memory"]
    arena = [e["args"]["in use"] for e in events if e["ph"] == "C" and e["name"] == "arena"]
    program = step.entries[0].program_object
    held = [args["arena"] + args["blocks"] + args["results"] for args in memory]
    assert held[:-1] == program.held_bytes()
    assert len(memory) == len(arena) == len(program.steps()) + 1
    assert 0 < max(arena) <= program.arena_bytes
    assert memory[-1]["arena"] == memory[-1]["blocks"] == arena[-1] == 0
    parameters = step.entries[0].capture.set_grads
    made = sum(leaf.numel() * 4 for leaf, *_ in parameters) + 4  # gradients and the loss
    assert memory[-1]["results"] == made


def test_a_profile_is_one_call(tmp_path):
    losses = []
    for calls in ("ccccc", "ccpcp"):
        tinyt.manual_seed(0)
        model = nn.Linear(8, 4)
        optimizer = tinyt.optim.SGD(model.parameters(), lr=0.1)

        @tinyt.compile
        def train(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        x = tinyt.ones(3, 8)
        run = {"c": train, "p": lambda x, train=train: train.profile(tmp_path / "trace.json", x)}
        losses.append([bits(run[c](x)) for c in calls])
    assert losses[0] == losses[1]


def test_what_cannot_be_profiled_is_an_error_before_the_call(tmp_path):
    step = compiled_step()
    path = tmp_path / "trace.json"
    with pytest.raises(RuntimeError, match="has no program yet; its first call makes one"):
        step.profile(path, *ARGUMENTS)
    assert not path.exists()
    step(*ARGUMENTS)
    counted = step.cache_info()
    with pytest.raises(FileNotFoundError):
        step.profile(tmp_path / "missing" / "trace.json", *ARGUMENTS)
    assert step.cache_info() == counted


def test_a_function_without_steps_has_a_trace(tmp_path):
    function = tinyt.compile(lambda x: x)
    x = tinyt.ones(3)
    function(x)
    assert function.profile(tmp_path / "trace.json", x) is x
    events = check_format((tmp_path / "trace.json").read_text())
    assert not [event for event in events if event["ph"] == "X"]
