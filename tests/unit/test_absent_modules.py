"""`onnx`, `export` and `fx` can be imported; used, they say what to do."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tinyt
import tinyt.export
import tinyt.fx
import tinyt.onnx
from tinyt import nn


def test_onnx() -> None:
    assert not tinyt.onnx.is_in_onnx_export()
    tinyt.onnx.register_custom_op_symbolic("a::b", lambda g: g, 9)
    assert tinyt.onnx.TrainingMode.EVAL.value == 0


def test_parts_of_onnx() -> None:
    from tinyt.onnx.operators import reshape_from_tensor_shape
    from tinyt.onnx.symbolic_helper import parse_args

    x = tinyt.ones(2, 3)
    sizes = tinyt.onnx.operators.shape_as_tensor(x)
    assert sizes.tolist() == [2, 3]
    assert reshape_from_tensor_shape(x, sizes.flip(0)).shape == (3, 2)
    assert parse_args("v", "i")(test_fx) is test_fx


def test_fx() -> None:
    @tinyt.fx.wrap
    def f(x: int) -> int:
        return x

    assert f(2) == 2
    assert tinyt.fx.wrap("len") == "len"
    with pytest.raises(RuntimeError, match="string name"):
        tinyt.fx.wrap(3)

    class Mine(tinyt.fx.Tracer):  # type: ignore[misc]
        pass

    assert not isinstance(nn.Linear(1, 1), tinyt.fx.GraphModule)
    with pytest.raises(NotImplementedError, match=r"fx\.Tracer"):
        Mine()


def test_export() -> None:
    batch = tinyt.export.Dim("batch", min=2, max=8)
    assert (batch.__name__, batch.min, batch.max) == ("batch", 2, 8)
    assert [d.__name__ for d in tinyt.export.dims("a", "b")] == ["a", "b"]
    with pytest.raises(AssertionError, match="identifier"):
        tinyt.export.Dim("a b")


@pytest.mark.parametrize(
    ("name", "use", "hint"),
    [
        ("onnx.export", lambda m: tinyt.onnx.export(m, (tinyt.ones(1),), "f"), "tinyt.save"),
        ("onnx.ONNXProgram", lambda m: tinyt.onnx.ONNXProgram(), "tinyt.save"),
        ("export.export", lambda m: tinyt.export.export(m, (tinyt.ones(1),)), "tinyt.compile"),
        ("export.load", lambda m: tinyt.export.load("f"), "tinyt.compile"),
        ("export.ExportedProgram", lambda m: tinyt.export.ExportedProgram(), "tinyt.compile"),
        ("fx.symbolic_trace", lambda m: tinyt.fx.symbolic_trace(m), "tinyt.compile"),
        ("fx.Graph", lambda m: tinyt.fx.Graph(), "tinyt.compiler.rewrite"),
    ],
)
def test_use_says_what_to_do(name: str, use: Any, hint: str) -> None:
    with pytest.raises(
        NotImplementedError, match=rf"^{re.escape(name)}: there .*{re.escape(hint)}"
    ):
        use(nn.Linear(1, 1))
