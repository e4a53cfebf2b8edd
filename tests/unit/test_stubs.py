"""The type stubs: up to date, true, and of use to somebody who checks types."""

import copy
import importlib.util
import inspect
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tinyt
from tinyt import _core
from tinyt._autograd import Node
from tinyt.tensor import node_of, prim

ROOT = Path(__file__).resolve().parents[2]
ALLOWLIST = ROOT / "tools" / "stubtest_allowlist.txt"
USER = Path(__file__).with_name("typed_user.py")
HAS_MYPY = importlib.util.find_spec("mypy") is not None
Operands = Callable[[dict[str, Any]], list[str]]
SCALAR_OPS = [row for row in _core.op_table() if row["kind"] == "scalar"]

needs_mypy = pytest.mark.skipif(not HAS_MYPY, reason="mypy is in the extra `lint`")


@pytest.fixture(scope="module", autouse=True)
def make_stubs() -> Iterator[ModuleType]:
    """The tool; mypy finds the stubs of this tree where it has written them."""
    copy.copy(tinyt.Size([1]))  # copyreg notes in the class that it has no slots
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        tool = importlib.import_module("make_stubs")
        tool.write()
        yield tool


@pytest.fixture(scope="module")
def operand_list(make_stubs: ModuleType) -> Any:
    return importlib.import_module("stubs.primitives").operand_list


@pytest.fixture(scope="module")
def hot_types(make_stubs: ModuleType) -> Any:
    return importlib.import_module("stubs.tables").HOT_TYPES


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def mypy_report(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs mypy (or stubtest) on the sources of this tree."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
    )


def run_mypy(*arguments: object) -> None:
    """Fails with mypy's report unless it finds nothing."""
    done = mypy_report(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(bool(_core.build_info()["sanitizers"]), reason="needs a runtime to be loaded")
def test_a_build_installs_the_stubs(make_stubs: ModuleType) -> None:
    installed = Path(_core.__file__).parent
    for name, text in make_stubs.stubs().items():
        assert (installed / name).read_text(encoding="utf-8") == text, f"{name}: build again"


def members_without_arguments(hot_types: dict[str, str]) -> Iterator[tuple[str, object]]:
    """(type in the stub, value) of every property and plain method of the compiled classes."""
    x = tinyt.tensor([2.0], requires_grad=True)
    examples = {"TensorBase": x, "Node": node_of(x.exp()), "dtype": x.dtype, "device": x.device}
    for key, kind in hot_types.items():
        owner, _, name = key.partition(".")
        if owner not in examples or key in ("Node.second", "Node.third"):  # exp has one
            continue
        member = getattr(type(examples[owner]), name)
        if inspect.isgetsetdescriptor(member) or isinstance(member, property):
            yield kind, getattr(examples[owner], name)
        elif list(inspect.signature(member).parameters) == ["self"]:
            yield kind, member(examples[owner])


def test_types_of_compiled_members(hot_types: dict[str, str]) -> None:
    """stubtest cannot see what a Cython property holds; so values are looked at."""
    named = {"_DType": tinyt.dtype, "_Device": tinyt.device, "Size": tinyt.Size, "Node": Node}
    classes = named | {"Tensor": tinyt.Tensor, "Self": tinyt.Tensor, "None": type(None)}
    classes |= {c.__name__: c for c in (bool, int, float, complex, str, tuple, list)}
    checked = 0
    for kind, value in members_without_arguments(hot_types):
        known = [classes.get(part.partition("[")[0]) for part in kind.split(" | ")]
        if None not in known:
            assert isinstance(value, tuple(c for c in known if c)), f"{value!r} is no {kind}"
            checked += 1
    assert checked > 40


@pytest.mark.parametrize("row", SCALAR_OPS, ids=lambda row: row["name"])
def test_keywords_of_primitives(
    operand_list: Callable[..., list[str]], row: dict[str, Any]
) -> None:
    """The names that stubs give the operands are those that calls take."""
    kinds = {"predicate_first": tinyt.bool, "floating": tinyt.float32}
    kind = next((kinds[flag] for flag in row["flags"] if flag in kinds), tinyt.int64)
    x = tinyt.ones(2, dtype=kind)
    names = [text.partition(":")[0] for text in operand_list(row)]
    function = getattr(prim, row["name"])
    assert tinyt.equal(function(**dict.fromkeys(names, x)), function(*[x] * len(names)))


def test_users_program_runs() -> None:
    program = runpy.run_path(str(USER))
    for name in ("functions", "methods", "training"):
        program[name]()


@needs_mypy
def test_users_program_has_types(cache: Path) -> None:
    # Silent on what it imports, as of packages that are installed.
    options = ("--strict", "--config-file=", "--follow-imports=silent", "--cache-dir", cache)
    run_mypy("mypy", *options, USER)


@needs_mypy
def test_package_has_types(cache: Path) -> None:
    run_mypy("mypy", "--cache-dir", cache)


@needs_mypy
def test_sources_behind_stubs_have_types(make_stubs: ModuleType, cache: Path) -> None:
    """mypy reads a stub instead of the source beside it, so these are checked by themselves."""
    sources = [make_stubs.PACKAGE / name.replace(".pyi", ".py") for name in make_stubs.stubs()]
    sources = [source for source in sources if source.exists()]
    assert sources
    for source in sources:
        done = mypy_report(
            "mypy", "--follow-imports=silent", "--cache-dir", cache / "sources", source
        )
        # Without its stub the package misses what is attached at import: only the source counts.
        name = str(source.relative_to(ROOT))
        wrong = [line for line in done.stdout.splitlines() if line.startswith(name + ":")]
        assert not wrong, "\n".join(wrong)
        assert "Found" in done.stdout or "Success" in done.stdout, done.stdout + done.stderr


@needs_mypy
def test_stubs_agree_with_the_package() -> None:
    run_mypy(
        "mypy.stubtest",
        "tinyt",
        "--mypy-config-file=pyproject.toml",
        f"--allowlist={ALLOWLIST}",
    )
