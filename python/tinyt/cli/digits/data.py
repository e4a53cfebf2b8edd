"""The handwritten digits that scikit-learn carries, split once and for all.

Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
Learning Repository, 1998 (the 1,797 images of its test part).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tinyt import ops
from tinyt.cli.errors import require
from tinyt.dtypes import float32, int64
from tinyt.tensor import Tensor

_MAX_INK = 16.0


class Part(NamedTuple):
    """Images (N, 1, 8, 8) of float32 in [0, 1] and labels (N,) of int64."""

    images: Tensor
    labels: Tensor


class DigitsData(NamedTuple):
    """The three disjoint parts."""

    train: Part
    validation: Part
    test: Part


def load_digits() -> DigitsData:
    """Every fifth image, counted through the classes, is test; every tenth of the rest validation.

    The split is stratified and depends on nothing: no seed, no random generator.
    """
    bunch = require("sklearn.datasets", "scikit-learn", "the digits data").load_digits()
    by_class = bunch.target.argsort(kind="stable")
    is_test = [i % 5 == 0 for i in range(len(by_class))]
    test = [i for i, held_out in zip(by_class, is_test, strict=True) if held_out]
    rest = [i for i, held_out in zip(by_class, is_test, strict=True) if not held_out]
    train = [i for position, i in enumerate(rest) if position % 10 != 5]
    return DigitsData(_part(bunch, train), _part(bunch, rest[5::10]), _part(bunch, test))


def _part(bunch: Any, indices: list[int]) -> Part:
    images = ops.from_numpy(bunch.images[indices]).to(float32) / _MAX_INK
    labels = ops.from_numpy(bunch.target[indices]).to(int64)
    return Part(images.unsqueeze(1), labels)
