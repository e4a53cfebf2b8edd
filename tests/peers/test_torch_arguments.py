"""Names, order and defaults of arguments: a call that PyTorch understands is understood here.

PyTorch's side is read from its schemas where a function is native, else from its signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
import torch.utils.data

import tinyt
from tinyt.ops.common import OTHER_NAMES, Placement

# What is not taken, and why.
CUDA = {"out_dtype": "for half precision on CUDA"}
PICKLE = {
    name: "no pickle is read or written"
    for name in (
        "pickle_module",
        "pickle_protocol",
        "pickle_load_args",
        "_use_new_zipfile_serialization",
        "_disable_byteorder_record",
    )
}
LEFT_OUT: dict[str, dict[str, str]] = {
    "Tensor.addmm": CUDA,
    "Tensor.baddbmm": CUDA,
    "Tensor.bmm": CUDA,
    "Tensor.expand": {"implicit": "a note for PyTorch's tracer"},
    "Tensor.mm": CUDA,
    "Tensor.to": {
        "layout": "in the schema alone",
        "other": "in the schema alone: a call says `tensor`",
        "pin_memory": "in the schema alone",
    },
    "addmm": CUDA,
    "baddbmm": CUDA,
    "bmm": CUDA,
    "group_norm": {"cudnn_enabled": "for CUDA"},
    "layer_norm": {"cudnn_enable": "for CUDA"},
    "load": PICKLE,
    "mm": CUDA,
    "nn.functional.elu_": {"scale": "for selu", "input_scale": "for celu"},
    "result_type": {
        name: "of numbers in place of tensors: by position"
        for name in ("scalar", "scalar1", "scalar2")
    },
    "save": PICKLE,
}
# What comes in another order, and why.
ORDER = {
    "randint": "sorts its positional arguments out itself",
    "rrelu": "the fifth is that of `nn.functional.rrelu`: one function for both",
    "save": "without the arguments for pickles",
    "load": "without the arguments for pickles",
}
# What PyTorch's function of the same name in another place has, or its parser beside the schema.
ADDED = ("inplace", "return_indices", "as_tuple", "rounding_mode", "generator")
# What tinyt alone has.
# `load` takes PyTorch's `**pickle_load_args` by their names.
OWN = {
    "compile": ("verify", "max_memory"),
    "load": ("encoding", "errors", "fix_imports"),
}
EMPTY = inspect.Parameter.empty
NATIVE = frozenset(torch._C._dispatch_get_all_op_names())
PRIMITIVES = {row["name"]: row for row in tinyt.ops.common.OP_TABLE}


@dataclass(frozen=True)
class Argument:
    """One argument of one form of a call."""

    name: str
    positional: bool
    default: Any = EMPTY


Form = tuple[Argument, ...]


def signature_of(function: Any) -> Form:
    """The arguments of a Python function; ValueError where it has no signature."""
    return tuple(
        Argument(p.name, p.kind is not p.KEYWORD_ONLY, p.default)
        for p in inspect.signature(function).parameters.values()
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    )


def primitive_form(name: str) -> Form:
    """The arguments of a row of the op table; ValueError where there is no such row."""
    row = PRIMITIVES.get(name.removesuffix("_"))
    if row is None:
        raise ValueError(f"{name} is no primitive")
    operands = ("input", "other", "third")
    if "predicate_first" in row["flags"]:
        operands = ("condition", "input", "other")
    attributes = (word.partition(":")[::2] for word in row["attributes"].split())
    return (
        *(Argument(operand, True) for operand in operands[: row["inputs"]]),
        *(Argument(word, True, kind.partition("=")[2] or EMPTY) for word, kind in attributes),
    )


@cache
def schemas_of(op: str) -> list[Form]:
    """The forms of a native function, without those that TorchScript alone has."""
    forms = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{op}"):
        full = ".".join(filter(None, (schema.name, schema.overload_name)))
        written = any(a.is_out for a in schema.arguments)
        if full not in NATIVE or "Dimname" in str(schema) or written:
            continue
        forms.append(
            tuple(
                Argument(
                    "input" if a.name == "self" else a.name,
                    not a.kwarg_only,
                    a.default_value if a.has_default_value() else EMPTY,
                )
                for a in schema.arguments
            )
        )
    return forms


def forms_of(function: Any, op: str) -> list[Form]:
    """Every form in which PyTorch's function is called."""
    while getattr(function, "__qualname__", "").startswith("boolean_dispatch"):
        function = inspect.getclosurevars(function).nonlocals["if_true"]
    try:
        form = signature_of(function)
    except ValueError:
        return schemas_of(op)
    # A wrapper that passes on all that it is given says nothing about it.
    return [form] if form or not inspect.signature(function).parameters else []


@dataclass(frozen=True)
class Case:
    """A function that both libraries have; a method's forms are without the tensor."""

    name: str
    ours: Any
    theirs: Any
    op: str
    method: bool

    def forms(self) -> list[Form]:
        """PyTorch's forms, in the names by which we know arguments."""
        forms = forms_of(self.theirs, self.op)
        return [self._rest(form) for form in forms]

    def own(self) -> Form:
        """Our arguments; ValueError where there is no signature."""
        try:
            return self._rest(signature_of(self.ours))
        except ValueError:
            return self._rest(primitive_form(self.ours.__name__))

    def _rest(self, form: Form) -> Form:
        """A method's form is without the tensor, wherever it stands in the function's."""
        if not self.method:
            return form
        own = [i for i, a in enumerate(form) if a.name in ("self", "input", "tensor")][:1]
        return tuple(a for i, a in enumerate(form) if i not in own)

    def takes(self, name: str) -> bool:
        """Whether a keyword is known: by the signature, or to a call with nothing else."""
        try:
            parameters = inspect.signature(self.ours).parameters.values()
        except ValueError:
            parameters = ()
        if any(p.kind is p.VAR_KEYWORD for p in parameters) and name in Placement.__annotations__:
            return True
        stars = {p.name for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        if name in {p.name for p in parameters} - stars:
            return True
        try:
            self.ours(*([tinyt.ones(1)] if self.method else []), **{name: object()})
        except Exception as error:
            return "unexpected" not in str(error)
        return True


def is_function(value: object) -> bool:
    return callable(value) and not inspect.isclass(value) and not inspect.ismodule(value)


def cases() -> Iterator[Case]:
    for prefix, ours, theirs, native in (
        ("", tinyt, torch, ""),
        ("linalg.", tinyt.linalg, torch.linalg, "linalg_"),
        ("special.", tinyt.special, torch.special, "special_"),
        ("nn.functional.", tinyt.nn.functional, torch.nn.functional, ""),
        ("nn.init.", tinyt.nn.init, torch.nn.init, ""),
        ("nn.utils.", tinyt.nn.utils, torch.nn.utils, ""),
        ("autograd.", tinyt.autograd, torch.autograd, ""),
        ("autograd.functional.", tinyt.autograd.functional, torch.autograd.functional, ""),
        ("nn.utils.rnn.", tinyt.nn.utils.rnn, torch.nn.utils.rnn, ""),
        ("optim.swa_utils.", tinyt.optim.swa_utils, torch.optim.swa_utils, ""),
        ("random.", tinyt.random, torch.random, ""),
        ("amp.", tinyt.amp, torch.amp, ""),
        ("cuda.", tinyt.cuda, torch.cuda, ""),
        ("utils.data.", tinyt.utils.data, torch.utils.data, ""),
        ("utils.checkpoint.", tinyt.utils.checkpoint, torch.utils.checkpoint, ""),
        ("Tensor.", tinyt.Tensor, torch.Tensor, ""),
    ):
        for name in sorted(getattr(ours, "__all__", None) or dir(ours)):
            pair = getattr(ours, name), getattr(theirs, name, None)
            if not name.startswith("_") and all(map(is_function, pair)):
                yield Case(prefix + name, *pair, native + name, prefix == "Tensor.")


CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_functions(case: Case) -> None:
    """Every name of PyTorch's is taken, in every form; order and defaults are the same."""
    forms = case.forms()
    left_out = {"out", *LEFT_OUT.get(case.name, ())}
    wanted = {a.name for form in forms for a in form} - left_out
    assert sorted(n for n in wanted if not case.takes(n)) == []
    try:
        own = case.own()
    except ValueError:
        return  # compiled, without a signature to read
    if forms:
        check_order(case.name, own, forms)
        check_defaults(own, forms)


def known_as(name: str, own: Form) -> str:
    """The name of ours for an argument of PyTorch's."""
    return name if any(a.name == name for a in own) else OTHER_NAMES.get(name, name)


def check_order(name: str, own: Form, forms: list[Form]) -> None:
    """A positional call means what it means in PyTorch.

    One argument of ours may stand for two of PyTorch's forms; then the order is that of one form.
    """
    names = [a.name for a in own]
    fits = []
    for form in forms:
        order = [known_as(a.name, own) for a in form if a.positional]
        places = [(i, n) for i, n in enumerate(order) if n in names]
        fits.append(all(names[i : i + 1] == [n] and own[i].positional for i, n in places))
    assert any(fits) or name in ORDER, (names, forms)
    unknown = set(names) - {known_as(a.name, own) for form in forms for a in form}
    assert unknown <= {"out", *ADDED, *OWN.get(name, ())}


def check_defaults(own: Form, forms: list[Form]) -> None:
    """What may be left out in PyTorch may be here, and means the same."""
    for a in own:
        theirs = [b.default for form in forms for b in form if known_as(b.name, own) == a.name]
        if not theirs or EMPTY in theirs:
            continue
        assert a.default is not EMPTY, f"{a.name} may be left out in PyTorch"
        for kind in (str, (int, float)):
            plain = [d for d in theirs if isinstance(d, kind)]
            if plain and isinstance(a.default, kind):
                assert a.default in plain, (a.name, a.default, plain)


# Calls in the names that differ from ours, or stand for arguments given one by one.
CALLS: list[Callable[[Any, Any], Any]] = [
    lambda tt, x: tt.flip(x, dims=(0,)),
    lambda tt, x: x.flip(dims=[0, 1]),
    lambda tt, x: tt.permute(x, dims=(1, 0)),
    lambda tt, x: tt.tile(x, dims=(2, 1)),
    lambda tt, x: x.repeat(repeats=(2, 1)),
    lambda tt, x: x.reshape(shape=(3, 2)),
    lambda tt, x: tt.reshape(x, shape=(-1,)),
    lambda tt, x: x.view(size=(3, 2)),
    lambda tt, x: x.view(dtype=tt.int32),
    lambda tt, x: x[:1].expand(size=(4, 3)),
    lambda tt, x: x.sum_to_size(size=(1, 3)),
    lambda tt, x: tt.zeros(size=(2, 3)),
    lambda tt, x: x.new_ones(size=(2,)),
    lambda tt, x: tt.arange(end=5),
    lambda tt, x: tt.arange(start=1, end=7, step=2),
    lambda tt, x: tt.tensor_split(x, sections=2, dim=1)[0],
    lambda tt, x: tt.tensor_split(x, indices=(1,))[1],
    lambda tt, x: x.hsplit(sections=3)[2],
    lambda tt, x: x.split(split_size=2, dim=1)[1],
    lambda tt, x: tt.isin(elements=x, test_element=2.0),
    lambda tt, x: tt.isin(element=2.0, test_elements=x),
    lambda tt, x: x.clone().pow_(exponent=2),
    lambda tt, x: x.swapaxes(axis0=0, axis1=1),
    lambda tt, x: tt.linalg.norm(input=x, axis=0),
    lambda tt, x: tt.linalg.vector_norm(x, axis=1, keepdims=True),
    lambda tt, x: tt.nn.functional.one_hot(input=x.long()),
    lambda tt, x: tt.dropout(x, p=0.5, train=False),
    lambda tt, x: x.norm(2, 0, False, tt.float64),
    lambda tt, x: x.softmax(0, tt.float64),
    lambda tt, x: tt.histogram(x)[0],
    lambda tt, x: x.clone().random_(**{"from": 3, "to": 4}),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_values(call: Callable[[Any, Any], Any]) -> None:
    """These names mean what they mean in PyTorch."""
    ours, theirs = (call(tt, tt.arange(6.0).reshape(2, 3)) for tt in (tinyt, torch))
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


# ------------------------------------------------------------------ classes


def classes() -> dict[str, tuple[Any, Any]]:
    """The public classes that both libraries have."""
    found = {}
    for prefix, ours, theirs in (
        ("nn.", tinyt.nn, torch.nn),
        ("nn.utils.rnn.", tinyt.nn.utils.rnn, torch.nn.utils.rnn),
        ("optim.", tinyt.optim, torch.optim),
        ("optim.lr_scheduler.", tinyt.optim.lr_scheduler, torch.optim.lr_scheduler),
        ("optim.swa_utils.", tinyt.optim.swa_utils, torch.optim.swa_utils),
        ("utils.data.", tinyt.utils.data, torch.utils.data),
        ("autograd.", tinyt.autograd, torch.autograd),
        ("amp.", tinyt.amp, torch.amp),
    ):
        for name in dir(ours):
            # The methods of Tensor are compared above; SparseAdam refuses whatever it is given.
            if name.startswith("_") or name in ("Tensor", "SparseAdam"):
                continue
            pair = getattr(ours, name), getattr(theirs, name, None)
            if all(map(inspect.isclass, pair)):
                found[prefix + name] = pair
    return found


CLASSES = classes()
# Defaults that differ, and why.
DEFAULTS = {
    ("PackedSequence", "batch_sizes"): "PyTorch's leaves them to older forms of the first argument"
}


def has_signature(cls: Any) -> bool:
    try:
        return bool(inspect.signature(cls))
    except ValueError:
        return False


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    """Constructors and methods have PyTorch's arguments, in its order, with its defaults.

    More may follow; what `*args` passes on is not seen.
    """
    ours, theirs = CLASSES[name]
    if name == "autograd.enable_grad" or not has_signature(theirs):
        pytest.skip("takes the function to decorate by position, or says nothing")
    pairs = [(ours, theirs)]
    for member in sorted(set(vars(ours)) & set(dir(theirs))):
        methods = getattr(ours, member), getattr(theirs, member)
        if not member.startswith("_") and all(map(inspect.isfunction, methods)):
            pairs.append(methods)
    for mine, other in pairs:
        own, wanted = signature_of(mine), signature_of(other)
        names = [(a.name, a.positional) for a in own]
        passed_on = any(
            p.kind is p.VAR_POSITIONAL for p in inspect.signature(mine).parameters.values()
        )
        count = min(len(own), len(wanted)) if passed_on else len(wanted)
        assert names[:count] == [(a.name, a.positional) for a in wanted[:count]], mine
        for a, b in zip(own, wanted, strict=False):
            plain = b.default is None or isinstance(b.default, (str, int, float, tuple))
            if plain and (ours.__name__, a.name) not in DEFAULTS:
                assert a.default == b.default, (mine, a.name)
