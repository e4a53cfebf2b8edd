"""Names that programs have from before: constructors, windows, older orders of arguments,
and what they ask a tensor or the build about."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from tinyt import nn

# ------------------------------------------------------------------ functions


def expected_window(name: str, length: int, periodic: bool, *options: float) -> Any:
    """The weights from their formulas."""
    if length <= 1:
        return np.ones(length)
    x = np.arange(length) / (length if periodic else length - 1)
    turn = np.cos(2 * np.pi * x)
    if name == "hann":
        return 0.5 - 0.5 * turn
    if name == "hamming":
        alpha, beta = options or (0.54, 0.46)
        return alpha - beta * turn
    if name == "blackman":
        return 0.42 - 0.5 * turn + 0.08 * np.cos(4 * np.pi * x)
    if name == "bartlett":
        return 1 - np.abs(2 * x - 1)
    (beta,) = options or (12.0,)
    return np.i0(beta * np.sqrt(np.clip(1 - (2 * x - 1) ** 2, 0, None))) / np.i0(beta)


@given(
    st.sampled_from(["hann", "hamming", "blackman", "bartlett", "kaiser"]),
    st.integers(0, 40),
    st.booleans(),
)
def test_windows(name: str, length: int, periodic: bool) -> None:
    window = getattr(tinyt, f"{name}_window")
    expected = expected_window(name, length, periodic)
    wide = window(length, periodic, dtype=tinyt.float64)
    np.testing.assert_allclose(wide.numpy(), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(window(length, periodic).numpy(), wide.numpy().astype("f4"))


def test_options_of_windows() -> None:
    np.testing.assert_allclose(
        tinyt.kaiser_window(7, False, 3.0, dtype=float).numpy(),
        expected_window("kaiser", 7, False, 3.0),
        rtol=1e-13,
    )
    np.testing.assert_allclose(
        tinyt.hamming_window(7, True, 0.6, 0.4, dtype=float).numpy(),
        expected_window("hamming", 7, True, 0.6, 0.4),
        rtol=1e-13,
    )
    assert tinyt.hann_window(3, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match=r"hann_window.*-1"):
        tinyt.hann_window(-1)
    with pytest.raises(RuntimeError, match=r"kaiser_window.*int64"):
        tinyt.kaiser_window(3, dtype=tinyt.int64)


@pytest.mark.parametrize("shape", [(0,), (1,), (4,)])
@pytest.mark.parametrize("columns", [None, 0, 1, 2, 5])
@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_vander(shape: tuple[int], columns: Any, increasing: bool, dtype: str) -> None:
    x = np.arange(1, shape[0] + 1, dtype=dtype) - 2
    expected = np.vander(x, columns, increasing)
    found = tinyt.vander(tinyt.tensor(x), columns, increasing)
    assert found.tolist() == expected.tolist()
    assert tuple(found.shape) == expected.shape


def test_errors_of_vander() -> None:
    with pytest.raises(RuntimeError, match="must be a vector"):
        tinyt.vander(tinyt.ones(2, 2))
    with pytest.raises(RuntimeError, match="-1"):
        tinyt.vander(tinyt.ones(2), -1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, 3), [0.0, 1.0, 2.0, 3.0]),
        ((3,), [0.0, 1.0, 2.0, 3.0]),
        ((1, 2, 0.5), [1.0, 1.5, 2.0]),
        ((3, 1, -1), [3.0, 2.0, 1.0]),
        ((1, 1), [1.0]),
    ],
)
def test_range(arguments: tuple[Any, ...], expected: list[float]) -> None:
    with pytest.warns(UserWarning, match="use arange"):
        assert tinyt.range(*arguments).tolist() == expected
    with pytest.warns(UserWarning, match="use arange"):
        assert tinyt.range(*arguments, dtype=tinyt.float64).dtype is tinyt.float64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 3, 0), "zero"), ((0, 3, -1), "sign"), ((0, math.inf), "finite")],
)
def test_errors_of_range(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.warns(UserWarning, match="use arange"), pytest.raises(RuntimeError, match=message):
        tinyt.range(*arguments)


def test_frombuffer() -> None:
    raw = bytearray(np.arange(4, dtype="f4").tobytes())
    shared = tinyt.frombuffer(raw, dtype=tinyt.float32)
    shared[1] = 7.0
    assert np.frombuffer(raw, "f4").tolist() == [0.0, 7.0, 2.0, 3.0]
    assert tinyt.frombuffer(raw, dtype=tinyt.float32, count=2, offset=8).tolist() == [2.0, 3.0]
    assert tinyt.frombuffer(raw[1:] + b"\0", dtype=int, count=1, offset=3).numel() == 1
    assert tinyt.frombuffer(raw, dtype=tinyt.float32, requires_grad=True).requires_grad
    for options, message in (
        ({"offset": 16}, "offset 16"),
        ({"count": 0}, "count 0"),
        ({"count": 5}, "take 20 bytes"),
        ({"offset": 3}, "no whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            tinyt.frombuffer(raw, dtype=tinyt.float32, **options)
    with pytest.raises(ValueError, match="0 bytes"):
        tinyt.frombuffer(b"", dtype=tinyt.uint8)


def test_conv_tbc(rng: np.random.Generator) -> None:
    x, w, b = rng.normal(size=(6, 2, 3)), rng.normal(size=(2, 3, 4)), rng.normal(size=4)
    padded = np.pad(x, ((1, 1), (0, 0), (0, 0)))
    expected = b + sum(padded[k : k + 7] @ w[k] for k in range(2))
    found = tinyt.conv_tbc(*map(tinyt.tensor, (x, w, b)), 1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_parts_and_copies() -> None:
    x = tinyt.arange(5.0)
    assert [part.tolist() for part in tinyt.unsafe_split(x, 2)] == [[0, 1], [2, 3], [4]]
    assert [part.tolist() for part in x.unsafe_chunk(2)] == [[0, 1, 2], [3, 4]]
    assert [part.tolist() for part in x.unsafe_split_with_sizes([1, 4])] == [[0], [1, 2, 3, 4]]
    leaf = tinyt.ones(2, requires_grad=True)
    assert not tinyt.detach(leaf).requires_grad
    assert tinyt.fill(x, 2.0).tolist() == [2.0] * 5
    assert x.tolist() == [0, 1, 2, 3, 4]
    assert tinyt.is_signed(x)
    assert not tinyt.is_signed(x.bool())
    assert tinyt.get_device(x) == -1


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_weight_norm(dim: int, rng: np.random.Generator) -> None:
    v, axes = rng.normal(size=(3, 4)), {-1: (0, 1), 0: (1,), 1: (0,)}[dim]
    norm = np.sqrt((v**2).sum(axes, keepdims=dim >= 0))
    found = tinyt.norm_except_dim(tinyt.tensor(v), 2, dim)
    np.testing.assert_allclose(found.numpy(), norm, rtol=1e-14)
    weight = tinyt._weight_norm(tinyt.tensor(v), tinyt.tensor(2 * norm), dim)
    np.testing.assert_allclose(weight.numpy(), 2 * v, rtol=1e-14)
    halves = tinyt._weight_norm(tinyt.tensor(v).half(), found.half(), dim)
    assert halves.dtype is tinyt.float16
    np.testing.assert_allclose(halves.float().numpy(), v, rtol=4e-3)


# ------------------------------------------------------------------ fill_diagonal_


@given(st.integers(0, 7), st.integers(0, 7), st.booleans(), st.booleans())
def test_fill_diagonal(rows: int, columns: int, wrap: bool, transposed: bool) -> None:
    expected = np.zeros((rows, columns))
    if expected.size:
        np.fill_diagonal(expected, 5.0, wrap)
    x = tinyt.zeros(columns, rows).t() if transposed else tinyt.zeros(rows, columns)
    assert x.fill_diagonal_(5.0, wrap) is x
    assert x.tolist() == expected.tolist()


def test_fill_diagonal_of_more_dimensions() -> None:
    expected = np.zeros((3, 3, 3))
    np.fill_diagonal(expected, 2.0)
    assert tinyt.zeros(3, 3, 3).fill_diagonal_(2).tolist() == expected.tolist()
    with pytest.raises(RuntimeError, match="two or more dimensions"):
        tinyt.zeros(3).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="of one size"):
        tinyt.zeros(3, 3, 2).fill_diagonal_(1)
    x = tinyt.ones(3, 3, requires_grad=True)
    (x * 2).fill_diagonal_(0.0).sum().backward()
    assert x.grad.tolist() == (2 - 2 * np.eye(3)).tolist()


# ------------------------------------------------------------------ constructors


@pytest.mark.parametrize("kind", [tinyt.Tensor, tinyt.FloatTensor, tinyt.ones(1).new])
def test_constructors(kind: Any) -> None:
    values = np.arange(6.0).reshape(2, 3)
    assert kind(values).tolist() == values.tolist()
    assert kind(values).dtype is tinyt.float32
    assert kind(values[::-1].T).tolist() == values[::-1].T.tolist()
    assert kind(values.astype("i4")).tolist() == values.tolist()
    assert tuple(kind(2, 3).shape) == (2, 3)
    assert tuple(kind(np.int64(2)).shape) == (2,)
    assert tuple(kind(tinyt.ones(2, 4).size()).shape) == (2, 4)
    assert tuple(kind().shape) == (0,)
    assert kind([tinyt.tensor(1), 2.5]).tolist() == [1.0, 2.5]
    assert kind([1, 2], device="cpu").tolist() == [1.0, 2.0]
    assert tuple(kind(2, device="cpu").shape) == (2,)
    x = kind(values)
    x[0, 0] = 9.0
    assert values[0, 0] == 0.0


def test_new() -> None:
    x = tinyt.ones(2, dtype=tinyt.int32)
    assert x.new([1, 2]).dtype is tinyt.int32
    assert x.new(3).dtype is tinyt.int32
    assert tinyt.LongTensor([1.0, 2.0]).tolist() == [1, 2]


# ------------------------------------------------------------------ what is asked


def test_attributes() -> None:
    x = tinyt.ones(2, 2)
    for name in ("ipu", "maia", "mkldnn", "mtia", "sparse_csr", "vulkan", "xla", "xpu", "cuda"):
        assert getattr(x, f"is_{name}") is False
    assert not x.is_distributed()
    assert not tinyt.is_inference(x)
    assert x.to_dense() is x
    assert (x.dense_dim(), x.sparse_dim()) == (2, 0)
    assert tinyt.typename(x) == "tinyt.FloatTensor"
    assert tinyt.typename(3) == "int"
    assert tinyt.typename(nn.Linear(1, 1)) == "tinyt.nn.linear.Linear"
    assert tinyt.typename(nn.Linear) == "tinyt.nn.linear.Linear"


class Marked(tinyt.Tensor):
    """A subclass."""


def test_as_subclass() -> None:
    x = tinyt.ones(2, requires_grad=True)
    y = (x * 2).as_subclass(Marked)
    assert type(y) is Marked
    assert type(x) is tinyt.Tensor
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert x.detach().as_subclass(Marked).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="subclass of Tensor"):
        x.as_subclass(int)


class Made(tinyt.Tensor):
    """A subclass whose instances are made as PyTorch's `Parameter` once was."""

    def __new__(cls, data: tinyt.Tensor, note: str) -> Made:
        return tinyt.Tensor._make_subclass(cls, data, True)

    def __init__(self, data: tinyt.Tensor, note: str) -> None:
        self.note = note


def test_make_subclass() -> None:
    data = tinyt.ones(2)
    x = Made(data, "mine")
    assert type(x) is Made
    assert x.is_leaf
    assert x.requires_grad
    assert x.data_ptr() == data.data_ptr()
    (x * 3).sum().backward()
    assert (x.grad.tolist(), x.note) == ([3.0, 3.0], "mine")


@pytest.mark.parametrize("name", ["__torch_function__", "__torch_dispatch__"])
def test_a_class_whose_hook_is_not_called_says_so(name: str) -> None:
    """When it is defined; a class that derives from it says nothing."""
    with pytest.warns(UserWarning, match=f"class Mine defines {name}.* plain tensors") as said:
        mine = type("Mine", (tinyt.Tensor,), {name: classmethod(lambda *args: None)})
    assert [w.filename for w in said] == [__file__]
    derived = type("Derived", (mine,), {})
    x = derived([1.0, 2.0])
    assert type(x) is derived
    assert type(x + 1) is tinyt.Tensor


@pytest.mark.parametrize(
    ("name", "values", "keywords"),
    [
        ("add", (2,), ("alpha",)),
        ("sub", (2,), ("alpha",)),
        ("addcmul", (0.5,), ("value",)),
        ("addcdiv", (0.5,), ("value",)),
        ("addmm", (2,), ("beta",)),
        ("addmm", (2, 3), ("beta", "alpha")),
    ],
)
def test_older_orders(name: str, values: tuple[float, ...], keywords: tuple[str, ...]) -> None:
    count = 1 if name in ("add", "sub") else 2
    x, others = tinyt.rand(2, 2), [tinyt.rand(2, 2) + 1 for _ in range(count)]
    expected = getattr(x, name)(*others, **dict(zip(keywords, values, strict=True)))
    with pytest.warns(UserWarning, match=f"{name}: this order of arguments is deprecated"):
        assert getattr(x, name)(*values, *others).tolist() == expected.tolist()
    with pytest.warns(UserWarning, match="deprecated"):
        assert getattr(x.clone(), f"{name}_")(*values, *others).tolist() == expected.tolist()
    first = (values[0], x, *values[1:]) if keywords[0] == "beta" else (x, *values)
    with pytest.warns(UserWarning, match="deprecated"):
        assert getattr(tinyt, name)(*first, *others).tolist() == expected.tolist()
    with pytest.raises(TypeError):
        getattr(tinyt, name)(*first, *others, *others, *others)


def test_switches() -> None:
    assert tinyt.set_flush_denormal(False)
    assert not tinyt.set_flush_denormal(True)
    tinyt.set_warn_always(True)
    assert tinyt.is_warn_always_enabled()
    tinyt.set_warn_always(False)
    with pytest.raises(TypeError, match="expected a bool"):
        tinyt.set_warn_always(1)
    for mode, level in (("warn", 1), (2, 2), ("default", 0)):
        tinyt.set_deterministic_debug_mode(mode)
        assert tinyt.get_deterministic_debug_mode() == level
    with pytest.raises(RuntimeError, match="expected one of"):
        tinyt.set_deterministic_debug_mode("much")
    assert tinyt.compiled_with_cxx11_abi()
    assert not any((tinyt.has_mkl, tinyt.has_openmp, tinyt.has_lapack))


def test_fork_rng() -> None:
    tinyt.manual_seed(3)
    expected = tinyt.rand(3).tolist()
    tinyt.manual_seed(3)
    with tinyt.random.fork_rng(devices=[0], enabled=True):
        tinyt.rand(100)
    assert tinyt.rand(3).tolist() == expected
    with tinyt.random.fork_rng(enabled=False):
        drawn = tinyt.rand(1).item()
    assert tinyt.rand(1).item() != drawn


def test_modules() -> None:
    assert tinyt.cpu.is_available()
    assert (tinyt.cpu.device_count(), tinyt.cpu.current_device()) == (1, "cpu")
    tinyt.cpu.synchronize()
    for module in (tinyt.xpu, tinyt.mps):
        module.manual_seed(3)
        module.empty_cache()
        module.synchronize()
        assert module.device_count() == 0
    assert not tinyt.xpu.is_available()
    assert tinyt.mps.current_allocated_memory() == 0
    with pytest.raises(tinyt.DeviceError, match="no XPU"):
        tinyt.xpu.current_device()
    assert tinyt.storage.UntypedStorage is tinyt.UntypedStorage
    assert isinstance(3, tinyt.types.Number)
    assert tinyt.functional.einsum is tinyt.einsum


def test_paths_of_modules() -> None:
    from tinyt.autograd.grad_mode import no_grad
    from tinyt.autograd.variable import Variable
    from tinyt.utils.hooks import RemovableHandle

    assert no_grad is tinyt.no_grad
    assert Variable is tinyt.autograd.Variable
    assert isinstance(nn.Linear(1, 1).register_forward_hook(print), RemovableHandle)
    x = tinyt.arange(3.0)
    shared = tinyt.utils.dlpack.from_dlpack(tinyt.utils.dlpack.to_dlpack(x))
    x[0] = 5.0
    assert shared.tolist() == [5.0, 1.0, 2.0]
    assert x.record_stream(None) is None
    assert x.const_data_ptr() == x.data_ptr()


def test_safe_globals() -> None:
    serialization = tinyt.serialization
    serialization.add_safe_globals([int, int])
    with serialization.safe_globals([str]):
        assert serialization.get_safe_globals() == [int, str]
    assert serialization.get_safe_globals() == [int]
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []


def test_memory_formats_of_weights() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv3d(3, 4, 2))
    before = net[0].weight.tolist()
    nn.utils.convert_conv2d_weight_memory_format(net, tinyt.channels_last)
    assert net[0].weight.is_contiguous(memory_format=tinyt.channels_last)
    assert net[0].weight.tolist() == before
    nn.utils.convert_conv3d_weight_memory_format(net, tinyt.channels_last_3d)
    assert net[1].weight.is_contiguous(memory_format=tinyt.channels_last_3d)


def test_backends() -> None:
    backends = tinyt.backends
    assert not backends.mkl.is_available()
    assert not backends.opt_einsum.is_available()
    backends.mha.set_fastpath_enabled(False)
    assert not backends.mha.get_fastpath_enabled()
    backends.mha.set_fastpath_enabled(True)
    with backends.cudnn.flags(enabled=True, benchmark=True):
        assert backends.cudnn.benchmark
    assert not backends.cudnn.benchmark
    with backends.mkldnn.flags(enabled=False):
        assert not backends.mkldnn.enabled
    assert backends.mkldnn.enabled
    backends.cuda.enable_flash_sdp(False)
    assert not backends.cuda.flash_sdp_enabled()
    backends.cuda.enable_flash_sdp(True)
    with backends.cuda.sdp_kernel(enable_math=False, enable_cudnn=False):
        assert not backends.cuda.math_sdp_enabled()
        assert not backends.cuda.cudnn_sdp_enabled()
        assert backends.cuda.mem_efficient_sdp_enabled()
    assert backends.cuda.math_sdp_enabled()
    with (
        pytest.raises(AssertionError, match="must be an instance of SDPBackend"),
        nn.attention.sdpa_kernel("math"),
    ):
        pass


def test_cuda() -> None:
    cuda = tinyt.cuda
    cuda.synchronize()
    cuda.seed()
    assert cuda.get_rng_state_all() == []
    cuda.set_rng_state_all([])
    assert dict(cuda.memory_stats()) == {}
    assert "no CUDA" in cuda.memory_summary()
    assert (cuda.get_arch_list(), cuda.get_gencode_flags()) == ([], "")
    assert not cuda.is_current_stream_capturing()
    with cuda.device(None), cuda.device(-1), cuda.stream(None), cuda.device_of(tinyt.ones(1)):
        cuda.set_device(-1)
    assert not isinstance(tinyt.ones(1), cuda.FloatTensor)
    for call in (
        cuda.LongTensor,
        lambda: cuda.Event(enable_timing=True),
        cuda.Stream,
        cuda.CUDAGraph,
        cuda.current_stream,
        cuda.mem_get_info,
        lambda: cuda.device(0).__enter__(),
        lambda: cuda.set_rng_state_all([tinyt.ones(1)]),
    ):
        with pytest.raises(tinyt.DeviceError, match=r"there is no CUDA device: .*driver"):
            call()


# ------------------------------------------------------------------ layers


@pytest.mark.parametrize("one", [[2], (2,), 2, np.int64(2)])
def test_sizes_in_lists(one: Any) -> None:
    layer = nn.Conv2d(1, 1, one, stride=one, padding=one, dilation=one)
    assert layer.kernel_size == layer.stride == layer.padding == layer.dilation == (2, 2)
    assert nn.ConvTranspose3d(1, 1, 3, stride=one).stride == (2, 2, 2)
    with pytest.raises(ValueError, match="must be an int or 2 of them"):
        nn.Conv2d(1, 1, 3, stride=[1, 2, 3])


def test_hooks_by_their_names() -> None:
    layer = nn.Linear(1, 1)
    handle = layer.register_forward_pre_hook(print)
    assert list(layer._forward_pre_hooks.values()) == [print]
    assert dict(layer._forward_hooks) == {}
    del layer._forward_pre_hooks[handle.id]
    assert not layer._forward_pre_hooks
    layer._forward_hooks[7] = lambda module, inputs, output: output * 0
    assert layer(tinyt.ones(1)).tolist() == [0.0]


def test_weight_norm_warns() -> None:
    with pytest.warns(FutureWarning, match=r"parametrizations\.weight_norm"):
        layer = nn.utils.weight_norm(nn.Linear(2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.utils.spectral_norm(nn.Linear(2, 2))
    assert nn.utils.remove_weight_norm(layer) is layer
