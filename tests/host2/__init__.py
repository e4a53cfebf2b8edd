"""The test device: memory that the host cannot read, built from `host2.c` when it is asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tinyt import _core

HERE = Path(__file__).parent
FUSED = [row["name"] for row in _core.op_table() if "fused" in row["flags"]]
COMPLEX = [
    f"{row['name']}.{dtype}"
    for row in _core.op_table()
    if "complex" in row["flags"]
    for dtype in ("complex64", "complex128")
]


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="host2-", ignore_cleanup_errors=True)


def library() -> str | None:
    """Its path; None without a C compiler. Processes that this one starts find it in HOST2."""
    if "HOST2" not in os.environ:
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            return None
        path = Path(_folder().name) / "host2.so"
        source = [str(HERE / "host2.c"), f"-I{HERE.parents[1] / 'src'}"]
        flags = ["-std=c11", "-shared", "-fPIC", "-O1"]
        subprocess.run([compiler, *flags, *source, "-o", str(path)], check=True)
        os.environ["HOST2"] = str(path)
    return os.environ["HOST2"]
