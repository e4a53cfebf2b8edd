"""Texts of capture errors: what the user wrote where a value is not known, and the way out.

The traceback has the user's frame and the instruction that it was at; the instruction's position
in the source tells an `if` from a `while`, and which call it was.
"""

from __future__ import annotations

import ast
import dis
import linecache
import os
import sys
from collections.abc import Iterator
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import NamedTuple

PACKAGE = os.path.dirname(os.path.abspath(str(sys.modules["tinyt"].__file__)))


def folder(*parts: str) -> str:
    """What the names of a folder's files begin with."""
    return os.path.normcase(os.path.join(*parts)) + os.sep


LIBRARY = folder(PACKAGE)
_PYTHON = (folder(os.path.dirname(os.__file__)), "<frozen")
_CYTHON = (".pyx", ".pxi")
_INSTALLED = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))

# The text of `require_readable` (core/ops/dispatch.cpp).
_UNKNOWN = "the value is not known while recording; return it from the recorded function"
_LONGEST = 60  # characters of source in a message

_ARGUMENT = "pass the number in as an argument, where each value has a program of its own"
_OUTSIDE = "return the tensor and {} it outside"
_BRANCH = (
    "tinyt.where(condition, a, b) chooses between values, "
    "tinyt.cond(condition, f, g, operands) between functions"
)
_LOOP = "tinyt.while_loop(cond_fn, body_fn, carried) and tinyt.scan put loops into the program"
_NUMBER = (
    "operations take a tensor of no dimensions as a number (x * loss){}; or "
    + _OUTSIDE.format("convert")
)
_CONVERTED = "use operations on tensors, or " + _OUTSIDE.format("convert")
_ADVICE = {
    "if": _BRANCH,
    "match": _BRANCH,
    "while": "tinyt.while_loop(cond_fn, body_fn, carried) puts the loop into the program",
    "assert": _OUTSIDE.format("check"),
    "and": "use & or tinyt.logical_and; " + _BRANCH,
    "or": "use | or tinyt.logical_or; " + _BRANCH,
    "not": "use ~ or tinyt.logical_not; " + _BRANCH,
    "bool": "use x != 0, which is a tensor; " + _BRANCH,
    "in": "use (x == value).any(), which is a tensor; " + _BRANCH,
    "any": "use tinyt.any of a tensor, or tinyt.stack of several; " + _BRANCH,
    "all": "use tinyt.all of a tensor, or tinyt.stack of several; " + _BRANCH,
    "max": "use tinyt.maximum, or max() of the tensor",
    "min": "use tinyt.minimum, or min() of the tensor",
    "sorted": "use tinyt.sort",
    "float": _NUMBER.format(""),
    "int": _NUMBER.format(", x.long() cuts off what is behind the point"),
    "complex": _NUMBER.format(""),
    "round": _NUMBER.format(", tinyt.round rounds"),
    "item": _NUMBER.format(""),
    "tolist": _CONVERTED,
    "numpy": _CONVERTED,
    "f-string": _OUTSIDE.format("format"),
    "format": _OUTSIDE.format("format"),
    "range": f"{_LOOP}; or {_ARGUMENT}",
    "slice": f"tinyt.where(tinyt.arange(len(x)) < n, x, 0) keeps all elements; or {_ARGUMENT}",
    "index": f"x[i.reshape(1)] of a tensor takes a copy, tinyt.stack makes one of a list; "
    f"or {_ARGUMENT}",
    "equal": "use (a == b).all(), which is a tensor",
    "allclose": "use tinyt.isclose(a, b).all(), which is a tensor",
    "is_nonzero": "use x != 0, which is a tensor; " + _BRANCH,
    "": f"{_ARGUMENT}; or do it outside, with what the function returns",
}
_NUMBERS = {"float", "int", "bool", "item", "round"}  # conversions, for what is around them
_MATH = {
    "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos",
    "atan", "atan2", "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "pow", "fabs", "isnan",
    "isinf", "isfinite", "erf", "hypot",
}  # fmt: skip


def in_library(frame: FrameType) -> bool:
    """Whether it runs code of this library."""
    name = frame.f_code.co_filename
    if name not in _own_files:
        _own_files[name] = os.path.normcase(name).startswith(LIBRARY)
    return _own_files[name]


_own_files: dict[str, bool] = {}


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame outside of this library that a frame runs for."""
    while frame is not None and in_library(frame):
        frame = frame.f_back
    return frame


def is_python(name: str) -> bool:
    """Whether a file is Python's own."""
    return name.startswith(_PYTHON) and not any(x in name for x in _INSTALLED)


def is_user_frame(frame: FrameType) -> bool:
    """Whether it runs the user's code: neither this library's nor Python's own."""
    name = frame.f_code.co_filename
    return not (in_library(frame) or is_python(os.path.normcase(name)) or name.endswith(_CYTHON))


def line_of(error: BaseException) -> str:
    """The last line of the user's own code that an error went through; empty without one."""
    found = ""
    for frame, line in walk_tb(error.__traceback__):
        if is_user_frame(frame):
            found = f"{frame.f_code.co_filename}:{line}"
    return found


def capture_text(error: BaseException) -> str:
    """The text of a CaptureError with the construct that the user wrote, the way out, and where."""
    text = str(error)
    last = _last_of_user(error)
    if last is None:
        return text
    op, _, reason = text.partition(": ")
    written = _written(last, op)
    if reason.startswith(_UNKNOWN):
        name = written.name or op
        text = f"{name}: a tensor's value is not known while recording; {_advice(name)}"
    source = f", in `{written.source}`" if written.source else ""
    return f"{text}{source}, at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}"


def _last_of_user(error: BaseException) -> TracebackType | None:
    found, at = None, error.__traceback__
    while at is not None:
        if is_user_frame(at.tb_frame):
            found = at
        at = at.tb_next
    return found


def _advice(name: str) -> str:
    module, _, function = name.rpartition(".")
    if module in ("math", "cmath") and function in _MATH:
        return f"use tinyt.{'abs' if function == 'fabs' else function}, which takes tensors"
    if module in ("np", "numpy"):
        return _CONVERTED
    return _ADVICE.get(function if module else name, _ADVICE[""])


class _Written(NamedTuple):
    """A construct of the source: its name (empty where unknown), and its text."""

    name: str
    source: str


def _written(at: TracebackType, asked: str) -> _Written:
    """What is written there, if the source tells; else what the operation was asked for."""
    code = at.tb_frame.f_code
    last = at.tb_lasti
    while last > 0 and dis.opname[code.co_code[last]] == "CACHE":  # within a call of Python code
        last -= 2
    op = dis.opname[code.co_code[last]] if last >= 0 else ""
    lines = linecache.getlines(code.co_filename, at.tb_frame.f_globals)
    found = _node_at(at, "".join(lines)) if lines else None
    if found is None:
        line = lines[at.tb_lineno - 1].strip() if 0 < at.tb_lineno <= len(lines) else ""
        return _Written("f-string" if op.startswith("FORMAT") else asked, _shortened(line))
    node, parents = found
    return _construct(node, parents, op, asked)


def _node_at(at: TracebackType, text: str) -> tuple[ast.AST, dict[ast.AST, ast.AST]] | None:
    """The expression or statement that an instruction belongs to, and the parents of all
    nodes; None where the source is not there, or Python keeps no positions (before 3.11)."""
    code = at.tb_frame.f_code
    if not hasattr(code, "co_positions") or at.tb_lasti < 0:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # changed since
        return None
    where = next(p for i, p in enumerate(code.co_positions()) if i == at.tb_lasti // 2)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found: list[ast.AST] = []
    for node in parents:
        if isinstance(node, (ast.expr, ast.stmt)):
            first, last = (node.lineno, node.end_lineno), (node.col_offset, node.end_col_offset)
            if (*first, *last) == where:
                found.append(node)
    found.sort(key=lambda x: isinstance(x, ast.stmt))
    return (found[0], parents) if found else None


def _construct(node: ast.AST, parents: dict[ast.AST, ast.AST], op: str, asked: str) -> _Written:
    if op.startswith("FORMAT") or isinstance(node, (ast.FormattedValue, ast.JoinedStr)):
        return _Written("f-string", _source(_outermost_text(node, parents)))
    if "JUMP" in op or op in ("TO_BOOL", "UNARY_NOT"):
        return _truth(node, parents)
    if isinstance(node, ast.Call) and "CALL" in op:
        name = _called(node.func)
        around = _user_of_number(node, parents) if name in _NUMBERS else None
        return around or _Written(name, _source(node))
    if isinstance(node, ast.Subscript):
        name = "slice" if isinstance(node.slice, ast.Slice) else "index"
        return _Written(name, _source(node))
    if isinstance(node, ast.Compare) and isinstance(node.ops[-1], (ast.In, ast.NotIn)):
        return _Written("in", _source(node))
    if isinstance(node, ast.BinOp):
        asked = {ast.Mod: "format", ast.Mult: "repetition"}.get(type(node.op), asked)
    return _Written(asked, _source(node))


def _outermost_text(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    """The f-string around an expression."""
    for found in _around(node, parents):
        if isinstance(found, ast.JoinedStr) and not isinstance(
            parents.get(found), ast.FormattedValue
        ):
            return found
    return node


def _around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    at: ast.AST | None = node
    while at is not None:
        yield at
        at = parents.get(at)


def _user_of_number(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> _Written | None:
    """The condition, f-string or range that a number is converted for."""
    for inner in _around(node, parents):
        outer = parents.get(inner)
        if (found := _tested(inner, outer)) is not None:
            return found
        if isinstance(outer, ast.FormattedValue):
            return _Written("f-string", _source(_outermost_text(outer, parents)))
        if isinstance(outer, ast.Call) and _called(outer.func) == "range":
            return _Written("range", _source(outer))
        if isinstance(outer, (ast.Call, ast.stmt, ast.Lambda)):
            return None
    return None


def _tested(inner: ast.AST, outer: ast.AST | None) -> _Written | None:
    """The statement or expression that an expression is the condition of."""
    if isinstance(outer, (ast.comprehension, ast.match_case)):
        is_test = inner in getattr(outer, "ifs", ()) or inner is getattr(outer, "guard", None)
        return _Written("if", _shortened(f"if {ast.unparse(inner)}")) if is_test else None
    if not isinstance(outer, (ast.If, ast.IfExp, ast.While, ast.Assert)) or inner is not outer.test:
        return None
    if isinstance(outer, ast.IfExp):
        return _Written("if", _source(outer))
    name = {ast.While: "while", ast.Assert: "assert"}.get(type(outer), "if")
    return _Written(name, _shortened(f"{name} {ast.unparse(inner)}"))


def _truth(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> _Written:
    """What asks for the truth value of an expression, or of the condition in a node."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        found = _tested(node.test, node)
        if found is not None:
            return found
    name, inner, outer = "", node, parents.get(node)
    if isinstance(outer, ast.MatchValue):
        return _Written("match", f"case {_source(node)}")
    while True:
        if isinstance(inner, ast.BoolOp):
            name = "and" if isinstance(inner.op, ast.And) else "or"
        elif isinstance(inner, ast.UnaryOp):
            name = name or "not"
        elif isinstance(inner, ast.Compare) and len(inner.ops) > 1:  # a < b < c
            name = name or "and"
        if not isinstance(outer, (ast.BoolOp, ast.UnaryOp)):
            break
        inner, outer = outer, parents.get(outer)
    return _tested(inner, outer) or _Written(name or "bool", _source(inner))


def _called(func: ast.expr) -> str:
    """A function's name: of a method the last part, of a module's function with the module."""
    if isinstance(func, ast.Attribute):
        is_module = isinstance(func.value, ast.Name) and func.value.id in (
            "math", "cmath", "np", "numpy",
        )  # fmt: skip
        return f"{ast.unparse(func.value)}.{func.attr}" if is_module else func.attr
    return func.id if isinstance(func, ast.Name) else ""


def _source(node: ast.AST) -> str:
    return _shortened(ast.unparse(node))


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
