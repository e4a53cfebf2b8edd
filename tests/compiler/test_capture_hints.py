"""A CaptureError names what the user wrote where a value is not known, and the way out."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import CaptureError, Tensor
from tinyt.compiler.api import compile
from tinyt.compiler.capture import source_hints
from tinyt.nn.utils.rnn import pack_padded_sequence


def branches(x: Tensor) -> Any:
    if x.sum() > 0:
        return x
    return -x


def branches_of_several(x: Tensor) -> Any:
    y = x * 2
    return y if not (x.sum() < 0 or y.max() > 9) else -x


def branches_by_item(x: Tensor) -> Any:
    if float(x.sum()) > 0 and x.max().item() > 0:
        return x
    return -x


def loops(x: Tensor) -> Any:
    while not x.sum() > 30:
        x = x * 2
    return x


def asserts(x: Tensor) -> Any:
    assert (x > 0).all(), "positive"
    return x


def filters(x: Tensor) -> Any:
    return [n for n in (1, 2) if x.sum() > n]


def compares_twice(x: Tensor) -> Any:
    return 0 < x.sum() < 9


def negates(x: Tensor) -> Any:
    return not x.sum()


def matches(x: Tensor) -> Any:
    match x.sum():
        case 3:
            return x
    return -x


def formats(x: Tensor) -> Any:
    print(f"loss: {x.sum():.3f}")
    return x


def formats_an_item(x: Tensor) -> Any:
    return f"{x.sum().item()}"


def counts(x: Tensor) -> Any:
    for _ in range(x.long().sum()):
        x = x + 1
    return x


def counts_an_int(x: Tensor) -> Any:
    for _ in range(int(x.sum())):
        x = x + 1
    return x


def reads(x: Tensor) -> Any:
    return x * x.sum().item()


def reads_buffer(x: Tensor) -> Any:
    return np.asarray(x * 2)


# name, source (a pattern where Python versions write it differently), way out
WRITTEN: list[tuple[Callable[..., Any], str, str, str]] = [
    (branches, "if", "if x.sum() > 0", "tinyt.where"),
    (branches, "if", "if x.sum() > 0", "tinyt.cond"),
    (branches_of_several, "if", "y if not (x.sum() < 0 or y.max() > 9) else -x", "tinyt.cond"),
    (branches_by_item, "if", "if float(x.sum()) > 0 and x.max().item() > 0", "tinyt.where"),
    (loops, "while", "while not x.sum() > 30", "tinyt.while_loop"),
    (asserts, "assert", "assert (x > 0).all()", "check it outside"),
    (filters, "if", "if x.sum() > n", "tinyt.where"),
    (compares_twice, "and", "0 < x.sum() < 9", "tinyt.logical_and"),
    (negates, "not", "not x.sum()", "tinyt.logical_not"),
    (matches, "match", "case 3", "tinyt.cond"),
    (lambda x: bool(x.sum()), "bool", "bool(x.sum())", "x != 0"),
    (lambda x: x * float(x.sum()), "float", "float(x.sum())", "x * loss"),
    (lambda x: x * int(x.sum()), "int", "int(x.sum())", "x.long()"),
    (lambda x: x * x.sum().item(), "item", "x.sum().item()", "x * loss"),
    (lambda x: complex(x.sum()), "complex", "complex(x.sum())", "convert it outside"),
    (lambda x: x * math.sqrt(x.sum()), "math.sqrt", "math.sqrt(x.sum())", "use tinyt.sqrt"),
    (lambda x: (x * 2).tolist(), "tolist", "(x * 2).tolist()", "convert it outside"),
    (
        lambda x: (x * 2).numpy(force=True),
        "numpy",
        "(x * 2).numpy(force=True)",
        "convert it outside",
    ),
    (reads_buffer, "np.asarray", "np.asarray(x * 2)", "convert it outside"),
    (formats, "f-string", "f'loss: {x.sum():.3f}'", "format it outside"),
    (formats_an_item, "f-string", "f'{x.sum().item()}'", "format it outside"),
    (lambda x: "%g" % x.sum(), "format", "'%g' % x.sum()", "format it outside"),  # noqa: UP031
    (lambda x: "{:g}".format(x.sum()), "format", "'{:g}'.format(x.sum())", "format it"),  # noqa: UP032
    (counts, "range", "range(x.long().sum())", "tinyt.scan"),
    (counts_an_int, "range", "range(int(x.sum()))", "pass the number in as an argument"),
    (lambda x: x[: x.long().sum()], "slice", "x[:x.long().sum()]", "tinyt.where"),
    (lambda x: [x] * x.long().sum(), "repetition", "[x] * x.long().sum()", "as an argument"),
    (lambda x: [1, 2, 3, 4][x.long().sum()], "index", "[1, 2, 3, 4][x.long().sum()]", "a list"),
    (lambda x: 3 in x, "in", "3 in x", "(x == value).any()"),
    (lambda x: max(x.sum(), x.min()), "max", "max(x.sum(), x.min())", "tinyt.maximum"),
    (lambda x: min(x.sum(), x.min()), "min", "min(x.sum(), x.min())", "tinyt.minimum"),
    (lambda x: sorted(x), "sorted", "sorted(x)", "tinyt.sort"),
    (lambda x: any(v > 3 for v in x), "any", "any((v > 3 for v in x))", "tinyt.any"),
    (lambda x: tinyt.equal(x, -x), "equal", "tinyt.equal(x, -x)", "(a == b).all()"),
    (lambda x: tinyt.zeros(x.long().sum()), "zeros", "tinyt.zeros(x.long().sum())", "argument"),
    (lambda x: reads(x), "item", "x.sum().item()", "x * loss"),
    (
        lambda x: pack_padded_sequence(x[:, None], x.long()[:1]),
        "pack_padded_sequence",
        "pack_padded_sequence(x[:, None], x.long()[:1])",
        "as an argument",
    ),
    (lambda x: x.topk(x.long().min()), "topk", "x.topk(x.long().min())", "as an argument"),
]


def message(function: Callable[..., Any]) -> str:
    """What a capture says that must fail."""
    try:
        compile(function)(tinyt.ones(3))
    except CaptureError as error:
        text = str(error)
    else:
        raise AssertionError("captured")
    assert re.search(r", at .*:\d+ \(while .* was captured", text)
    return text


HAS_POSITIONS = hasattr((lambda: 0).__code__, "co_positions")  # from Python 3.11 on


@pytest.mark.host
@pytest.mark.parametrize(
    ("function", "name", "source", "way_out"), WRITTEN, ids=[w[1] + w[3][:8] for w in WRITTEN]
)
def test_what_the_user_wrote(
    function: Callable[..., Any], name: str, source: str, way_out: str
) -> None:
    said = message(function)
    assert "value is not known while recording" in said
    if HAS_POSITIONS:
        assert said.startswith(f"{name}: a tensor's value is not known")
        assert f", in `{source}`, at {__file__}:" in said
        assert way_out in said


def test_sizes_of_data() -> None:
    """The operation's own words, and what the user wrote."""
    said = message(lambda x: len(x.nonzero()))
    assert said.startswith("nonzero: the size of the result depends on data")
    if HAS_POSITIONS:
        assert ", in `x.nonzero()`, at " in said
        assert ", in `x[x > 0]`, at " in message(lambda x: x[x > 0])
        assert ", in `x[x.argmin()]`, at " in message(lambda x: x[x.argmin()])


@pytest.mark.parametrize("positions", [False, True])
def test_without_source(positions: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of code that is no file, and of Python versions that keep no positions: what was asked."""
    if not positions:
        monkeypatch.setattr(source_hints, "_node_at", lambda at, text: None)
    for code, name, way_out in (
        ("x if x.sum() > 0 else -x", "bool", "tinyt.cond"),
        ("x * float(x.sum())", "float", "x * loss"),
        ("f'{x.sum()}'", "f-string", "format it outside"),
        ("range(x.long().sum())", "index", "as an argument"),
        ("x.sum().item()", "item", "x * loss"),
        ("x.tolist()", "tolist", "convert it outside"),
        ("x.numpy(force=True)", "numpy", "convert it outside"),
    ):
        said = message(eval(f"lambda x: {code}"))
        assert said.startswith(f"{name}: a tensor's value is not known while recording")
        assert way_out in said
        assert ", at <string>:1 (while" in said


def test_source_that_has_changed() -> None:
    """A line of another file of that name is no reason for another error."""
    code = builtins_compile("\n\n(lambda x: x.sum().item())", __file__, "eval")
    said = message(eval(code))
    assert said.startswith("item: a tensor's value is not known while recording")
    assert f", at {__file__}:3 (while" in said


builtins_compile = __builtins__["compile"] if isinstance(__builtins__, dict) else (
    __builtins__.compile
)  # fmt: skip


@pytest.mark.parametrize("show", [str, repr, lambda x: [f"{x}"], lambda x: {"text": f"{x!r}"}])
def test_the_text_of_a_tensor_is_no_result(show: Callable[[Tensor], Any]) -> None:
    """It would be that of a tensor without values."""
    with pytest.raises(CaptureError, match=r"a result is the text of a tensor.*format it outside"):
        compile(lambda x: show(x * 2))(tinyt.ones(3))


@pytest.mark.host
def test_printing_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: Tensor) -> Tensor:
        y = x * 2
        print(y)
        return y

    compiled = compile(step)
    for _ in range(3):
        assert_same_bits(compiled(tinyt.ones(3)), tinyt.full((3,), 2.0))
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "tensor([2., 2., 2.])"
    assert set(others) == {"tensor(<recorded>, shape=(3,), dtype=tinyt.float32)"}


def test_the_ways_out_that_messages_name_are_there() -> None:
    text = " ".join(itertools.chain(source_hints._ADVICE.values()))
    names = set(re.findall(r"tinyt\.(\w+)", text)) | source_hints._MATH - {"fabs"}
    missing = {name for name in names if not hasattr(tinyt, name)}
    assert len(names) > 20
    assert not missing
