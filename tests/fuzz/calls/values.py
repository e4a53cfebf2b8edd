"""Draws single arguments: sensible ones for a parameter, and hostile ones."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable

from fuzz.calls.expr import Expr, call, sequence


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DTYPES = words(
    "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 bool complex64 complex128"
)
HOWS = ("", "", "", "grad", "result", "transposed", "stepped", "overlapping", "nan", "offset")
SHAPES = ("()", "(0,)", "(1,)", "(3,)", "(2, 3)", "(3, 3)", "(2, 0, 3)", "(2, 3, 4)", "(1, 1)")
LARGE_SHAPES = ("(67,)", "(40, 33)", "(5, 1, 7)", "(2, 2, 6, 5)", "(1, 2, 3, 4, 5)", "(3000,)")
NUMBERS = words(
    "0 1 -1 2 3 7 -2 -3 100 1000 -1000 0.0 0.5 1.5 -0.5 -0.0 1e-45 1e308 -1e308 True False "
    "2**31-1 2**31 -2**31 2**32 2**62 2**63-1 2**63 -2**63 -2**63-1 2**64 2**64-1 10**30 -10**30 "
    "float('nan') float('inf') -float('inf') 1j complex('nan') np.float32(2) np.int8(-1) "
    "np.uint64(2**64-1) np.longdouble(1) np.clongdouble(1) np.bool_(True) np.float16('inf') "
    "np.datetime64('2020-01-01')"
)
STRINGS = (
    "''",
    "'mean'",
    "'sum'",
    "'none'",
    "'cpu'",
    "'cuda:3'",
    "'float32'",
    "'same'",
    "'reflect'",
    "'bilinear'",
    "'nearest'",
    "'ij,jk->ik'",
    "'i...,...->'",
    "'a.b..c'",
    "'weight'",
    "'\\0'",
    "'\\ud800'",
    "'x' * 5000",
    "b'bytes'",
)
ARRAYS = (
    "np.zeros(3, 'i4,f4')",
    "np.arange(6, dtype='>f4')",
    "np.arange(6, dtype='>i8').reshape(2, 3)",
    "read_only(np.ones((2, 3), np.float32))",
    "np.broadcast_to(np.float32(1), (3, 4))",
    "np.broadcast_to(np.int64(1), (3,))",
    "unaligned((3,))",
    "unaligned((2, 3), 'int64')",
    "unaligned((2,), 'complex128')",
    "np.ones(3, np.longdouble)",
    "np.ones(2, np.clongdouble)",
    "np.array([None, 'a', 1], object)",
    "np.array(['a', 'bc'])",
    "np.array(['2020-01-01'], 'datetime64[D]')",
    "np.arange(12.)[::-2]",
    "np.arange(12.).reshape(3, 4).T",
    "np.full(5, 128, np.uint8).view(bool)",
    "np.zeros((0, 3))",
    "np.zeros((1,) * 40)",
    "np.ma.masked_array([1., 2.], [True, False])",
    "np.ones(3, np.uint32)",
    "np.matrix([[1., 2.]])",
    "memoryview(b'abcd')",
    "memoryview(np.arange(6.).reshape(2, 3).T)",
    "bytearray(8)",
)
OBJECTS = (
    "None",
    "...",
    "object()",
    "int",
    "tinyt",
    "NotImplemented",
    "slice(None)",
    "slice(2**63, -2**63, -1)",
    "slice(None, None, 0)",
    "slice(raising('__index__'), None)",
    "slice(rebinding(), None)",
    "{}",
    "{'a': 1}",
    "{1: None}",
    "{'lr': -1}",
    "set()",
    "range(3)",
    "slow_iterator()",
    "iter(())",
    "identity",
    "tinyt.float32",
    "tinyt.bool",
    "tinyt.device('cpu')",
    "tinyt.Size((2, 3))",
    "tinyt.strided",
    "tinyt.default_generator",
    "nested(3)",
    "nested(70)",
    "nested(300)",
    "self_containing()",
    "[[1, 2], [3]]",
    "[[], []]",
    "[shared(), shared()]",
    "shared()",
    "shared()[2:]",
    "shared().view(3, 4)",
    "rebinding()",
    "rebinding('__float__')",
    "rebinding('__index__', 'size')",
    "clearing()",
    "clearing('__float__')",
    "clearing('__len__')",
    "giving('__len__', -1)",
    "giving('__len__', 2**70)",
    "giving('__index__', 2**70)",
    "giving('__index__', 'a')",
    "giving('__index__', -2**63)",
    "giving('__float__', None)",
    "giving('__bool__', 2)",
    "giving('__array__', 3)",
    "giving('__array_interface__', {})",
    "giving('__dlpack__', 3)",
    "giving('__iter__', 3)",
    "giving('__eq__', object())",
    "giving('__getitem__', None)",
    "giving('__torch_function__', None)",
    "giving('__fspath__', 3)",
    "giving('__call__', None)",
)
RAISING = words(
    "__index__ __float__ __len__ __bool__ __iter__ __array__ __eq__ __hash__ __complex__ __int__ "
    "__call__ __getitem__ __contains__ __next__ __enter__ __repr__ __getattr__ __fspath__"
)
FUNCTIONS = (
    "identity",
    "lambda *a: a[0]",
    "lambda *a: a",
    "lambda *a: a[0] * 2",
    "lambda *a: a[0].sum()",
    "lambda *a: None",
    "lambda *a: a[0] > 0",
    "lambda *a: shared().add_(1)",
    "raising('__call__')",
    "tinyt.add",
    "tinyt.nn.Linear(3, 2)",
)
# Parameters that say how often something is done or made: a huge one takes its time, by contract.
REPETITIONS = re.compile(
    r"layers|num_workers|prefetch_factor|n_iter|max_iter|iterations|max_eval|last_epoch|"
    r"total_iters|max_trials|epochs|steps|depth|T_mult|T_0|T_max|total_steps|nondet|repeat|num_samples"
)
Draw = random.Random


def tensor(rng: Draw, shape: str = "", dtype: str = "", how: str | None = None) -> Expr:
    """A small tensor of any kind, most often one of contiguous float32."""
    shape = shape or rng.choice(SHAPES if rng.random() < 0.8 else LARGE_SHAPES)
    dtype = dtype or (rng.choice(DTYPES) if rng.random() < 0.5 else "float32")
    how = rng.choice(HOWS) if how is None else how
    if how in ("grad", "result") and not dtype.startswith(("float", "bfloat", "complex")):
        how = ""
    if dtype == "bool" and rng.random() < 0.3:
        how = "odd bytes"
    texts = [shape]
    if dtype != "float32" or how:
        texts.append(repr(dtype))
    if how:
        texts.append(repr(how))
    return call("T", *map(Expr, texts))


def number(rng: Draw) -> Expr:
    return Expr(rng.choice(NUMBERS))


def hostile(rng: Draw, depth: int = 0) -> Expr:
    """Anything at all."""
    kind = rng.randrange(16)
    if kind < 4:
        return number(rng)
    if kind < 7:
        return tensor(rng)
    if kind < 9:
        return Expr(rng.choice(ARRAYS))
    if kind < 10:
        return Expr(rng.choice(STRINGS))
    if kind < 11:
        return Expr(f"raising({rng.choice(RAISING)!r})")
    if kind < 14 or depth > 1:
        return Expr(rng.choice(OBJECTS))
    items = [hostile(rng, depth + 1) for _ in range(rng.randrange(5))]
    if rng.random() < 0.5:
        items = [number(rng) for _ in range(rng.randrange(7))]
    return sequence(items, rng.choice((list, tuple)))


def repeated(rng: Draw) -> Expr:
    """A hostile value that is no large number."""
    small = ("0", "-1", "2", "3", "-(2**63)", "0.5", "float('nan')", "None", "'a'", "[]", "True")
    return Expr(rng.choice((*small, "raising('__index__')", "giving('__index__', -2**63)")))


def sizes(rng: Draw) -> Expr:
    if rng.random() < 0.4:
        return Expr(rng.choice(words("1 2 3 4")))
    return sequence(
        [Expr(rng.choice(words("0 1 2 3 -1"))) for _ in range(rng.randrange(1, 4))], tuple
    )


def small_int(rng: Draw) -> Expr:
    return Expr(rng.choice(words("0 1 1 2 2 3 4 -1")))


def tensors(rng: Draw) -> Expr:
    shape = rng.choice(SHAPES)
    return sequence(
        [tensor(rng, shape) for _ in range(rng.randrange(1, 4))], rng.choice((list, tuple))
    )


def one_of(*texts: str) -> Callable[[Draw], Expr]:
    return lambda rng: Expr(rng.choice(texts))


PARAMETER = "tinyt.nn.Parameter(tinyt.ones(2, 3))"
MODULE = ("tinyt.nn.Linear(3, 2)", "tinyt.nn.Sequential(tinyt.nn.Linear(3, 3), tinyt.nn.ReLU())")
OPTIMIZER = tuple(
    f"tinyt.optim.{name}([{PARAMETER}])" for name in ("SGD", "Adam", "AdamW", "RMSprop")
)
SCHEDULER = f"tinyt.optim.lr_scheduler.ConstantLR({OPTIMIZER[0]})"
DATASET = ("tinyt.data.TensorDataset(tinyt.ones(5, 2))", "[1, 2, 3]", "range(5)")
# By the parameter's name, then by its annotation: the first row that matches.
BY_NAME: tuple[tuple[str, Callable[[Draw], Expr]], ...] = (
    ("dtype", lambda rng: Expr(f"tinyt.{rng.choice(DTYPES)}")),
    ("device.*", one_of("'cpu'", "None", "tinyt.device('cpu')", "'cuda'")),
    ("generator", one_of("None", "tinyt.Generator()", "tinyt.Generator().manual_seed(3)")),
    ("memory_format", one_of("tinyt.contiguous_format", "tinyt.channels_last", "None")),
    ("layout", one_of("tinyt.strided")),
    ("optimizer", one_of(*OPTIMIZER)),
    ("schedulers", one_of(f"[{SCHEDULER}]")),
    ("params|parameters", one_of(f"[{PARAMETER}]", f"{MODULE[0]}.parameters()")),
    ("milestones", one_of("[1, 2]", "[1]")),
    ("model|module|.*_layer", one_of(*MODULE)),
    ("reduction", one_of("'mean'", "'sum'", "'none'")),
    ("equation", one_of("'ij,jk->ik'", "'ij->'", "'...i,...i->...'")),
    ("f|path|filename", one_of("'file'", "'file.safetensors'", "None")),
    ("seed", small_int),
    (
        "dims?|axis|axes|dim0|dim1",
        lambda rng: Expr(rng.choice(words("0 1 -1 -2 (0,) (0,1) None"))),
    ),
    (
        "fn|func|function|.*_fn|.*_hook|hook|lr_lambda|pattern|replacement|body|f",
        one_of(*FUNCTIONS),
    ),
    ("datasets", one_of(f"[{DATASET[0]}]")),
    ("dataset|data_source|sampler", one_of(*DATASET)),
    ("indices|index", one_of("[0, 1]", "tinyt.tensor([0, 1])", "tinyt.tensor([[0, 1], [1, 0]])")),
    ("mask|condition", lambda rng: tensor(rng, dtype="bool")),
    ("state_dict|state", one_of("{}", f"{MODULE[0]}.state_dict()", f"{OPTIMIZER[0]}.state_dict()")),
)
BY_ANNOTATION: tuple[tuple[str, Callable[[Draw], Expr]], ...] = (
    ("(Sequence|Iterable|list|tuple).*Tensor", tensors),
    ("Tensor", tensor),
    ("Sizes?$|Sequence.int|Size ", sizes),
    ("bool", one_of("True", "False")),
    ("int", small_int),
    ("float|Scalar|Number", one_of("0.5", "1", "2.0", "0", "-1.5", "0.1")),
    ("str", one_of(*STRINGS)),
    ("Module", one_of(*MODULE)),
    ("Callable", one_of(*FUNCTIONS)),
    ("dict|Mapping", one_of("{}", "{'a': tinyt.ones(2)}")),
    ("Sequence|Iterable|list|tuple", one_of("[1, 2]", "[]", "(tinyt.ones(2),)")),
)


def plausible(rng: Draw, parameter: inspect.Parameter) -> Expr:
    """What a user might give."""
    for pattern, draw in BY_NAME:
        if re.fullmatch(pattern, parameter.name):
            return draw(rng)
    for pattern, draw in BY_ANNOTATION:
        if re.search(pattern, str(parameter.annotation)):
            return draw(rng)
    if isinstance(parameter.default, (int, float, str)) and rng.random() < 0.5:
        return Expr(repr(parameter.default))
    return tensor(rng)
