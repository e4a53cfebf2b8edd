"""Writes the type stubs of tinyt's dynamic modules from the imported package.

Which names exist, their parameters and defaults are read from the package. Types come from where
they are stated already: annotations in the source, the op table for primitives, pybind11's own
signatures for `_core`. Only Cython keeps none; those stand in `stubs/tables.py`, where a missing
row is an error, and so is one that nothing uses.

    python tools/make_stubs.py            write python/tinyt/**/*.pyi, for mypy in this tree
    python tools/make_stubs.py FOLDER     write them there

A build writes those that it installs (`build_stubs.py`); none are kept in git.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FunctionType, ModuleType

from stubs.compiled import HIDDEN, core_stub, hot_stubs
from stubs.primitives import OP_ROWS, primitive
from stubs.source import python_function, source_of
from stubs.tables import SIZES
from stubs.text import Function, Stub, exported

import tinyt
from tinyt import _tensor, dtypes, ops, return_types
from tinyt.ops import inplace
from tinyt.tensor import Tensor

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "tinyt"
FUNCTIONS = (FunctionType, _tensor.Composite)
tensor_module = sys.modules[Tensor.__module__]  # tinyt.tensor is the function


def tensor_member(stub: Stub, name: str, member: object, seen: dict[int, str]) -> str:
    """One attribute of class Tensor."""
    taken = set(vars(Tensor)) | set(dir(_tensor.TensorBase))
    first = seen.setdefault(id(member), name)
    if first != name:
        # pow() with a modulus is for integers; Tensor's own has none.
        comment = "  # type: ignore[assignment]" if name == "__pow__" else ""
        return f"    {name} = {first}{comment}\n"
    if isinstance(member, property):
        (function,) = python_function(stub, name, member.fget, taken, method=True)
        function.decorator = "property"
        text = function.text("    ")
        if member.fset is not None:
            text += f"    @{name}.setter\n    def {name}(self, value: Any) -> None: ...\n"
        return text
    if isinstance(member, (staticmethod, classmethod)):
        is_new = name == "__new__"  # a static method by itself
        is_of_class = is_new or isinstance(member, classmethod)
        (function,) = python_function(stub, name, member.__func__, taken, method=is_of_class)
        function.decorator = "" if is_new else type(member).__name__
        return function.text("    ")
    if isinstance(member, int):
        return f"    {name}: int\n"
    if isinstance(member, FUNCTIONS):
        forms = python_function(stub, name, member, taken, method=True)
        return "".join(f.text("    ") for f in forms)
    row = OP_ROWS[name.removesuffix("_")]
    form = "in_place" if name.endswith("_") else "method"
    return primitive(row, name, form).text("    ")


def tensor_stub() -> str:
    """The class Tensor with everything that was attached to it, and the primitives."""
    stub = Stub("tinyt.tensor")
    stub.need("collections.abc", "Callable", "Sequence")
    stub.need("typing", "Any", "Protocol", "TypeAlias", "TypeVar")
    stub.need("tinyt._autograd", "Node")
    stub.need("tinyt._tensor", "Size", "TensorBase", "device as Device", "dtype as DType")
    stub.need("tinyt.ops.common", "Scalar")
    seen: dict[int, str] = {}
    shown = ("__new__", "__reduce_ex__")
    members = {n: m for n, m in vars(Tensor).items() if not HIDDEN.fullmatch(n) or n in shown}
    # An alias points to the member that carries its own name.
    own = {n: m for n, m in members.items() if getattr(m, "__name__", n) == n}
    lines = [tensor_member(stub, n, m, seen) for n, m in {**own, **members}.items()]
    primitives = [primitive(row, form="member").text("    ") for row in OP_ROWS.values()]
    helpers = [
        f.text()
        for name in tensor_module.__all__
        if isinstance(function := getattr(tensor_module, name), FUNCTIONS)
        for f in python_function(stub, name, function, set())
    ]
    stub.body = [
        exported(tensor_module.__all__),
        '\nF = TypeVar("F", bound=Callable[..., Any])\n',
        SIZES,
        "\nclass Tensor(TensorBase):\n",
        *lines,
        "\nclass _Primitives(Protocol):\n",
        *primitives,
        "\nprim: _Primitives\n\ndef node_of(x: TensorBase, /) -> Node | None: ...\n",
        *helpers,
    ]
    return stub.text()


def ops_stub() -> str:
    """All operations by name: re-exports of Python functions, signatures of primitives."""
    stub = Stub("tinyt.ops")
    stub.need("typing", "Any", "TypeAlias")
    stub.need("types", "ModuleType")
    stub.need("tinyt.ops.common", "Scalar")
    stub.need("tinyt.tensor", "Tensor")
    modules = [name for name in ops.__all__ if isinstance(getattr(ops, name), ModuleType)]
    stub.need("tinyt.ops", *modules)
    functions: list[Function] = []
    aliases = []
    for name, function in {**ops.EXPORTS, **ops.FUNCTIONAL}.items():
        original = function.__name__
        if isinstance(function, FUNCTIONS) and function.__module__ == inplace.__name__:
            functions += python_function(stub, name, function, set())
        elif isinstance(function, FUNCTIONS):
            rename = original if original == name else f"{original} as {name}"
            stub.need(function.__module__, rename)
        elif name != original and ops.EXPORTS[original] is function:
            aliases.append(f"{name} = {original}\n")
        else:
            functions.append(primitive(OP_ROWS[original], name))
    stub.body = [
        exported(ops.__all__),
        "\n" + SIZES,
        "\nFAMILIES: tuple[ModuleType, ...]\n",
        "EXPORTS: dict[str, Any]\nFUNCTIONAL: dict[str, Any]\n\n",
        *(function.text() for function in functions),
        "\n",
        *aliases,
    ]
    return stub.text()


def package_stub() -> str:
    """The package: imports of `__init__.py`, the operations, the dtypes."""
    stub = Stub("tinyt")
    origins = source_of("tinyt").imported
    for name, module in tinyt._LAZY_NAMES.items():
        origins[name] = f"tinyt.{module}", name
    dtype_names = {t.name for t in dtypes.ALL} | set(dtypes.ALIASES)
    for name in [*tinyt.__all__, "ops"]:
        if name in ops.EXPORTS:
            stub.need("tinyt.ops", name)
        elif name in dtype_names:
            stub.need("tinyt.dtypes", name)
        elif name not in tinyt._LAZY:
            module, original = origins[name]
            exports = original if name in tinyt.__all__ else f"{original} as {name}"
            stub.need(module, exports)
    stub.need("tinyt", *(f"{name} as {name}" for name in sorted(tinyt._LAZY)))
    stub.body = [exported(tinyt.__all__), "\n__version__: str\nnewaxis: None\n"]
    return stub.text()


def return_types_stub() -> str:
    """The types of results: fields as annotated, then one class for each function."""
    stub = Stub("tinyt.return_types")
    stub.need("collections.abc", "Iterable")
    stub.need("typing", "Any")
    stub.need("typing_extensions", "Self")
    stub.need("tinyt.tensor", "Tensor")
    stub.body = [
        exported(return_types.__all__),
        "\nclass StructSequence:\n",
        "    n_fields: int\n    n_sequence_fields: int\n    n_unnamed_fields: int\n",
        "    def __new__(cls, values: Iterable[Any]) -> Self: ...\n",
        "    def __reduce__(self) -> tuple[Any, ...]: ...\n\n",
    ]
    for kind in return_types.FUNCTIONS:
        fields = kind.__annotations__
        stub.body.append(
            f"class {kind.__name__}(StructSequence, tuple[{', '.join(fields.values())}]):\n"
        )
        for name, type_ in fields.items():
            stub.body.append(f"    @property\n    def {name}(self) -> {type_}: ...\n")
        stub.body.append("\n")
    for name in return_types.__all__:
        stub.body.append(f"class {name}({getattr(return_types, name).__base__.__name__}): ...\n")
    stub.body.append("\nFUNCTIONS: dict[type[StructSequence], str]\n")
    return stub.text()


def stubs() -> dict[str, str]:
    """Every stub: path in the package and text."""
    return {
        "_core.pyi": core_stub(),
        **{f"{name.partition('.')[2]}.pyi": text for name, text in hot_stubs().items()},
        "tensor.pyi": tensor_stub(),
        "ops/__init__.pyi": ops_stub(),
        "__init__.pyi": package_stub(),
        "return_types.pyi": return_types_stub(),
    }


def write(folder: Path = PACKAGE) -> None:
    """Writes the stubs that differ, each at once: another process may be reading it."""
    for name, text in stubs().items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}.{os.getpid()}")
        made.write_text(text, encoding="utf-8")
        made.replace(path)


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
