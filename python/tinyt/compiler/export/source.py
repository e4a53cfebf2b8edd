"""The text of a C file: functions, each once, and the statements of the run that calls them."""

from __future__ import annotations

import re
from importlib import resources
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from tinyt import _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tinyt._tensor import dtype

# Types of elements in memory, and the suffix of functions over them.
C_TYPES = {
    "bool": "uint8_t",
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
}
_SUFFIX = {
    "uint8_t": "u8",
    "int8_t": "i8",
    "int16_t": "i16",
    "int32_t": "i32",
    "int64_t": "i64",
    "uint16_t": "u16",
    "uint32_t": "u32",
    "uint64_t": "u64",
    "float": "f32",
    "double": "f64",
}
# The suffix of functions of the C library over a type.
_LIBRARY = {"float": "f", "double": ""}
_OF_SIZE = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}


class Memory(NamedTuple):
    """Memory that is given an address when all steps are known: a piece of the arena, by number."""

    piece: int
    offset: int
    type: str

    def __str__(self) -> str:
        return f"@{self.piece}+{self.offset}:{self.type}@"


_MEMORY = re.compile(r"@(\d+)\+(\d+):(\w+)@")


def c_type(t: dtype) -> str:
    """What elements of a dtype are in C's memory; NotImplementedError for complex numbers."""
    found = C_TYPES.get(t.name)
    if found is None:
        raise NotImplementedError(f"export_c: {t.name} has no form in C")
    return found


def bits_type(t: dtype) -> str:
    """The unsigned type of a dtype's size, for what is moved and not computed with."""
    c_type(t)
    return _OF_SIZE[t.itemsize]


class Source:
    """Functions, each once, and statements."""

    def __init__(self) -> None:
        self._functions: dict[str, str] = {}  # by name: in the order in which they were first used
        self._kernels: dict[str, str] = {}  # names by text
        self._tables: dict[str, str] = {}  # the same
        self.statements: list[str] = []

    def use(self, template: str, function: str, **types: str) -> str:
        """The name of a function of a template for the given types, which is now in the file.

        Templates are C files beside this module with types by single capital letters, which names
        of functions end with: ``tt_sum_T(const T* x, ...)``. A letter may stand for any other word
        of C, too: the name of a function, a constant. A function that one calls stands in front
        of it.
        """
        begin, functions = self._of(template, types)
        for letter, type_ in types.items():
            function = _typed(function, letter, type_)
        if function not in functions:
            raise KeyError(f"{template}.c has no function {function}")
        self._add(function, functions, begin)
        return function

    def _of(
        self, template: str, types: dict[str, str]
    ) -> tuple[dict[str, list[str]], dict[str, str]]:
        """The functions of a template and of those that it names in its first line, and what stands
        in front of each."""
        text = _template(template)
        for letter, type_ in types.items():
            text = _typed(text, letter, type_)
        front, functions = _functions_of(text)
        fronts = [front] if front else []
        own = list(functions)
        begin: dict[str, list[str]] = {}
        others = re.match(r"// Calls functions of ([\w, ]+)\.", text)
        for other in others[1].split(", ") if others else ():
            more = self._of(other, types)
            begin.update(more[0])
            functions.update(more[1])
            fronts = [part for parts in more[0].values() for part in parts] + fronts
        begin.update({name: list(dict.fromkeys(fronts)) for name in own})
        return begin, functions

    def _add(self, name: str, functions: dict[str, str], begin: dict[str, list[str]]) -> None:
        if name in self._functions:
            self.add(name, functions[name])
            return
        for part in begin[name]:
            self._functions.setdefault(part, part)
        for called in re.findall(r"\btt_\w+", functions[name]):
            if called != name and called in functions:
                self._add(called, functions, begin)
        self.add(name, functions[name])

    def kernel(self, kernel: _core.FusedKernel, inner: list[int]) -> str:
        """The name of a fused kernel's function."""
        called, text = kernel.source_parts(inner, "KERNEL", "c99")
        for name, function in called:
            self.add(name, function)
        if text not in self._kernels:
            name = self._kernels[text] = f"tt_kernel_{len(self._kernels)}"
            self._functions[name] = text.replace("void KERNEL(", f"static void {name}(", 1)
        return self._kernels[text]

    def add(self, name: str, text: str) -> None:
        """Puts a function into the file. RuntimeError where another one has its name."""
        if self._functions.setdefault(name, text) != text:
            raise RuntimeError(f"export_c: two functions are called {name} (a bug in tinyt)")

    def table(self, values: Sequence[int]) -> str:
        """An array of int64s as an argument; a long one is a constant of the file."""
        if len(values) <= 8:
            return sizes(values)
        return self.constant("int64_t", [str(v) for v in values])

    def scalar(self, op: str, dtype: dtype) -> str:
        """The name of a scalar op's function in a dtype, which is now in the file."""
        name = f"tt_{op}_{dtype.name}"
        if name not in self._functions:
            text = _core.scalar_source([(name, op, dtype)], "c99")
            begin = rf"^(?:TT_\w+ )?static (?:const \w+ {name}_table|inline \w+ {name}\()"
            head = re.search(begin, text, re.MULTILINE)
            assert head is not None
            self._functions[name] = text[head.start() :]
        return name

    def call(self, function: str, *arguments: object) -> None:
        """Calls a function in the run."""
        self.statements.append(f"{function}({', '.join(map(str, arguments))});")

    def functions(self) -> str:
        """All functions, with what they need in front of them."""
        text = "\n".join(self._functions.values())
        return _core.source_beginning(text, "c99") + "\n" + text

    def constant(self, type_: str, values: Sequence[str]) -> str:
        """The name of an array of numbers, which is now in the file."""
        lines = fill(", ".join(values), 96, initial_indent="  ", subsequent_indent="  ")
        text = f"[] = {{\n{lines}}};\n"
        if (key := f"{type_} {text}") not in self._tables:
            name = self._tables[key] = f"tt_table_{len(self._tables)}"
            self._functions[name] = f"static const {type_} {name}{text}"
        return self._tables[key]


def placed(statements: Sequence[str], offsets: Sequence[int]) -> list[str]:
    """Statements with addresses in the arena for the memory that they name."""

    def address(found: re.Match[str]) -> str:
        at = offsets[int(found[1])] + int(found[2])
        return f"({found[3]}*)(arena.bytes + {at})"

    return [_MEMORY.sub(address, statement) for statement in statements]


def _typed(text: str, letter: str, type_: str) -> str:
    """A text with a type for a letter, and what names end with for it."""
    text = re.sub(rf"\bLIBRARY_{letter}\((\w+)\)", rf"\1{_LIBRARY.get(type_, '')}", text)
    text = re.sub(rf"(?<=_){letter}(?![A-Za-z0-9])", _SUFFIX.get(type_, type_), text)
    return re.sub(rf"\b{letter}\b", type_, text)


def _functions_of(text: str) -> tuple[str, dict[str, str]]:
    """What stands at the beginning of a template, which ends with a blank line, and its functions
    by their names, each with the comment in front of it."""
    begin = ""
    found: dict[str, str] = {}
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        if line != "}":
            continue
        block = "\n".join(lines).strip("\n") + "\n"
        lines = []
        head = re.search(r"^(?:TT_\w+ )?static [^(]*\b(tt_\w+)\(", block, re.MULTILINE)
        assert head is not None, block
        if not found and (blank := block.rfind("\n\n", 0, head.start())) >= 0:
            begin, block = block[: blank + 1], block[blank + 2 :]
        found[head[1]] = block
    return begin, found


def _template(name: str) -> str:
    """The text of a template, behind that of the one that its first line says it calls."""
    text = (resources.files(__package__) / "c" / f"{name}.c").read_text(encoding="utf-8")
    called = re.match(r"// Calls functions of (\w+)\.c\.\n\n", text)
    return text if called is None else f"{_template(called[1])}\n{text[called.end() :]}"


def sizes(values: Iterable[int]) -> str:
    """An array of int64s as an argument.

    >>> sizes([2, 3])
    '(const int64_t[]){2, 3}'
    """
    return f"(const int64_t[]){{{', '.join(map(str, values)) or '0'}}}"
