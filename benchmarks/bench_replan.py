"""What a new size costs a compiled function: `python -m benchmarks.bench_replan [--check]`.

Two functions of about 2,000 recorded operations, a training step of a transformer and a chain, are
called with one size after another. Printed are the least times of a capture (the function's own
Python) and of what comes after it until the program is there; `--check` exits with 1 where that is
more than 20 ms. With `dynamic=True` nothing is captured: that is the whole work, at most 20 ms as
well. The last lines are first captures of about 20,000 operations, at most 5 s.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tinyt
from benchmarks import networks
from tinyt.compiler.compiled import Compiled

MOST_BEYOND, MOST_CAPTURE = 0.020, 5.0
Function = Callable[..., Any]
Arguments = Callable[[int], tuple[Any, ...]]


class Timed(Compiled):
    """Knows how long its last capture took, and what came after it."""

    capture = captured = derived = 0.0

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, what, time.perf_counter() - start)

    def _capture(self, *args: Any, **kwargs: Any) -> Any:
        with self._timed("capture"):
            return super()._capture(*args, **kwargs)

    def _captured(self, *args: Any, **kwargs: Any) -> Any:
        with self._timed("captured"):
            return super()._captured(*args, **kwargs)

    def _derived(self, *args: Any, **kwargs: Any) -> Any:
        with self._timed("derived"):
            return super()._derived(*args, **kwargs)

    @property
    def beyond(self) -> float:
        return self.captured - self.capture


def transformer(depth: int) -> tuple[Function, Arguments]:
    """A training step; some 90 operations a layer."""
    model = networks.gpt(64, 32, 2, depth, 16)(tinyt)
    optimizer = tinyt.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = tinyt.nn.functional.cross_entropy(model(x).reshape(-1, 64), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda n: (tinyt.randint(0, 64, (n, 16)), tinyt.randint(0, 64, (n, 16)))


def chain(turns: int) -> tuple[Function, Arguments]:
    """Arithmetic, views, concatenations and copies; 14 operations a turn."""

    def function(x: Any, y: Any) -> Any:
        for _ in range(turns):
            a, b = (x * 0.5 + y).tanh().chunk(2, 1)
            x = tinyt.cat([b, a], 1)
            x = x - x.mean(1, keepdim=True)
            x = x.reshape(-1).reshape(y.shape).t().clone().t()
        return x

    return function, lambda n: (tinyt.randn(n, 8), tinyt.randn(n, 8))


def nodes(compiled: Compiled) -> int:
    return len(compiled.entries[0].capture.core.nodes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is passed")
    is_checked = parser.parse_args().check
    passed = True
    print(f"{'function':12}{'nodes':>8}{'capture':>12}{'beyond':>12}")
    for make, small, large in ((transformer, 21, 220), (chain, 143, 1430)):
        function, arguments = make(small)
        compiled = Timed(function)
        compiled(*arguments(9))
        capture = beyond = math.inf
        for n in (10, 12, 14, 16, 18, 20, 22):
            compiled(*arguments(n))
            capture, beyond = min(capture, compiled.capture), min(beyond, compiled.beyond)
        line = f"{capture * 1e3:9.1f} ms{beyond * 1e3:9.1f} ms"
        print(f"{make.__name__:12}{nodes(compiled):8}{line}  another size")
        function, arguments = make(small)
        dynamic, derived = Timed(function, dynamic=True), math.inf
        for n in (9, 9, 10, 12, 14, 16, 18, 20, 22):
            dynamic(*arguments(n))
            if "derived" in dynamic.explain().splitlines()[-1]:
                derived = min(derived, dynamic.derived)
        line = f"{0:9.1f} ms{derived * 1e3:9.1f} ms"
        print(f"{make.__name__:12}{nodes(dynamic):8}{line}  another size, dynamic")
        function, arguments = make(large)
        compiled = Timed(function)
        compiled(*arguments(9))
        line = f"{compiled.capture * 1e3:9.0f} ms{compiled.beyond * 1e3:9.0f} ms"
        print(f"{make.__name__:12}{nodes(compiled):8}{line}  the first capture")
        passed = passed and max(beyond, derived) <= MOST_BEYOND and compiled.capture <= MOST_CAPTURE
    return int(is_checked and not passed)


if __name__ == "__main__":
    raise SystemExit(main())
