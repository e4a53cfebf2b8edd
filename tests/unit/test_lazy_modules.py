"""Modules that few programs use are loaded when they are: `import tinyt` knows none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tinyt
from tinyt import utils

PROGRAM = """
import sys
before = set(sys.modules)
import tinyt
loaded = set(sys.modules) - before
lazy = [f"tinyt.{name}" for name in tinyt._LAZY] + [f"tinyt.utils.{n}" for n in tinyt.utils._LAZY]
lazy += ["tinyt.utils.data.distributed", "tinyt.nn.parallel.distributed", "tinyt.autograd.profiler"]
heavy = ["multiprocessing", "cProfile", "tensorboard", "urllib.request", "timeit", "numpy"]
wrong = [m for m in loaded if any(m == name or m.startswith(name + ".") for name in lazy + heavy)]
assert not wrong, wrong
for name in sorted(tinyt._LAZY):
    module = getattr(tinyt, name)
    assert module.__name__ == f"tinyt.{name}", name
for name in sorted(tinyt.utils._LAZY - {"tensorboard"}):
    assert getattr(tinyt.utils, name).__name__ == f"tinyt.utils.{name}", name
"""


def test_nothing_is_loaded_before_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


COMPILING = """
import sys, tinyt
tinyt.compile(lambda x: x * 2)(tinyt.ones(3))
late = ["numpy", "tinyt.testing.assertions", "tinyt.testing.reference.elementwise"]
assert not {*late} & {*sys.modules}
tinyt.compile(lambda x: x * 2, verify=True)(tinyt.ones(3))
assert "tinyt.testing.reference.elementwise" in sys.modules
"""


def test_the_reference_is_loaded_by_the_first_verification() -> None:
    done = subprocess.run([sys.executable, "-c", COMPILING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_tables_name_modules_of_pytorch() -> None:
    assert {"distributed", "jit", "multiprocessing", "profiler"} <= tinyt._LAZY
    assert {"_pytree", "benchmark", "tensorboard"} <= utils._LAZY


SOURCES = Path(tinyt.__file__).parent
LOADING = sorted(
    str(path.relative_to(SOURCES.parent).with_suffix(""))
    .replace("/", ".")
    .removesuffix(".__init__")
    for path in SOURCES.rglob("*.py")
    if "\ndef __getattr__(" in path.read_text(encoding="utf-8")
)
LISTING = """
import sys
from importlib import import_module
module = import_module(sys.argv[1])
print(*{*getattr(module, "__all__", ()), *getattr(module, "_LAZY", ())} - set(dir(module)))
"""


@pytest.mark.parametrize("name", LOADING)
def test_names_that_are_not_loaded_yet_are_listed(name: str) -> None:
    """For tab completion, and for whoever goes through ``dir``."""
    done = subprocess.run([sys.executable, "-c", LISTING, name], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("\n", 0), done.stderr
