"""Three ways to get a training step's memory: one planned arena, the cache, and ``malloc``.

The traces are synthetic: the order and the sizes in which a step of the network named takes and
gives back its activations, gradients and temporaries, worked out from its layers and not recorded.
Every block is written once, as a kernel writes its result, so that the cost of fresh pages counts.
Each way runs in a process of its own:

* ``arena``: offsets in one block, planned before the first step (largest first, lowest gap);
* ``cache``: tinyt's allocator, as every operation uses it;
* ``malloc``: ``posix_memalign`` to 64 bytes and ``free``, which is what PyTorch does on the CPU.

Printed are the first step, the best of the later ones, and the most resident memory above what the
process started with. ``--plot PATH`` (needs matplotlib) draws resident memory over the first two
steps. The calls alone, without Python around them, are timed by ``core_bench_memory``, a program
built with the C++ tests.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.facts import machine

FLOAT = 4
WAYS = ("arena", "cache", "malloc")


@dataclass
class Trace:
    """A step as events: slot and bytes of a block that is taken, or slot and 0 when it goes."""

    events: list[tuple[int, int]] = field(default_factory=list)
    slots: int = 0

    def take(self, elements: int) -> int:
        self.events.append((self.slots, elements * FLOAT))
        self.slots += 1
        return self.slots - 1

    def give(self, *slots: int) -> None:
        self.events.extend((slot, 0) for slot in slots)

    def temporary(self, elements: int) -> None:
        self.give(self.take(elements))


def transformer(layers: int = 6, width: int = 384, batch: int = 8, length: int = 256) -> Trace:
    """A small language model, 6 heads, 1,000 tokens of vocabulary."""
    trace, rows, heads, words = Trace(), batch * length, 6, 1000
    saved: list[list[int]] = []
    x = trace.take(rows * width)
    for _ in range(layers):
        norm = [trace.take(rows * width), trace.take(rows), trace.take(rows)]
        qkv = trace.take(rows * 3 * width)
        mixed, sums = trace.take(rows * width), trace.take(rows * heads)
        projected = trace.take(rows * width)
        middle = trace.take(rows * width)
        trace.give(projected)
        norm2 = [trace.take(rows * width), trace.take(rows), trace.take(rows)]
        hidden, active = trace.take(rows * 4 * width), trace.take(rows * 4 * width)
        out = trace.take(rows * width)
        saved.append([x, *norm, qkv, mixed, sums, middle, *norm2, hidden, active])
        x = trace.take(rows * width)
        trace.give(out)
    logits, loss = trace.take(rows * words), trace.take(1)
    gradients = [trace.take(words * width)]
    d_logits = trace.take(rows * words)
    trace.give(logits, loss)
    d = trace.take(rows * width)
    trace.give(d_logits, x)
    for held in reversed(saved):
        *first, middle, a, b, c, hidden, active = held
        gradients += [trace.take(4 * width * width), trace.take(width)]
        d_active = trace.take(rows * 4 * width)
        trace.give(active)
        d_hidden = trace.take(rows * 4 * width)
        trace.give(d_active, hidden)
        gradients += [trace.take(4 * width * width), trace.take(4 * width)]
        d_norm = trace.take(rows * width)
        trace.give(d_hidden)
        d_middle = trace.take(rows * width)
        trace.give(d_norm, a, b, c, middle, d)
        gradients += [trace.take(width * width), trace.take(width)]
        d_mixed, d_qkv = trace.take(rows * width), trace.take(rows * 3 * width)
        trace.give(d_mixed)
        gradients += [trace.take(3 * width * width), trace.take(3 * width)]
        d_norm, d = trace.take(rows * width), trace.take(rows * width)
        trace.give(d_qkv, d_norm, d_middle, *first)
    trace.give(d, *gradients)
    return trace


def cnn(batch: int = 32) -> Trace:
    """Residual stages of 32 to 256 channels on 56x56 pictures, two blocks each."""
    trace, saved = Trace(), []
    size, channels = 56, 32
    x = trace.take(batch * channels * size * size)
    for _ in range(4):
        for _ in range(2):
            n = batch * channels * size * size
            held = [x]
            for _ in range(2):
                held += [trace.take(n), trace.take(n), trace.take(channels), trace.take(channels)]
            x = trace.take(n)
            saved.append((n, channels, held))
        pooled = trace.take(batch * channels * size * size // 4)
        saved.append((0, channels, [x]))
        x, size, channels = trace.take(batch * channels * size * size // 2), size // 2, 2 * channels
        trace.give(pooled)
    gradients: list[int] = []
    d = trace.take(batch * channels * size * size)
    trace.give(x)
    for n, width, held in reversed(saved):
        for _ in range(2 if n else 0):
            gradients += [trace.take(width * width * 9), trace.take(width), trace.take(width)]
            trace.temporary(n)
        before = trace.take(max(n, batch * width * size * size * 4))
        trace.give(d, *held)
        d, size = before, size if n else size * 2
    trace.give(d, *gradients)
    return trace


def mlp(batch: int = 64) -> Trace:
    """Small tensors: 784, 256, 256 and 10 features."""
    trace, widths = Trace(), [784, 256, 256, 10]
    outputs = [trace.take(batch * n) for n in widths]
    trace.temporary(1)
    d, gradients = trace.take(batch * widths[-1]), []
    for n, m in reversed(list(pairwise(widths))):
        gradients += [trace.take(n * m), trace.take(m)]
        before = trace.take(batch * n)
        trace.give(d, outputs.pop())
        d = before
    trace.give(d, *outputs, *gradients)
    return trace


TRACES: dict[str, Callable[[], Trace]] = {"transformer": transformer, "cnn": cnn, "mlp": mlp}


def peak_live(trace: Trace) -> int:
    sizes, live, peak = {}, 0, 0
    for slot, nbytes in trace.events:
        live += nbytes or -sizes[slot]
        sizes[slot] = nbytes
        peak = max(peak, live)
    return peak


def plan(trace: Trace) -> tuple[dict[int, int], int]:
    """Offsets of all slots in one arena, and its size."""
    spans: dict[int, list[int]] = {}
    for at, (slot, nbytes) in enumerate(trace.events):
        if nbytes:
            spans[slot] = [at, len(trace.events), (nbytes + 63) // 64 * 64]
        else:
            spans[slot][1] = at
    offsets: dict[int, int] = {}
    for slot, (start, stop, nbytes) in sorted(spans.items(), key=lambda s: -s[1][2]):
        others = sorted(
            (offsets[o], spans[o][2]) for o in offsets if spans[o][0] < stop and start < spans[o][1]
        )
        offset = 0
        for low, size in others:
            if offset + nbytes <= low:
                break
            offset = max(offset, low + size)
        offsets[slot] = offset
    return offsets, max(offset + spans[slot][2] for slot, offset in offsets.items())


# ------------------------------------------------------------------ one way, in its own process


def arena_way(trace: Trace) -> tuple[Callable[[int, int], int], Callable[[int], object]]:
    import tinyt

    offsets, size = plan(trace)
    block = tinyt.empty(size, dtype=tinyt.uint8)
    start = block.data_ptr()
    return lambda slot, nbytes: start + offsets[slot], lambda slot: block


def cache_way(trace: Trace) -> tuple[Callable[[int, int], int], Callable[[int], object]]:
    import tinyt

    held: dict[int, Any] = {}

    def take(slot: int, nbytes: int) -> int:
        held[slot] = tinyt.empty(nbytes, dtype=tinyt.uint8)
        return int(held[slot].data_ptr())

    return take, held.pop


def malloc_way(trace: Trace) -> tuple[Callable[[int, int], int], Callable[[int], object]]:
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    held: dict[int, Any] = {}

    def take(slot: int, nbytes: int) -> int:
        held[slot] = ctypes.c_void_p()
        libc.posix_memalign(ctypes.byref(held[slot]), ctypes.c_size_t(64), ctypes.c_size_t(nbytes))
        return int(held[slot].value)

    return take, lambda slot: libc.free(held.pop(slot))


def resident() -> int:
    """Bytes, Linux only."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def run(way: str, trace: Trace, steps: int) -> dict[str, Any]:
    import tinyt

    tinyt.empty(1)  # loaded and warm before the first reading
    start = resident()
    take, give = {"arena": arena_way, "cache": cache_way, "malloc": malloc_way}[way](trace)
    line = []

    def step(sample: bool) -> float:
        begin = time.perf_counter()
        for slot, nbytes in trace.events:
            if nbytes:
                ctypes.memset(take(slot, nbytes), 1, nbytes)
            else:
                give(slot)
            if sample:
                line.append(resident() - start)
        return time.perf_counter() - begin

    first = step(sample=False)
    best = min(step(sample=False) for _ in range(steps))
    step(sample=True)
    step(sample=True)
    return {"first": first, "best": best, "peak": max(line), "line": line}


def in_child(way: str, model: str, steps: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.bench_allocator", "--way", way]
    command += ["--model", model, "--steps", str(steps)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(out))


# ------------------------------------------------------------------ report


def draw(path: Path, model: str, trace: Trace, results: dict[str, dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    for way, result in results.items():
        axes.plot([v / 2**20 for v in result["line"]], label=way)
    axes.axhline(peak_live(trace) / 2**20, color="gray", linestyle=":", label="most live at once")
    axes.set(xlabel="event of the trace, two steps", ylabel="resident MiB", title=f"{model} step")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=TRACES, help="one trace only")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--plot", type=Path, help="draw resident memory to this file (PNG, SVG)")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        print(json.dumps(run(args.way, TRACES[args.model](), args.steps)))
        return
    print("  ".join(f"{key}={value}" for key, value in machine().items()))
    for model in [args.model] if args.model else TRACES:
        trace = TRACES[model]()
        blocks, live = trace.slots, peak_live(trace) / 2**20
        print(f"\n{model}: {blocks} blocks a step (synthetic trace), most live {live:.1f} MiB")
        print(f"{'way':8}{'first step':>14}{'best step':>14}{'peak':>14}")
        in_child("arena", model, 1)  # a virtual machine's host may have to find the memory first
        results = {way: in_child(way, model, args.steps) for way in WAYS}
        for way, r in results.items():
            first, best, peak = r["first"] * 1e3, r["best"] * 1e3, r["peak"] / 2**20
            print(f"{way:8}{first:11.2f} ms{best:11.2f} ms{peak:10.1f} MiB")
        if args.plot:
            path = args.plot
            draw(
                path if args.model else path.with_stem(f"{path.stem}-{model}"),
                model,
                trace,
                results,
            )


if __name__ == "__main__":
    main()
