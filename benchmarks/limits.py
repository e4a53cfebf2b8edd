"""What the machine can do at best: builds `peak.cpp` and asks it."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.case import Work

SOURCE = Path(__file__).with_name("peak.cpp")
BUILD = SOURCE.parents[1] / "build" / "benchmarks"

KINDS = ("float32", "float64", "bfloat16", "int8")
"""The units that are measured, in the order of `peak_rate`."""

MIXES = ((1, 0), (3, 1), (2, 1), (1, 1), (1, 2), (0, 1))
"""Arrays read and written, as `peak_bandwidth` has them."""

UNTIL_PARKED = 0.3
"""Seconds after which the threads of both libraries wait without spinning (OpenMP: 0.2)."""

ON_X86 = platform.machine() in ("x86_64", "AMD64", "amd64")
FLAGS = {
    "native": "-march=native" if ON_X86 else "-mcpu=native",
    "avx2": "-march=x86-64-v3",
}


class NoLimits(RuntimeError):
    """The limits cannot be measured here: no compiler."""


def build(isa: str) -> Path:
    """The library for a level, compiled when it is older than its source."""
    library = BUILD / f"peak-{isa}.so"
    if library.exists() and library.stat().st_mtime > SOURCE.stat().st_mtime:
        return library
    BUILD.mkdir(parents=True, exist_ok=True)
    fresh = library.with_suffix(f".{os.getpid()}")
    compiler = os.environ.get("CXX", "c++")
    flags = ["-std=c++20", "-O3", "-ffp-contract=fast", "-pthread", "-fPIC", "-shared"]
    try:
        subprocess.run(
            [compiler, *flags, FLAGS[isa], str(SOURCE), "-o", str(fresh)],
            check=True,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError as error:
        raise NoLimits(f"no C++ compiler ({compiler}) to measure the machine's limits") from error
    except subprocess.CalledProcessError as error:
        raise NoLimits(f"{compiler} cannot build {SOURCE.name}: {error.stderr}") from error
    fresh.replace(library)
    return library


def nearest_mix(reads: int, writes: int) -> tuple[int, int]:
    """The measured mix whose part of writes is nearest."""
    part = writes / (reads + writes)
    return min(MIXES, key=lambda mix: abs(mix[1] / sum(mix) - part))


def footprint(nbytes: int) -> int:
    """The power of two next above, from 16 KiB: caches have other speeds than memory."""
    return max(1 << 14, 1 << (nbytes - 1).bit_length())


class Limits:
    """Each figure is measured when it is first asked for, so within the run it serves."""

    def __init__(self, isa: str, threads: int) -> None:
        self.threads = threads
        library = ctypes.CDLL(str(build(isa)))
        self._rate = library.peak_rate
        self._rate.argtypes = [ctypes.c_int, ctypes.c_int]
        self._rate.restype = ctypes.c_double
        self._bandwidth = library.peak_bandwidth
        self._bandwidth.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
        self._bandwidth.restype = ctypes.c_double
        self._round_trip = library.peak_round_trip
        self._round_trip.restype = ctypes.c_double
        self.rates: dict[str, float] = {}
        self.bandwidths: dict[str, dict[str, float]] = {}
        self.round_trips: list[float] = []
        """The least and the most seconds, where there are several threads."""

    def rate(self, kind: str) -> float:
        """Operations per second. Where no unit is better, halves and bytes go through float32's."""
        if kind not in self.rates:
            time.sleep(UNTIL_PARKED)
            found = self._rate(KINDS.index(kind), self.threads)
            if kind in ("bfloat16", "int8"):
                found = max(found, self.rate("float32"))
            self.rates[kind] = found
        return self.rates[kind]

    def bandwidth(self, mix: tuple[int, int], nbytes: int) -> float:
        """Bytes per second over a memory of ``nbytes``."""
        found = self.bandwidths.setdefault(f"{mix[0]}:{mix[1]}", {})
        if str(nbytes) not in found:
            time.sleep(UNTIL_PARKED)
            found[str(nbytes)] = self._bandwidth(*mix, self.threads, nbytes)
        return found[str(nbytes)]

    def found(self) -> dict[str, Any]:
        """What was asked for so far."""
        return {
            "rates": self.rates,
            "bandwidths": self.bandwidths,
            "round_trips": self.round_trips,
        }

    def look_for_cores(self) -> None:
        """How far from each other a run's threads are. Virtual cores change their places."""
        if self.threads > 1:
            found = [*self.round_trips, self._round_trip()]
            self.round_trips = [min(found), max(found)]

    def seconds(self, work: Work) -> float | None:
        """The least time for ``work``; None where only the call itself counts."""
        moved = work.reads + work.writes
        if not moved and not work.flops:
            return None
        least = 0.0
        if moved:
            mix = nearest_mix(work.reads, work.writes)
            least = moved / self.bandwidth(mix, footprint(moved))
        if work.flops:
            least = max(least, work.flops / self.rate(work.peak))
        return least
