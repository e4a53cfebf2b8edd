"""The architecture as a test: who may import whom, how long a file may be, one list of operations.

Reads the sources only, so it fails before a wrong import can run. New modules need a place in the
tables below; that is on purpose.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "tinyt"
SRC = ROOT / "src"
CORE = SRC / "core"

# Python, left to right: a module imports only from groups to its left.
PYTHON_LAYERS = [
    {"_core"},
    {"_tensor", "_autograd", "_capture", "forks"},
    {"absent", "config", "drivers", "dtypes", "formats", "imports", "memory", "nesting", "printing"}
    | {"nvtx_library", "version"},
    {"testing.reference"},
    {"tensor"},
    {"random", "return_types", "decompositions"},
    {"autograd"},
    {"ops"},
    {"io", "parameter"},
    {"compiler", "distributed"},
    {"linalg", "nn", "optim", "data", "serialization", "special"},
    {"amp", "library"},
    {"storage", "streams"},
    {"accelerator", "backends", "functional", "hub", "legacy", "testing"},
    {"_C", "__config__", "_utils", "foreach", "native", "native_layers"},
    {"utils"},
    {"_dynamo", "export", "fx", "jit", "multiprocessing", "onnx", "profiler"},
    {"cpu", "cuda", "mps", "types", "xpu"},
    {"models", "distributions"},
    {"interop", "stand_in"},
    {"as_torch", "cli", "torch_version"},
    {"__main__"},
]
# Within a group modules do not see each other, except:
SIBLINGS = {("optim", "nn")}

# C++, left to right: the folders of src/core.
CORE_LAYERS = ["base", "device", "memory", "tensor", "ops", "graph", "plan", "program"]
# The steps to the right: the one dispatcher appends to the graph that is being recorded, or to a
# lazy recording, and that runs as a program.
SEAMS = {
    ("ops/dispatch.cpp", "graph/graph.h"),
    ("ops/dispatch.cpp", "graph/lazy.h"),
    ("ops/dispatch.cpp", "graph/capture_log.h"),
    ("graph/lazy.cpp", "program/replay.h"),
}
# These use the core; core files never include them. They do not see each other, but for the
# bindings, which register the devices, and for what GPUs share.
DEVICES = ("cpu", "gpu", "meta", "cuda", "metal", "opencl", "webgpu")
ON_GPU = {"cuda", "metal", "opencl", "webgpu"}

MAX_LINES = 800
MAX_FUNCTION_LINES = 60


def python_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def core_files() -> list[Path]:
    return sorted(f for pattern in ("*.h", "*.cpp", "*.def") for f in CORE.rglob(pattern))


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_of(path: Path) -> str:
    """The first component below `tinyt`, or one with a layer of its own below that; the package's
    own __init__ is ''."""
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return "" if name == "__init__" else first_of(name)


def first_of(name: str) -> str:
    """What the layers call a module inside tinyt."""
    parts = name.split(".")
    inner = ".".join(parts[:2])
    return inner if any(inner in group for group in PYTHON_LAYERS) else parts[0]


def rank(name: str, layers: list[set[str]]) -> int:
    for i, group in enumerate(layers):
        if name in group:
            return i
    pytest.fail(f"{name!r} has no place in the layers: give it one in {short(Path(__file__))}")


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every (statement, full dotted name) that an import statement under `tree` asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            # `from tinyt import ops` asks for the module tinyt.ops.
            names = [f"tinyt.{a.name}" for a in node.names] if base == "tinyt" else [base]
            for name in names:
                yield node, name


def is_tinyt(name: str) -> bool:
    return name.startswith((".", "tinyt.")) or name == "tinyt"


def target_of(name: str) -> str:
    """The layer that a dotted name inside tinyt belongs to; '' for the package itself."""
    first = first_of(name.removeprefix("tinyt").lstrip("."))
    is_module = any(first in group for group in PYTHON_LAYERS)
    exists = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").exists()
    return first if is_module or exists else ""


def allowed(importer: str, target: str) -> bool:
    if importer == "":
        return target != "cli"
    if target == importer:
        return True
    if target == "":  # `import tinyt`: the finished package, for what stands right of everything
        return rank(importer, PYTHON_LAYERS) >= rank("models", PYTHON_LAYERS)
    if (importer, target) in SIBLINGS:
        return True
    return rank(target, PYTHON_LAYERS) < rank(importer, PYTHON_LAYERS)


@pytest.mark.parametrize("path", python_files(), ids=short)
def test_python_imports_go_left(path: Path) -> None:
    importer = module_of(path)
    if importer:
        rank(importer, PYTHON_LAYERS)
    wrong = []
    for node, name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        if not is_tinyt(name):
            continue
        if name.startswith("."):
            wrong.append(f"line {node.lineno}: relative import {name!r}, write tinyt.…")
        elif not allowed(importer, target_of(name)):
            wrong.append(f"line {node.lineno}: {importer or 'tinyt'} must not import {name}")
    assert not wrong, f"{short(path)}: " + "; ".join(wrong)


def is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def loads_own_part(call: ast.Call) -> bool:
    """`import_module(f"{__name__}.…")`: a package that loads its own modules when they are used."""
    return bool(call.args) and ast.unparse(call.args[0]).startswith(
        ("f'{__name__}.", 'f"{__name__}.', "f'{__package__}.")
    )


def local_imports(tree: ast.AST) -> Iterator[str]:
    """Ways to dodge the layers: an import of tinyt inside a function, or by a string."""
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            for node, name in imports(outer):
                if is_tinyt(name):
                    yield f"line {node.lineno}: {name} imported inside {outer.name}()"
        elif isinstance(outer, ast.Call):
            called = outer.func.attr if isinstance(outer.func, ast.Attribute) else ""
            called = outer.func.id if isinstance(outer.func, ast.Name) else called
            names = {c.value for arg in outer.args for c in ast.walk(arg) if is_string(c)}
            if loads_own_part(outer):
                continue
            if called in {"import_module", "__import__"} and any(map(is_tinyt, names)):
                yield f"line {outer.lineno}: {called}({', '.join(names)})"


@pytest.mark.parametrize("path", python_files(), ids=short)
def test_no_import_inside_functions(path: Path) -> None:
    found = list(local_imports(ast.parse(path.read_text(encoding="utf-8"))))
    assert not found, f"{short(path)}: " + "; ".join(found)


def includes(path: Path) -> Iterator[tuple[int, Path]]:
    """Every (line, file) of the project that a C++ file includes by quotes: paths start at src."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
            yield number, SRC / found[1]


@pytest.mark.parametrize("path", core_files(), ids=short)
def test_core_includes_go_left(path: Path) -> None:
    own = path.relative_to(CORE)
    assert own.parts[0] in CORE_LAYERS, f"{own} has no place in the layers"
    wrong = []
    for number, target in includes(path):
        if not target.is_relative_to(CORE):
            wrong.append(f"line {number}: a core file must not include {target.relative_to(SRC)}")
            continue
        other = target.relative_to(CORE)
        if CORE_LAYERS.index(other.parts[0]) > CORE_LAYERS.index(own.parts[0]) and (
            (str(own), str(other)) not in SEAMS
        ):
            wrong.append(f"line {number}: {other} stands to the right")
    assert not wrong, f"{short(path)}: " + "; ".join(wrong)


@pytest.mark.parametrize("folder", DEVICES)
def test_devices_do_not_see_each_other_or_the_bindings(folder: str) -> None:
    others = {"bindings", *DEVICES} - {folder} - ({"gpu"} if folder in ON_GPU else set())
    wrong = [
        f"{short(path)}:{number} includes {target.relative_to(SRC)}"
        for path in sorted((SRC / folder).rglob("*"))
        if path.suffix in {".h", ".cpp", ".cu", ".cuh", ".mm", ".metal"}
        for number, target in includes(path)
        if target.relative_to(SRC).parts[0] in others
    ]
    assert not wrong, "; ".join(wrong)


@pytest.mark.parametrize("root", ["core", "cpu"])
def test_the_map_names_every_file(root: str) -> None:
    """In the section of its folder."""
    text = (SRC / root / "README.md").read_text(encoding="utf-8")
    sections = {
        part.split("/`", 1)[0].lstrip("`"): part for part in re.split(r"^## ", text, flags=re.M)
    }
    missing = [
        str(path.relative_to(SRC))
        for path in sorted((SRC / root).glob("*/*"))
        if not re.search(
            rf"(?<![\w]){re.escape(path.name.partition('.')[0])}(\.|_\*)",
            sections.get(path.parent.name, ""),
        )
    ]
    assert not missing


def source_files() -> list[Path]:
    # Not .pyi: generated.
    suffixes = {
        ".py",
        ".pyx",
        ".pxi",
        ".pxd",
        ".h",
        ".cpp",
        ".cu",
        ".cuh",
        ".mm",
        ".metal",
        ".def",
        ".sh",
    }
    return sorted(
        f
        for folder in ("src", "python", "tests", "tools", "benchmarks", "examples")
        for f in (ROOT / folder).rglob("*")
        if f.suffix in suffixes
    )


def test_files_are_short() -> None:
    """Generated ones aside: stubs."""
    files = [f for f in source_files() if f.suffix != ".pyi"]
    lengths = {short(f): len(f.read_bytes().splitlines()) for f in files}
    assert not {f: n for f, n in lengths.items() if n > MAX_LINES}


def statement_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its decorators and docstring."""
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        total -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return total


@pytest.mark.parametrize("path", python_files(), ids=short)
def test_functions_are_short(path: Path) -> None:
    long = [
        f"{node.name} ({statement_lines(node)} lines)"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and statement_lines(node) > MAX_FUNCTION_LINES
    ]
    assert not long, f"{short(path)}: " + ", ".join(long)


# What braces of C++ are not: comments, and text in quotes.
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def cpp_functions(text: str) -> Iterator[tuple[str, int]]:
    """Every (name, lines) of a function's body that stands in namespaces and classes alone; a table
    is none."""
    text = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    open_braces: list[tuple[bool, int, str]] = []  # whether a scope, where, what stands before it
    start = 0
    for match in re.finditer("[{};]", text):
        head = text[start : match.start()]
        if match[0] == "{":
            scope = re.search(r"\b(namespace|struct|class|union|enum|extern)\b[^()=]*$", head)
            open_braces.append((scope is not None, match.start(), head))
        elif match[0] == "}":
            scope, begin, head = open_braces.pop()
            is_table = head.rstrip().endswith("=")
            if not (scope or is_table) and all(outer for outer, _, _ in open_braces):
                names = re.findall(r"([\w:~]+)\s*\(", head) or [head.strip()]
                yield names[0], text.count("\n", begin, match.start()) + 1
        start = match.end()


@pytest.mark.parametrize(
    "path", [f for f in source_files() if f.suffix in {".h", ".cpp"}], ids=short
)
def test_cpp_functions_are_short(path: Path) -> None:
    functions = cpp_functions(path.read_text(encoding="utf-8"))
    assert not [
        f"{name} ({lines} lines)" for name, lines in functions if lines > MAX_FUNCTION_LINES
    ]


def file_names(text: str) -> set[str]:
    """Constants of C++ that stand in namespaces, not in functions or classes, and variables in
    unnamed ones."""
    constant = r"^(?:inline |static )?constexpr [^=(;]*?\b(k\w+)(?:\[\w*\])*\s*[={]"
    variable = r"^(?!using |extern )[\w:<>,&* ]+ \*?([gt]_\w+)\s*(?:[={]|;)"
    own = "".join(re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.M | re.S))
    return {*re.findall(constant, text, re.M), *re.findall(variable, own, re.M)}


def test_names_of_files_that_are_compiled_as_one_are_unique() -> None:
    """A constant in a file's own namespace would hide another one, without a word; of variables
    there is an error, but only where the files come to lie in one group."""
    roots = ("core", "cpu", "gpu", "cuda", "opencl", "webgpu")
    files = [f for root in roots for f in (SRC / root).rglob("*.*")]
    places: dict[str, list[str]] = {}
    for path in files:
        if path.suffix in {".h", ".cpp"} and not path.name.endswith(".simd.cpp"):
            for name in file_names(path.read_text(encoding="utf-8")):
                places.setdefault(name, []).append(short(path))
    assert len(places) > 100, "the sources were not understood"
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not {n: w for n, w in twice.items() if any(f.endswith(".cpp") for f in w)}


# Large numbers of kernels that are none of the machine's, which machine_model.h has.
NUMBERS_OF_KERNELS = {
    "kSumBlock": "order of a sum: losses",
    "kElements": "order of a sum: rows of a normalisation's gradients",
    "kDepth": "order of a sum: a chain of fma",
    "kPartDepth": "order of a sum: parts of k",
    "kFewElements": "order of a sum: which products have parts of k",
    "kBand": "order of a sum: gradients of weights by bands of the output",
    "kBlockElements": "order of a sum: Winograd's gradients of weights by blocks of tiles",
    "kConvertedElements": "order of a sum: the same, of halves",
    "kMaxPart": "order of a sum: the same, in parts",
    "kLowBlockBytes": "order of a sum: bfloat16 gradients of weights by blocks of positions",
    "kMaxWeightBlock": "order of a sum: the same",
    "kLineElements": "choice of a convolution's strategy: how registers are filled",
    "kMaxBlock": "choice of a convolution's strategy: the same",
    "kDilatedBlockBytes": "choice of a convolution's strategy: the shortest blocks",
    "kMaxLowpPacked": "choice of a convolution's strategy",
    "kMaxDirectPacked": "choice of a convolution's strategy",
    "kMaxPacked": "choice of a convolution's strategy",
    "kMaxWeights": "choice of a convolution's strategy",
    "kSmallB": "an array of a kernel",
    "kSelectPart": "an array of a kernel",
    "kLimit": "coordinates that 32-bit lanes hold",
    "kWideDigitLength": "passes of a radix sort",
}


def cython_functions(text: str) -> Iterator[str]:
    """The body of each function: the lines behind its head that stand further in."""
    for head in re.finditer(r"^( *)(?:def|c(?:p)?def (?!class|cppclass)[^=\n]*\().*\n", text, re.M):
        inner = re.compile(rf"(?:{head[1]} +.*\n|\n)*")
        found = inner.match(text, head.end())
        yield found[0] if found else ""


def test_objects_that_act_by_their_end_are_used() -> None:
    """Cython leaves out the declaration of a C++ object that its function does not name again."""
    hot = ROOT / "src" / "bindings" / "hot"
    classes = set(re.findall(r"cdef cppclass (\w+)", (hot / "core.pxd").read_text("utf-8")))
    assert "CreationDevice" in classes
    declared, unused = 0, []
    for path in [*hot.rglob("*.pxi"), *hot.rglob("*.pyx")]:
        for body in cython_functions(path.read_text("utf-8")):
            for kind, name in re.findall(r"^ +cdef (\w+) (\w+) *(?:#.*)?$", body, re.M):
                if kind in classes:
                    declared += 1
                    if len(re.findall(rf"(?<![.\w]){name}\b", body)) < 2:
                        unused.append(f"{path.name}: {kind} {name}")
    assert declared > 20
    assert not unused


def test_the_machine_model_has_the_machines_numbers() -> None:
    """A cache size or a threshold of threads is an expression of the model's, and stands once."""
    literal = r"constexpr \w+ (k\w+) = (?:(?:int64_t\{)?(\d+)\}? << (\d+)|([\d']+));"
    model = SRC / "cpu" / "schedule" / "machine_model.h"
    found = {}
    for path in (SRC / "cpu").rglob("*.*"):
        if path.suffix not in {".h", ".cpp"} or path == model:
            continue
        for name, base, shift, plain in re.findall(literal, path.read_text(encoding="utf-8")):
            value = int(base) << int(shift) if base else int(plain.replace("'", ""))
            if value >= 4096:
                found[name] = short(path)
    assert "kDepth" in found, "the sources were not understood"
    assert not {name: where for name, where in found.items() if name not in NUMBERS_OF_KERNELS}
    assert not set(NUMBERS_OF_KERNELS) - set(found)
    names = re.findall(r"constexpr \w+ (k\w+) =", model.read_text(encoding="utf-8"))
    texts = [p.read_text(encoding="utf-8") for p in (SRC / "cpu").rglob("*.*")]
    assert len(names) == len(set(names))
    assert not [n for n in names if sum(len(re.findall(rf"\b{n}\b", t)) for t in texts) < 2]


def table_ops() -> set[str]:
    table = (CORE / "ops" / "ops.def").read_text(encoding="utf-8")
    return set(re.findall(r"^\w+_OP\((\w+),", table, re.MULTILINE))


def test_the_op_list_is_written_once() -> None:
    """No list, set, tuple or enum outside ops.def names more than a third of the operations.

    Tables with a rule per operation (gradients, functors) are not lists: each row says something
    that ops.def does not.
    """
    ops = table_ops()
    assert len(ops) > 30, "ops.def was not understood"
    limit = len(ops) // 3
    lists = [*python_lists(), *cpp_lists()]
    copies = [where for where, names in lists if len(ops & names) > limit]
    assert not copies, f"these repeat the list of src/core/ops/ops.def: {copies}"


def python_lists() -> Iterator[tuple[str, set[str]]]:
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.List | ast.Tuple | ast.Set):
                yield f"{short(path)}:{node.lineno}", {e.value for e in node.elts if is_string(e)}


def cpp_lists() -> Iterator[tuple[str, set[str]]]:
    for path in source_files():
        if path.suffix in {".h", ".cpp", ".cu", ".cuh", ".mm", ".metal", ".pyx"}:
            for block in re.findall(r"\{([^{}();]*)\}", path.read_text(encoding="utf-8")):
                yield short(path), set(re.findall(r"\w+", block))


# Who outside of the CPU's kernels asks a tensor for its host address, how often, and what is read.
HOST_READS = {
    "src/core/tensor/tensor.cpp": (3, "the numbers that it makes; two addresses compared"),
    "src/core/ops/external_backend.cpp": (2, "a count that the C interface gives"),
    "src/core/ops/optim.cpp": (4, "learning rates and the like, counters of steps, all on the CPU"),
    "src/core/graph/step_node.cpp": (1, "a flag that was copied to the CPU"),
    "src/core/graph/runtime_scalars.cpp": (6, "items that were copied to the CPU; numbers"),
    "src/core/graph/size_guards.cpp": (6, "Python's numbers among the inputs"),
    "src/core/program/replay.cpp": (2, "Python's numbers among the operands"),
    "src/core/program/serialized_graph.cpp": (2, "Python's numbers among the inputs"),
    "src/bindings/serialized.cpp": (3, "words, which are an int64 tensor of the CPU"),
    "src/bindings/call.h": (1, "a Python number"),
    "src/bindings/interop.h": (6, "elements that Python gives, before they are moved; lists"),
    "src/bindings/dlpack.h": (1, "tensors of the CPU that others share"),
    "src/bindings/devices.h": (1, "data_ptr() of the CPU's"),
    "src/bindings/compiled.h": (2, "two addresses compared"),
    "src/bindings/host.cpp": (1, "arguments of custom operations, on the CPU"),
    "src/bindings/hot/tinyt/_tensor.pyx": (3, "item() of a copy on the CPU; the buffer protocol"),
    "src/bindings/hot/capture/scalars.pxi": (1, "item() of a copy on the CPU"),
    "src/bindings/hot/capture/compiled.pxi": (2, "arguments that are known by their values"),
}


def test_who_asks_for_a_host_address() -> None:
    """Memory of most devices has none: a new use here is wrong, or needs a reason of its own."""
    found: dict[str, int] = {}
    for folder in ("src/core", "src/bindings", "src/meta"):
        for path in (ROOT / folder).rglob("*.*"):
            name = path.relative_to(ROOT).as_posix()
            uses = re.findall(r"\bhost_data\(\)|\bptr<", path.read_text(encoding="utf-8"))
            # The first defines them, the second declares them to Cython.
            if uses and name not in ("src/core/tensor/tensor.h", "src/bindings/hot/core.pxd"):
                found[name] = len(uses)
    assert found == {name: count for name, (count, _) in HOST_READS.items()}
