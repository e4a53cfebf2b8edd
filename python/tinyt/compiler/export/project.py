"""The files of an exported program."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from tinyt.compiler.export.checks import Check, Recorded
from tinyt.compiler.export.literals import bytes_of, rows_of
from tinyt.compiler.export.source import c_type
from tinyt.compiler.export.texts import (
    CANNOT_READ,
    CMAKE,
    LOADING,
    MAGIC,
    NOT_LOADED,
    NOT_WRITTEN,
    OTHER_FILE,
    SAVING,
)

if TYPE_CHECKING:
    from tinyt.compiler.export.program import Exported, Port, Weight

_ARRAYS = 2**20  # bytes of weights up to which they are arrays in C by default


def write_project(
    folder: Path,
    name: str,
    parts: Exported,
    title: str,
    weights: str | None,
    run: Recorded,
) -> list[Path]:
    """Writes the files; returns them. ``run`` is what the test repeats. ValueError where the folder
    is another project's."""
    require_own_folder(folder, name)
    nbytes = sum(w.tensor.numel() * w.tensor.dtype.itemsize for w in parts.weights)
    if weights is None:
        weights = "arrays" if nbytes <= _ARRAYS else "file"
    project = _Project(name, parts, title, weights == "file")
    files: dict[str, str | bytes] = {
        f"{name}.h": project.header(),
        f"{name}.c": project.program(),
        f"{name}_test.c": Check(name, run, weights == "file").text(),
        "CMakeLists.txt": project.cmake(),
    }
    if weights == "file":
        files[f"{name}.weights"] = project.weight_file()
    else:
        files[f"{name}_weights.c"] = project.weight_arrays()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for file, content in files.items():
        path = folder / file
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            path.write_bytes(content)
        written.append(path)
    return written


def require_own_folder(folder: Path, name: str) -> None:
    """ValueError where a folder has a CMake file that is not that of an export of this name."""
    path = folder / "CMakeLists.txt"
    if not path.is_file():
        return
    found = re.search(r"^project\((\w+)_c C\)$", path.read_text("utf-8", "replace"), re.MULTILINE)
    if found is None or found[1] != name:
        what = "another project" if found is None else f"the export {found[1]}"
        raise ValueError(
            f"export_c: the directory {str(folder)!r} holds {what}; each export needs a directory "
            "of its own"
        )


class _Project:
    def __init__(self, name: str, parts: Exported, title: str, has_file: bool) -> None:
        self.name, self.parts, self.title, self.has_file = name, parts, title, has_file
        self.upper = name.upper()

    # ---- header

    def _signature(self) -> str:
        arguments = [f"int64_t {s.name}" for s in self.parts.sizes]
        arguments += [
            f"{'' if x.written else 'const '}{c_type(x.dtype)}* {x.name}" for x in self.parts.inputs
        ]
        arguments += [f"{c_type(y.dtype)}* {y.name}" for y in self.parts.outputs]
        begin = f"int {self.name}_run("
        one_line = f"{begin}{', '.join(arguments) or 'void'})"
        if len(one_line) <= 98:
            return one_line
        return begin + f",\n{' ' * len(begin)}".join(arguments) + ")"

    def header(self) -> str:
        name, upper, parts = self.name, self.upper, self.parts
        lines = [
            f"// {self.title}",
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            "",
            "#include <stdint.h>",
            "",
            "// Elements of each argument and result, which lie as the comment says.",
        ]
        lines += [
            *self._counts(),
            "",
            "// Bytes of the one static array that values in between lie in.",
            f"#define {upper}_ARENA_BYTES {max(parts.arena_bytes, 1)}",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
        ]
        if self.has_file:
            lines += [
                "// Reads the weights, before the first run. 0, or what the function below tells.",
                f"int {name}_load(const char* path);",
                "",
            ]
            if any(w.written for w in parts.weights):
                lines += [
                    "// Writes the weights as they are now, for the next load. 0; else a number.",
                    f"int {name}_save(const char* path);",
                    "",
                ]
        else:
            lines += self._visible()
        if parts.generators:
            lines += [
                "// Begins the random numbers of a generator anew, as manual_seed() does; they are",
                f"// numbered by first use, up to {len(parts.generators) - 1}. All begin with 0.",
                f"void {name}_seed(int generator, int64_t seed);",
                "",
            ]
        lines += [
            "// One run. Not from several threads at once: there is one arena. Returns 0, or a",
            "// number for the function below where values are such that there is no result.",
            f"{self._signature()};",
            "",
            "// What a number other than 0 means.",
            f"const char* {name}_error(int number);",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
        ]
        return "\n".join(lines) + "\n"

    def _counts(self) -> Iterator[str]:
        """How many elements arguments and results have, and the bounds of sizes."""
        parts, upper = self.parts, self.upper
        for x in (*parts.inputs, *parts.outputs):
            yield f"#define {upper}_{x.name.upper()}_SIZE {x.elements} // {_described(x)}"
        if parts.sizes:
            yield ""
            yield "// Sizes that are arguments: with the largest, those above are these."
        for s in parts.sizes:
            yield f"#define {upper}_{s.name.upper()}_MIN {s.least}"
            yield f"#define {upper}_{s.name.upper()}_MAX {s.most}"

    def _visible(self) -> Iterator[str]:
        """Declarations of what runs write, and of what may be set between them."""
        written = [w for w in self.parts.weights if w.written]
        numbers = [w for w in self.parts.weights if w.is_number and not w.written]
        if written:
            yield "// What runs write to, as parameters and states of optimisers: as it is then."
        for w in written:
            shape = f"{w.tensor.dtype.name}{list(w.shape)}"
            yield f"{self._declared(w)}; // {shape}"
        if written:
            yield ""
        if numbers:
            yield "// Numbers that each run reads, as learning rates; with their values at export."
        for w in numbers:
            yield f"{self._declared(w)}; // {', '.join(map(str, w.tensor.tolist()))}"
        if numbers:
            yield ""

    def _declared(self, w: Weight) -> str:
        const = "" if w.written or w.is_number else "const "
        size = max(1, w.tensor.numel())
        return f"extern {const}{c_type(w.tensor.dtype)} {self.name}_{w.name}[{size}]"

    # ---- the program

    def program(self) -> str:
        name, parts = self.name, self.parts
        lines = [
            f"// {self.title}",
            *self._forms(),
            f'#include "{name}.h"',
            "",
            *(["#include <stdio.h>"] if self.has_file else []),
            parts.source.functions(),
            *self._memory(),
            *(self._loading() if self.has_file else []),
            *self._errors(),
            *self._generators(),
            f"{self._signature()} {{",
            *self._unused(),
            *([f"  if (!loaded) return {NOT_LOADED};"] if self.has_file else []),
            *(f"  {statement}" for statement in parts.statements),
            "  return 0;",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _forms(self) -> list[str]:
        """Names the functions that steps are, but for fused kernels."""
        text = "\n".join(self.parts.statements)
        names = dict.fromkeys(re.findall(r"\b(tt_\w+)\(", text))
        forms = [name for name in names if not name.startswith("tt_kernel_")]
        if not forms:
            return []
        text = f"Forms of steps: {', '.join(forms)}."
        return fill(text, 96, initial_indent="// ", subsequent_indent="// ").splitlines()

    def _unused(self) -> Iterator[str]:
        """Says so of arguments that nothing reads, as those of no elements."""
        text = "\n".join(self.parts.statements)
        for x in (*self.parts.inputs, *self.parts.outputs):
            if re.search(rf"\b{x.name}\b", text) is None:
                yield f"  (void){x.name};"

    def _memory(self) -> Iterator[str]:
        parts = self.parts
        yield "#if defined(__GNUC__)"
        yield "#define ALIGNED __attribute__((aligned(64)))"
        yield "#else"
        yield "#define ALIGNED"
        yield "#endif"
        yield ""
        if parts.arena_bytes:
            yield "static union {"
            yield "  double alignment;"
            yield f"  unsigned char bytes[{self.upper}_ARENA_BYTES];"
            yield "} arena ALIGNED;"
            yield ""
        if self.has_file:
            yield "static union {"
            yield "  double alignment;"
            yield f"  unsigned char bytes[{max(1, self._offsets()[1])}];"
            yield "} weights ALIGNED;"
            for w, offset in zip(parts.weights, self._offsets()[0], strict=True):
                yield f"#define {w.name} (({c_type(w.tensor.dtype)}*)(weights.bytes + {offset}))"
        else:
            for w in parts.weights:
                if not (w.written or w.is_number):  # the header has those
                    yield f"{self._declared(w)};"
                yield f"#define {w.name} {self.name}_{w.name}"
        yield ""

    def _errors(self) -> Iterator[str]:
        yield f"const char* {self.name}_error(int number) {{"
        yield "  switch (number) {"
        for i, text in enumerate(("no error", *self.parts.faults)):
            yield f'    case {i}: return "{text}";'
        if self.has_file:
            yield f'    case {CANNOT_READ}: return "the file of weights cannot be read";'
            yield f'    case {OTHER_FILE}: return "the file of weights is damaged or another one";'
            yield f'    case {NOT_WRITTEN}: return "the file of weights cannot be written";'
            yield f'    case {NOT_LOADED}: return "the weights have not been read";'
        yield '    default: return "no such error";'
        yield "  }"
        yield "}"
        yield ""

    def _generators(self) -> Iterator[str]:
        count = len(self.parts.generators)
        if not count:
            return
        yield f"static uint64_t seeds[{count}], counters[{count}];"
        yield ""
        yield f"void {self.name}_seed(int generator, int64_t seed) {{"
        yield f"  if (generator < 0 || generator >= {count}) return;"
        yield "  seeds[generator] = (uint64_t)seed;"
        yield "  counters[generator] = 0;"
        yield "}"
        yield ""

    # ---- weights

    def _offsets(self) -> tuple[list[int], int]:
        offsets, at = [], 0
        for w in self.parts.weights:
            offsets.append(at)
            at += -(-w.tensor.numel() * w.tensor.dtype.itemsize // 64) * 64
        return offsets, at

    def weight_arrays(self) -> str:
        lines = [f"// Weights of {self.name}.", "#include <math.h>", "#include <stdint.h>", ""]
        for w in self.parts.weights:
            declared = self._declared(w)
            lines.append(f"{declared};")
            lines.append(f"{declared.removeprefix('extern ')} = {{")
            lines += rows_of(w.tensor)
            lines += ["};", ""]
        return "\n".join(lines)

    def weight_file(self) -> bytes:
        data = bytearray()
        for w, offset in zip(self.parts.weights, self._offsets()[0], strict=True):
            data += bytes(offset - len(data)) + bytes_of(w.tensor)
        data += bytes(max(1, self._offsets()[1]) - len(data))
        return struct.pack("=QQII", MAGIC, len(data), zlib.crc32(data), self._identity()) + data

    def _identity(self) -> int:
        """Differs for programs that differ in more than the values of weights."""
        kinds = [f"{w.tensor.dtype.name} {w.tensor.numel()}" for w in self.parts.weights]
        return zlib.crc32("\n".join([*kinds, *self.parts.statements]).encode())

    def _loading(self) -> Iterator[str]:
        text = LOADING + (SAVING if any(w.written for w in self.parts.weights) else "")
        yield from text.format(
            name=self.name,
            cannot=CANNOT_READ,
            other=OTHER_FILE,
            not_written=NOT_WRITTEN,
            not_loaded=NOT_LOADED,
            identity=self._identity(),
            magic=f"{MAGIC:#x}",
        ).splitlines()
        yield ""

    def cmake(self) -> str:
        name = self.name
        sources = f"{name}.c" + ("" if self.has_file else f" {name}_weights.c")
        argument = f" ${{CMAKE_CURRENT_SOURCE_DIR}}/{name}.weights" if self.has_file else ""
        return CMAKE.format(name=name, sources=sources, argument=argument)


def _described(x: Port) -> str:
    if x.text:
        return x.text
    shape = f"{x.dtype.name}{list(x.shape)}"
    return shape if x.is_dense else f"{shape}, strides {list(x.stride)}"
