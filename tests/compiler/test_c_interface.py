"""The C interface: every row of the op table by name, programs to Python's bits, errors as
statuses."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
from c_interface import STATUS, C, CError, Handle, Program, call, int64s, ok, ops, pointers
from c_library import ENVIRONMENT, compiles
from drawn import recorded, same
from op_rows import Op as Row
from op_samples import OPS
from sampling import build, flat
from tinyt import Tensor, _core, nn, optim
from tinyt.compiler import interpret, load
from tinyt.compiler.graph.graph import FLOW, Graph
from tinyt.compiler.graph.text import ATTRIBUTES
from tinyt.compiler.saved.layout import METADATA
from tinyt.dtypes import ALL
from tinyt.io import safetensors
from tinyt.io.header import parse_json
from tinyt.ops.common import OP_TABLE

pytestmark = pytest.mark.host
HEADER = Path(__file__).resolve().parents[2] / "src" / "c"


def failing(status: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The text of the error that a call has."""
    try:
        function(*args, **kwargs)
    except CError as error:
        found = error.with_traceback(None)
    assert found.status == STATUS[status], found
    return found.text


# ---- the header


@compiles
@pytest.mark.parametrize(
    "compiler", [["cc", "-std=c99"], ["c++", "-std=c++11", "-x", "c++"]], ids=["C99", "C++11"]
)
def test_the_header_is_plain(compiler: list[str], tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text('#include "tinyt.h"\nint main(void) { return tinyt_c_version() == 0; }\n')
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{HEADER}"]
    subprocess.run([*compiler, *flags, str(source)], check=True, env=ENVIRONMENT)


def test_names_and_numbers() -> None:
    assert C.tinyt_version().decode() == tinyt.__version__
    assert C.tinyt_num_threads() == tinyt.get_num_threads()
    for t in ALL:
        assert C.tinyt_dtype_name(t.number).decode() == t.name
        assert C.tinyt_dtype_size(t.number) == t.itemsize
    assert C.tinyt_dtype_name(len(ALL)) is None
    assert C.tinyt_dtype_size(-1) == 0
    rows = [row for row in OP_TABLE if row["kind"] != "update"]
    assert list(ops()) == [row["name"] for row in rows]
    for row, op in zip(rows, ops().values(), strict=True):
        assert (op.inputs, op.outputs) == (row["inputs"], row["outputs"])
        assert op.attributes.decode() == row["attributes"]


# ---- tensors


def test_tensors() -> None:
    for t in ALL:
        for x in (tinyt.tensor([[0, 1, 1], [1, 0, 1]]), tinyt.tensor(1), tinyt.zeros(0, 3)):
            same(Handle.of(x.to(t)).tensor(), x.to(t))
    zeros = ctypes.c_void_p()
    ok(C.tinyt_tensor_new(8, 2, int64s([2, 3]), None, ctypes.byref(zeros)))
    same(Handle(zeros.value).tensor(), tinyt.zeros(2, 3))


def view_of(x: Handle, shape: list[int], stride: list[int]) -> Handle:
    out, begin = ctypes.c_void_p(), ctypes.c_int64(0)
    sizes, steps = int64s(shape), int64s(stride)
    ok(C.tinyt_tensor_view(x.pointer, len(shape), sizes, steps, begin, ctypes.byref(out)))
    return Handle(out.value)


def test_views_share_memory() -> None:
    x = Handle.of(tinyt.arange(6).float().reshape(2, 3))
    turned = view_of(x, [3, 2], [1, 3])
    assert turned.tensor().tolist() == [[0, 3], [1, 4], [2, 5]]
    five = Handle.of(tinyt.tensor(5.0))
    ok(C.tinyt_tensor_assign(turned.pointer, five.pointer))
    assert x.tensor().tolist() == [[5.0] * 3] * 2
    data = (ctypes.c_float * 6)(*range(6))
    ok(C.tinyt_tensor_write(turned.pointer, data, ctypes.c_size_t(24)))
    assert x.tensor().tolist() == [[0, 2, 4], [1, 3, 5]]
    out = ctypes.c_void_p()
    ok(C.tinyt_tensor_share(x.pointer, ctypes.byref(out)))
    again = Handle(out.value)
    del x
    assert again.tensor().tolist() == [[0, 2, 4], [1, 3, 5]]
    failing("SHAPE_ERROR", view_of, again, [7], [1])


def test_memory_of_the_callers() -> None:
    data = (ctypes.c_float * 4)(1, 2, 3, 4)
    released = []
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(released.append)
    out = ctypes.c_void_p()
    ok(C.tinyt_tensor_wrap(8, 1, int64s([4]), data, release, ctypes.c_void_p(7), ctypes.byref(out)))
    x = Handle(out.value)
    assert C.tinyt_tensor_data(x.pointer) == ctypes.addressof(data)
    (y,) = call("neg", [x])
    assert y.tensor().tolist() == [-1, -2, -3, -4]
    ok(C.tinyt_tensor_assign(x.pointer, y.pointer))
    assert list(data) == [-1, -2, -3, -4]
    assert released == []
    del x
    assert released == [7]
    odd = ctypes.c_void_p(ctypes.addressof(data) + 1)
    wrong = C.tinyt_tensor_wrap(8, 1, int64s([2]), odd, None, None, ctypes.byref(out))
    assert wrong == STATUS["VALUE_ERROR"]
    assert b"not aligned for float32" in C.tinyt_error()


# ---- operations


def by_name(graph: Graph) -> list[Tensor] | None:
    """The results of a graph whose operations are called in C; None where one is no row."""
    known: dict[int, Handle] = {}
    for item in graph.inputs:
        assert item.tensor is not None
        if item.weak and item.tensor.dtype in (tinyt.bool, tinyt.complex128):
            return None
        known[item.value] = Handle.of(item.tensor, item.weak)
    for node in graph.nodes:
        if node.op in FLOW or node.op not in ATTRIBUTES:
            return None
        made = call(node.op, [known[v] for v in node.inputs], node.attrs)
        known.update(zip(node.outputs, made, strict=True))
    found = []
    for value, shape, stride, offset in graph.outputs:
        dense = known[value].tensor()
        is_empty = dense.numel() == 0
        found.append(dense.reshape(shape) if is_empty else dense.as_strided(shape, stride, offset))
    return found


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operation(op: Row, rng: np.random.Generator) -> None:
    """Each row of the samples: the graph that is recorded, call by call."""
    function = op.function(tinyt)
    for dtype in op.dtypes[:2]:
        for sample in list(op.samples(rng, dtype))[:3]:
            args, kwargs = build(tinyt, (sample.args, sample.kwargs))

            def compute(args: Any = args, kwargs: Any = kwargs) -> list[Tensor]:
                return [x for x in flat(function(*args, **kwargs)) if isinstance(x, Tensor)]

            try:
                recording = recorded(compute)
            except tinyt.CaptureError:
                continue
            graph = recording.graph
            try:
                want: Any = interpret(graph, (), [(0, 0)] * len(recording._recorder.draws))
            except (RuntimeError, ValueError, IndexError) as error:
                with pytest.raises(CError, match=str(error)[:20].replace("(", r"\(")):
                    by_name(graph)
                continue
            found = by_name(graph)
            for x, y in zip(found or (), want, strict=False):
                same(x, y)


def test_wrong_calls() -> None:
    x, i = Handle.of(tinyt.ones(2, 3)), Handle.of(tinyt.tensor([[7]]))
    assert "inner dimensions must agree" in failing("SHAPE_ERROR", call, "matmul", [x, x])
    assert "index 7 is out of" in failing("INDEX_ERROR", call, "gather", [x, i], [0])
    assert "dim" in failing("DIM_ERROR", call, "sum", [x], [[5], True])
    assert "dtype" in failing("DTYPE_ERROR", call, "bitwise_not", [x]).lower()
    assert "takes 2 tensors, got 1" in failing("VALUE_ERROR", call, "add", [x])
    out = (ctypes.c_void_p * 1)()
    size = ctypes.c_size_t

    def status(name: bytes | None, count: int = 1, outputs: int = 1, given: Any = None) -> int:
        inputs, many = pointers([x, x]), (size(count), size(bool(given)), size(outputs))
        return int(C.tinyt_call(name, inputs, many[0], given, many[1], out, many[2]))

    value = STATUS["VALUE_ERROR"]
    for name, outputs, text in (
        (b"nothing", 1, b'there is no operation "nothing"'),
        (None, 1, b"op is NULL"),
        (b"adam_step", 1, b"there is no operation"),
        (b"exp", 2, b"gives 1 tensors, there is room for 2"),
        (b"sum", 1, b"the attribute dims is missing"),
    ):
        assert status(name, 1, outputs) == value
        assert text in C.tinyt_error()
    assert C.tinyt_tensor_new(99, 0, None, None, out) == value
    assert C.tinyt_tensor_new(8, 1, int64s([-1]), None, out) == value
    assert C.tinyt_tensor_new(8, 65, None, None, out) == value
    assert C.tinyt_tensor_new(8, 2, int64s([2**40, 2**40]), None, out) != 0
    if not _core.build_info()["sanitizers"]:  # which end the process
        assert C.tinyt_tensor_new(8, 1, int64s([2**50]), None, out) == STATUS["MEMORY_ERROR"]
    assert C.tinyt_tensor_share(None, out) == value
    assert C.tinyt_op_at(10**6, None) == value
    assert C.tinyt_call(b"exp", pointers([x]), size(1), None, size(0), None, size(1)) == value
    assert C.tinyt_error() == b"exp: outputs is NULL"


def test_handles_that_are_null() -> None:
    """Functions without a status give what stands for nothing, or do nothing."""
    for what in ("dtype", "rank", "numel"):
        assert getattr(C, f"tinyt_tensor_{what}")(None) == -1
    for what in ("shape", "stride", "data"):
        assert not getattr(C, f"tinyt_tensor_{what}")(None)
    for what in ("count", "tensor_count", "number_count"):
        assert getattr(C, f"tinyt_program_{what}")(None) == 0
    for what in ("signature", "tensor_name", "number_name"):
        assert getattr(C, f"tinyt_program_{what}")(None, 0) is None
    assert C.tinyt_program_result_count(None, 0) == -1
    C.tinyt_program_seed(None, ctypes.c_uint64(1))
    C.tinyt_program_clear_gradients(None)
    C.tinyt_program_free(None)
    C.tinyt_tensor_free(None)


# ---- programs


def trainer() -> tuple[Any, nn.Module]:
    tinyt.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = optim.AdamW(net.parameters(), lr=0.01)

    @tinyt.compile
    def step(x: Tensor, target: Tensor, scale: float) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), target)
        (loss * scale).backward()
        optimizer.step()
        return {"loss": loss.detach(), "scale": scale * 2, "weight": net[0].weight, "x": x}

    return step, net


def test_a_training_step_has_pythons_bits(tmp_path: Path) -> None:
    step, net = trainer()
    x, target = tinyt.randn(6, 4), tinyt.tensor([0, 1, 1, 0, 1, 0])
    for scale in (1.0, 1.5, 2.0):
        step(x, target, scale)
    step.save(tmp_path / "step.tinyt", net.state_dict())
    program, python = Program(tmp_path / "step.tinyt"), load(tmp_path / "step.tinyt")
    assert program.signatures() == [
        "(float32[6, 4], int64[6], float) -> (float32[], float, tensor, tensor)"
    ]
    tinyt.manual_seed(5)
    program.seed(5)
    for scale in (1.0, 3.0, 0.5):
        want = python(x, target, scale)
        found = [h.tensor() for h in program.run(x, target, scale, results=4)]
        same(found[0], want["loss"])
        assert (found[1].item(), found[1].dtype) == (want["scale"], tinyt.float64)
        same(found[2], want["weight"].detach())
        same(found[3], x)
    assert program.names() == list(python.tensors)
    for name, tensor in python.tensors.items():
        got = program.tensor(name)
        assert got is not None
        same(got, tensor.detach())
        grad = program.tensor(name, "gradient")
        assert (grad is None) == (tensor.grad is None)
        if grad is not None:
            same(grad, tensor.grad)
    assert program.numbers() == python.numbers
    program.set_number("lr", 0.0)
    before = program.tensor("0.weight")
    program.run(x, target, 1.0, results=4)
    same(program.tensor("0.weight"), before)
    program.clear_gradients()
    assert program.tensor("0.weight", "gradient") is None
    program.save(tmp_path / "later.tinyt")
    later = load(tmp_path / "later.tinyt")
    same(later.tensors["0.weight"].detach(), before)
    assert [p.name for p in tmp_path.iterdir() if "part" in p.name] == []


def test_inference_views_and_several_programs(tmp_path: Path) -> None:
    w = nn.Parameter(tinyt.randn(3, 4))

    def function(x: Tensor) -> Any:
        y = x @ w
        return y, y[0], x.t(), w, w.detach()[1:], [y.sum().expand(2)], x.expand(2, *x.shape)

    compiled = tinyt.compile(function)
    xs = [tinyt.randn(n, 3) for n in (2, 5)]
    for x in xs:
        compiled(x)
    compiled.save(tmp_path / "f", {"w": w})
    program = Program(tmp_path / "f")
    assert len(program.signatures()) == 2
    for x in xs:
        want = [y.detach() for y in flat(function(x))]
        for got, y in zip(program.run(x, results=7), want, strict=True):
            same(got.tensor(), y)
    text = failing("VALUE_ERROR", program.run, tinyt.ones(9, 3), results=7)
    assert "no program of the file is for (float32[9, 3])" in text
    assert "(float32[5, 3]) ->" in text
    assert "gives 7 results, there is room for 1" in failing("VALUE_ERROR", program.run, xs[0])
    assert "there is no tensor nothing" in failing("VALUE_ERROR", program.tensor, "nothing")
    assert "there is no number lr" in failing("VALUE_ERROR", program.set_number, "lr", 1.0)


def test_gradients_that_are_added_to(tmp_path: Path) -> None:
    w = nn.Parameter(tinyt.ones(3))

    def step(x: Tensor) -> Tensor:
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    compiled = tinyt.compile(step)
    compiled(tinyt.ones(3))
    w.grad = None
    compiled(tinyt.ones(3))  # sets it
    for _ in range(2):
        compiled(tinyt.ones(3))  # adds to it
    compiled.save(tmp_path / "f", {"w": w})
    program = Program(tmp_path / "f")
    for n in range(4, 7):  # it was 3 when it was saved
        program.run(tinyt.ones(3))
        grad = program.tensor("w", "gradient")
        assert grad is not None
        assert grad.tolist() == [float(n)] * 3
    program.clear_gradients()
    program.run(tinyt.ones(3))
    grad = program.tensor("w", "gradient")
    assert grad is not None
    assert grad.tolist() == [1.0] * 3


def test_numbers_that_decide(tmp_path: Path) -> None:
    compiled = tinyt.compile(lambda x, s: x * 2 * s if s > 0 else x * 3)
    x = tinyt.ones(2)
    for s in (1.0, -1.0):
        compiled(x, s)
    compiled.save(tmp_path / "f")
    program = Program(tmp_path / "f")
    for s in (1.5, -2.0):
        same(program.run(x, s)[0].tensor(), compiled(x, s))


def test_arguments_that_share_memory(tmp_path: Path) -> None:
    """Where one is written the plan would be wrong."""
    held = tinyt.ones(3)

    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        held.add_(1)
        return y * 2 + held

    compiled = tinyt.compile(function)
    compiled(tinyt.ones(3), tinyt.ones(3))
    compiled.save(tmp_path / "f", {"held": held})
    program = Program(tmp_path / "f")
    one, out = Handle.of(tinyt.ones(3)), (ctypes.c_void_p * 1)()
    own = ctypes.c_void_p()
    ok(C.tinyt_program_tensor(program.pointer, b"held", ctypes.byref(own)))
    mine = Handle(own.value)
    sizes = [ctypes.c_size_t(n) for n in (2, 0, 1)]
    for pair in ([one, one], [one, mine], [mine, one]):
        given = pointers(pair)
        code = C.tinyt_program_run(program.pointer, given, sizes[0], None, sizes[1], out, sizes[2])
        assert code == STATUS["VALUE_ERROR"]
        assert b"lies in memory that the program writes to" in C.tinyt_error()


def test_hostile_views(tmp_path: Path) -> None:
    """A view of an output that the run does not give."""
    ws = [nn.Parameter(tinyt.rand(3)) for _ in range(8)]
    compiled = tinyt.compile(lambda x: sum([(w * x).exp().sum() for w in ws]))
    compiled(tinyt.ones(3))
    compiled.save(tmp_path / "f")
    tensors, metadata = safetensors.read(tmp_path / "f")
    for number in (1, 5):
        content = parse_json(metadata[METADATA], "it")
        content["programs"][0]["results"] = [[4, [0, number, [1], [1], [1], 0]]]
        safetensors.write(tmp_path / "g", tensors, {METADATA: safetensors.to_json(content)})
        assert "there is no such output" in failing("FILE_ERROR", Program, tmp_path / "g")


def test_what_a_run_would_miss_is_found_at_load(tmp_path: Path) -> None:
    compiled = tinyt.compile(lambda x, y, s: x * s + y.sum())
    for s in (1.5, 2.5):
        compiled(tinyt.ones(3), tinyt.ones(3, dtype=tinyt.int64), s)
    compiled.save(tmp_path / "f")
    tensors, metadata = safetensors.read(tmp_path / "f")
    for key, value, message in (
        ("numbers", [], "a run reads 1 numbers, there are 0"),
        ("sources", [["argument", 1], ["argument", 1]], "argument 0 of a program has another"),
    ):
        content = parse_json(metadata[METADATA], "it")
        content["programs"][0][key] = value
        safetensors.write(tmp_path / "g", tensors, {METADATA: safetensors.to_json(content)})
        assert message in failing("FILE_ERROR", Program, tmp_path / "g")


def test_random_numbers_and_loops(tmp_path: Path) -> None:
    own = tinyt.Generator().manual_seed(3)
    lstm = nn.LSTM(3, 4)

    def function(x: Tensor) -> Any:
        first = tinyt.zeros(()), x[0]
        n, y = tinyt.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 2), first)
        return lstm(x)[0].detach() + tinyt.rand(4), tinyt.randn(2, generator=own), n, y

    compiled = tinyt.compile(function)
    x = tinyt.randn(5, 2, 3)
    compiled(x)
    compiled.save(tmp_path / "f")
    program, python = Program(tmp_path / "f"), load(tmp_path / "f")
    program.seed(2**64 - 1)
    tinyt.manual_seed(2**64 - 1)
    for _ in range(2):
        for got, want in zip(program.run(x, results=4), flat(python(x)), strict=True):
            same(got.tensor(), want)


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    step, net = trainer()
    x, target = tinyt.randn(6, 4), tinyt.tensor([0, 1, 1, 0, 1, 0])
    for _ in range(2):
        step(x, target, 1.0)
    path = tmp_path / "f"
    step.save(path, net.state_dict())
    data = path.read_bytes()
    tinyt.save({"w": tinyt.ones(2)}, tmp_path / "w")
    assert "holds no programs" in failing("FILE_ERROR", Program, tmp_path / "w")
    assert "No such file" in failing("FILE_ERROR", Program, tmp_path / "missing")
    assert "no regular file" in failing("FILE_ERROR", Program, tmp_path)
    for end in range(0, len(data), len(data) // 40):
        (tmp_path / "cut").write_bytes(data[:end])
        failing("FILE_ERROR", Program, tmp_path / "cut")
    (tmp_path / "other").write_bytes(data.replace(b'\\"format\\":1', b'\\"format\\":2'))
    assert "in format 2, written by version" in failing("FILE_ERROR", Program, tmp_path / "other")
    attack(tmp_path / "changed", data, 150, 0)


def attack(path: Path, data: bytes, count: int, seed: int) -> None:
    """Files with some bytes changed: a status, or programs that run or are refused."""
    rng = random.Random(seed)
    length = int.from_bytes(data[:8], "little")
    words = data.index(b"tinyt.words.0")
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 4])):
            at = rng.randrange(8 + length) if rng.random() < 0.6 else rng.randrange(len(data))
            if rng.random() < 0.3:
                changed[at] = rng.randrange(256)
            else:
                changed[at] = rng.choice(b'0123456789,[]{}":-ntf')
        path.write_bytes(changed)
        try:
            program = Program(path)
            program.run(tinyt.ones(6, 4), tinyt.zeros(6, dtype=tinyt.int64), 1.0, results=4)
        except CError:
            continue
    assert words > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_changed_files_for_long(seed: int, tmp_path: Path) -> None:
    step, net = trainer()
    x, target = tinyt.randn(6, 4), tinyt.tensor([0, 1, 1, 0, 1, 0])
    for _ in range(2):
        step(x, target, 1.0)
    step.save(tmp_path / "f", net.state_dict())
    attack(tmp_path / "changed", (tmp_path / "f").read_bytes(), 3000, seed)
