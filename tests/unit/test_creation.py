"""Creation beyond the values: strides, placement arguments, `out`, methods of a tensor."""

from __future__ import annotations

from typing import Any

import pytest

import tinyt

MAKERS: dict[str, Any] = {
    "zeros": lambda **k: tinyt.zeros(3, **k),
    "ones": lambda **k: tinyt.ones((3,), **k),
    "empty": lambda **k: tinyt.empty(3, **k),
    "full": lambda **k: tinyt.full((3,), 1.5, **k),
    "zeros_like": lambda **k: tinyt.zeros_like(tinyt.ones(3), **k),
    "ones_like": lambda **k: tinyt.ones_like(tinyt.ones(3), **k),
    "empty_like": lambda **k: tinyt.empty_like(tinyt.ones(3), **k),
    "full_like": lambda **k: tinyt.full_like(tinyt.ones(3), 2.0, **k),
    "arange": lambda **k: tinyt.arange(0.0, 3.0, **k),
    "linspace": lambda **k: tinyt.linspace(0, 1, 3, **k),
    "logspace": lambda **k: tinyt.logspace(0, 1, 3, **k),
    "eye": lambda **k: tinyt.eye(1, 3, **k),
    "tensor": lambda **k: tinyt.tensor([1.0, 2.0, 3.0], **k),
    "scalar_tensor": lambda **k: tinyt.scalar_tensor(2.0, **k),
    "empty_strided": lambda **k: tinyt.empty_strided((3,), (2,), **k),
    "empty_permuted": lambda **k: tinyt.empty_permuted((3,), (0,), **k),
    "rand": lambda **k: tinyt.rand(3, **k),
    "randn": lambda **k: tinyt.randn(3, **k),
    "rand_like": lambda **k: tinyt.rand_like(tinyt.ones(3), **k),
    "randn_like": lambda **k: tinyt.randn_like(tinyt.ones(3), **k),
    "normal": lambda **k: tinyt.normal(0.0, 1.0, (3,), **k),
    "new_zeros": lambda **k: tinyt.ones(1).new_zeros(3, **k),
    "new_ones": lambda **k: tinyt.ones(1).new_ones((3,), **k),
    "new_empty": lambda **k: tinyt.ones(1).new_empty(3, **k),
    "new_full": lambda **k: tinyt.ones(1).new_full((3,), 2.0, **k),
    "new_tensor": lambda **k: tinyt.ones(1).new_tensor([1.0, 2.0, 3.0], **k),
    "new_empty_strided": lambda **k: tinyt.ones(1).new_empty_strided((3,), (2,), **k),
}


@pytest.mark.parametrize("name", MAKERS)
def test_placement(name: str) -> None:
    """device, layout, pin_memory and requires_grad, as every creation function of PyTorch."""
    make = MAKERS[name]
    x = make(device="cpu", requires_grad=True, dtype=tinyt.float64, pin_memory=False)
    assert x.dtype is tinyt.float64
    assert x.requires_grad
    assert x.is_leaf
    assert not make(layout="strided", device=None).requires_grad
    with pytest.raises(RuntimeError, match=r"layout.*sparse_coo"):
        make(layout="torch.sparse_coo")
    with pytest.raises(RuntimeError, match="'xpu' is not available"):
        make(device="xpu")
    with pytest.raises(TypeError, match="colour"):
        make(colour=1)


OUT = [
    "zeros",
    "ones",
    "empty",
    "full",
    "arange",
    "linspace",
    "logspace",
    "rand",
    "randn",
    "normal",
]


@pytest.mark.parametrize("name", OUT)
def test_out(name: str) -> None:
    """`out` decides the dtype, is written and returned."""
    out = tinyt.full((3,), 9.0, dtype=tinyt.float64)
    assert MAKERS[name](out=out) is out
    if name != "empty":
        assert out.tolist() != [9.0] * 3
    with pytest.raises(RuntimeError, match=r"\(2,\)"):
        MAKERS[name](out=tinyt.ones(2))


def test_methods_take_the_dtype_of_their_tensor() -> None:
    x = tinyt.ones(2, dtype=tinyt.int16)
    assert x.new_zeros(2, 3).tolist() == [[0] * 3] * 2
    made = (x.new_ones(2), x.new_empty((2,)), x.new_full((2,), 3), x.new_tensor([1, 2]))
    assert {t.dtype for t in made} == {tinyt.int16}
    assert x.new_full((2,), 3.7).tolist() == [3, 3]
    assert x.new_zeros(1, dtype=tinyt.bool).dtype is tinyt.bool


@pytest.mark.parametrize(
    ("size", "stride"), [((2, 3), (1, 2)), ((2, 3), (5, 1)), ((0, 3), (3, 1)), ((), ())]
)
def test_empty_strided(size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    x = tinyt.empty_strided(size, stride)
    assert (tuple(x.shape), x.stride()) == (size, stride)
    x.fill_(2.0)
    assert (x == 2).all()
    assert x._base is None


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like", "full_like"])
def test_memory_format(name: str) -> None:
    """Channels last where asked for; contiguous otherwise, also in the shape of a view."""
    x = tinyt.ones(2, 3, 4, 5).permute(0, 2, 1, 3)
    extra = (2.5,) if name == "full_like" else ()
    make = getattr(tinyt, name)
    for memory_format in (None, tinyt.contiguous_format, tinyt.preserve_format):
        assert make(x, *extra, memory_format=memory_format).is_contiguous()
    last = make(x, *extra, memory_format=tinyt.channels_last)
    assert tuple(last.shape) == (2, 4, 3, 5)
    assert last.stride() == (60, 1, 20, 4)
    if name != "empty_like":
        assert tinyt.equal(last, make(x, *extra))
    with pytest.raises(RuntimeError, match=rf"{name}.*channels_last.*\(3,\)"):
        make(tinyt.ones(3), *extra, memory_format=tinyt.channels_last)
    assert tinyt.empty(1, 2, 3, 4, memory_format=tinyt.channels_last).stride() == (24, 1, 8, 2)


def test_stride_zero() -> None:
    assert tinyt.empty_strided((3,), (0,)).stride() == (0,)


def test_empty_permuted() -> None:
    x = tinyt.empty_permuted((2, 3, 4, 5), (0, 2, 3, 1))
    assert tuple(x.shape) == (2, 3, 4, 5)
    assert x.stride() == (60, 1, 15, 3)
    assert x.permute(0, 2, 3, 1).is_contiguous()


def test_wrong_strides() -> None:
    with pytest.raises(RuntimeError, match=r"empty_strided.*\(2, 2\).*\(1,\)"):
        tinyt.empty_strided((2, 2), (1,))
    with pytest.raises(RuntimeError, match=r"empty_strided.*-1"):
        tinyt.empty_strided((2,), (-1,))
    with pytest.raises(RuntimeError, match=r"empty_permuted.*\(0, 0\)"):
        tinyt.empty_permuted((2, 3), (0, 0))


def test_ranges_of_integers() -> None:
    """Bounds are cut to the dtype; the count is that of the given bounds, as in PyTorch."""
    assert tinyt.arange(1.5, 5, dtype=tinyt.int64).tolist() == [1, 2, 3, 4]
    assert tinyt.arange(tinyt.tensor(3)).tolist() == [0, 1, 2]
    assert tinyt.linspace(tinyt.tensor(1.0), 2, 3).tolist() == [1.0, 1.5, 2.0]
    with pytest.raises(ValueError, match=r"arange.*0\.5"):
        tinyt.arange(0, 1, 0.5, dtype=tinyt.int64)
    with pytest.raises(RuntimeError, match=r"arange.*bool"):
        tinyt.arange(3, dtype=tinyt.bool)
    with pytest.raises(RuntimeError, match=r"arange.*nan"):
        tinyt.arange(float("nan"))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float16", "bfloat16"])
def test_every_width(dtype: str) -> None:
    kind = getattr(tinyt, dtype)
    for x in (
        tinyt.arange(1, 5, dtype=kind),
        tinyt.linspace(1, 4, 4, dtype=kind),
        tinyt.logspace(0, 3, 4, dtype=kind),
        tinyt.eye(2, dtype=kind),
        tinyt.full((2,), 3, dtype=kind),
    ):
        assert x.dtype is kind
    assert tinyt.arange(1, 5, dtype=kind).tolist() == [1, 2, 3, 4]
