"""A device beside the CPU's kernels, in one process: ``python -m benchmarks.devices opencl``.

The two take turns, with a rest of 30 ms before each; a ratio is the CPU's time by the device's,
best of several rounds, so above 1 the device is faster. The first line says what the first step of
a network takes, kernels to be compiled included; TINYT_KERNEL_CACHE_DIR= takes none from disk.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import tinyt
from tinyt import Tensor, nn, optim
from tinyt._tensor import synchronize

REST = 0.03  # seconds
MEGABYTES = 64

Call = Callable[[], object]


def elementwise(place: tinyt.device) -> dict[str, Call]:
    """Operations on 64 MB."""
    side = int((MEGABYTES * 2**20 / 4) ** 0.5)
    tinyt.manual_seed(1)
    a, b = (tinyt.randn(side, side).to(place) for _ in range(2))
    row = b[0].clone()
    blocks = a.reshape(64, side // 64, 64, side // 64)
    return {
        "a + b": lambda: a + b,
        "a * 2": lambda: a * 2.0,
        "a + row": lambda: a + row,
        "a < b": lambda: a < b,
        "exp": a.exp,
        "sin": a.sin,
        "gelu": lambda: nn.functional.gelu(a),
        "clone": a.clone,
        "half of each row": lambda: a[:, : side // 2].clone(),
        "transposed": lambda: a.t().contiguous(),
        "permuted": lambda: blocks.permute(0, 2, 1, 3).contiguous(),
        "to float16": a.half,
        "sum": a.sum,
        "sum of rows": lambda: a.sum(1),
        "sum of columns": lambda: a.sum(0),
        "amax": a.amax,
    }


def products(place: tinyt.device) -> dict[str, Call]:
    """Products of float32 matrices."""
    tinyt.manual_seed(2)
    calls: dict[str, Call] = {}
    for n in (256, 1024):
        a, b = (tinyt.randn(n, n).to(place) for _ in range(2))
        calls[f"matmul {n}"] = lambda a=a, b=b: a @ b  # type: ignore[misc]
    return calls


def digits_step(place: tinyt.device) -> Callable[[], Tensor]:
    """A training step of a convolutional network for 8x8 digits, batch 64."""
    tinyt.manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    ).to(place)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x, t = tinyt.randn(64, 1, 8, 8).to(place), tinyt.randint(0, 10, (64,)).to(place)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def best_of(call: Call, place: tinyt.device) -> float:
    """Seconds of one call, the work on the device included."""
    start = time.perf_counter()
    call()
    if place.type != "cpu":
        synchronize(place)
    return time.perf_counter() - start


def compare(names: dict[str, tuple[Call, Call]], place: tinyt.device, rounds: int) -> None:
    """Prints a line for each pair of calls: on the CPU, on the device."""
    for name, (ours, theirs) in names.items():
        best = [float("inf"), float("inf")]
        for _ in range(rounds):
            for side, (call, where) in enumerate(((ours, tinyt.device("cpu")), (theirs, place))):
                time.sleep(REST)
                best_of(call, where)
                best[side] = min(best[side], *(best_of(call, where) for _ in range(3)))
        ratio = best[0] / best[1]
        print(
            f"{name:<20} cpu {best[0] * 1e3:9.3f} ms  device {best[1] * 1e3:9.3f} ms  {ratio:.2f}"
        )


def main() -> None:
    """Prints all lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    place, cpu = tinyt.device(args.device), tinyt.device("cpu")
    start = time.perf_counter()
    first = tinyt.compile(digits_step(place))
    first().item()
    print(f"first digits step: {time.perf_counter() - start:.2f} s")
    for make in (elementwise, products):
        ours, theirs = make(cpu), make(place)
        compare({n: (ours[n], theirs[n]) for n in ours}, place, args.rounds)
    steps = {
        "digits, eager": (digits_step(cpu), digits_step(place)),
        "digits, compiled": (tinyt.compile(digits_step(cpu)), first),
    }
    compare(steps, place, args.rounds)
    x = tinyt.ones(1).to(place)
    least = float("inf")
    for _ in range(args.rounds):
        synchronize(place)
        start = time.perf_counter()
        for _ in range(1000):
            x + x
        synchronize(place)
        least = min(least, time.perf_counter() - start)
    print(f"eager add, mean of 1,000 queued: {least * 1e3:.1f} us")


if __name__ == "__main__":
    main()
