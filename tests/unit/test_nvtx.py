"""`tinyt.cuda.nvtx` on a library that notes its calls, without one, and on NVIDIA's own where it is
installed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

import tinyt
from tinyt import nvtx_library
from tinyt.autograd.profiler import emit_nvtx, profile, record_function
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
def opened_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx_library, "_opened", None)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """It is found in the place of NVIDIA's."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    path = str(tmp_path / "nvtx.so")
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", path]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    monkeypatch.setattr(nvtx_library, "_paths", lambda: iter(["none.so", path]))
    made = ctypes.CDLL(path)
    made.noted.restype = ctypes.c_char_p
    return made


def noted(library: ctypes.CDLL) -> list[str]:
    return library.noted().decode().split(";")[:-1]


def test_calls_reach_the_library(library: ctypes.CDLL) -> None:
    assert (nvtx.range_push("a"), nvtx.range_push("b")) == (0, 1)
    assert (nvtx.range_pop(), nvtx.range_pop()) == (1, 0)
    nvtx.mark("m")
    nvtx.range_end(nvtx.range_start("s"))
    with nvtx.range("step {} of {n}", 1, n=3):
        nvtx.mark("inside")
    with pytest.raises(KeyError), nvtx.range("fails"):
        raise KeyError
    assert noted(library) == [
        *("push a", "push b", "pop", "pop", "mark m", "start s", "end it"),
        *("push step 1 of 3", "mark inside", "pop", "push fails", "pop"),
    ]


def test_blocks_and_gradients_are_ranges(library: ctypes.CDLL) -> None:
    x = tinyt.ones(2, requires_grad=True)
    with emit_nvtx(), record_function("block"):
        (x * 2).sum().backward()
        with pytest.raises(RuntimeError, match="not reentrant"), emit_nvtx():
            pass
    with record_function("outside"), emit_nvtx(enabled=False):
        x.sum().backward()
    assert noted(library) == ["push block", "push backward", "pop", "pop"]
    with emit_nvtx():
        with profile() as seen, record_function("both"):
            x.sum().backward()
        x.sum().backward()
    assert {e.key for e in seen.key_averages()} >= {"both", "backward"}
    more = noted(library)[4:]
    assert more == ["push both", "push backward", "pop", "pop", "push backward", "pop"]


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx_library, "_paths", lambda: iter(["none.so"]))
    for call in (nvtx.range_pop, lambda: nvtx.mark("x"), lambda: nvtx.range("x").__enter__()):
        with pytest.raises(RuntimeError, match=r"NVTX functions not installed: .*nvidia-nvtx"):
            call()
    with pytest.raises(RuntimeError, match="NVTX functions not installed"), emit_nvtx():
        pass


def test_nvidias_library() -> None:
    """Without a tool that looks, it does nothing."""
    try:
        nvtx.mark("x")
    except RuntimeError:
        pytest.skip("needs NVIDIA's library")
    with nvtx.range("x"):
        nvtx.range_end(nvtx.range_start("y"))
