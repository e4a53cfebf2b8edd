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
