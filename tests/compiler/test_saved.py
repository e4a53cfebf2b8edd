"""Programs as files: what is loaded does what the compiled function does, to the bit, in a process
that has none of its code; files that are no programs are errors."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tinyt
from drawn import same
from tinyt import SerializationError, Tensor, nn, optim
from tinyt.compiler import LoadedFunction, load
from tinyt.compiler.saved.layout import FORMAT, METADATA, SCHEMA, fits
from tinyt.io import safetensors
from tinyt.io.header import parse_json
from tinyt.library import custom_op

pytestmark = pytest.mark.host


def saved(compiled: Any, tensors: dict[str, Tensor] | None = None) -> bytes:
    file = io.BytesIO()
    compiled.save(file, tensors)
    return file.getvalue()


def again(compiled: Any, tensors: dict[str, Tensor] | None = None) -> LoadedFunction:
    return load(io.BytesIO(saved(compiled, tensors)))


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [x for item in value.values() for x in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in leaves(item)]
    return [value]


def same_values(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    for x, y in zip(leaves(got), leaves(want), strict=True):
        if isinstance(y, Tensor):
            same(x, y)
            assert (x.stride(), x.requires_grad) == (y.stride(), y.requires_grad)
        else:
            assert x == y or x is y


def check(function: Callable[..., Any], *args: Any, **kwargs: Any) -> LoadedFunction:
    """A function without state: the same results of other calls."""
    compiled = tinyt.compile(function)
    compiled(*args, **kwargs)
    loaded = again(compiled)
    tinyt.manual_seed(3)
    want = compiled(*args, **kwargs)
    tinyt.manual_seed(3)
    same_values(loaded(*args, **kwargs), want)
    assert (loaded.hits, loaded.misses) == (1, 0)
    return loaded


# ---- arguments and results


def test_nested_arguments_and_results() -> None:
    def function(x: Any, *, scale: float, more: Any = None, kind: str = "a") -> Any:
        return (
            {"sum": x[0] + x[1]["b"] * scale, "parts": (x[0], [1, None, "text"])},
            2.5,
            (x[0] * 2,),
        )

    x = [tinyt.ones(2, 3), {"b": tinyt.rand(2, 3)}]
    loaded = check(function, x, scale=1.5, more=(slice(1, None), 3, ...))
    same_values(
        loaded(x, scale=-2.0, more=(slice(1, None), 3, ...)),
        function(x, scale=-2.0),
    )
    with pytest.raises(ValueError, match=r"function: no program of the file is for this call: oth"):
        loaded(x, scale=1.5, more=(slice(2, None), 3, ...))
    with pytest.raises(ValueError, match=r"argument 0: shape \(3, 3\), not \(2, 3\)"):
        loaded([tinyt.ones(3, 3), x[1]], scale=1.5, more=(slice(1, None), 3, ...))


@pytest.mark.parametrize(
    "result",
    [
        lambda x: x + 1,
        lambda x: x.t(),
        lambda x: (x, x[0], x.exp()[:, 1:]),
        lambda x: [x.sum(), (x > 0), x.to(tinyt.int64)],
        lambda x: OrderedDict(a=x * 2, b=None),
        lambda x: (x.dtype, x * 1, x.device, 1j, b"bytes", range(3), -0.0, float("inf")),
        lambda x: tinyt.complex(x, x).conj() * 2j,
        lambda x: x.half() + tinyt.rand(3),
        lambda x: nn.functional.dropout(x, 0.5) + tinyt.randint(0, 9, (2, 3)),
        lambda x: tinyt.randperm(5),
        lambda x: x.sort(dim=1).values.cumsum(1),
    ],
    ids=range(11),
)
def test_results(result: Callable[[Tensor], Any]) -> None:
    check(result, tinyt.randn(2, 3))


def test_strides_of_arguments() -> None:
    x = tinyt.randn(4, 6)
    for given in (x.t(), x[::2, 1:], x.expand(2, 4, 6), x[:0], tinyt.tensor(2.0)):
        check(lambda x: x * 2 + 1, given)


def test_several_programs() -> None:
    compiled = tinyt.compile(lambda x: x.sum())
    xs = [tinyt.randn(n) for n in (2, 3, 5)]
    for x in xs:
        compiled(x)
    loaded = again(compiled)
    assert len(loaded.entries) == 3
    for x in xs:
        same_values(loaded(x), compiled(x))
    with pytest.raises(
        ValueError, match=r"argument 0: shape \(7,\), not \(5,\).*for \(float32\[2\]\)"
    ):
        loaded(tinyt.ones(7))


def test_dynamic_sizes_are_saved_as_they_were_called() -> None:
    compiled = tinyt.compile(lambda x: x.exp().sum(), dynamic=True)
    for n in (4, 6):
        compiled(tinyt.randn(n))
    same_values(again(compiled)(tinyt.ones(6)), compiled(tinyt.ones(6)))


def test_control_flow() -> None:
    def function(x: Tensor) -> Any:
        carry, rows = tinyt.scan(
            lambda c, r: (tinyt.cond(r.sum() > 0, lambda u: u * 2, lambda u: u - 1, (c,)), c * r),
            tinyt.ones(3),
            x,
        )
        n, last = tinyt.while_loop(
            lambda n, y: n < 3, lambda n, y: (n + 1, y * 1.5), (tinyt.zeros(()), carry)
        )
        return rows, last, n

    check(function, tinyt.randn(5, 3))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(layer: Any) -> None:
    net = layer(4, 5, 2)
    check(lambda x: net(x)[0].detach(), tinyt.randn(6, 2, 4))


def test_a_captured_tensor_that_is_returned_is_that_of_the_file() -> None:
    w = tinyt.ones(3)
    compiled = tinyt.compile(lambda x: (w, w[1:], w.add_(x)))
    compiled(tinyt.ones(3))
    loaded = again(compiled, {"w": w})
    held, part, written = loaded(tinyt.ones(3))
    assert held.tolist() == [3.0, 3.0, 3.0]
    assert held.data_ptr() == loaded.tensors["w"].data_ptr() == written.data_ptr()
    assert part.tolist() == [3.0, 3.0]
    assert w.tolist() == [2.0, 2.0, 2.0]


def test_generators() -> None:
    own = tinyt.Generator().manual_seed(11)
    compiled = tinyt.compile(lambda x: x + tinyt.rand(3, generator=own) + tinyt.rand(3))
    compiled(tinyt.zeros(3))
    data = saved(compiled)
    first, second = load(io.BytesIO(data)), load(io.BytesIO(data))
    found = []
    for f in (first, compiled, second):
        tinyt.manual_seed(5)
        found.append([f(tinyt.zeros(3)).tolist() for _ in range(2)])
    assert found[0] == found[1] == found[2]


# ---- gradients


def test_the_result_has_a_tape() -> None:
    w = nn.Parameter(tinyt.randn(3, 2))
    frozen = nn.Parameter(tinyt.randn(2), requires_grad=False)

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x @ w + frozen).tanh()
        return y, y.detach() * 2

    compiled = tinyt.compile(function)
    x = tinyt.randn(4, 3, requires_grad=True)
    compiled(x)[0].sum().backward()
    loaded = again(compiled, {"w": w})
    x.grad = w.grad = None
    seed = tinyt.randn(4, 2)
    compiled(x)[0].backward(seed)
    want = x.grad, w.grad
    x.grad = None
    (y, z) = loaded(x)
    y.backward(seed)
    assert isinstance(loaded.tensors["w"], nn.Parameter)
    assert not z.requires_grad
    same_values((x.grad, loaded.tensors["w"].grad), want)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward(seed)


OPTIMIZERS: list[Callable[..., optim.Optimizer]] = [
    lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    lambda p: optim.AdamW(p, lr=0.01),
    lambda p: optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    lambda p: optim.Adagrad(p, lr=0.1),
    lambda p: optim.Adamax(p, lr=0.01),
    lambda p: optim.NAdam(p, lr=0.01),
]


def trainer(make: Callable[..., optim.Optimizer], scaled: bool) -> tuple[Any, nn.Module]:
    tinyt.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = make(net.parameters())
    scaler = tinyt.amp.GradScaler("cpu", enabled=scaled)

    @tinyt.compile
    def step(x: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step, net


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("number", range(len(OPTIMIZERS)))
def test_training_steps(number: int, scaled: bool) -> None:
    """Parameters, buffers, states and gradients go on as those of the function do."""
    if scaled and number >= 5:
        pytest.skip("its step cannot be left out in a program")
    step, net = trainer(OPTIMIZERS[number], scaled)
    x, target = tinyt.randn(6, 4), tinyt.tensor([0, 1, 1, 0, 1, 0])
    for _ in range(3):
        step(x, target)
    loaded = again(step, dict(net.state_dict()))
    for _ in range(3):
        found = []
        for f in (step, loaded):
            tinyt.manual_seed(7)
            found.append(f(x, target))
        same(*found)
    for name, want in net.state_dict().items():
        same(loaded.tensors[name].detach(), want)
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None
        same(loaded.tensors[name].grad, parameter.grad)


def test_numbers_are_read_at_each_run() -> None:
    """A learning rate that changed before is a number of the file."""
    step, net = trainer(lambda p: optim.SGD(p, lr=0.1), False)
    x, target = tinyt.randn(6, 4), tinyt.tensor([0, 1, 1, 0, 1, 0])
    for _ in range(3):
        step(x, target)
    loaded = again(step, dict(net.state_dict()))
    assert loaded.numbers["lr"] == 0.1
    loaded.numbers["lr"] = 0.0
    before = loaded.tensors["0.weight"].detach().clone()
    loaded(x, target)
    same(loaded.tensors["0.weight"].detach(), before)
    loaded.numbers["lr"] = 0.5
    loaded(x, target)
    assert (loaded.tensors["0.weight"] - before).abs().max() > 1e-4


def test_gradients_that_are_there_are_added_to() -> None:
    w = nn.Parameter(tinyt.ones(3))

    def step(x: Tensor) -> Tensor:
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    compiled = tinyt.compile(step)
    for _ in range(3):
        compiled(tinyt.ones(3))
    loaded = again(compiled, {"w": w})
    own = loaded.tensors["w"]
    loaded(tinyt.ones(3))
    assert own.grad.tolist() == [4.0, 4.0, 4.0]  # from where the function was
    assert w.grad.tolist() == [3.0, 3.0, 3.0]
    own.grad = None
    with pytest.raises(ValueError, match=r"1 gradients that it adds to are None; set them to zer"):
        loaded(tinyt.ones(3))
    own.grad = tinyt.full((3,), 5.0)
    loaded(tinyt.ones(3))
    assert own.grad.tolist() == [6.0, 6.0, 6.0]


def test_names_of_views_and_of_parameters(tmp_path: Path) -> None:
    """Parameters that lie otherwise than dense, that share a memory, or are seen as other tensors,
    too, are themselves under their names, with their gradients."""
    flat = tinyt.randn(12)
    layer = nn.Linear(3, 2)
    layer.weight = nn.Parameter(tinyt.randn(3, 2).t())
    first, second = nn.Parameter(flat[:6].view(2, 3)), nn.Parameter(flat[6:])
    frozen = nn.Parameter(tinyt.randn(2), requires_grad=False)

    @tinyt.compile
    def step(x: Tensor) -> Any:
        for p in (layer.weight, layer.bias, first, second):
            p.grad = None
        loss = ((layer(x) + frozen) @ first).sum() + second.sum()
        loss.backward()
        with tinyt.no_grad():
            layer.weight -= 0.1 * layer.weight.grad
        return loss.detach(), layer.weight.detach()

    x = tinyt.randn(4, 3)
    for _ in range(2):
        step(x)
    names = {**layer.state_dict(), "first": first, "second": second, "frozen": frozen}
    loaded = again(step, names)
    assert loaded.tensors.keys() == names.keys()
    same_values(loaded(x), step(x))
    for name, own in {**dict(layer.named_parameters()), "first": first, "second": second}.items():
        same(loaded.tensors[name].detach(), own.detach())
        same(loaded.tensors[name].grad, own.grad)
        assert loaded.tensors[name].stride() == own.stride()
        assert isinstance(loaded.tensors[name], nn.Parameter)
    missing, unexpected = nn.Linear(3, 2).load_state_dict(loaded.tensors, strict=False)
    assert (missing, sorted(unexpected)) == ([], ["first", "frozen", "second"])
    second_file = again(loaded)
    assert second_file.tensors.keys() == names.keys()
    same_values(second_file(x), loaded(x))


def test_one_memory_in_two_dtypes() -> None:
    z = tinyt.randn(3, dtype=tinyt.complex64)
    parts = tinyt.view_as_real(z)

    def function(x: Tensor) -> Any:
        parts.mul_(2)
        return z * x, parts

    compiled = tinyt.compile(function)
    compiled(tinyt.ones(3))
    loaded = again(compiled, {"z": z})
    same_values(loaded(tinyt.ones(3)), compiled(tinyt.ones(3)))
    same(loaded.tensors["z"], z)


def test_programs_that_python_alone_tells_apart() -> None:
    dropout = nn.Dropout(0.5)
    compiled = tinyt.compile(lambda x: dropout(x))
    x = tinyt.ones(8)
    compiled(x)
    dropout.eval()
    compiled(x)
    with pytest.warns(UserWarning, match="it has the last used one"):
        loaded = again(compiled)
    assert len(loaded.entries) == 1
    same(loaded(x), x)
    decides = tinyt.compile(lambda x, s: x * 2 * s if s > 0 else x * 3)
    for s in (1.0, -1.0):
        decides(x, s)
    both = again(decides)
    for s in (2.0, -2.0):
        same(both(x, s), decides(x, s))


def test_tensors_and_numbers_of_a_loaded_function() -> None:
    step, net = trainer(lambda p: optim.SGD(p, lr=0.1), False)
    x, target = tinyt.randn(6, 4), tinyt.tensor([0, 1, 1, 0, 1, 0])
    for _ in range(3):
        step(x, target)
    loaded = again(step, dict(net.state_dict()))
    loaded.numbers["lr"] = 1  # type: ignore[assignment]
    assert loaded.numbers["lr"] == 1.0
    loaded(x, target)
    with pytest.raises(KeyError, match="no program reads a number 'rate'; there are lr"):
        loaded.numbers["rate"] = 0.1
    with pytest.raises(TypeError, match="it cannot be deleted"):
        del loaded.numbers["lr"]
    numbers = loaded.numbers
    for change in (
        lambda: numbers.pop("lr"),
        lambda: numbers.popitem(),
        lambda: numbers.clear(),
        lambda: numbers.update(lr="0.5"),
        lambda: numbers.__ior__({"lr": "x"}),
    ):
        with pytest.raises(TypeError, match="the number 'lr'"):
            change()
    for change in (
        lambda: numbers.setdefault("rate", 0.5),
        lambda: numbers.update(rate=0.5),
        lambda: numbers.__ior__({"rate": 1.0}),
    ):
        with pytest.raises(KeyError, match="no program reads a number 'rate'"):
            change()
    assert numbers == {"lr": 1.0}
    assert numbers.setdefault("lr", 0.5) == 1.0
    numbers |= {"lr": 2}
    assert repr(loaded.numbers) == "Numbers({'lr': 2.0})"
    numbers.update(lr=0.5)
    assert (dict(numbers), len(numbers)) == ({"lr": 0.5}, 1)
    with pytest.raises(TypeError, match="does not support item assignment"):
        loaded.tensors["0.weight"] = tinyt.ones(8, 4)  # type: ignore[index]
    loaded.tensors["0.weight"].data = tinyt.ones(8, 4)
    with pytest.raises(RuntimeError, match=r"0\.weight has been given other memory"):
        loaded.save(io.BytesIO())


# ---- the file


def test_a_loaded_function_is_saved_as_it_is_then(tmp_path: Path) -> None:
    step, net = trainer(OPTIMIZERS[1], False)
    x, target = tinyt.randn(6, 4), tinyt.tensor([0, 1, 1, 0, 1, 0])
    for _ in range(2):
        step(x, target)
    first = again(step, dict(net.state_dict()))
    tinyt.manual_seed(1)
    first(x, target)
    first.save(tmp_path / "step.tinyt")  # its names stay
    second = load(tmp_path / "step.tinyt")
    assert second.tensors.keys() == first.tensors.keys()
    assert second.numbers == first.numbers
    tinyt.manual_seed(2)
    want = first(x, target)
    tinyt.manual_seed(2)
    same(second(x, target), want)


def test_names() -> None:
    w, b = tinyt.ones(2, 3), tinyt.ones(200)
    compiled = tinyt.compile(lambda x: (x @ w.t()).sum() + b.sum())
    compiled(tinyt.ones(4, 3))
    loaded = again(compiled, {"weight": w, "t0": tinyt.ones(5)})
    assert {name: tuple(x.shape) for name, x in loaded.tensors.items()} == {
        "weight": (2, 3),
        "t1": (200,),
    }
    assert "LoadedFunction" in repr(loaded)
    tensors = tinyt.load(io.BytesIO(saved(compiled, {"weight": w})))
    same(tensors["weight"], w)
    with pytest.raises(TypeError, match="tensors must map names to tensors"):
        compiled.save(io.BytesIO(), {"w": 3})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="got a list"):
        compiled.save(io.BytesIO(), [w])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="are the file's own"):
        compiled.save(io.BytesIO(), {"tinyt.words.0": w})


def test_views_and_exports_of_loaded_programs(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    compiled = tinyt.compile(lambda x: net(x).detach())
    x = tinyt.randn(3, 4)
    compiled(x)
    loaded = again(compiled, dict(net.state_dict()))
    assert "matmul" in str(loaded.report(x)) or "linear" in str(loaded.report(x))
    assert loaded.peak_bytes == compiled.peak_bytes
    files = loaded.export_c(tmp_path / "c", x)
    assert any(f.suffix == ".c" for f in files)


def test_no_part_of_another_program() -> None:
    compiled = tinyt.compile(lambda x: x + 1)
    compiled(tinyt.ones(2))
    loaded = again(compiled)
    with pytest.raises(tinyt.CaptureError, match="a program of a file"):
        tinyt.compile(lambda x: loaded(x) * 2)(tinyt.ones(2))


def test_odd_names_of_functions() -> None:
    function = lambda x: x * 2  # noqa: E731
    function.__qualname__ = "f\ng" + "x" * 300
    compiled = tinyt.compile(function)
    compiled(tinyt.ones(2))
    assert repr(again(compiled)) == f"<LoadedFunction f?g{'x' * 197}: 1 programs>"


def test_modes_are_those_of_the_capture() -> None:
    w = nn.Parameter(tinyt.ones(2))
    compiled = tinyt.compile(lambda x: x * w)
    with tinyt.no_grad():
        compiled(tinyt.ones(2))
        loaded = again(compiled)
        assert not loaded(tinyt.ones(2)).requires_grad
    with pytest.raises(ValueError, match="no program of the file is for this call: grad mode"):
        loaded(tinyt.ones(2))


SECOND = """
import sys, tinyt
tinyt.set_num_threads(1)
step = tinyt.compiler.load(sys.argv[1])
x, y = tinyt.load(sys.argv[2]).values()
tinyt.manual_seed(9)
losses = [step(x, y).item().hex() for _ in range(4)]
assert (step.hits, step.misses) == (4, 0)
assert "tinyt.compiler.compiled" not in sys.modules  # what captures
print(*losses)
"""


def test_a_second_process_skips_capture(tmp_path: Path) -> None:
    step, net = trainer(OPTIMIZERS[2], False)
    x, target = tinyt.randn(6, 4), tinyt.tensor([0, 1, 1, 0, 1, 0])
    for _ in range(2):
        step(x, target)
    step.save(tmp_path / "step.tinyt", dict(net.state_dict()))
    tinyt.save({"x": x, "y": target}, tmp_path / "data")
    command = [sys.executable, "-c", SECOND, tmp_path / "step.tinyt", tmp_path / "data"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tinyt.manual_seed(9)
    assert done.stdout.split() == [step(x, target).item().hex() for _ in range(4)]


# ---- refused


def test_what_a_file_does_not_hold() -> None:
    class Thing:
        pass

    thing = Thing()
    w = nn.Parameter(tinyt.ones(2))
    x = tinyt.ones(2)
    Pair = namedtuple("Pair", "a b")

    @custom_op("saved::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    @twice.register_fake
    def _(x: Tensor) -> Tensor:
        return tinyt.empty_like(x)

    cases: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
        (lambda x, y: x * 2, (x, thing), "object of type Thing"),
        (lambda x: (x * 2, thing), (x,), "a result is or holds an object of type Thing"),
        (lambda x: Pair(x * 2, 1), (x,), "object of type Pair"),
        (lambda x, y: x * y, (x, x), "shares memory|share memory"),
        (lambda x: x * 2, (w,), "a Parameter|captured for"),
        (lambda x: twice(x), (x,), "an operation of your own"),
    ]
    for function, args, message in cases:
        compiled = tinyt.compile(function)
        compiled(*args)
        with pytest.raises(NotImplementedError, match=message):
            compiled.save(io.BytesIO())
    with pytest.raises(RuntimeError, match="has no program yet"):
        tinyt.compile(lambda x: x).save(io.BytesIO())


def parts_of(data: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, metadata = safetensors.read(io.BytesIO(data))
    return tensors, parse_json(metadata[METADATA], "it")


def with_parts(tensors: dict[str, Tensor], content: Any) -> io.BytesIO:
    file = io.BytesIO()
    safetensors.write(file, tensors, {METADATA: safetensors.to_json(content)})
    return io.BytesIO(file.getvalue())


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    tinyt.save({"w": tinyt.ones(2)}, tmp_path / "w")
    with pytest.raises(SerializationError, match=r"holds no programs; tinyt\.load reads"):
        load(tmp_path / "w")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")
    compiled = tinyt.compile(lambda x: x + 1)
    compiled(tinyt.ones(2))
    tensors, content = parts_of(saved(compiled))
    assert fits(content, SCHEMA)
    for changed, message in (
        (
            content | {"format": FORMAT + 1, "version": "9.9"},
            r"format 2, written by version '9\.9'",
        ),
        (content | {"more": 1}, "not in its form"),
        ([], "format None"),
        (content | {"programs": []}, "there is no program"),
        (content | {"name": "x\n#error injected\n//"}, "name is not a printable line"),
        (content | {"name": "x" * 201}, "name is not a printable line of at most 200"),
        (content | {"devices": {"0": "xpu:0"}}, "xpu"),
    ):
        with pytest.raises(SerializationError, match=message):
            load(with_parts(tensors, changed))
    text = safetensors.to_json(content | {"name": "SURROGATE"}).replace("SURROGATE", "\\ud800")
    file = io.BytesIO()
    safetensors.write(file, tensors, {METADATA: text})
    with pytest.raises(SerializationError, match="name is not a printable line"):
        load(io.BytesIO(file.getvalue()))
    content["programs"][0]["operations"][0] = "add with:b other:I"
    with pytest.raises(SerializationError, match='this version has no operation "add with:b oth'):
        load(with_parts(tensors, content))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of all that is in a JSON value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [path, *(p for key, x in items for p in places(x, (*path, key)))]


ODD = [None, True, -1, 0, 1, 2, 3, 2**62, -(2**63), 2**70, "", "float", "lr", [], [0], {}, 0.5]


def changed_at(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = json.loads(json.dumps(content))
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


def attacked_step() -> tuple[dict[str, Tensor], Any]:
    w = nn.Parameter(tinyt.randn(3, 2))
    optimizer = optim.Adam([w], lr=0.1)

    def step(x: Tensor, scale: float) -> Any:
        optimizer.zero_grad()
        y = (x @ w * scale + tinyt.rand(2)).square()
        y.mean().backward()
        optimizer.step()
        return y.detach(), w, w[0], {"n": scale * 2}, x

    compiled = tinyt.compile(step)
    for scale in (1.5, 2.5, 3.5):
        compiled(tinyt.ones(4, 3), scale)
    return parts_of(saved(compiled))


def attacked_function() -> tuple[dict[str, Tensor], Any]:
    w = nn.Parameter(tinyt.randn(3, 2))
    compiled = tinyt.compile(lambda x: (x @ w, (x * 2)[0]))
    compiled(tinyt.ones(4, 3, requires_grad=True))
    return parts_of(saved(compiled))


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("which", [attacked_step, attacked_function], ids=["step", "function"])
def test_every_place_changed(which: Callable[[], Any], part: int) -> None:
    """Whatever stands anywhere in the JSON: an error of the file, or a function that gives results
    or the errors of Python's."""
    tensors, content = which()
    tried = 0
    for number, path in enumerate(places(content)):
        for value in ODD:
            if not path or (number + ODD.index(value)) % 8 != part:
                continue
            tried += 1
            try:
                loaded = load(with_parts(tensors, changed_at(content, path, value)))
            except SerializationError:
                continue
            try:
                args: Any = (tinyt.ones(4, 3), 1.5)
                if which is attacked_function:
                    args = (tinyt.ones(4, 3, requires_grad=True),)
                result = loaded(*args)
                if which is attacked_function:
                    result[0].sum().backward()
            except (ValueError, TypeError, IndexError, RuntimeError, KeyError):
                pass
    assert tried > 100


def test_what_a_call_would_miss_is_found_at_load() -> None:
    tensors, content = attacked_step()
    for path, value, message in (
        (("programs", 0, "numbers"), [], r"a run reads \d numbers, there are 0"),
        (("programs", 0, "sources", 0, 1), 1, r"argument 1 is no tensor"),
        (("programs", 0, "facts", 0, 0), "float64", "argument 0 of the program has another shape"),
        (("programs", 0, "facts", 0, 1), [3, 4], "argument 0 of the program has another shape"),
    ):
        with pytest.raises(SerializationError, match=message):
            load(with_parts(tensors, changed_at(content, path, value)))
    compiled = tinyt.compile(lambda x, y: x * 2 + y.sum())
    compiled(tinyt.ones(3), tinyt.ones(3, dtype=tinyt.int64))
    tensors, content = parts_of(saved(compiled))
    with pytest.raises(SerializationError, match="argument 0 of the program has another shape"):
        load(with_parts(tensors, changed_at(content, ("programs", 0, "sources", 0, 1), 1)))


def test_cut_files() -> None:
    compiled = tinyt.compile(lambda x: x * 2)
    compiled(tinyt.ones(2))
    data = saved(compiled)
    for end in range(0, len(data), 37):
        with pytest.raises(SerializationError):
            load(io.BytesIO(data[:end]))
