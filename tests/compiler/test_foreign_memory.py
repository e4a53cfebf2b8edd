"""Tensors over the memory of arrays in compiled functions: shared with other tensors, or made in
the call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import CaptureError, Tensor, from_numpy
from tinyt.compiler.api import compile

pytestmark = pytest.mark.host


def zeros(n: int = 3) -> Any:
    return np.zeros(n, np.float32)


def same() -> tuple[Tensor, Tensor]:
    a = zeros()
    return from_numpy(a), from_numpy(a)


def slices() -> tuple[Tensor, Tensor]:
    a = zeros(4)
    return from_numpy(a[:3]), from_numpy(a[1:])


def dlpack() -> tuple[Tensor, Tensor]:
    a = zeros()
    return tinyt.from_dlpack(a), from_numpy(a)


def own() -> tuple[Tensor, Tensor]:
    w = tinyt.zeros(3)
    return w, from_numpy(w.numpy(force=True))


def other_dtype() -> tuple[Tensor, Tensor]:
    a = zeros()
    return from_numpy(a), from_numpy(a.view(np.int32))


def add_to_first(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return y * 2


PAIRS = [same, slices, dlpack, own, other_dtype]
AS_WRITTEN = "runs as written: .*; a clone of one of them"


def warns_first(i: int) -> Any:
    return nullcontext() if i else pytest.warns(UserWarning, match=AS_WRITTEN)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("pair", PAIRS)
def test_arguments_in_one_memory(pair: Callable[[], Any], swapped: bool) -> None:
    function = compile(add_to_first)
    x, y = pair()[:: -1 if swapped else 1]
    want_x, want_y = pair()[:: -1 if swapped else 1]
    for i in range(4):
        with warns_first(i):
            got = function(x, y)
        assert got.tolist() == add_to_first(want_x, want_y).tolist()
        assert x.tolist() == want_x.tolist()
    assert function.cache_info()[:2] == (0, 4)
    assert function.explain().count("runs as written: argument") == 4


@pytest.mark.parametrize("pair", PAIRS)
def test_a_program_for_arguments_apart_is_not_used(pair: Callable[[], Any]) -> None:
    function = compile(add_to_first)
    for _ in range(3):
        assert function(tinyt.zeros(3), pair()[1].clone()).tolist() == [0, 0, 0]
    (x, y), want = pair(), pair()
    for i in range(2):
        with warns_first(i):
            assert function(x, y).tolist() == add_to_first(*want).tolist()
        assert x.tolist() == want[0].tolist()
    assert function(tinyt.zeros(3), pair()[1].clone()).tolist() == [0, 0, 0]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("pair", PAIRS)
def test_captured_and_argument_in_one_memory(pair: Callable[[], Any], turned: bool) -> None:
    (x, held), (want_x, want_held) = pair(), pair()

    def writes(x: Tensor, held: Tensor) -> Tensor:
        return add_to_first(*((held, x) if turned else (x, held)))

    function = compile(lambda x: writes(x, held))
    for _ in range(3):
        got = function(tinyt.zeros(3))
        assert got.tolist() == writes(tinyt.zeros(3), want_held).tolist()
    for i in range(2):
        with warns_first(i):
            assert function(x).tolist() == writes(want_x, want_held).tolist()
        assert held.tolist() == want_held.tolist()


@pytest.mark.parametrize("pair", PAIRS)
def test_two_captured_in_one_memory(pair: Callable[[], Any]) -> None:
    (x, y), want = pair(), pair()
    function = compile(lambda: add_to_first(x, y))
    for i in range(3):
        with warns_first(i):
            assert function().tolist() == add_to_first(*want).tolist()


def test_views_of_one_memory_in_two_dtypes() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1.0)
        return y + 1

    compiled = compile(function)
    a, b = tinyt.zeros(3), tinyt.zeros(3)
    for i in range(3):
        with warns_first(i):
            got = compiled(a, a.view(tinyt.int32))
        assert got.tolist() == function(b, b.view(tinyt.int32)).tolist()


def test_a_call_as_written_runs_once() -> None:
    a, calls = zeros(), []

    def function(x: Tensor, y: Tensor) -> Tensor:
        if not x._is_recorded:
            calls.append(x.tolist())
        return add_to_first(x, y)

    compiled = compile(function)
    for i in range(3):
        with warns_first(i):
            compiled(from_numpy(a), from_numpy(a))
    assert a.tolist() == [3, 3, 3]
    assert len(calls) == 3


def test_calls_as_written_are_no_captures() -> None:
    function = compile(add_to_first)
    limit = function.cache_info().maxsize
    with pytest.warns(UserWarning, match=AS_WRITTEN):
        function(*same())
    for n in range(1, limit + 1):
        function(tinyt.zeros(n), tinyt.zeros(n))
    function(*same())
    with pytest.warns(UserWarning, match=f"has been captured {limit + 1} times"):
        function(tinyt.zeros(3, 3), tinyt.zeros(3, 3))
    lines = function.explain().splitlines()
    assert lines[-1].startswith(f"{limit + 3}: ")


def test_a_call_as_written_inside_does_not_put_off_the_outer_one() -> None:
    """Of one function, which calls itself: its first call is captured."""

    itself: list[Callable[..., Tensor]] = []  # emptied below: the cycle would keep tensors

    def function(x: Tensor, y: Tensor, inner: list[Tensor]) -> Tensor:
        if inner and not x._is_recorded:
            with pytest.warns(UserWarning, match=AS_WRITTEN):
                itself[0](*inner, [])
        x.add_(y)
        return x + y

    compiled = compile(function)
    itself.append(compiled)
    compiled(tinyt.ones(2), tinyt.ones(2), list(same()))
    assert compiled.cache_info().currsize == 1
    itself.clear()


def test_a_profile_of_a_call_as_written_says_so(tmp_path: Path) -> None:
    function = compile(add_to_first)
    for _ in range(2):
        function(tinyt.zeros(3), tinyt.zeros(3))
    with (
        pytest.warns(UserWarning, match=AS_WRITTEN),
        pytest.raises(RuntimeError, match="or runs as written; explain"),
    ):
        function.profile(tmp_path / "trace.json", *same())


def test_memory_that_is_only_read_may_be_shared() -> None:
    function, log = compile(lambda x, y: x + y), tinyt.zeros(3)

    def writes_elsewhere(x: Tensor, y: Tensor) -> Tensor:
        log.add_(1)
        return x + y

    elsewhere = compile(writes_elsewhere)
    for i in range(4):
        a = np.full(3, i, np.float32)
        assert function(from_numpy(a), from_numpy(a)).tolist() == [2 * i] * 3
        assert elsewhere(from_numpy(a), from_numpy(a)).tolist() == [2 * i] * 3
    assert function.cache_info().misses == elsewhere.cache_info().misses == 1
    assert log.tolist() == [4, 4, 4]


def test_columns_of_an_array_lie_apart() -> None:
    function = compile(add_to_first)
    for i in range(4):
        a = np.full((3, 4), i, np.float32)
        got = function(from_numpy(a[:, 0]), from_numpy(a[:, 1]))
        assert got.tolist() == [2 * i] * 3
        assert a[:, 0].tolist() == [i + 1] * 3
    assert function.cache_info().misses == 1


def made(x: Tensor) -> Any:
    return from_numpy(np.zeros(3, np.float32))


MADE: dict[str, Callable[[Any], Tensor]] = {
    "from_numpy": from_numpy,
    "as_tensor": tinyt.as_tensor,
    "asarray": tinyt.asarray,
    "part": lambda a: from_numpy(a[0:3])[0:3],
}


@pytest.mark.parametrize("name", MADE)
def test_writing_into_an_array_that_the_call_makes(name: str) -> None:
    def adds(x: Tensor) -> Tensor:
        return MADE[name](zeros()).add_(x) * 1

    def sets(x: Tensor) -> Tensor:
        t = MADE[name](zeros())
        t[0] = x[0]
        return t * 1

    def out(x: Tensor) -> Tensor:
        return tinyt.add(x, 1, out=MADE[name](zeros())) * 1

    for function in (adds, sets, out):
        with pytest.raises(CaptureError, match=r"tinyt\.tensor\(array\).*the call has run"):
            compile(function)(tinyt.ones(3))


def test_what_must_be_copied_is_new_at_each_call() -> None:
    function = compile(lambda x: tinyt.as_tensor(zeros()[::-1]).add_(x) * 1)
    for i in range(4):
        assert function(tinyt.full((3,), float(i))).tolist() == [i, i, i]


@pytest.mark.parametrize("name", MADE)
def test_a_returned_array_is_new_at_each_call(name: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        t = MADE[name](zeros())
        return x + t, t, t[1:], t

    compiled = compile(function)
    for _ in range(4):
        total, whole, part, again = compiled(tinyt.ones(3))
        assert (total.tolist(), whole.tolist(), part.tolist()) == ([1, 1, 1], [0, 0, 0], [0, 0])
        assert again is whole
        whole.add_(7)
        assert part.tolist() == [7, 7]


def test_an_array_that_was_there_is_written_and_returned_where_it_lies() -> None:
    array = zeros()

    def function(x: Tensor) -> Tensor:
        return from_numpy(array[0:2]).add_(x)

    compiled = compile(function)
    for i in range(4):
        got = compiled(tinyt.ones(2))
        assert got.tolist() == [i + 1] * 2
        assert array.tolist() == [i + 1, i + 1, 0]
