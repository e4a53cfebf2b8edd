"""An OpenCL library that fails where it is told to, built from `faulty.c` when it is asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="faulty-", ignore_cleanup_errors=True)


@cache
def faulty_library() -> str | None:
    """Its path, for TINYT_OPENCL_LIBRARY; None without a C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    path = Path(_folder().name) / "faulty.so"
    flags = ["-std=c11", "-shared", "-fPIC", "-O1"]
    source = str(HERE / "faulty.c")
    subprocess.run([compiler, *flags, source, "-o", str(path), "-ldl", "-pthread"], check=True)
    return str(path)
