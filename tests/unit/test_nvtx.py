"""`tinyt.cuda.nvtx` on a library that notes its calls, without one, and on NVIDIA's own where it is
installed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinyt.cuda import nvtx

SOURCE = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static char calls[1000];
static int depth;
static void note(const char* what, const char* text) {
  strcat(strcat(strcat(calls, what), text), ";");
}
const char* noted(void) { return calls; }
void nvtxMarkA(const char* text) { note("mark ", text); }
int nvtxRangePushA(const char* text) { note("push ", text); return depth++; }
int nvtxRangePop(void) { note("pop", ""); return --depth; }
uint64_t nvtxRangeStartA(const char* text) { note("start ", text); return (uint64_t)1 << 40; }
void nvtxRangeEnd(uint64_t id) { note("end ", id == (uint64_t)1 << 40 ? "it" : "another"); }
"""


@pytest.fixture(autouse=True)
def opened_anew() -> Iterator[None]:
    nvtx._opened.cache_clear()
    yield
    nvtx._opened.cache_clear()


def test_calls_reach_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = str(tmp_path / "nvtx.so")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", library],
        input=SOURCE,
        text=True,
        check=True,
    )
    monkeypatch.setattr(nvtx, "_paths", lambda: iter(["none.so", library]))
    assert (nvtx.range_push("a"), nvtx.range_push("b")) == (0, 1)
    assert (nvtx.range_pop(), nvtx.range_pop()) == (1, 0)
    nvtx.mark("m")
    nvtx.range_end(nvtx.range_start("s"))
    with nvtx.range("step {} of {n}", 1, n=3):
        nvtx.mark("inside")
    with pytest.raises(KeyError), nvtx.range("fails"):
        raise KeyError
    noted = ctypes.CDLL(library).noted
    noted.restype = ctypes.c_char_p
    assert noted().decode().split(";") == [
        *("push a", "push b", "pop", "pop", "mark m", "start s", "end it"),
        *("push step 1 of 3", "mark inside", "pop", "push fails", "pop", ""),
    ]


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx, "_paths", lambda: iter(["none.so"]))
    for call in (nvtx.range_pop, lambda: nvtx.mark("x"), lambda: nvtx.range("x").__enter__()):
        with pytest.raises(RuntimeError, match=r"NVTX functions not installed: .*nvidia-nvtx"):
            call()


def test_nvidias_library() -> None:
    """Without a tool that looks, it does nothing."""
    try:
        nvtx.mark("x")
    except RuntimeError:
        pytest.skip("needs the package nvidia-nvtx")
    with nvtx.range("x"):
        nvtx.range_end(nvtx.range_start("y"))
