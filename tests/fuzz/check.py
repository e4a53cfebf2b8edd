"""Runs a graph in all ways; says what differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import tinyt
from fuzz.case import Case, function_of, inputs_of, nets_of
from fuzz.steps import Net
from sampling import assert_same_bits, flat
from tinyt import CaptureError, Tensor
from tinyt.compiler.api import compile

CALLS = 4
REFUSED = (
    r"depends on data|value is not known while recording|made in the function|requires grad|"
    r"has a tape|changes what|cannot be read anew|"
    r"draw different amounts|gradient inside of cond or scan draws|"
    r"writes into a tensor that it was given|functions draw random numbers|"
    r"gradient of a branch cannot be recorded"
)
# What eager finds in values, and a program takes as it is (docs/compile.md).
LOOKED_AT = (
    r"var has negative entries|p must be in \[0, 1\]|the input must be between 0 and 1|"
    r"weights must be finite|(std|count) must not be negative|expected rate to be non-negative|"
    r"is not positive-definite|_lengths must be between 0 and"
)


class Failure(NamedTuple):
    """An error; the exception itself would hold the frames, and they it."""

    kind: type[Exception]
    message: str

    def is_refusal(self) -> bool:
        """Whether it says that the graph cannot be compiled."""
        return self.kind is CaptureError and re.search(REFUSED, self.message) is not None

    def is_of_values(self) -> bool:
        """Whether only eager looks for that."""
        return re.search(LOOKED_AT, self.message) is not None


def check(case: Case) -> str | None:
    """What is wrong; None where nothing is, "" where the graph cannot be compiled."""
    return compare(
        lambda nets: function_of(case, nets),
        lambda call: inputs_of(case, call),
        lambda: nets_of(case),
    )


def compare(
    function: Callable[[list[Net]], Callable[..., Any]],
    inputs: Callable[[int], list[Tensor]],
    nets: Callable[[], list[Net]],
) -> str | None:
    """Calls of the function by itself, compiled with verify, compiled for one and two threads, and
    as a lazy block, each with networks of its own."""
    ways: list[tuple[str, int, Callable[..., Any]]] = [
        ("eager", 1, lambda step: step),
        ("verified", 2, partial(compile, verify=True)),
        ("one thread", 1, compile),
        ("two threads", 2, compile),
        ("lazy", 2, tinyt.lazy()),
    ]
    want: list[Any] = []
    refused = False
    for name, threads, way in ways:
        own = nets()
        step = way(function(own))
        with tinyt.num_threads(threads):
            for call in range(CALLS):
                found = outcome(step, inputs(call), own, call)
                if name == ways[0][0]:
                    want.append(found)
                    continue
                if isinstance(found, Failure) and found.is_refusal():
                    refused = True
                    break
                # To verify, the function is run again, on what it wrote.
                both = (want[call], found)
                if any(isinstance(x, Failure) and x.is_of_values() for x in both):
                    break
                wrong = difference(found, want[call])
                if wrong:
                    return f"{name}, call {call}: {wrong}"
                if isinstance(found, Failure):
                    break  # nothing is said about later calls
    return "" if refused else None


def outcome(step: Any, args: list[Tensor], nets: list[Net], call: int) -> Any:
    """All that a call gives and changes, or its error."""
    tinyt.manual_seed(call)
    try:
        results = list(flat(step(*args)))
    except Exception as error:
        return Failure(type(error), str(error))
    states = [x for net in nets for x in net.state()]
    memory = [memory_of(x) for x in args]
    return [frozen(x) for x in (*results, *args, *memory, *states, tinyt.get_rng_state())]


def memory_of(x: Tensor) -> Tensor:
    """All of a tensor's memory, what lies around it, too."""
    x = x.detach()
    return x.as_strided((x._storage_elements,), (1,), 0)


def frozen(x: Any) -> Any:
    """A copy."""
    if not isinstance(x, Tensor):
        return x
    form = (tuple(x.shape), x.dtype, x.requires_grad)
    x = x.detach().clone()
    return form, (x.float() if x.dtype is tinyt.bfloat16 else x)


def difference(got: Any, want: Any) -> str:
    """What of an outcome is not as it must be."""
    if isinstance(got, Failure) or isinstance(want, Failure):
        if isinstance(got, Failure) and isinstance(want, Failure) and got.kind is want.kind:
            return ""
        said = [str(x) if isinstance(x, Failure) else "no error" for x in (got, want)]
        return f"{said[0][:900]}; eager has {said[1]}"
    if len(got) != len(want):
        return f"{len(got)} values instead of {len(want)}"
    for i, (x, y) in enumerate(zip(got, want, strict=True)):
        if not isinstance(y, tuple):
            if x is not y and x != y and not (x != x and y != y):
                return f"value {i}: {x!r} instead of {y!r}"
            continue
        if not isinstance(x, tuple) or x[0] != y[0]:
            return f"value {i}: {x[0] if isinstance(x, tuple) else x} instead of {y[0]}"
        try:
            assert_same_bits(x[1], y[1])
        except AssertionError as error:
            return f"value {i}: " + " ".join(str(error).split())[:300]
    return ""
