"""Writes the type stubs of tinyt's dynamic modules from the imported package.

Which names exist, their parameters and defaults are read from the package. Types come from where
they are stated already: annotations in the source, the op table for primitives, pybind11's own
signatures for `_core`. Only Cython keeps none; those stand in `HOT_TYPES`, and a name that lacks
an entry is an error, as is an entry without a name.

    python tools/make_stubs.py            write python/tinyt/**/*.pyi
    python tools/make_stubs.py --check    exit with 1 when a checked-in stub is out of date
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import tinyt
from tinyt import _core, _tensor, dtypes, ops
from tinyt import tensor as _make_tensor
from tinyt.tensor import Tensor

tensor_module = sys.modules[Tensor.__module__]  # tinyt.tensor is the function

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "tinyt"
HEADER = "# Made by tools/make_stubs.py from the imported package: run it again, do not edit.\n"
WIDTH = 100

# ---- what the compiled modules cannot say themselves

# Types of the Cython module's parameters, by name; "| None" is added where the default is None.
HOT_PARAMETERS = {
    "capsule": "object",
    "copy": "bool",
    "data": "Any",
    "dim": "int",
    "dl_device": "tuple[int, int]",
    "dt": "_DType",
    "exc": "object",
    "function": "Callable[..., Any]",
    "functions": "object",
    "grads": "list[Tensor | None]",
    "i": "int",
    "in_place": "bool",
    "inputs": "list[Tensor]",
    "max_version": "tuple[int, int]",
    "mode": "bool",
    "name": "str",
    "names": "Iterable[str]",
    "needs": "object",
    "node": "Node",
    "operands": "list[Any]",
    "other": "tuple[int, ...]",
    "output": "int",
    "outputs": "int",
    "requires_grad": "bool",
    "sizes": "_Sizes",
    "source": "_Operand",
    "stream": "object",
    "x": "TensorBase",
}
SIZES = "_Sizes: TypeAlias = int | tuple[int, ...] | list[int]\n"
HOOK = "Callable[[Tensor], Tensor | None]"
EDGE = "Node | Tensor | None"
# Results of its functions and types of its properties.
HOT_TYPES = {
    "dtype.itemsize": "int",
    "dtype.is_floating_point": "bool",
    "dtype.is_complex": "bool",
    "dtype.is_signed": "bool",
    "dtype.number": "int",
    "dtype.name": "str",
    "device.type": "str",
    "device.index": "int | None",
    "Node.shape": "tuple[int, ...]",
    "Node.dtype": "_DType",
    "Node.edge_of": f"tuple[{EDGE}, int]",
    "Node.needs_input": "bool",
    "Node.input": "Tensor",
    "Node.output": "Tensor",
    "Node.second": "Tensor",
    "Node.release": "None",
    "Node.apply": "Sequence[Tensor | None]",
    "Node.name": "str",
    "Node.attrs": "tuple[Any, ...]",
    "Node.output_shape": "tuple[int, ...]",
    "Node.output_dtype": "_DType",
    "Node.edges": f"list[{EDGE}]",
    "Node.seq": "int",
    "Node.outputs": "int",
    "Node.function": "Callable[..., Any] | None",
    "Node.hooks": f"list[tuple[int, {HOOK}]] | None",
    "GradMode.__enter__": "None",
    "GradMode.__exit__": "None",
    "TensorBase.dim": "int",
    "TensorBase.numel": "int",
    "TensorBase.element_size": "int",
    "TensorBase.storage_offset": "int",
    "TensorBase.data_ptr": "int",
    "TensorBase.is_contiguous": "bool",
    "TensorBase.is_floating_point": "bool",
    "TensorBase.is_complex": "bool",
    "TensorBase.requires_grad_": "Self",
    "TensorBase.detach": "Tensor",
    "TensorBase.detach_": "Self",
    "TensorBase.item": "int | float",
    "TensorBase.tolist": "Any",
    "TensorBase.__complex__": "complex",
    "TensorBase._assign": "Self",
    "TensorBase.__dlpack_device__": "tuple[int, int]",
    "TensorBase.__dlpack__": "object",
    "TensorBase.shape": "Size",
    "TensorBase.dtype": "_DType",
    "TensorBase.device": "_Device",
    "TensorBase.ndim": "int",
    "TensorBase.itemsize": "int",
    "TensorBase.nbytes": "int",
    "TensorBase._version": "int",
    "TensorBase._is_recorded": "bool",
    "TensorBase._base": "Tensor | None",
    "TensorBase.requires_grad": "bool",
    "TensorBase.is_leaf": "bool",
    "TensorBase.grad_fn": "Node | None",
    "TensorBase.output_nr": "int",
    "TensorBase.grad": "Tensor | None",
    "TensorBase.data": "Tensor",
    "TensorBase._grad": "Tensor | None",
    "TensorBase._hooks": f"list[{HOOK}] | None",
    "Size.numel": "int",
    "Size.__add__": "Size",
    "_make_dtypes": "tuple[dtype, ...]",
    "default_dtype_object": "dtype",
    "dtype_by_name": "dtype",
    "register_rule": "None",
    "is_grad_enabled": "bool",
    "_set_grad_enabled": "None",
    "make_function_node": "Node",
    "set_node": "None",
    "from_data": "Tensor",
    "empty": "Tensor",
    "view_dtype": "Tensor",
    "from_buffer_object": "Tensor",
    "from_capsule": "Tensor",
    "primitives": "dict[str, Callable[..., Any]]",
    "primitive_method": "Callable[..., Any]",
    "result_type_number": "int",
}
# Whole signatures, where the result depends on the arguments or there is nothing to read.
HOT_SIGNATURES: dict[str, list[tuple[list[str], str]]] = {
    "device.__init__": [
        (["self", "type: str | device = 'cpu'", "index: int | None = None"], "None")
    ],
    "GradMode.__init__": [(["self", "mode: bool"], "None")],
    "TensorBase.size": [(["self", "dim: None = None"], "Size"), (["self", "dim: int"], "int")],
    "TensorBase.stride": [
        (["self", "dim: None = None"], "tuple[int, ...]"),
        (["self", "dim: int"], "int"),
    ],
    "Size.__getitem__": [
        (["self", "index: SupportsIndex"], "int"),
        (["self", "index: slice"], "Size"),
    ],
    "make_subclass": [(["cls: type[_T]", "x: TensorBase", "requires_grad: bool = False"], "_T")],
    "set_public_class": [(["cls: type[Tensor]"], "None")],
}
# What C++ signatures call a bare list, dict or tuple.
CORE_RESULTS = {
    "op_table": "list[_OpRow]",
    "dtype_table": "list[_DTypeRow]",
    "build_info": "_BuildInfo",
    "memory_statistics": "dict[str, int]",
    "Graph.nodes": "list[tuple[str, tuple[Any, ...], tuple[int, ...], tuple[int, ...]]]",
    "Graph.values": "list[tuple[tuple[int, ...], int, int]]",
    "Graph.inputs": "list[tuple[int, Tensor]]",
    "Graph.writes": "list[tuple[int, Tensor]]",
    "Program.run": "tuple[Tensor, ...]",
    "Program.steps": "list[tuple[str, ...]]",
}
UNARY = {"__neg__", "__pos__", "__abs__", "__invert__"}
COMPARISONS = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"}
IN_PLACE = re.compile(r"__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor)__")
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
    r"__(pyx|new|doc|module|dict|weakref|reduce|setstate|slots|static|firstlineno|annot|buffer"
    r"|release_buffer)\w*|_pybind11_\w+"
)


# ---- writing


def natural(name: str) -> tuple[object, ...]:
    """How ruff orders `__all__`: constants, classes, the rest; numbers by value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return (kind, *(int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)))


def import_order(name: str) -> tuple[object, ...]:
    """How ruff orders imported names: as `natural`, but upper and lower case are one."""
    kind, *parts = natural(name)
    return (kind, *(p.lower() if isinstance(p, str) else p for p in parts))


def wrapped(indent: str, head: str, items: list[str], tail: str) -> str:
    """``head items tail`` on one line, on three, or with one item a line."""
    flat = ", ".join(items)
    code = tail.partition("  #")[0]
    if len(indent + head + flat + code) <= WIDTH:
        return f"{indent}{head}{flat}{tail}\n"
    if len(indent) + 4 + len(flat) <= WIDTH:
        return f"{indent}{head}\n{indent}    {flat}\n{indent}{tail}\n"
    lines = "".join(f"{indent}    {item},\n" for item in items)
    return f"{indent}{head}\n{lines}{indent}{tail}\n"


@dataclass
class Function:
    """One signature. ``parameters`` are source text, `self`, `*` and `/` included."""

    name: str
    parameters: list[str]
    returns: str
    decorator: str = ""
    comment: str = ""

    def text(self, indent: str = "") -> str:
        """The function as a line (or several) of a stub."""
        above = f"{indent}@{self.decorator}\n" if self.decorator else ""
        tail = f") -> {self.returns}: ...{self.comment}"
        return above + wrapped(indent, f"def {self.name}(", self.parameters, tail)


@dataclass
class Stub:
    """A stub file: imports by module, then the body."""

    module: str
    imports: dict[str, set[str]] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)

    def need(self, module: str, *names: str) -> None:
        """Adds ``from module import names``; without names ``import module``."""
        self.imports.setdefault(module, set()).update(names)

    def text(self) -> str:
        """The file."""
        return HEADER + "\n" + "\n".join(self._sections()) + "\n" + "".join(self.body)

    def _sections(self) -> Iterator[str]:
        for belongs in (_is_standard, _is_third_party, _is_own):
            modules = sorted(m for m in self.imports if belongs(m))
            plain = [f"import {m}\n" for m in modules if not self.imports[m]]
            named = [_import(m, self.imports[m]) for m in modules if self.imports[m]]
            if modules:
                yield "".join(plain + named)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == "tinyt"


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _is_third_party(module: str) -> bool:
    return not _is_own(module) and not _is_standard(module)


def _import(module: str, names: set[str]) -> str:
    """Plain names together, each renamed one on its own line, as isort has them."""
    plain = sorted((n for n in names if " as " not in n), key=import_order)
    groups = [[n] for n in names if " as " in n] + ([plain] if plain else [])
    text = ""
    for group in sorted(groups, key=lambda g: import_order(g[0])):
        line = f"from {module} import {', '.join(group)}\n"
        if len(line) > WIDTH + 1:
            line = f"from {module} import (\n" + "".join(f"    {n},\n" for n in group) + ")\n"
        text += line
    return text


def exported(names: Iterable[str]) -> str:
    """``__all__``, sorted."""
    return "__all__ = [\n" + "".join(f'    "{n}",\n' for n in sorted(names, key=natural)) + "]\n"


# ---- signatures of Python functions, from their source


@dataclass
class Source:
    """A parsed module: where each function stands and what each imported name means."""

    module: str
    tree: ast.Module
    functions: dict[int, ast.FunctionDef]
    imported: dict[str, tuple[str, str]]

    def overloads(self, node: ast.FunctionDef) -> list[ast.FunctionDef]:
        """The overloads of a function, or the function itself."""
        found = [
            f
            for f in self.functions.values()
            if f.name == node.name and "overload" in map(ast.unparse, f.decorator_list)
        ]
        return sorted(found, key=lambda f: f.lineno) or [node]


@cache
def source_of(module: str) -> Source:
    """Parses the file of an imported module."""
    path = sys.modules[module].__file__
    assert path is not None
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    functions, imported = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            functions[min([node.lineno, *(d.lineno for d in node.decorator_list)])] = node
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                imported[name.asname or name.name] = (node.module, name.name)
    return Source(module, tree, functions, imported)


class Resolver(ast.NodeTransformer):
    """Makes an annotation of one module valid in another, importing what it names."""

    def __init__(self, stub: Stub, source: Source, taken: set[str]) -> None:
        self.stub, self.source, self.taken = stub, source, taken

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Imports the name, or spells out a builtin that a member of the class hides."""
        name = node.id
        if name in self.source.imported:
            module, original = self.source.imported[name]
        elif name in vars(sys.modules[self.source.module]):
            module, original = self.source.module, name
        elif name in self.taken:
            self.stub.need("builtins")
            return ast.Name(f"builtins.{name}")
        else:
            return node
        if module != self.stub.module:
            self.stub.need(module, original if original == name else f"{original} as {name}")
        return node


def parameters_of(arguments: ast.arguments, show: Callable[[ast.expr | None], str]) -> list[str]:
    """Parameters as source text; ``show`` turns an annotation into text."""

    def one(argument: ast.arg, default: ast.expr | None = None, stars: str = "") -> str:
        text = (
            stars + argument.arg + (f": {show(argument.annotation)}" if argument.annotation else "")
        )
        equals = " = " if argument.annotation else "="
        return text if default is None else text + equals + ast.unparse(default).replace("'", '"')

    listed = arguments.posonlyargs + arguments.args
    first = len(listed) - len(arguments.defaults)
    out = []
    for i, argument in enumerate(listed):
        out.append(one(argument, arguments.defaults[i - first] if i >= first else None))
        if i + 1 == len(arguments.posonlyargs):
            out.append("/")
    if arguments.vararg:
        out.append(one(arguments.vararg, stars="*"))
    elif arguments.kwonlyargs:
        out.append("*")
    out += [one(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return out + ([one(arguments.kwarg, stars="**")] if arguments.kwarg else [])


def python_function(
    stub: Stub, name: str, function: Any, taken: set[str], method: bool = False
) -> list[Function]:
    """A Python function by its annotations; as a method its first parameter has none."""
    source = source_of(function.__module__)
    node = source.functions[function.__code__.co_firstlineno]
    resolver = Resolver(stub, source, taken)

    def show(annotation: ast.expr | None) -> str:
        if annotation is None:
            return "Any"
        copy = ast.parse(ast.unparse(annotation), mode="eval").body
        return ast.unparse(resolver.visit(copy)).replace("'", '"')

    found = source.overloads(node)
    out = []
    for each in found:
        parameters = parameters_of(each.args, show)
        if method:
            parameters[0] = (each.args.posonlyargs + each.args.args)[0].arg
        out.append(Function(name, parameters, show(each.returns)))
    if len(out) > 1:
        stub.need("typing", "overload")
        for signature in out:
            signature.decorator = "overload"
    return out


# ---- primitives, from the op table

KINDS = {
    "i": "int",
    "b": "bool",
    "f": "float",
    "I": "_Sizes",
    "t": "DType | int",
}


def operand_list(row: dict[str, Any]) -> list[str]:
    """Tensor parameters of a primitive. Scalar ops with several take numbers too."""
    count = row["inputs"]
    if count < 0:
        return ["tensors: Sequence[Tensor]"]
    mixed = "Tensor | Number" if row["kind"] == "scalar" else "Tensor"
    if count == 3:
        if row["kind"] == "scalar":
            return ["condition: Tensor", f"input: {mixed}", f"other: {mixed}"]
        return ["input: Tensor", "index: Tensor", "source: Tensor", "/"]
    return [f"{n}: {mixed if count > 1 else 'Tensor'}" for n in ("input", "other")[:count]]


def attribute_list(row: dict[str, Any]) -> list[str]:
    """Parameters of a primitive that are no tensors: ``name:kind[=default]`` in the table."""
    out = []
    for word in row["attributes"].split():
        name, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        value = {"b": lambda d: str(d != "0"), "f": lambda d: str(float(d))}.get(kind, str)
        out.append(f"{name}: {KINDS[kind]}" + (f" = {value(default)}" if default else ""))
    return out


def primitive(row: dict[str, Any], name: str = "", form: str = "function") -> Function:
    """A row of the op table as a function, a method of Tensor or an in-place method."""
    parameters = operand_list(row) + attribute_list(row)
    if form == "member":
        parameters = ["self", *parameters]
    elif form != "function":
        parameters[0] = "self"
    # Two outputs, or a result that shares its input's memory, cannot be written elsewhere.
    if form != "in_place" and row["outputs"] == 1 and "view" not in row["flags"]:
        parameters += ["*", "out: Tensor | None = None"]
    returns = "Tensor" if row["outputs"] == 1 else "tuple[Tensor, Tensor]"
    return Function(name or row["name"], parameters, returns)


OP_ROWS = {row["name"]: row for row in _core.op_table()}


# ---- _core


def typed_dict(name: str, example: dict[str, Any]) -> str:
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
    for text in filter(None, found[1].split(", ")):
        text = text.replace("typing.SupportsInt | typing.SupportsIndex", "int")
        text = text.replace("tinyt._core.", "").replace("tinyt.Tensor", "Tensor")
        if text.startswith("self:") or (owner and text.startswith("arg0: " + owner[:-1])):
            text = "self"
        unnamed |= bool(re.match(r"arg\d", text))
        parameters.append("*args: object" if text == "*args" else text)
    returns = found[2]
    if owner + name in CORE_RESULTS:
        if returns not in ("list", "dict", "tuple"):
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
    stub.need("typing", "Any", "TypedDict")
    stub.need("typing_extensions", "Self")
    stub.need("tinyt.tensor", "Tensor")
    stub.body = [
        typed_dict("_OpRow", _core.op_table()[0]),
        typed_dict("_DTypeRow", _core.dtype_table()[0]),
        typed_dict("_BuildInfo", _core.build_info()),
    ]
    unused = set(CORE_RESULTS)
    classes, functions = [], []
    for name, member in vars(_core).items():
        if name.startswith("__"):
            continue
        if isinstance(member, type) and issubclass(member, Exception):
            bases = ", ".join(b.__name__ for b in member.__bases__)
            stub.body.append(f"class {name}({bases}): ...\n")
        elif isinstance(member, type):
            classes.append(core_class(member, unused))
        else:
            line = member.__doc__.splitlines()[0]
            functions.append(bound_function("", name, line, unused).text())
    if unused:
        raise ValueError(f"CORE_RESULTS without a function: {sorted(unused)}")
    stub.body += ["\n", *classes, *functions]
    return stub.text()


# ---- _tensor


def hot_parameters(function: Any) -> list[str]:
    """Parameters of a Cython function: names and defaults from it, types by name."""
    out, keyword_only = [], False
    for p in inspect.signature(function).parameters.values():
        if p.name == "self":
            out.append("self")
            continue
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            out.append("*")
        stars = "*" if p.kind is p.VAR_POSITIONAL else ""
        text = f"{stars}{p.name}: {HOT_PARAMETERS[p.name]}"
        if p.default is None:
            plain = HOT_PARAMETERS[p.name] in ("Any", "object")
            text += " = None" if plain else " | None = None"
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
    if re.fullmatch(r"__r?(add|sub|mul|truediv|floordiv|mod|matmul|and|or|xor)__", name):
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


def has_buffer(example: object) -> bool:
    """Whether a compiled class has the buffer protocol."""
    try:
        memoryview(example)  # type: ignore[arg-type]
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
    comment = "  # type: ignore[override]" if key == "Size.__add__" else ""
    return Function(name, hot_parameters(member), HOT_TYPES[key], comment=comment).text(indent)


def hot_class(cls: type, example: object, unused: set[str]) -> str:
    """A class of the Cython module."""
    owner = cls.__name__ + "."
    lines = []
    for name, member in vars(cls).items():
        if HIDDEN.fullmatch(name) or (name in COMPARISONS and cls is _tensor.device):
            continue
        special = operator(name) if owner + name not in HOT_TYPES | HOT_SIGNATURES else None
        if special is not None:
            lines.append(special.text("    "))
        elif not inspect.isgetsetdescriptor(member):
            lines.append(hot_function(owner, name, member, unused))
        else:
            unused.discard(owner + name)
            kind = HOT_TYPES[owner + name]
            if is_writable(example, name):
                lines.append(f"    {name}: {kind}\n")
            else:
                lines.append(Function(name, ["self"], kind, "property").text("    "))
    if has_buffer(example):
        # The slot is called so from Python 3.12 on.
        lines.append(Function("__buffer__", ["self", "flags: int", "/"], "memoryview").text("    "))
    bases = "(tuple[int, ...])" if issubclass(cls, tuple) else ""
    # Its C struct is larger than its base's, so nothing else of that kind can be mixed in.
    head = "@disjoint_base\n" if not bases else ""
    if not lines:
        return f"{head}class {cls.__name__}: ...\n\n"
    return f"{head}class {cls.__name__}{bases}:\n" + "".join(lines) + "\n"


def hot_stub() -> str:
    """The Cython module."""
    stub = Stub("tinyt._tensor")
    stub.need("collections.abc", "Callable", "Iterable", "Sequence")
    stub.need("typing", "Any", "SupportsIndex", "TypeAlias", "TypeVar", "overload")
    stub.need("typing_extensions", "Self", "disjoint_base")
    stub.need("tinyt.tensor", "Tensor")
    leaf = _make_tensor([1.0], requires_grad=True)
    examples = {
        _tensor.TensorBase: _make_tensor([1.0]),
        _tensor.Node: (leaf * leaf).grad_fn,
        _tensor.dtype: dtypes.ALL[0],
        _tensor.device: leaf.device,
    }
    unused = HOT_TYPES.keys() | HOT_SIGNATURES.keys()
    classes, functions = [], []
    for name, member in vars(_tensor).items():
        if name.startswith("__") or isinstance(member, (ModuleType, int)):
            continue
        if isinstance(member, type):
            classes.append(hot_class(member, examples.get(member), unused))
        else:
            functions.append(hot_function("", name, member, unused))
    if unused:
        raise ValueError(f"HOT_TYPES without a name in the module: {sorted(unused)}")
    # Members of the classes are called dtype and device too.
    aliases = ["_DType: TypeAlias = dtype\n", "_Device: TypeAlias = device\n"]
    stub.body = [
        '_T = TypeVar("_T", bound=TensorBase)\n',
        "_Operand: TypeAlias = TensorBase | float\n",
        SIZES,
        *aliases,
        "\n",
        *classes,
        *functions,
    ]
    return stub.text()


# ---- tensor, ops and the package itself


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
        return function.text("    ")
    if isinstance(member, FunctionType):
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
    stub.need("tinyt._tensor", "Size", "TensorBase", "dtype as DType")
    stub.need("tinyt.ops.common", "Number")
    seen: dict[int, str] = {}
    members = {
        n: m for n, m in vars(Tensor).items() if not HIDDEN.fullmatch(n) or n == "__reduce_ex__"
    }
    # An alias points to the member that carries its own name.
    own = {n: m for n, m in members.items() if getattr(m, "__name__", n) == n}
    lines = [tensor_member(stub, n, m, seen) for n, m in {**own, **members}.items()]
    primitives = [primitive(row, form="member").text("    ") for row in OP_ROWS.values()]
    helpers = [
        f.text()
        for name in tensor_module.__all__
        if isinstance(function := getattr(tensor_module, name), FunctionType)
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
        "\nprim: _Primitives\n\n",
        *helpers,
    ]
    return stub.text()


def ops_stub() -> str:
    """All operations by name: re-exports of Python functions, signatures of primitives."""
    stub = Stub("tinyt.ops")
    stub.need("typing", "Any")
    stub.need("types", "ModuleType")
    stub.need("tinyt.ops.common", "Number")
    stub.need("tinyt.tensor", "Tensor")
    modules = [name for name in ops.__all__ if isinstance(getattr(ops, name), ModuleType)]
    stub.need("tinyt.ops", *modules)
    functions, aliases = [], []
    for name, function in ops.EXPORTS.items():
        original = function.__name__
        if isinstance(function, FunctionType):
            rename = original if original == name else f"{original} as {name}"
            stub.need(function.__module__, rename)
        elif name != original and ops.EXPORTS[original] is function:
            aliases.append(f"{name} = {original}\n")
        else:
            functions.append(primitive(OP_ROWS[original], name).text())
    stub.body = [
        exported(ops.__all__),
        "\nFAMILIES: tuple[ModuleType, ...]\nEXPORTS: dict[str, Any]\n\n",
        *functions,
        "\n",
        *aliases,
    ]
    return stub.text()


def package_stub() -> str:
    """The package: imports of `__init__.py`, the operations, the dtypes."""
    stub = Stub("tinyt")
    origins = source_of("tinyt").imported
    dtype_names = {t.name for t in dtypes.ALL} | set(dtypes.ALIASES)
    for name in [*tinyt.__all__, "ops"]:
        if name in ops.EXPORTS:
            stub.need("tinyt.ops", name)
        elif name in dtype_names:
            stub.need("tinyt.dtypes", name)
        else:
            module, original = origins[name]
            exports = original if name in tinyt.__all__ else f"{original} as {name}"
            stub.need(module, exports)
    stub.body = [exported(tinyt.__all__), "\n__version__: str\n"]
    return stub.text()


def stubs() -> dict[Path, str]:
    """Every stub: path and text."""
    return {
        PACKAGE / "_core.pyi": core_stub(),
        PACKAGE / "_tensor.pyi": hot_stub(),
        PACKAGE / "tensor.pyi": tensor_stub(),
        PACKAGE / "ops" / "__init__.pyi": ops_stub(),
        PACKAGE / "__init__.pyi": package_stub(),
    }


def main(arguments: list[str]) -> int:
    """Writes the stubs, or compares them with ``--check``; the exit status."""
    stale = 0
    for path, text in stubs().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments == ["--check"]:
            print(f"{path.relative_to(PACKAGE.parent)}: out of date", file=sys.stderr)
            stale = 1
        else:
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
