"""Stubs of the compiled modules: `_core` (pybind11) and `_tensor` (Cython)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

import tinyt
from stubs.tables import (
    CORE_RESULTS,
    HOT_PARAMETERS,
    HOT_SIGNATURES,
    HOT_TYPES,
    SIZES,
)
from stubs.text import Function, Stub
from tinyt import _autograd, _capture, _core, _tensor, dtypes
from tinyt.tensor import node_of

UNARY = {"__neg__", "__pos__", "__abs__", "__invert__"}
COMPARISONS = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"}
IN_PLACE = re.compile(r"__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift)__")
CONVERSIONS = {
    "__hash__": "int",
    "__len__": "int",
    "__bool__": "bool",
    "__int__": "int",
    "__float__": "float",
    "__index__": "int",
    "__repr__": "str",
    "__str__": "str",
}
# Cython and pybind11 internals, and what every class has.
HIDDEN = re.compile(
    r"__(pyx|new|doc|module|dict|weakref|reduce|setstate|slot|static|firstlineno|annot|buffer"
    r"|release_buffer)\w*|_pybind11_\w+"
)
BASE_TYPE = 1 << 10  # Py_TPFLAGS_BASETYPE: a class can derive from it


# ---- _core


def typed_dict(name: str, example: Mapping[str, object]) -> str:
    """A TypedDict with the keys and types of an example."""

    def type_of(value: object) -> str:
        if isinstance(value, frozenset):
            return "frozenset[str]"
        if isinstance(value, dict):
            return "dict[str, bool]"
        return type(value).__name__

    lines = "".join(f"    {k}: {type_of(v)}\n" for k, v in example.items())
    return f"class {name}(TypedDict):\n{lines}\n"


def bound_function(owner: str, name: str, signature: str, unused: set[str]) -> Function:
    """A function from pybind11's signature line, ``name(a: T = d) -> R``."""
    found = re.fullmatch(r"\w*\((.*)\) -> (.+)", signature)
    if found is None:
        raise ValueError(f"{owner}{name}: not a signature: {signature!r}")
    parameters: list[str] = []
    unnamed = False
    for text in filter(None, re.split(r", (?=\*args|\w+: )", found[1])):
        text = text.replace("typing.SupportsInt | typing.SupportsIndex", "int")
        text = text.replace("typing.SupportsFloat | typing.SupportsIndex", "float")
        text = text.replace("collections.abc.Sequence", "Sequence")
        text = text.replace("tinyt._core.", "").replace("tinyt.Tensor", "Tensor")
        if text.startswith("self:") or (owner and text.startswith("arg0: " + owner[:-1])):
            text = "self"
        unnamed |= bool(re.match(r"arg\d", text))
        parameters.append("*args: object" if text == "*args" else text)
    returns = found[2].replace("tinyt._core.", "").replace("tinyt.Tensor", "Tensor")
    if owner + name in CORE_RESULTS:
        if returns not in ("list", "dict", "tuple", "tuple | None"):
            raise ValueError(f"{owner}{name}: C++ says {returns} already")
        returns = CORE_RESULTS[owner + name]
        unused.discard(owner + name)
    if name == "__enter__":
        returns = "Self"
    return Function(name, parameters + (["/"] if unnamed else []), returns)


def core_class(cls: type, unused: set[str]) -> str:
    """A class bound by pybind11."""
    owner = cls.__name__ + "."
    lines = []
    for name, member in vars(cls).items():
        if HIDDEN.fullmatch(name):
            continue
        if isinstance(member, property):
            function = bound_function(owner, name, (member.fget.__doc__ or "").strip(), unused)
            function.decorator = "property"
        else:
            function = bound_function(owner, name, member.__doc__.splitlines()[0], unused)
        lines.append(function.text("    "))
    return f"class {cls.__name__}:\n" + "".join(lines) + "\n"


def core_stub() -> str:
    """The pybind11 module."""
    stub = Stub("tinyt._core")
    stub.need("collections.abc", "Sequence")
    stub.need("typing", "Any", "TypedDict")
    stub.need("typing_extensions", "Self")
    stub.need("tinyt.tensor", "Tensor")
    stub.body = [
        typed_dict("_OpRow", _core.op_table()[0]),
        typed_dict("_DTypeRow", _core.dtype_table()[0]),
        typed_dict("_BuildInfo", _core.build_info()),
    ]
    unused = set(CORE_RESULTS)
    classes, functions, constants = [], [], []
    for name, member in vars(_core).items():
        if name.startswith("__"):
            continue
        if isinstance(member, type) and issubclass(member, Exception):
            bases = ", ".join(b.__name__ for b in member.__bases__)
            stub.body.append(f"class {name}({bases}): ...\n")
        elif isinstance(member, type):
            classes.append(core_class(member, unused))
        elif isinstance(member, int):
            constants.append(f"{name}: int\n")
        else:
            line = member.__doc__.splitlines()[0]
            functions.append(bound_function("", name, line, unused).text())
    if unused:
        raise ValueError(f"CORE_RESULTS without a function: {sorted(unused)}")
    stub.body += ["\n", *classes, *functions, "\n", *constants]
    return stub.text()


# ---- _tensor, _autograd, _capture


# Names of other modules that the texts of types have.
HOT_IMPORTS = {
    "collections.abc": ("Callable", "Iterable", "Sequence"),
    "typing": ("Any", "SupportsIndex", "TypeAlias", "TypeVar", "final", "overload"),
    "typing_extensions": ("Self", "disjoint_base"),
    "weakref": ("ReferenceType", "WeakValueDictionary"),
    "tinyt.tensor": ("Tensor",),
}


def entry(table: dict[str, str], name: str, key: str) -> str:
    """The row of a table; KeyError with its name where it is missing."""
    if key not in table:
        raise KeyError(f"tools/stubs/tables.py: {name} has no entry for {key}")
    return table[key]


def hot_parameters(function: Any) -> list[str]:
    """Parameters of a Cython function: names and defaults from it, types by name."""
    out, keyword_only = [], False
    for p in inspect.signature(function).parameters.values():
        if p.name == "self":
            out.append("self")
            continue
        kind = entry(HOT_PARAMETERS, "HOT_PARAMETERS", p.name)
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            out.append("*")
        stars = "*" if p.kind is p.VAR_POSITIONAL else ""
        text = f"{stars}{p.name}: {kind}"
        if p.default is None:
            text += " = None" if kind in ("Any", "object") else " | None = None"
        elif p.default is not p.empty:
            text += f" = {p.default!r}"
        out.append(text)
    return out


def operator(name: str) -> Function | None:
    """A special method that is called through its slot."""
    if name in CONVERSIONS:
        return Function(name, ["self"], CONVERSIONS[name])
    if name in UNARY:
        return Function(name, ["self"], "Tensor")
    if name in ("__pow__", "__rpow__"):
        return Function(name, ["self", "value: _Operand", "mod: None = None", "/"], "Tensor")
    if IN_PLACE.fullmatch(name):
        # mypy wants the third argument of pow() here too; the slot has none.
        comment = "  # type: ignore[misc]" if name == "__ipow__" else ""
        return Function(name, ["self", "value: _Operand", "/"], "Self", comment=comment)
    if re.fullmatch(
        r"__r?(add|sub|mul|truediv|floordiv|mod|matmul|and|or|xor|lshift|rshift)__", name
    ):
        return Function(name, ["self", "value: _Operand", "/"], "Tensor")
    if name in COMPARISONS:
        comment = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
        return Function(name, ["self", "value: _Operand", "/"], "Tensor", comment=comment)
    return None


def is_writable(example: object, name: str) -> bool:
    """Whether a property of a compiled class can be set."""
    try:
        setattr(example, name, getattr(example, name))
    except AttributeError:
        return False
    return True


def has_buffer(example: Any) -> bool:
    """Whether a compiled class has the buffer protocol."""
    try:
        memoryview(example)
    except TypeError:
        return False
    return True


def hot_function(owner: str, name: str, member: object, unused: set[str]) -> str:
    """A Cython function or method, from the tables."""
    indent = "    " if owner else ""
    key = owner + name
    unused.discard(key)
    if key in HOT_SIGNATURES:
        forms = HOT_SIGNATURES[key]
        many = "overload" if len(forms) > 1 else ""
        texts = (Function(name, parameters, r, many).text(indent) for parameters, r in forms)
        return "".join(texts).replace("'", '"')
    returns = entry(HOT_TYPES, "HOT_TYPES", key)
    comment = "  # type: ignore[override]" if key == "Size.__add__" else ""
    return Function(name, hot_parameters(member), returns, comment=comment).text(indent)


def hot_class(cls: type, example: object, unused: set[str]) -> str:
    """A class of the Cython module."""
    owner = cls.__name__ + "."
    lines = []
    if owner + "__new__" in HOT_SIGNATURES:  # a `__cinit__`
        lines.append(hot_function(owner, "__new__", None, unused))
    for name, member in vars(cls).items():
        if HIDDEN.fullmatch(name) or (name in COMPARISONS and cls is _tensor.device):
            continue
        if issubclass(cls, float) and hasattr(float, name):  # to a type checker it is a float
            continue
        special = operator(name) if owner + name not in HOT_TYPES | HOT_SIGNATURES else None
        if special is not None:
            lines.append(special.text("    "))
        elif not inspect.isgetsetdescriptor(member):
            lines.append(hot_function(owner, name, member, unused))
        else:
            unused.discard(owner + name)
            kind = entry(HOT_TYPES, "HOT_TYPES", owner + name)
            if is_writable(example, name):
                lines.append(f"    {name}: {kind}\n")
            else:
                lines.append(Function(name, ["self"], kind, "property").text("    "))
    if has_buffer(example):
        # The slot is called so from Python 3.12 on.
        lines.append(Function("__buffer__", ["self", "flags: int", "/"], "memoryview").text("    "))
    bases = "(tuple[int, ...])" if issubclass(cls, tuple) else ""
    bases = "(float)" if issubclass(cls, float) else bases
    # Its C struct is larger than its base's, so nothing else of that kind can be mixed in.
    can_be_base = cls.__flags__ & BASE_TYPE
    head = "" if issubclass(cls, tuple) else "@disjoint_base\n" if can_be_base else "@final\n"
    if not lines:
        return f"{head}class {cls.__name__}: ...\n\n"
    return f"{head}class {cls.__name__}{bases}:\n" + "".join(lines) + "\n"


HOT_MODULES = (_tensor, _autograd, _capture)
# What texts of types call the classes whose names members of classes have, too.
ALIASES = {"_DType": "dtype", "_Device": "device"}


def hot_stubs() -> dict[str, str]:
    """The Cython modules: name and text."""
    unused = HOT_TYPES.keys() | HOT_SIGNATURES.keys()
    bodies = {module.__name__: hot_body(module, unused) for module in HOT_MODULES}
    if unused:
        raise ValueError(f"HOT_TYPES without a name in a module: {sorted(unused)}")
    homes = {
        name: module.__name__
        for module in HOT_MODULES
        for name, member in vars(module).items()
        if isinstance(member, type) and member.__module__ == module.__name__
    }
    return {name: hot_stub(name, body, homes) for name, body in bodies.items()}


def hot_stub(module: str, body: list[str], homes: dict[str, str]) -> str:
    """A Cython module's stub: the names that its body uses, then the body."""
    stub = Stub(module)
    text = "".join(body)
    aliases = [
        f"{alias}: TypeAlias = {name}\n"
        for alias, name in ALIASES.items()
        if re.search(rf"\b{alias}\b", text)
    ]
    head = [
        line
        for word, line in (
            ("_T", '_T = TypeVar("_T", bound=TensorBase)\n'),
            ("_Operand", "_Operand: TypeAlias = TensorBase | complex\n"),
            ("_Sizes", SIZES),
        )
        if re.search(rf"\b{word}\b", text)
    ]
    stub.body = [*head, *aliases, *body]
    text = "".join(stub.body)
    for source, names in HOT_IMPORTS.items():
        used = [name for name in names if re.search(rf"(?<!\.)\b{name}\b", text)]
        if used:
            stub.need(source, *used)
    for name, home in homes.items():
        if home != module and re.search(rf"(?<![.\w]){name}\b(?!:)", text):
            stub.need(home, name)
    return stub.text()


def hot_body(module: ModuleType, unused: set[str]) -> list[str]:
    """Constants, classes and functions of a Cython module."""
    leaf = tinyt.tensor([1.0], requires_grad=True)
    examples: dict[type[Any], object] = {
        _tensor.TensorBase: tinyt.tensor([1.0]),
        _autograd.Node: node_of(leaf * leaf),
        _tensor.dtype: dtypes.ALL[0],
        _tensor.device: leaf.device,
        _autograd.GradMode: _autograd.GradMode(),
        _capture.CompiledBase: _capture.CompiledBase(print),
    }
    constants, classes, functions = [], [], []
    for name, member in vars(module).items():
        if name.startswith("__") or isinstance(member, (ModuleType, int, dict)):
            continue
        if type(member) in (object, WeakValueDictionary):
            unused.discard(name)
            constants.append(f"{name}: {entry(HOT_TYPES, 'HOT_TYPES', name)}\n")
        elif isinstance(member, type) and issubclass(member, Exception):
            continue  # imported
        elif name.startswith("Sym"):  # an int or float to a type checker
            constants.append(f"{name}: type[Any]\n")
        elif isinstance(member, type):
            classes.append(hot_class(member, examples.get(member), unused))
        else:
            functions.append(hot_function("", name, member, unused))
    return [*constants, "\n", *classes, *functions]
