"""The memory of tensors: as bytes and elements, in parts, from files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt


def test_storages() -> None:
    x = tinyt.arange(6.0).reshape(2, 3)
    whole, part = x.untyped_storage(), x[1].untyped_storage()
    assert whole == part
    assert hash(whole) == hash(part)
    assert whole != tinyt.arange(6.0).untyped_storage()
    assert whole.data_ptr() == part.data_ptr() == x.data_ptr() < x[1].data_ptr()
    assert (len(whole), whole.nbytes(), whole.size(), whole.element_size()) == (24, 24, 24, 1)
    assert bytes(whole.tolist()) == x.numpy().tobytes()
    typed = x[1].storage()
    assert typed.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert (len(typed), typed.nbytes(), typed.element_size()) == (6, 24, 4)
    assert typed.dtype is tinyt.float32
    typed[2] = 7.0
    assert x[0, 2].item() == typed[2] == 7.0
    assert typed.untyped() == whole
    typed.fill_(1.0)
    assert x.tolist() == [[1.0] * 3] * 2
    assert x.t().untyped_storage()._cdata == whole._cdata
    assert not whole.is_shared()
    assert not whole.is_cuda
    assert whole.device == x.device
    with pytest.raises(RuntimeError, match="fixed size"):
        whole.resize_(3)
    assert tinyt.is_storage(typed)
    assert not tinyt.is_storage(x)
    assert tinyt.zeros(0).untyped_storage().nbytes() == 0
    assert len(tinyt.zeros(3, dtype=tinyt.bfloat16)[1:].storage()) == 3
    assert x.is_set_to(x)
    assert not x.is_set_to(x.clone())
    assert not x.is_set_to(x.view(-1))


def test_storages_keep_their_memory() -> None:
    kept = tinyt.arange(3.0).storage()
    assert kept.tolist() == [0.0, 1.0, 2.0]


# ------------------------------------------------------------------ parts


@pytest.mark.parametrize("ends", [(2, 6), (None, None), (-4, None), (10, 100), (5, 2), (-100, 3)])
def test_a_part_is_a_storage_over_the_same_memory(ends: tuple[Any, Any]) -> None:
    x = tinyt.arange(16, dtype=tinyt.uint8)
    whole = x.untyped_storage()
    part = whole[slice(*ends)]
    assert isinstance(part, tinyt.UntypedStorage)
    assert part.tolist() == list(range(16))[slice(*ends)]
    assert part != whole
    assert part != whole[slice(*ends)]
    part.fill_(77)
    assert x.tolist() == [77 if i in range(16)[slice(*ends)] else i for i in range(16)]


def test_a_part_as_elements() -> None:
    x = tinyt.arange(4.0)
    part = x.untyped_storage()[4:12]
    assert part.data_ptr() == x[1:].data_ptr()
    assert part.viewed_as(tinyt.float32).tolist() == [1.0, 2.0]
    assert tinyt.empty(0).set_(part).tolist() == [1.0, 2.0]
    assert part[4:8].viewed_as(tinyt.float32).tolist() == [2.0]
    assert part.clone().tolist() == part.tolist()
    assert tinyt.UntypedStorage(8).copy_(part).tolist() == part.tolist()
    del x
    assert part.viewed_as(tinyt.float32).tolist() == [1.0, 2.0]


def test_slices_that_are_refused() -> None:
    x = tinyt.arange(4.0)
    with pytest.raises(RuntimeError, match="step 1, got 2"):
        x.untyped_storage()[::2]
    with pytest.raises(RuntimeError, match="untyped"):
        x.storage()[1:2]


def test_asarray_reads_the_memory() -> None:
    x = tinyt.ones(2)
    bytes_of = x.untyped_storage()
    assert tinyt.asarray(bytes_of, dtype=tinyt.float32).tolist() == [1.0, 1.0]
    assert tinyt.asarray(bytes_of).tolist() == [0, 0, 128, 63] * 2
    assert tinyt.asarray(x.storage()).dtype is tinyt.float32
    shown, copied = (tinyt.asarray(bytes_of, dtype=tinyt.float32, copy=c) for c in (False, True))
    x.zero_()
    assert shown.tolist() == [0.0, 0.0]
    assert copied.tolist() == [1.0, 1.0]


def test_what_is_asked_of_a_storage() -> None:
    found = tinyt.ones(2).untyped_storage()
    assert found.untyped() is found
    assert (found.get_device(), found.resizable(), found.filename) == (-1, False, None)
    assert found.share_memory_() is found
    assert found.is_shared()


# ------------------------------------------------------------------ files


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "numbers"
    np.arange(4, dtype=np.int16).tofile(path)
    return path


def test_a_file_as_memory(numbers: Path) -> None:
    found = tinyt.UntypedStorage.from_file(str(numbers), False, 6)
    assert found.tolist() == [0, 0, 1, 0, 2, 0]
    assert tinyt.ShortStorage.from_file(numbers, False, 3).tolist() == [0, 1, 2]
    x = tinyt.from_file(numbers, size=4, dtype=tinyt.int16)
    assert x.tolist() == [0, 1, 2, 3]
    x.fill_(7)
    assert np.fromfile(numbers, np.int16).tolist() == [0, 1, 2, 3]
    part = found[2:4]
    del found, x
    assert part.viewed_as(tinyt.int16).tolist() == [1]
    assert tinyt.from_file(numbers).tolist() == []


def test_a_shared_file_gets_what_is_written(numbers: Path) -> None:
    x = tinyt.from_file(numbers, shared=True, size=6, dtype=tinyt.int16)
    assert x.tolist() == [0, 1, 2, 3, 0, 0]
    x[1:] = 9
    assert np.fromfile(numbers, np.int16).tolist() == [0, 9, 9, 9, 9, 9]
    made = numbers.with_name("made")
    tinyt.from_file(made, True, 2, dtype=tinyt.float64).fill_(0.5)
    assert np.fromfile(made).tolist() == [0.5, 0.5]


def test_files_that_are_refused(numbers: Path) -> None:
    from_file = tinyt.UntypedStorage.from_file
    with pytest.raises(RuntimeError, match="numbers' has 8 bytes, 9 are asked for"):
        from_file(numbers, False, 9)
    with pytest.raises(RuntimeError, match="cannot open"):
        from_file(numbers.with_name("none"), False, 1)
    with pytest.raises(RuntimeError, match="from_file"):
        from_file(numbers.parent, False, 1)
    with pytest.raises(ValueError, match="got -1"):
        from_file(numbers, False, -1)
    with pytest.raises(RuntimeError, match="from_file"):
        from_file(numbers, True, 2**62)
    assert numbers.stat().st_size == 8
    with pytest.raises((TypeError, RuntimeError)):
        from_file(numbers, False, 1.5)
    if hasattr(os, "mkfifo"):
        os.mkfifo(numbers.with_name("fifo"))
        with pytest.raises(RuntimeError, match="from_file"):
            from_file(numbers.with_name("fifo"), False, 1)
