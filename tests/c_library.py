"""What tests share that compile C."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tinyt import _core

LEVEL = _core.build_info()["isa"]
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
# Definitions are those of levels with a fused multiply-add; AVX-512 has polynomials by pieces, from
# tables in registers, in the place of some.
BY_PIECES = {("gelu", "float32"), ("tanh", "float32")} if "v4" in LEVEL else set()

# A compiler is not to run under a sanitizer that this process has loaded before all else.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}

compiles = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
has_fma = pytest.mark.skipif(LEVEL.endswith("v2"), reason="definitions are those with an fma")


def build(folder: Path, text: str, *flags: str) -> ctypes.CDLL:
    """A library of a source without a warning."""
    file, made = folder / "source.c", folder / "source.so"
    file.write_text(text, encoding="utf-8")
    fma = ["-mfma"] if "x86" in LEVEL else []
    shared = ["-fPIC", "-shared", str(file), "-o", str(made), "-lm"]
    command = ["cc", *FLAGS, *fma, *(flags or ("-O1",)), *shared]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    return ctypes.CDLL(str(made))
