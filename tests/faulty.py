"""Libraries that stand for a driver's and fail where they are told to: built when they are asked
for, of `faulty.c` or `faulty.cpp` beside the tests of a device, and of `faulty_calls.h`."""

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
def faulty_library(source: str) -> str | None:
    """The library's path, for TINYT_OPENCL_LIBRARY and its like, of a source in this
    folder; None without a compiler."""
    is_c = source.endswith(".c")
    name = os.environ.get("CC", "cc") if is_c else os.environ.get("CXX", "c++")
    compiler = shutil.which(name)
    if compiler is None:
        return None
    path = Path(_folder().name) / (source.replace("/", "-") + ".so")
    flags = ["-std=c11" if is_c else "-std=c++20", "-I", str(HERE.parent / "src")]
    flags += ["-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / source)]
    subprocess.run([compiler, *flags, "-ldl", "-pthread"], check=True)
    return str(path)
