"""The files of an exported program."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tinyt
from tinyt.compiler.export.source import c_type
from tinyt.compiler.export.values import Value

if TYPE_CHECKING:
    from tinyt.compiler.export.program import Exported, Port, Weight
    from tinyt.tensor import Tensor

_ARRAYS = 2**20  # bytes of weights up to which they are arrays in C by default


def write_project(
    folder: Path,
    name: str,
    parts: Exported,
    title: str,
    weights: str | None,
    given: Sequence[Tensor],
    expected: Sequence[Tensor],
    after: Sequence[Tensor],
) -> list[Path]:
    """Writes the files; returns them. ``given`` is what the test runs on, ``expected`` what it
    gives, ``after`` what the written weights are then."""
    nbytes = sum(w.tensor.numel() * w.tensor.dtype.itemsize for w in parts.weights)
    if weights is None:
        weights = "arrays" if nbytes <= _ARRAYS else "file"
    project = _Project(name, parts, title, weights == "file")
    files: dict[str, str | bytes] = {
        f"{name}.h": project.header(),
        f"{name}.c": project.program(),
        f"{name}_test.c": project.test(given, expected, after),
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


class _Project:
    def __init__(self, name: str, parts: Exported, title: str, has_file: bool) -> None:
        self.name, self.parts, self.title, self.has_file = name, parts, title, has_file
        self.upper = name.upper()

    # ---- header

    def _signature(self) -> str:
        arguments = [
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
        for x in (*parts.inputs, *parts.outputs):
            lines.append(f"#define {upper}_{x.name.upper()}_SIZE {_span(x)} // {_described(x)}")
        lines += [
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
            *(f"  {statement}" for statement in parts.statements),
            *(f"  counters[{i}] += {count}u;" for i, count in enumerate(parts.generators)),
            "  return 0;",
            "}",
        ]
        return "\n".join(lines) + "\n"

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
            yield f'    case {_CANNOT_READ}: return "the file of weights cannot be read";'
            yield f'    case {_OTHER_FILE}: return "the file of weights is damaged or another one";'
            yield f'    case {_NOT_WRITTEN}: return "the file of weights cannot be written";'
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
            lines += _rows(w.tensor)
            lines += ["};", ""]
        return "\n".join(lines)

    def weight_file(self) -> bytes:
        data = bytearray()
        for w, offset in zip(self.parts.weights, self._offsets()[0], strict=True):
            data += bytes(offset - len(data)) + _bytes(w.tensor)
        data += bytes(max(1, self._offsets()[1]) - len(data))
        return struct.pack("=QQQ", _MAGIC, len(data), zlib.crc32(data)) + data

    def _loading(self) -> Iterator[str]:
        text = _LOADING + (_SAVING if any(w.written for w in self.parts.weights) else "")
        yield from text.format(
            name=self.name,
            cannot=_CANNOT_READ,
            other=_OTHER_FILE,
            not_written=_NOT_WRITTEN,
            magic=f"{_MAGIC:#x}",
        ).splitlines()
        yield ""

    # ---- the test

    def test(
        self, given: Sequence[Tensor], expected: Sequence[Tensor], after: Sequence[Tensor]
    ) -> str:
        name, parts = self.name, self.parts
        lines = [
            f"// Runs {name} once on recorded arguments, and compares with recorded results.",
            f'#include "{name}.h"',
            "",
            "#include <math.h>",
            "#include <stdio.h>",
            "#include <string.h>",
            "",
        ]
        for x, tensor in zip(parts.inputs, given, strict=True):
            const = "" if x.written else "const "
            lines.append(f"static {const}{c_type(x.dtype)} {x.name}[{max(1, _span(x))}] = {{")
            lines += [*_rows(whole(tensor)), "};"]
        for y, tensor in zip(parts.outputs, expected, strict=True):
            type_ = c_type(y.dtype)
            size = max(1, y.nbytes // y.dtype.itemsize)
            lines.append(f"static const {type_} expected_{y.name}[{size}] = {{")
            lines += [*_rows(tensor), "};"]
            lines.append(f"static {type_} {y.name}[{size}];")
        weights = [] if self.has_file else [w for w in parts.weights if w.written]
        for w, tensor in zip(weights, after, strict=False):
            type_ = c_type(w.tensor.dtype)
            array = f"expected_{w.name}[{max(1, tensor.numel())}]"
            lines += [f"static const {type_} {array} = {{", *_rows(tensor), "};"]
        lines += ["", *_COMPARE.splitlines(), "", "int main(int argc, char** argv) {"]
        if self.has_file:
            lines += [
                f'  const char* path = argc > 1 ? argv[1] : "{name}.weights";',
                f"  int error = {name}_load(path);",
                "  if (error != 0) {",
                f'    fprintf(stderr, "%s: %s\\n", path, {name}_error(error));',
                "    return 1;",
                "  }",
                "  error",
            ]
        else:
            lines += ["  (void)argc;", "  (void)argv;", "  int error"]
        arguments = ", ".join(x.name for x in (*parts.inputs, *parts.outputs))
        lines[-1] += f" = {name}_run({arguments});"
        lines += [
            "  if (error != 0) {",
            f'    fprintf(stderr, "%s\\n", {name}_error(error));',
            "    return 1;",
            "  }",
            "  int wrong = 0;",
        ]
        seen = [(y.name, y.name, y.dtype, y.nbytes, 0.0) for y in parts.outputs]
        for w, tensor in zip(weights, after, strict=False):
            nbytes = w.tensor.numel() * w.tensor.dtype.itemsize
            more = 2 * _change(w.tensor, tensor)
            seen.append((w.name, f"{name}_{w.name}", w.tensor.dtype, nbytes, more))
        for label, have, t, nbytes, more in seen:
            count, want = nbytes // t.itemsize, f"expected_{label}"
            if t.name in ("float32", "float64"):
                kind = "single" if t.itemsize == 4 else "double"
                call = f'compare_{kind}("{label}", {have}, {want}, {count}, {more:.3g})'
            else:
                call = f'compare_bytes("{label}", {have}, {want}, {nbytes}, {count})'
            lines.append(f"  wrong += {call};")
        lines += ["  return wrong != 0;", "}"]
        kinds = {t.name for _, _, t, *_ in seen}
        text = "\n".join(lines) + "\n"
        for kind, function in (("float32", "single"), ("float64", "double")):
            if kind not in kinds:
                text = _without(text, f"compare_{function}")
        if kinds <= {"float32", "float64"}:
            text = _without(text, "compare_bytes")
        return text

    def cmake(self) -> str:
        name = self.name
        sources = f"{name}.c" + ("" if self.has_file else f" {name}_weights.c")
        argument = f" ${{CMAKE_CURRENT_SOURCE_DIR}}/{name}.weights" if self.has_file else ""
        return _CMAKE.format(name=name, sources=sources, argument=argument)


def _without(text: str, function: str) -> str:
    return re.sub(rf"static int {function}\(.*?\n}}\n\n?", "", text, flags=re.DOTALL)


def _span(x: Port) -> int:
    """Elements of memory that a port covers, from its first one on."""
    return x.nbytes // x.dtype.itemsize


def _described(x: Port) -> str:
    shape = f"{x.dtype.name}{list(x.shape)}"
    is_dense = Value(x.shape, x.stride, x.dtype, x.name).is_dense
    return shape if is_dense else f"{shape}, strides {list(x.stride)}"


def whole(x: Tensor) -> Tensor:
    """The memory of a tensor from its first element to its last, 1-d."""
    if x.numel() == 0:
        return x.reshape(-1)
    last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((last + 1,), (1,))


def _change(before: Tensor, after: Tensor) -> float:
    """The largest change of an element: optimisers divide by the size of gradients, so that where
    a gradient is rounding errors alone, any such change may be made."""
    if not after.dtype.is_floating_point or after.numel() == 0:
        return 0.0
    found = (after.double() - before.double()).abs().max().item()
    return found if found < float("inf") else 0.0


def _bytes(x: Tensor) -> bytes:
    flat = x.detach().contiguous().view(-1)
    return bytes(memoryview(flat.view(tinyt.uint8).numpy())) if x.numel() else b""


def _rows(x: Tensor) -> Iterator[str]:
    """The elements as lines of an initialiser."""
    if x.numel() == 0:
        yield "  0,"
        return
    flat = x.detach().contiguous().view(-1)
    if x.dtype in (tinyt.bool, tinyt.float16, tinyt.bfloat16):
        flat = flat.view({1: tinyt.uint8, 2: tinyt.int16}[x.dtype.itemsize])
    values: list[Any] = flat.tolist()
    per_line = 8
    suffix = "f" if x.dtype is tinyt.float32 else ""
    mask = 0xFFFF if x.dtype in (tinyt.float16, tinyt.bfloat16) else None
    for i in range(0, len(values), per_line):
        yield "  " + " ".join(f"{_literal(v, suffix, mask)}," for v in values[i : i + per_line])


def _literal(value: Any, suffix: str, mask: int | None) -> str:
    if isinstance(value, float):
        if value != value:
            return "NAN"
        if value in (float("inf"), float("-inf")):
            return "INFINITY" if value > 0 else "-INFINITY"
        return value.hex() + suffix
    if mask is not None:
        value &= mask
    return "(-0x7fffffffffffffff - 1)" if value == -(2**63) else str(value)


_MAGIC = 0x3130575459544954  # "TITYTW01"
_CANNOT_READ, _OTHER_FILE, _NOT_WRITTEN = 1001, 1002, 1003


_LOADING = """\
// CRC-32 as zlib has it.
static uint32_t checksum(const unsigned char* data, size_t n) {{
  uint32_t table[256], sum = 0xffffffffu;
  for (uint32_t i = 0; i < 256; ++i) {{
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? 0xedb88320u : 0);
  }}
  for (size_t i = 0; i < n; ++i) sum = sum >> 8 ^ table[(sum ^ data[i]) & 0xff];
  return ~sum;
}}

int {name}_load(const char* path) {{
  FILE* file = fopen(path, "rb");
  if (file == NULL) return {cannot};
  uint64_t head[3];
  size_t whole = fread(head, sizeof head, 1, file);
  whole += fread(weights.bytes, sizeof weights.bytes, 1, file);
  const int more = fgetc(file);
  fclose(file);
  if (whole != 2 || more != EOF || head[0] != {magic} || head[1] != sizeof weights.bytes)
    return {other};
  return checksum(weights.bytes, sizeof weights.bytes) == head[2] ? 0 : {other};
}}
"""

_SAVING = """
int {name}_save(const char* path) {{
  FILE* file = fopen(path, "wb");
  if (file == NULL) return {not_written};
  const uint64_t sum = checksum(weights.bytes, sizeof weights.bytes);
  const uint64_t head[3] = {{{magic}, sizeof weights.bytes, sum}};
  size_t whole = fwrite(head, sizeof head, 1, file);
  whole += fwrite(weights.bytes, sizeof weights.bytes, 1, file);
  return fclose(file) == 0 && whole == 2 ? 0 : {not_written};
}}
"""

_COMPARE = """\
static int compare_single(const char* name, const float* have, const float* want, long n,
                          double more) {
  double largest = 0, scale = 0;
  long other_bits = 0;
  for (long i = 0; i < n; ++i) {
    other_bits += memcmp(have + i, want + i, sizeof *have) != 0;
    if (isnan(want[i]) && isnan(have[i])) continue;
    if (have[i] == want[i]) continue;
    const double difference = fabs((double)have[i] - (double)want[i]);
    if (!(difference <= largest)) largest = difference;
    if (fabs((double)want[i]) > scale) scale = fabs((double)want[i]);
  }
  printf("%s: %ld elements, %ld with other bits, largest difference %g\\n", name, n, other_bits,
         largest);
  return !(largest <= 1e-5 + 1e-4 * scale + more);
}

static int compare_double(const char* name, const double* have, const double* want, long n,
                          double more) {
  double largest = 0, scale = 0;
  long other_bits = 0;
  for (long i = 0; i < n; ++i) {
    other_bits += memcmp(have + i, want + i, sizeof *have) != 0;
    if (isnan(want[i]) && isnan(have[i])) continue;
    if (have[i] == want[i]) continue;
    const double difference = fabs(have[i] - want[i]);
    if (!(difference <= largest)) largest = difference;
    if (fabs(want[i]) > scale) scale = fabs(want[i]);
  }
  printf("%s: %ld elements, %ld with other bits, largest difference %g\\n", name, n, other_bits,
         largest);
  return !(largest <= 1e-12 + 1e-12 * scale + more);
}

static int compare_bytes(const char* name, const void* have, const void* want, size_t nbytes,
                         long n) {
  const int differ = nbytes > 0 && memcmp(have, want, nbytes) != 0;
  printf("%s: %ld elements, %s\\n", name, n, differ ? "other bits" : "the same bits");
  return differ;
}
"""

_CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project({name} C)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# -ffp-contract=off and the like keep the bits; memory of the arena changes its type.
add_library({name} STATIC {sources})
set_target_properties({name} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_compile_options({name} PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math
                       -fno-strict-aliasing)
target_link_libraries({name} PUBLIC m)

option({name}_NATIVE "Use all instructions of this machine" ON)
if({name}_NATIVE)
  target_compile_options({name} PRIVATE -march=native)
endif()

enable_testing()
add_executable({name}_test {name}_test.c)
set_target_properties({name}_test PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_link_libraries({name}_test PRIVATE {name})
add_test(NAME {name} COMMAND {name}_test{argument})
"""
