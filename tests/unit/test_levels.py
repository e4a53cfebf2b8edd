"""Picking the level of instructions when the library is loaded."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tinyt import _core

AMX = "x86-64-v4-amx"
# Prints the level in use and whether the process may use the tiles' registers (bit 18 of what
# arch_prctl's ARCH_GET_XCOMP_PERM gives; Documentation/arch/x86/xstate.rst).
PROGRAM = """
import ctypes
from tinyt import _core
level, permitted = _core.build_info()["isa"], ctypes.c_uint64()
ctypes.CDLL(None).syscall(158, 0x1022, ctypes.byref(permitted))
print(level, permitted.value >> 18 & 1)
"""


@pytest.mark.skipif(
    platform.system() != "Linux" or not _core.build_info()["levels"].get(AMX),
    reason="needs a machine with AMX",
)
@pytest.mark.parametrize(("level", "permitted"), [("x86-64-v4", 0), (AMX, 1)])
def test_only_the_level_with_tiles_asks_for_them(level: str, permitted: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TINYT_ISA": level},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [level, str(permitted)]


def told(level: str) -> str:
    """What a process says that asks for a level."""
    done = subprocess.run(
        [sys.executable, "-c", "import tinyt; tinyt.ones(1)"],
        env={**os.environ, "TINYT_ISA": level},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.rstrip().rpartition("\n")[2]


def test_a_level_that_is_not_there_is_an_error() -> None:
    assert ": TINYT_ISA must be one of the levels this machine supports" in told("x86-64-v9")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names levels of x86-64")
@pytest.mark.skipif(
    not _core.build_info()["levels"].get("x86-64-v4"), reason="needs a machine with AVX-512"
)
@pytest.mark.skipif("x86-64-v3" in _core.build_info()["levels"], reason="the build has all levels")
def test_a_level_that_was_not_built_says_how_to_build_it() -> None:
    said = told("x86-64-v3")
    assert "this build does not have TINYT_ISA's level 'x86-64-v3', only x86-64-v2, " in said
    assert said.endswith("-C cmake.define.TINYT_LEVELS=all builds all of them")
