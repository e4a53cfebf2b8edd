"""Random numbers: Philox4x32-10."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyt.dtypes import ALL
from tinyt.testing.reference.form import Array, Row, Sized


def _words(counters: Array, seed: int, last: int) -> Array:
    """Four words of 32 bits of every counter, whose last word is given."""
    mask = np.uint64(0xFFFFFFFF)
    zero = np.zeros_like(counters)
    c = [counters & mask, counters >> np.uint64(32), zero, zero + np.uint64(last)]
    key = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (q >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]),
            q & mask,
            (p >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]),
            p & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, -1).reshape(-1)


def _draw(n: int, seed: int, offset: int, bits: int) -> Array:
    """n words of so many bits."""
    counters = np.arange(-(-n // 4), dtype=np.uint64) + np.uint64(offset)
    high = _words(counters, seed, 0)
    if bits == 32:
        return high[:n]
    return ((high << np.uint64(32)) | _words(counters, seed, 1))[:n]


def _units(n: int, number: int, seed: int, offset: int) -> Array:
    """Uniform in [0, 1): 24 bits, of float64 53."""
    if ALL[number].name == "float64":
        return (_draw(n, seed, offset, 64) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (_draw(n, seed, offset, 32) >> np.uint64(8)).astype(np.float64) * 2.0**-24


def _normals(size: Sequence[int], number: int, device: int, seed: int, offset: int) -> Sized:
    """Box and Muller: two neighbours give two normal numbers."""
    n = math.prod(size)
    pairs = _units(n + n % 2, number, seed, offset).reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log(1 - pairs[:, 0])), 2 * math.pi * pairs[:, 1]
    found = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    scale = np.stack([radius * (1 + angle)] * 2, -1)
    return Sized(*(a.reshape(-1)[:n].reshape(tuple(size)) for a in (found, scale)))


def _bits(size: Sequence[int], device: int, seed: int, offset: int) -> Array:
    found = _draw(math.prod(size), seed, offset, 64)
    return found.view(np.int64).reshape(tuple(size))


def _uniform(size: Sequence[int], number: int, device: int, seed: int, offset: int) -> Array:
    found = _units(math.prod(size), number, seed, offset).reshape(tuple(size))
    if ALL[number].itemsize == 2:  # cut, since rounding could reach 1
        steps = 2.0 ** (11 if ALL[number].name == "float16" else 8)
        found = np.floor(found * steps) / steps
    return found


ROWS = {"random_bits": Row(_bits, 0), "uniform": Row(_uniform, 1), "normal": Row(_normals)}
