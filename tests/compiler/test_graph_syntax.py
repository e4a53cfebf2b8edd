"""Texts that are no graphs: each is an error with its place, whatever the text is."""

from __future__ import annotations

import random
import re
import time

import pytest

import tinyt
from drawn import recorded
from tinyt import Tensor
from tinyt.compiler import GraphSyntaxError, parse
from tinyt.compiler.graph.expand import MOST_STEPS
from tinyt.compiler.graph.text import ATTRIBUTES, PARTS

X = "%x = argument 0 : float32[2, 3]\n"


def wrong(text: str, head: bool = True) -> GraphSyntaxError:
    """The error of a text, given after the first line."""
    try:
        parse(f"tinyt graph 1\n{text}" if head else text)
    except GraphSyntaxError as error:
        return error.with_traceback(None)
    raise AssertionError("it is a graph")


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("return %0", 2, 8, "%0 is read before it is made"),
        (X, 3, 1, "expected a statement, got end of text"),
        (f"{X}%x = exp(%x)\nreturn", 3, 1, "%x is made twice"),
        ("live 1 = real : 1.0\nreturn", 2, 6, "live numbers are in their order, expected 0"),
        ("live 0 = real_log(1) : 1.0\nreturn", 2, 10, "expected given, item, int, real"),
        ("live 0 = real_neg(0) : 1.0\nreturn", 2, 10, "rows that are no table"),
        ("live 0 = real_neg(1) : 1.0\nreturn", 2, 10, "rows that are no table"),
        ("live 0 = int : 1.5\nreturn", 2, 16, "expected an integer"),
        ('live 0 = item("w", 0) : 1.0\nreturn', 2, 10, "given no tensor named 'w'"),
        ("live 0 = real : 1.0\nhold 0 lt 1 true\nreturn", 2, 10, "rows that are no table"),
        ("live 0 = real : 1.0\nhold 0 less 0 true\nreturn", 3, 8, "expected lt, le, eq"),
        ("%x = cell 0 : float64[]\nreturn", 2, 6, "there is no live number 0 here"),
        ("live 0 = real : 1.0\n%x = cell 0 : float32[]\nreturn", 3, 15, "a number is no float32"),
        ("live 0 = real : 1.0\n%x = cell 0 : float64[]\n%y = cell 0 : float64[]\nreturn", 4, 6,
         "has a cell already"),
        ("live 0 = int : 1\n%x = cell 0 : float64[]\nreturn", 3, 6, "there is no float with num"),
        (f"{X}%y = sgd_step(%x, count=1, states=0, first=[])\nreturn", 3, 6, "takes other opera"),
        (f"{X}%y = sgd_step(%x, %x, %x, count=1, states=4, first=[])\nreturn", 3, 6,
         "there are no such states"),
        (f"{X}%y = sgd_step(%x, %x, %x, count=1, states=0, first=[])\nreturn", 3, 6,
         "operand 2 is no number of a step"),
        (f"{X}%y = adam_step(%x, count=0, states=3, first=[])\nreturn", 3, 6, "no such states"),
        (f"{X}%y = expp(%x)\nreturn", 3, 6, "no op and no definition has the name 'expp'"),
        (f"{X}%y = exp(%x\nreturn", 3, 12, 'expected ",", got end of line'),
        (f"{X}%y = exp(%x, %x)\nreturn", 3, 6, "exp takes 1 values, got 2"),
        (f"{X}%y = cat()\nreturn", 3, 6, "cat takes at least 1 value, got 0"),
        (f"{X}%y, %z = exp(%x)\nreturn", 3, 10, "exp makes 1 values, not 2"),
        (f"{X}%y = exp(%x) : float32[3, 2]\nreturn", 3, 16,
         "exp makes float32[2, 3], not float32[3, 2]"),
        (f"{X}%y = exp(%x) : float64[2, 3]\nreturn", 3, 16,
         "exp makes float32[2, 3], not float64[2, 3]"),
        (f"{X}%y = exp(%x) : float32[2, 3] @meta\nreturn", 3, 16,
         "exp makes float32[2, 3], not float32[2, 3] @meta"),
        (f"{X}%y = exp(%x) : float32[2, 3], float32[1]\nreturn", 3, 6, "1 values, but 2 types"),
        (f"{X}%y = matmul(%x, %x)\nreturn", 3, 6,
         "matmul: inner dimensions must agree, got (2, 3) @ (2, 3)"),
        (f"{X}%y = sum(%x, dims=[0])\nreturn", 3, 6, "sum needs the attribute keepdim"),
        (f"{X}%y = sum(%x, dim=[0])\nreturn", 3, 14, "sum has no attribute 'dim'"),
        (f"{X}%y = sum(%x, dims=[0], dims=[0])\nreturn", 3, 24,
         "the attribute dims is given twice"),
        (f"{X}%y = sum(%x, dims=[0.5], keepdim=true)\nreturn", 3, 20,
         "expected an integer, got '0.5'"),
        (f"{X}%y = sum(%x, dims=[0], keepdim=1)\nreturn", 3, 32,
         "expected true or false, got '1'"),
        (f"{X}%y = cast(%x, dtype=float)\nreturn", 3, 21, "expected a dtype, got 'float'"),
        (f"{X}%y = copy(%x) %y\nreturn", 3, 15, "expected the end of the line, got '%y'"),
        (f"{X}%y = nonzero(%x)\nreturn", 3, 6, "nonzero: the size of the result depends on data"),
        ("%x = argument 1 : float32[2]\nreturn", 2, 6, "arguments are numbered in their order"),
        ("%x = argument 0 : float32[-1]\nreturn", 2, 27, "expected an integer of at least 0"),
        ("%x = argument 0 : float33[1]\nreturn", 2, 19, "expected a dtype, got 'float33'"),
        ("%x = argument 0 : float32[1] @abc\nreturn", 2, 30, "abc"),
        (f"%x = argument 0 : float32{[1] * 65}\nreturn", 2, 26, "at most 64 dimensions"),
        (f"%x = argument 0 : float32{[2**40] * 2}\nreturn", 2, 19, "must fit in 64 bits"),
        ('%x = tensor "w" : float32[1]\nreturn', 2, 6, "given no tensor named 'w'"),
        ("%x = constant [1] : float32[1000000000000]\nreturn", 2, 6,
         "1 elements, but float32[1000000000000] has 1000000000000"),
        ("%x = constant [1.5] : int32[1]\nreturn", 2, 6, "int32 cannot hold these elements"),
        ("%x = constant [300] : uint8[1]\nreturn", 2, 6, "uint8 cannot hold these elements"),
        ("%x = constant [1e39] : float32[1]\nreturn", 2, 6, "float32 cannot hold these elements"),
        ("%x = constant [nan(0x1)] : float32[1]\nreturn", 2, 6, "float32 cannot hold these"),
        ("%x = constant [1] : complex64[1]\nreturn", 2, 6, "the elements of complex64 are pairs"),
        ("%x = constant [(1, 2)] : float32[1]\nreturn", 2, 6, "of float32 are no pairs"),
        ("%x = number 1.0 : float32[]\nreturn", 2, 19, "a number is no float32, but float64"),
        ("%x = number 1 : int64[1]\nreturn", 2, 17, "a number has no dimensions"),
        ("%x = constant [99999999999999999999] : int64[1]\nreturn", 2, 16,
         "an integer must fit in 64 bits, got 99999999999999999999"),
        ("%x = constant [1e999] : float32[1]\nreturn", 2, 16, "a float must fit in 64 bits"),
        (f"{X}%y = exp(%x)\nwrite %y to %y\nreturn", 4, 7, "only an argument or a tensor"),
        (f"{X}%y = sum(%x, dims=[], keepdim=true)\nwrite %y to %x\nreturn", 4, 7,
         "writes float32[1, 1] to float32[2, 3]"),
        (f"{X}%y = exp(%x)\nwrite %y to %x\nreturn %x", 5, 8, "return copy() of it"),
        (f"{X}%y = exp(%x)\nwrite %y to %x\nwrite %y to %x\nreturn", 5, 7, "written to once"),
        (f"{X}write %x to %x\nreturn", 3, 7, "write copy() of it"),
        (f"{X}return %x as ([9], [1], 0)", 3, 8, "reach beyond the storage's 6 elements"),
        (f"{X}return %x as ([9], [1, 1], 0)", 3, 8, "1 sizes, but 2 strides"),
        (f"{X}split 2\nreturn %x", 3, 1, "the text returns 1 values"),
        (f"{X}split 0\nsplit 0\nreturn %x", 4, 1, "a text is split once"),
        (f"{X}%y = uniform(size=[2], dtype=float32, seed=-1, offset=0)\nreturn", 3, 6,
         "draws are from one of 65536 generators"),
        ("def exp(%x) {\nreturn %x\n}\nreturn", 2, 5, "'exp' is an op or a word"),
        ("def f(%x) {\nreturn %x\n}\ndef f(%x) {\nreturn %x\n}\nreturn", 5, 5, "defined twice"),
        (f"def f(%x) {{\nreturn %x\n}}\n{X}%y = f(%x, %x)\nreturn", 6, 6,
         "f takes 1 values, got 2"),
        (f"def f(%x) {{\nreturn %x\n}}\n{X}%y, %z = f(%x)\nreturn", 6, 10,
         "f makes 1 values, not 2"),
        ("def f(%x) {\n%y = f(%x)\nreturn %y\n}\nreturn", 3, 6, "calls itself: f -> f"),
        ("def f(%x) {\n%y = g(%x)\nreturn %y\n}\ndef g(%x) {\n%y = f(%x)\nreturn %y\n}\nreturn", 7,
         6, "a definition calls itself: f -> g -> f"),
        ("def f(%x) {\n%y = argument 0 : float32[]\nreturn %y\n}\n%x = argument 0 : float32[]\n"
         "%y = f(%x)\nreturn", 3, 6, "has no argument or tensor"),
        ("return $", 2, 8, "expected a word, a number or a mark, got '$'"),
        ("return\nreturn", 3, 1, "expected the end of the text, got 'return'"),
    ],
)  # fmt: skip
def test_errors(text: str, line: int, column: int, message: str) -> None:
    error = wrong(text)
    assert message in str(error)
    assert (error.line, error.column) == (line, column)
    assert str(error).startswith(f"parse: line {line}, column {column}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'expected "tinyt graph 1", got end of text'),
        ("tinyt graph 2\nreturn", "this version reads graphs of version 1"),
        ("graph 1", "expected \"tinyt graph 1\", got 'graph'"),
    ],
)
def test_first_lines(text: str, message: str) -> None:
    assert message in str(wrong(text, head=False))


def test_expected() -> None:
    assert wrong("return %").expected == "a word, a number or a mark"
    assert wrong(f"{X}%y = exp(%x]\nreturn").expected == '","'
    assert wrong(f"{X}%y = exp(%x) : float32[1]\nreturn").expected == "float32[2, 3]"


@pytest.mark.host
def test_tensors_that_are_given() -> None:
    text = 'tinyt graph 1\n%a = tensor "a" : float32[2]\n%b = tensor "b" : float32[2]\nreturn\n'
    x = tinyt.ones(2)
    for a, b, message in (
        (x, x, "the tensors 'a' and 'b' lie in one memory"),
        (x, tinyt.ones(4)[:2], "the tensor 'b' is a view; pass a contiguous clone of it"),
        (x, tinyt.ones(3), r"the tensor 'b' is float32\[3\], not float32\[2\]"),
        (x, x.double(), r"the tensor 'b' is float64\[2\], not float32\[2\]"),
    ):
        with pytest.raises(GraphSyntaxError, match=message):
            parse(text, {"a": a, "b": b})


# ---- control flow, whose numbers the core believes


def loops() -> str:
    def function(x: Tensor) -> object:
        def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            more = tinyt.cond(row.sum() > 0, lambda u: u * 2, lambda u: u - x.sum(), (carry,))
            return more + tinyt.rand(4), carry.exp()

        carry, rows = tinyt.scan(step, tinyt.zeros(4), x)
        n, last = tinyt.while_loop(
            lambda n, y: n < 3, lambda n, y: (n + 1, y * 1.5), (tinyt.zeros(()), carry)
        )
        return carry, rows, n, last

    return recorded(function, tinyt.ones(3, 4)).graph.text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"carry 0 0, slice 1", "carry 9 0, slice 1", "argument 0 of body has no such operand"),
        (r"carry 0 0, slice 1", "carry 0 9, slice 1", "argument 0 of body has no such result"),
        (r"carry 0 0, slice 1", "carry 0 -1, slice 1", "argument 0 of body has no such result"),
        (r"carry 0 0, slice 1", "slice 0, slice 1", "argument 0 of body is another type"),
        (r"carry 0 0, slice 1", "none, slice 1", "argument 0 of body is read, but has no source"),
        (r"steps=3", "steps=4", "is another type than its operand"),
        (r"steps=3", "steps=0", "scan takes at least 1 step"),
        (r"finals=\[0\]", "finals=[7]", "finals and stacks are results of the body, which has 2"),
        (r"draws \[0, 0, 1\]", "draws [99999, 0, 1]", "one of 65536 generators"),
        (r"draws \[0, 0, 1\]", "", "one of 0 generators"),
        (r"draws \[0, 0, 1\]", "draws [0, 0]", "draws are rows of generator, first counter"),
        (r"results \[0\]", "results [3]", "when_false has no result 3"),
        (r"results \[0\]", "results [-2]", None),
        (r"results \[0\]", "results []", "different numbers of results"),
        (r"carries=\[0, 1\]", "carries=[0]", "argument 1 of condition has no such carry"),
        (r"carries=\[0, 1\]", "carries=[1, 0]", "must return carries in the types"),
        (r"carries=\[0, 1\]", "carries=[]", "at least one"),
        (r"condition\(carry 0 0", "condition(slice 0", "lies where nothing of while_loop does"),
        (r"when_true\(whole", "when_true(whole 0, whole", "has 1 arguments, but 2 sources"),
        (r"lt\((.*) : bool", r"add(\1 : float32", "the condition returns one bool"),
    ],
)
def test_control_flow(old: str, new: str, message: str | None) -> None:
    text = loops()
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    if message is None:
        parse(changed)
        return
    with pytest.raises(GraphSyntaxError, match=re.escape(message)):
        parse(changed)


# ---- hostile texts


def nested(depth: int) -> str:
    head = "%x = argument 0 : bool[]\n"
    part = "%y = cond(%x) {\nwhen_false(whole 0) results [0] {\n"
    end = f"return %y\n}}\nwhen_true(whole 0) results [0] {{\n{head}return %x\n}}\n}}\n"
    inner = "%y = copy(%x)\n"
    return "tinyt graph 1\n" + head + (part + head) * depth + inner + end * depth + "return %y\n"


def test_depth_is_bounded() -> None:
    parse(nested(10))
    with pytest.raises(GraphSyntaxError, match="control flow is nested at most 16 deep"):
        parse(nested(2000))
    text = "def f0(%x) {\nreturn %x\n}\n" + "".join(
        f"def f{i}(%x) {{\n%y = f{i - 1}(%x)\nreturn %y\n}}\n" for i in range(1, 5000)
    )
    assert "calls are nested at most 64 deep" in str(wrong(f"{text}return"))
    for text in ("[" * 100000, "(" * 100000, "{" * 100000):
        assert wrong(f"%x = constant [{text}").line == 2


def test_expansion_is_bounded() -> None:
    """Ten calls in each of twenty definitions would be 10**20 steps."""
    text = "def f0(%x) {\n%y = exp(%x)\nreturn %y\n}\n" + "".join(
        f"def f{i}(%x) {{\n" + f"%y = f{i - 1}(%x)\n%a = f{i - 1}(%y)\n" + "return %a\n}\n"
        for i in range(1, 40)
    )
    call = "%x = argument 0 : float32[]\n%y = f39(%x)\nreturn %y"
    assert f"at most {MOST_STEPS} steps" in str(wrong(text + call))


@pytest.mark.parametrize(
    "text",
    [
        "%x = constant [" + "1, " * 200000 + "1] : float32[1]\nreturn",
        "%x = constant [" + "9" * 400000 + "] : float32[1]\nreturn",
        "%x = constant [0x" + "f" * 400000 + "] : float32[1]\nreturn",
        "%" + "a" * 400000,
        '%x = tensor "' + "a" * 400000,
        " " * 400000 + "$",
        "\n" * 400000 + "$",
        "%x = argument 0 : float32[" + "1, " * 200000 + "1]\nreturn",
        "def f(%x) {\nreturn %x\n}\n" + "%y = f(%x)\n" * 50000 + "return",
        "".join(f"def f{i}(%x) {{\n%y = f{i + 1}(%x)\nreturn %y\n}}\n" for i in range(30000)),
    ],
    ids=range(10),
)
def test_long_texts_take_linear_time(text: str) -> None:
    begin = time.process_time()
    wrong(text)
    assert time.process_time() - begin < 20


def test_what_a_text_asks_for_is_not_allocated() -> None:
    tinyt.memory.reset_peak()
    graph = parse(f"tinyt graph 1\n%x = fill(size=[{2**50}], dtype=float64, value=1)\nreturn %x\n")
    assert graph.values[0].shape == (2**50,)
    assert max(tinyt.memory.statistics().values()) < 2**40


BY_HAND = """tinyt graph 1
def affine(%x, %w, %b) {
  %y = matmul(%x, %w)
  %z = add(%y, %b)
  return %z, %y
}
%x = argument 0 : float32[2, 2]
%w = constant [1, 0x1.8p+0, -2, 1e-1] : float32[2, 2]
%c = constant [(1, 2), (nan, inf)] : complex64[2]
%b = number 1.5 : float64[]
%h, %g = affine(%x, %w, %b) : float32[2, 2], float32[2, 2]
%m = sum(%h, dims=[1], keepdim=false)
%s, %at = sort(%h, dim=0, descending=true) : float32[2, 2], int64[2, 2]
%n = as_strided(%h, size=[3], stride=[1], offset=1)
%u = uniform(size=[2, 2], dtype=float32, seed=0, offset=0)
split 2
%k = argument 1 : float32[2, 2]
%p = conv(%q, %q, stride=[1], padding=[0], dilation=[1], groups=1)
%v = update(%k, %m, size=[2], stride=[2], offset=0)
write %v to %k
return %h as ([2], [1], 1), %m, %v, %at
"""
BY_HAND = BY_HAND.replace("%p = conv(%q, %q,", "%q = fill(size=[1, 1, 3], dtype=float32, value=1)\n"
                          "%p = conv(%q, %q,")  # fmt: skip


def mutated(text: str, rng: random.Random) -> str:
    """Characters, words and lines that are changed, left out, doubled and moved."""
    words = [*ATTRIBUTES, *PARTS, "%x", "%0", "%1", "return", "write", "split", "def", "(", ")"]
    numbers = ["0", "-1", "1", "2", "3", "4", "7", str(2**31), str(2**62), str(2**63), "1e400"]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        parts = re.split(r"(\W)", text) if rng.random() < 0.6 else text.splitlines(True)
        if rng.random() < 0.2:
            parts = list(text)
        if not parts:
            continue
        i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
        kind = rng.randrange(6)
        if kind == 0:
            del parts[i]
        elif kind == 1:
            parts.insert(i, parts[j])
        elif kind == 2:
            parts[i], parts[j] = parts[j], parts[i]
        elif kind == 3:
            parts[i] = rng.choice(words)
        elif kind == 4:
            at = [k for k, part in enumerate(parts) if part.strip("-").isdigit()]
            if at:
                parts[rng.choice(at)] = rng.choice(numbers)
        else:
            parts[i] = chr(rng.choice((rng.randrange(128), rng.randrange(0x3000))))
        text = "".join(parts)
    return text


def mutate(seed: int, count: int) -> int:
    """Parses changed texts; how many are graphs, which have a text that is read again."""
    rng = random.Random(seed)
    texts = [BY_HAND, loops(), nested(3)]
    graphs = 0
    for number in range(count):
        text = mutated(rng.choice(texts), rng)
        try:
            graph = parse(text)
        except GraphSyntaxError as error:
            assert error.line >= 1  # noqa: PT017
            assert error.column >= 1  # noqa: PT017
            continue
        graphs += 1
        if number % 10 == 0:
            again = graph.text(10**9)
            assert parse(again).text(10**9) == again, text
    return graphs


def test_the_texts_that_are_changed() -> None:
    for text in (BY_HAND, loops(), nested(3)):
        parse(text)


@pytest.mark.parametrize("part", range(2))
def test_mutations(part: int, request: pytest.FixtureRequest) -> None:
    graphs = mutate(2 * request.config.getoption("--seed") + part, 1500)
    assert 50 < graphs < 1000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_mutations(part: int, request: pytest.FixtureRequest) -> None:
    mutate(1000 + 8 * request.config.getoption("--seed") + part, 12500)
