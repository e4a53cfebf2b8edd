"""What `import tinyt` brings with it: modules that take long to import come when they are used."""

from __future__ import annotations

import subprocess
import sys

LATE = {
    *("ast", "asyncio", "dataclasses", "hashlib", "http", "inspect", "json", "logging"),
    *("importlib.abc", "importlib.resources", "matplotlib", "multiprocessing", "numpy", "pathlib"),
    *("pickle", "random", "shutil", "socket", "subprocess", "tempfile", "torch", "urllib"),
    *(
        "mmap",
        "tinyt.backends",
        "tinyt.cuda",
        "tinyt.data",
        "tinyt.nn",
        "tinyt.optim",
        "tinyt.utils",
    ),
}


def test_what_is_imported_later() -> None:
    code = f"import sys; before = set(sys.modules); import tinyt; late = {LATE!r}; "
    code += "print(sorted(late & (set(sys.modules) - before)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
