"""`autocast` as a block: nesting, threads, copies of parameters, `Function`, checkpoints."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pytest

import tinyt
from tinyt import bfloat16, float16, float32, float64
from tinyt.amp import custom_bwd, custom_fwd
from tinyt.utils.checkpoint import checkpoint


def product_dtype() -> Any:
    x = tinyt.ones(2, 2)
    return (x @ x).dtype


def test_nested_blocks_end_in_the_state_before() -> None:
    assert product_dtype() is float32
    with tinyt.autocast("cpu"):
        assert product_dtype() is bfloat16
        with tinyt.autocast("cpu", enabled=False):
            assert product_dtype() is float32
        with tinyt.autocast("cpu", dtype=float16):
            assert product_dtype() is float16
            assert tinyt.get_autocast_dtype("cpu") is float16
        assert product_dtype() is bfloat16
    assert product_dtype() is float32
    assert not tinyt.is_autocast_enabled("cpu")


def test_a_block_that_is_off_takes_any_dtype() -> None:
    with tinyt.autocast("cpu"), tinyt.autocast("cpu", dtype=float32, enabled=False):
        assert product_dtype() is float32
    assert tinyt.get_autocast_dtype("cpu") is bfloat16
    assert tinyt.autocast("cuda", enabled=False).fast_dtype is float16


def test_an_error_ends_the_block_and_no_more() -> None:
    with tinyt.autocast("cpu"):
        with pytest.raises(tinyt.ShapeError, match="mm"):
            tinyt.mm(tinyt.ones(2, 3), tinyt.ones(2, 3))
        assert product_dtype() is bfloat16
    assert product_dtype() is float32


def test_every_form_of_a_product() -> None:
    x = tinyt.ones(2, 2)
    with tinyt.autocast("cpu"):
        results = (x @ x, x.matmul(x), x.mm(x), tinyt.mm(x, mat2=x), tinyt.nn.Linear(2, 3)(x))
    assert [r.dtype for r in results] == [bfloat16] * 5


def test_what_keeps_its_precision() -> None:
    x, double = tinyt.ones(2, 2), tinyt.ones(2, 2, dtype=float64)
    whole = tinyt.ones(2, 2, dtype=tinyt.int64)
    with tinyt.autocast("cpu"):
        assert (x + x).dtype is float32
        assert (double @ double).dtype is float64
        assert (whole @ whole).dtype is tinyt.int64
        assert x.sum().dtype is float32
        out = tinyt.zeros(2, 2)
        assert tinyt.mm(x, x, out=out) is out
        assert x.clone().addmm_(x, x).dtype is float32
    assert out.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_full_precision_and_the_widest() -> None:
    low = tinyt.ones(2, 2, dtype=bfloat16)
    with tinyt.autocast("cpu"):
        assert low.prod().dtype is float32
        assert tinyt.nn.functional.mse_loss(low, low).dtype is float32
        assert tinyt.cat([low, low]).dtype is bfloat16
        assert tinyt.cat([low, tinyt.ones(1, 2)]).dtype is float32
        assert tinyt.stack([low, tinyt.ones(2, 2)]).dtype is float32


def test_products_inside_other_operations() -> None:
    x, v, low = tinyt.ones(2, 2), tinyt.ones(2), tinyt.ones(1, 2, 4, 4, dtype=bfloat16)
    with tinyt.autocast("cpu"):
        assert tinyt.einsum("ij,jk->ik", x, x).dtype is bfloat16
        assert tinyt.einsum("ij->j", x).dtype is float32
        assert tinyt.tensordot(x, x, 1).dtype is tinyt.inner(x, v).dtype is bfloat16
        assert tinyt.tensordot(x, x, 2).dtype is tinyt.inner(v, v).dtype is float32
        powers = [tinyt.linalg.matrix_power(x, n).dtype for n in range(3)]
        assert powers == [float32, float32, bfloat16]
        assert tinyt.cov(x).dtype is tinyt.corrcoef(x).dtype is bfloat16
        assert [
            tinyt.nn.functional.pad(low, (1, 1, 1, 1), mode).dtype
            for mode in ("constant", "circular", "reflect", "replicate")
        ] == [bfloat16, bfloat16, float32, float32]
        assert tinyt.nn.functional.local_response_norm(low, 2).dtype is float32
        pooled = tinyt.nn.functional.max_pool3d(low, 2, return_indices=True)
        assert pooled[0].dtype is bfloat16
        assert tinyt.nn.functional.max_pool3d(low, 2).dtype is float32


def test_a_decorator() -> None:
    @tinyt.autocast("cpu", dtype=float16)
    def dtype() -> Any:
        return product_dtype()

    assert dtype() is float16
    assert product_dtype() is float32


def test_threads_have_their_own() -> None:
    seen: list[Any] = []
    with tinyt.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(product_dtype()))
        thread.start()
        thread.join()
    assert seen == [float32]


def test_threads_share_a_block() -> None:
    """Each ends in the state that it came from, the first to enter first."""
    block = tinyt.autocast("cpu", dtype=float16)
    entered, left = threading.Event(), threading.Event()
    seen: list[Any] = []

    def work() -> None:
        with tinyt.autocast("cpu"):
            with block:
                entered.set()
                left.wait(10)
                seen.append(product_dtype())
            seen.append(product_dtype())

    thread = threading.Thread(target=work)
    with block:
        thread.start()
        entered.wait(10)
    assert product_dtype() is float32
    left.set()
    thread.join()
    assert seen == [float16, bfloat16]


@pytest.mark.parametrize("cache", [True, False])
def test_gradients_add_up_inside_one_block(cache: bool) -> None:
    weight = tinyt.ones(2, 2, requires_grad=True)
    with tinyt.autocast("cpu", cache_enabled=cache):
        for _ in range(2):
            (tinyt.ones(3, 2) @ weight + tinyt.ones(3, 2) @ weight).sum().backward()
    assert weight.grad.tolist() == [[12.0, 12.0], [12.0, 12.0]]


def test_a_written_parameter_is_cast_again() -> None:
    weight = tinyt.ones(1, 1, requires_grad=True)
    x = tinyt.ones(1, 1)
    with tinyt.autocast("cpu"):
        assert (x @ weight).item() == 1
        with tinyt.no_grad():
            weight.fill_(3)
        assert (x @ weight).item() == 3


def test_no_copies_outlive_the_block() -> None:
    weight = tinyt.ones(256, 256, requires_grad=True)
    x = tinyt.ones(1, 256)
    before = tinyt.memory.statistics()["current_bytes"]
    with tinyt.autocast("cpu"), tinyt.autocast("cpu"):
        x @ weight
    assert tinyt.memory.statistics()["current_bytes"] == before


class Square(tinyt.autograd.Function):
    seen: ClassVar[list[Any]] = []

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: Any) -> Any:
        Square.seen.append(product_dtype())
        return 2 * ctx.saved_tensors[0] * grad


def test_a_function_runs_backward_as_forward() -> None:
    x = tinyt.ones(2, requires_grad=True)
    with tinyt.autocast("cpu"):
        out = Square.apply(x)
    out.sum().backward()
    Square.apply(x).sum().backward()
    assert Square.seen == [bfloat16, float32]


def test_a_function_that_wants_its_arguments_cast() -> None:
    seen: list[Any] = []

    @custom_fwd(device_type="cpu", cast_inputs=float16)
    def forward(ctx: Any, x: Any, rest: Any) -> Any:
        seen.extend([x.dtype, rest["y"][0].dtype, product_dtype()])

    class Context:
        pass

    x = tinyt.ones(2)
    forward(Context(), x, {"y": [x]})
    with tinyt.autocast("cpu"):
        forward(Context(), x, {"y": [x]})
    assert seen == [float32] * 3 + [float16, float16, float32]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_again_as_before(reentrant: bool) -> None:
    seen: list[Any] = []

    def block(x: Any) -> Any:
        out = x @ x
        seen.append(out.dtype)
        return out

    x = tinyt.ones(2, 2, requires_grad=True)
    with tinyt.autocast("cpu"):
        out = checkpoint(block, x, use_reentrant=reentrant)
    out.sum().backward()
    assert seen == [bfloat16, bfloat16]
