"""Functions of `torch` with the arguments of its kernels, and other names beside the operations."""

from __future__ import annotations

import importlib
import io
import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from tinyt import native, native_layers, streams

EXPORTS = native.EXPORTS | native_layers.EXPORTS | streams.EXPORTS
BOTH = pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])


def values(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(low, high, shape)


def of(tt: Any, array: Any) -> Any:
    return tt.tensor(array)


def plain(x: Any) -> Any:
    """A result as lists and numbers."""
    if isinstance(x, (tuple, list)):
        return [plain(item) for item in x]
    return x.tolist() if hasattr(x, "tolist") else x


def rnn_params(v: Any, gates: int, inputs: int, hidden: int, biases: bool) -> list[Any]:
    return [v(gates, inputs), v(gates, hidden), *([v(gates), v(gates)] if biases else [])]


CALLS: dict[str, Callable[[Any, Callable[..., Any]], Any]] = {
    "batch_norm": lambda tt, v: tt.batch_norm(
        v(4, 3), v(3), v(3), v(3), v(3, low=0.1), False, 0.1, 1e-5, True
    ),
    "batch_norm training": lambda tt, v: tt.batch_norm(
        v(4, 3), None, None, None, None, True, 0.1, 1e-5, False
    ),
    "instance_norm": lambda tt, v: tt.instance_norm(
        v(2, 3, 5), v(3), v(3), None, None, True, 0.1, 1e-5, True
    ),
    "embedding": lambda tt, v: tt.embedding(v(5, 2), tt.tensor([0, 4, 2])),
    "embedding padded": lambda tt, v: tt.embedding(v(5, 2), tt.tensor([[0, 4]]), 1, False, False),
    "adaptive_max_pool1d": lambda tt, v: tt.adaptive_max_pool1d(v(1, 2, 7), 3),
    "max_pool1d_with_indices": lambda tt, v: tt.max_pool1d_with_indices(v(1, 2, 7), 3),
    "max_pool1d strides": lambda tt, v: tt.max_pool1d_with_indices(v(1, 2, 7), 3, 2, 1, 1, True),
    "grid_sampler": lambda tt, v: tt.grid_sampler(v(1, 1, 4, 4), v(1, 2, 2, 2), 0, 0, False),
    "grid_sampler_2d": lambda tt, v: tt.grid_sampler_2d(v(1, 1, 4, 4), v(1, 2, 2, 2), 2, 1, True),
    "affine_grid_generator": lambda tt, v: tt.affine_grid_generator(v(1, 2, 3), [1, 1, 2, 2], True),
    "native_layer_norm": lambda tt, v: tt.native_layer_norm(v(4, 3), [3], v(3), None, 1e-5),
    "native_channel_shuffle": lambda tt, v: tt.native_channel_shuffle(v(1, 4, 2, 2), 2),
    "binary_cross_entropy_with_logits": lambda tt, v: tt.binary_cross_entropy_with_logits(
        v(4), v(4, low=0.0), None, v(4, low=0.5), 2
    ),
    "cosine_embedding_loss": lambda tt, v: tt.cosine_embedding_loss(
        v(4, 3), v(4, 3), tt.tensor([1, -1, 1, -1]), 0.1, 0
    ),
    "ctc_loss": lambda tt, v: tt.ctc_loss(
        v(6, 2, 4).log_softmax(2), tt.tensor([[1, 2], [3, 1]]), [6, 5], [2, 2], 0, 1, False
    ),
    "hinge_embedding_loss": lambda tt, v: tt.hinge_embedding_loss(
        v(4), tt.tensor([1, -1, 1, -1]), 1.0, 1
    ),
    "kl_div": lambda tt, v: tt.kl_div(v(4), v(4, low=0.1), 2),
    "kl_div none": lambda tt, v: tt.kl_div(v(4), v(4), 3, log_target=True),
    "margin_ranking_loss": lambda tt, v: tt.margin_ranking_loss(
        v(4), v(5)[:4], tt.tensor([1, -1, 1, -1]), 0.2
    ),
    "poisson_nll_loss": lambda tt, v: tt.poisson_nll_loss(v(4), v(4, low=0), True, True, 1e-8, 1),
    "triplet_margin_loss": lambda tt, v: tt.triplet_margin_loss(
        v(4, 3), v(3, 4).t(), v(2, 6).reshape(4, 3), 1.0, 2, 1e-6, True, 0
    ),
    "lstm_cell": lambda tt, v: tt.lstm_cell(
        v(2, 3), (v(2, 4), v(2, 4)), v(16, 3), v(16, 4), v(16), v(16)
    ),
    "gru_cell": lambda tt, v: tt.gru_cell(v(2, 3), v(2, 4), v(12, 3), v(12, 4), v(12), v(12)),
    "rnn_tanh_cell": lambda tt, v: tt.rnn_tanh_cell(v(2, 3), v(2, 4), v(4, 3), v(4, 4)),
    "rnn_relu_cell": lambda tt, v: tt.rnn_relu_cell(v(2, 3), v(2, 4), v(4, 3), v(4, 4), v(4), v(4)),
    "alias_copy": lambda tt, v: tt.alias_copy(v(2, 3)),
    "as_strided_copy": lambda tt, v: tt.as_strided_copy(v(2, 3), (2, 2), (1, 2)),
    "detach_copy": lambda tt, v: tt.detach_copy(v(2, 3)),
    "diagonal_copy": lambda tt, v: tt.diagonal_copy(v(3, 3)),
    "expand_copy": lambda tt, v: tt.expand_copy(v(1, 3), (2, 3)),
    "permute_copy": lambda tt, v: tt.permute_copy(v(2, 3), (1, 0)),
    "select_copy": lambda tt, v: tt.select_copy(v(2, 3), 1, 0),
    "split_copy": lambda tt, v: tt.split_copy(v(4, 3), 2),
    "split_with_sizes_copy": lambda tt, v: tt.split_with_sizes_copy(v(4, 3), [1, 3]),
    "squeeze_copy": lambda tt, v: tt.squeeze_copy(v(1, 3)),
    "t_copy": lambda tt, v: tt.t_copy(v(2, 3)),
    "transpose_copy": lambda tt, v: tt.transpose_copy(v(2, 3), 0, 1),
    "unbind_copy": lambda tt, v: tt.unbind_copy(v(2, 3)),
    "unfold_copy": lambda tt, v: tt.unfold_copy(v(6), 0, 2, 2),
    "unsqueeze_copy": lambda tt, v: tt.unsqueeze_copy(v(2, 3), 1),
    "view_as_real_copy": lambda tt, v: tt.view_as_real_copy(tt.view_as_complex(v(3, 2))),
    "view_as_complex_copy": lambda tt, v: tt.view_as_real(tt.view_as_complex_copy(v(3, 2))),
    "view_copy": lambda tt, v: tt.view_copy(v(2, 3), (3, 2)),
    "frobenius_norm": lambda tt, v: tt.frobenius_norm(v(2, 3), [0, 1]),
    "frobenius_norm dim": lambda tt, v: tt.frobenius_norm(v(2, 3), [1], True),
    "_shape_as_tensor": lambda tt, v: tt._shape_as_tensor(v(2, 3)),
    "_softmax": lambda tt, v: tt._softmax(v(2, 3), 1, False),
    "_log_softmax": lambda tt, v: tt._log_softmax(v(2, 3), 0, False),
    "_is_all_true": lambda tt, v: tt._is_all_true(v(3) < 2),
    "_is_any_true": lambda tt, v: tt._is_any_true(v(3) > 2),
    "sym_int": lambda tt, v: [tt.sym_int(2.5), tt.sym_int(-2.5)],
    "sym_float": lambda tt, v: tt.sym_float(2),
    "sym_max": lambda tt, v: [tt.sym_max(1, 2.0), tt.sym_max(3, 2), tt.sym_max(1.0, 1)],
    "sym_min": lambda tt, v: [tt.sym_min(1, 2.0), tt.sym_min(3, 2)],
    "sym_not": lambda tt, v: tt.sym_not(False),
    "sym_ite": lambda tt, v: tt.sym_ite(True, 1, 2),
    "sym_sum": lambda tt, v: tt.sym_sum([1, 2]),
    "get_autocast_gpu_dtype": lambda tt, v: str(tt.get_autocast_gpu_dtype()).rpartition(".")[2],
    "get_autocast_xla_dtype": lambda tt, v: str(tt.get_autocast_xla_dtype()).rpartition(".")[2],
    "is_autocast_xla_enabled": lambda tt, v: tt.is_autocast_xla_enabled(),
    "_assert": lambda tt, v: tt._assert(True, "never"),
    "_check": lambda tt, v: tt._check(True),
    "_check_is_size": lambda tt, v: tt._check_is_size(3, max=4),
    "get_device_module": lambda tt, v: tt.get_device_module("cpu").is_available(),
    "lstm": lambda tt, v: tt.lstm(
        v(5, 2, 3),
        (v(1, 2, 4), v(1, 2, 4)),
        rnn_params(v, 16, 3, 4, True),
        True,
        1,
        0.0,
        False,
        False,
        False,
    ),
    "lstm both ways, two layers": lambda tt, v: tt.lstm(
        v(2, 5, 4),
        (v(4, 2, 2), v(4, 2, 2)),
        4 * rnn_params(v, 8, 4, 2, False),
        False,
        2,
        0.0,
        True,
        True,
        True,
    ),
    "lstm projected": lambda tt, v: tt.lstm(
        v(5, 2, 3),
        (v(1, 2, 2), v(1, 2, 4)),
        [*rnn_params(v, 16, 3, 2, True), v(2, 4)],
        True,
        1,
        0.0,
        False,
        False,
        False,
    ),
    "lstm packed": lambda tt, v: tt.lstm(
        v(6, 3),
        tt.tensor([3, 2, 1]),
        (v(1, 3, 4), v(1, 3, 4)),
        rnn_params(v, 16, 3, 4, True),
        True,
        1,
        0.0,
        False,
        False,
    ),
    "gru": lambda tt, v: tt.gru(
        v(5, 2, 3), v(1, 2, 4), rnn_params(v, 12, 3, 4, True), True, 1, 0.0, False, False, False
    ),
    "gru packed": lambda tt, v: tt.gru(
        v(6, 3),
        tt.tensor([3, 2, 1]),
        v(1, 3, 4),
        rnn_params(v, 12, 3, 4, True),
        True,
        1,
        0.0,
        False,
        False,
    ),
    "rnn_tanh": lambda tt, v: tt.rnn_tanh(
        v(2, 5, 3), v(1, 2, 4), rnn_params(v, 4, 3, 4, False), False, 1, 0.0, False, False, True
    ),
    "rnn_relu": lambda tt, v: tt.rnn_relu(
        v(5, 2, 3), v(1, 2, 4), rnn_params(v, 4, 3, 4, True), True, 1, 0.0, False, False, False
    ),
    "convolution": lambda tt, v: tt.convolution(
        v(1, 4, 5, 5), v(2, 2, 3, 3), v(2), [2, 1], [1, 0], [1, 2], False, [0, 0], 2
    ),
    "convolution transposed": lambda tt, v: tt.convolution(
        v(1, 4, 5), v(4, 2, 3), None, [2], [1], [1], True, [1], 2
    ),
    "embedding_bag mean": lambda tt, v: tt.embedding_bag(
        v(5, 2), tt.tensor([1, 2, 4, 3]), tt.tensor([0, 2, 4]), False, 1
    ),
    "embedding_bag max": lambda tt, v: tt.embedding_bag(
        v(5, 2), tt.tensor([1, 2, 4, 3]), tt.tensor([0, 0, 2]), False, 2, False, None, False
    ),
    "embedding_bag padded": lambda tt, v: tt.embedding_bag(
        v(5, 2), tt.tensor([1, 2, 4, 3]), tt.tensor([0, 2, 4]), False, 2, False, None, True, 2
    ),
    "embedding_bag sum": lambda tt, v: tt.embedding_bag(
        v(5, 2), tt.tensor([1, 2, 4, 3]), tt.tensor([0, 2]), False, 0, False, v(4)
    )[0],
    "linalg.vander": lambda tt, v: tt.linalg.vander(v(2, 3), N=4),
    "linalg.vander integers": lambda tt, v: tt.linalg.vander(tt.tensor([2, 3])),
    "unravel_index": lambda tt, v: importlib.import_module(
        f"{tt.__name__}.functional"
    ).unravel_index(tt.tensor([5]), (2, 3)),
    "stream": lambda tt, v: [
        tt.Stream() == tt.Stream("cpu"),
        tt.Stream().query(),
        tt.Event().query(),
        tt.Event().synchronize(),
        tt.Stream().wait_event(tt.Event()),
        str(tt.Stream().device),
        tt.Stream().stream_id,
        tt.cpu.Event().query(),
    ],
    "reversed": lambda tt, v: reversed(v(2, 3)),
    "reversed number": lambda tt, v: reversed(tt.tensor(3)),
    "reversed none": lambda tt, v: reversed(v(0)),
    "flat": lambda tt, v: inner(tt)._flatten_dense_tensors([v(2), v(1, 2)]),
    "unflat": lambda tt, v: inner(tt)._unflatten_dense_tensors(v(4), [v(2), v(1, 2)]),
    "taken": lambda tt, v: list(inner(tt)._take_tensors([v(2), v(1, 2), v(5)], 40)),
}


def inner(tt: Any) -> Any:
    return importlib.import_module(f"{tt.__name__}._utils")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    def run(tt: Any) -> Any:
        def v(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
            return of(tt, values(*shape, low=low, high=high))

        return plain(CALLS[name](tt, v))

    assert_alike(run(tinyt), run(torch))


def assert_alike(ours: Any, theirs: Any) -> None:
    """The same nesting, and numbers that are equal to rounding."""
    assert type(ours) is type(theirs)
    if isinstance(ours, list):
        for a, b in zip(ours, theirs, strict=True):
            assert_alike(a, b)
    elif isinstance(ours, float):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_names_are_pytorchs(name: str) -> None:
    assert hasattr(torch, name)
    assert getattr(tinyt, name) is EXPORTS[name]


ERRORS: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "kl_div": (lambda tt: tt.kl_div(tt.ones(2), tt.ones(2), reduction="sum"), TypeError),
    "_assert": (lambda tt: tt._assert(False, "hm"), AssertionError),
    "_assert_async": (lambda tt: tt._assert_async(tt.tensor(False)), RuntimeError),
    "_check": (lambda tt: tt._check(False, lambda: "hm"), RuntimeError),
    "_check_index": (lambda tt: tt._check_index(False), IndexError),
    "_check_is_size": (lambda tt: tt._check_is_size(-1), RuntimeError),
    "_check_type": (lambda tt: tt._check_type(False), TypeError),
    "_check_value": (lambda tt: tt._check_value(False), ValueError),
    "_check_with": (lambda tt: tt._check_with(KeyError, False, lambda: "hm"), KeyError),
    "_check_not_implemented": (lambda tt: tt._check_not_implemented(False), NotImplementedError),
    "_check_tensor_all": (lambda tt: tt._check_tensor_all(tt.tensor([True, False])), RuntimeError),
    "no tensors": (lambda tt: inner(tt)._flatten_dense_tensors([]), ValueError),
    "seed": (lambda tt: tt.Generator().manual_seed(2**64), ValueError),
    "accelerator": (lambda tt: tt.accelerator.synchronize(), RuntimeError),
    "accelerator index": (lambda tt: tt.accelerator.set_device_index(0), RuntimeError),
    "mps state": (lambda tt: tt.mps.get_rng_state(), RuntimeError),
    "cuda type": (lambda tt: tt.set_default_tensor_type(tt.cuda.FloatTensor), TypeError),
    "cuda type name": (lambda tt: tt.set_default_tensor_type("torch.cuda.FloatTensor"), TypeError),
    "make_tensor": (
        lambda tt: tt.testing.make_tensor(2, dtype=tt.int64, device="cpu", low=5, high=5),
        ValueError,
    ),
    "make_tensor nan": (
        lambda tt: tt.testing.make_tensor(2, dtype=tt.float32, device="cpu", low=math.nan),
        ValueError,
    ),
    "make_tensor grad": (
        lambda tt: tt.testing.make_tensor(2, dtype=tt.int64, device="cpu", requires_grad=True),
        ValueError,
    ),
    "location": (lambda tt: loaded(tt, {"cpu": "xpu:0"}), RuntimeError),
    "location name": (lambda tt: loaded(tt, "xpu:0"), RuntimeError),
    "location kind": (lambda tt: loaded(tt, 3), TypeError),
    "location result": (lambda tt: loaded(tt, lambda s, where: "nonsense"), TypeError),
    "stream": (lambda tt: tt.Stream().record_event(), RuntimeError),
    "stream wait": (lambda tt: tt.Stream().wait_stream(tt.Stream()), RuntimeError),
    "event": (lambda tt: tt.Event().record(), RuntimeError),
    "event times": (lambda tt: tt.Event().elapsed_time(tt.Event()), ValueError),
    "stream of xpu": (lambda tt: tt.Stream("xpu"), RuntimeError),
    "vander": (lambda tt: tt.linalg.vander(tt.ones(1)), RuntimeError),
    "storage": (lambda tt: tt.FloatStorage("a"), TypeError),
    "length": (lambda tt: len(iter(tt.utils.data.DataLoader(stream(tt)))), TypeError),
}


def stream(tt: Any) -> Any:
    class Stream(tt.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter([1])

    return Stream()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ERRORS)
@BOTH
def test_errors(tt: Any, name: str) -> None:
    call, kind = ERRORS[name]
    with pytest.raises(kind):
        call(tt)


def loaded(tt: Any, location: Any, **options: Any) -> Any:
    file = io.BytesIO()
    tt.save({"a": tt.ones(2)}, file)
    file.seek(0)
    return tt.load(file, map_location=location, **options)["a"].tolist()


@pytest.mark.parametrize(
    "location",
    [
        None,
        "cpu",
        lambda s, where: s,
        lambda s, where: None,
        {"cuda:0": "cpu"},
        {"cuda:1": "cuda:0"},
        {"cpu": "cpu"},
    ],
)
@BOTH
def test_locations(tt: Any, location: Any) -> None:
    assert loaded(tt, location) == loaded(tt, tt.device("cpu")) == [1, 1]


@BOTH
def test_a_location_function_gets_storages(tt: Any) -> None:
    seen: list[Any] = []

    def move(storage: Any, location: str) -> Any:
        seen.append((storage.nbytes(), location))
        return storage.cpu()

    loaded(tt, move)
    assert seen == [(8, "cpu")]


@pytest.mark.filterwarnings("ignore")
@BOTH
def test_options_of_files(tt: Any) -> None:
    import pickle

    assert loaded(tt, None, weights_only=True, mmap=False, encoding="latin1") == [1, 1]
    assert loaded(tt, None, weights_only=False, pickle_module=pickle) == [1, 1]
    for options in (
        {"_use_new_zipfile_serialization": False},
        {"pickle_module": pickle, "pickle_protocol": 2},
        {"_disable_byteorder_record": True},
    ):
        file = io.BytesIO()
        tt.save([1], file, **options)
        file.seek(0)
        assert tt.load(file) == [1]


@pytest.mark.filterwarnings("ignore")
@BOTH
def test_storages(tt: Any) -> None:
    assert tt.UntypedStorage(8).nbytes() == 8
    assert tt.UntypedStorage().nbytes() == 0
    assert tt.UntypedStorage([1, 300]).tolist() == [1, 44]
    assert tt.UntypedStorage(3).fill_(2).tolist() == [2, 2, 2]
    assert tt.UntypedStorage([1, 2]).copy_(tt.UntypedStorage([3, 4])).tolist() == [3, 4]
    assert tt.FloatStorage(3).size() == 3
    assert tt.LongStorage([1, 2])[1] == 2
    assert tt.FloatStorage([1, 2]).dtype == tt.float32
    assert tt.TypedStorage([1, 2], dtype=tt.int32).tolist() == [1, 2]
    x = tt.ones(2)
    shared = tt.TypedStorage(wrap_storage=x.untyped_storage(), dtype=tt.float32)
    shared[0] = 5.0
    assert x.tolist() == [5, 1]
    assert isinstance(x.storage(), tt.FloatStorage)
    assert not isinstance(x.storage(), tt.LongStorage)
    assert tt.FloatTensor(tt.FloatStorage([1.0, 2.0])).tolist() == [1, 2]
    assert tt.UntypedStorage.from_buffer(b"ab", dtype=tt.uint8).tolist() == [97, 98]
    assert tt.FloatStorage([1, 2]).clone().tolist() == [1, 2]
    assert tt.Storage is tt.FloatStorage
    lines = repr(tt.FloatStorage([1, 2])).replace("tinyt", "torch").splitlines()
    assert lines[-1] == "[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 2]"


@BOTH
def test_seeds(tt: Any) -> None:
    generator = tt.Generator()
    assert generator.initial_seed() == 67280421310721
    for seed, found in ((-1, 2**64 - 1), (-(2**63), 2**63), (2**64 - 1, 2**64 - 1), (5, 5)):
        assert generator.manual_seed(seed).initial_seed() == found
    generator.manual_seed(3)
    tt.rand(5, generator=generator)
    twin = generator.clone_state()
    assert tt.rand(5, generator=twin).tolist() == tt.rand(5, generator=generator).tolist()
    assert twin.initial_seed() == 3


@pytest.mark.parametrize("name", ["tinyt", "torch"])
def test_processes_draw_differently(name: str) -> None:
    code = f"import {name} as t; print(t.initial_seed(), t.rand(1).item())"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout.split() != runs[1].stdout.split()


@BOTH
def test_lengths_of_iterators(tt: Any) -> None:
    loader = tt.utils.data.DataLoader([1, 2, 3], batch_size=2)
    batches = iter(loader)
    assert len(batches) == 2
    next(batches)
    assert len(batches) == 2


DTYPES = ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "options",
    [{}, {"low": 0, "high": 2}, {"exclude_zero": True}, {"noncontiguous": True}],
    ids=str,
)
def test_make_tensor(dtype: str, options: dict[str, Any]) -> None:
    found = []
    for tt in (tinyt, torch):
        x = tt.testing.make_tensor(40, 50, dtype=getattr(tt, dtype), device="cpu", **options)
        parts = tt.view_as_real(x) if x.is_complex() else x
        low, high = float(parts.min()), float(parts.max())
        found.append((tuple(x.shape), x.stride(), str(x.dtype).rpartition(".")[2]))
        found.append((round(low), round(high), bool((x == 0).any())))
    assert found[0] == found[2]
    assert found[1][:2] == pytest.approx(found[3][:2], abs=0 if "int" in dtype else 0.5)
    if dtype not in ("float16", "bfloat16", "float32", "complex64"):
        assert found[1][2] == found[3][2]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@BOTH
def test_assert_allclose(tt: Any) -> None:
    check = tt.testing.assert_allclose
    check(1.0, 1.00001)
    check(tt.tensor([1.0]), [1.00001])
    check(tt.tensor([1.0, math.nan]), tt.tensor([1.0, math.nan], dtype=tt.float64))
    with pytest.raises(AssertionError):
        check(tt.tensor([1.0]), tt.tensor([1.01]))
    check(tt.tensor([1.0]), tt.tensor([1.01]), rtol=0.1, atol=0)


PATHS = [
    *("utils.data.dataset.Dataset", "utils.data.sampler.SubsetRandomSampler"),
    *("utils.data.dataloader.DataLoader", "utils.data.dataloader._BaseDataLoaderIter"),
    *("utils.data.distributed.DistributedSampler", "utils.data._utils.collate.default_collate"),
    *("utils.data._utils.collate.default_convert", "utils.data._utils.collate.collate"),
    *("utils.data._utils.worker.get_worker_info", "utils.data._utils.fetch._MapDatasetFetcher"),
    *("cuda.amp.custom_fwd", "cuda.amp.custom_bwd", "cuda.amp.autocast", "cuda.amp.GradScaler"),
    *("cuda.amp.autocast_mode.autocast", "cuda.amp.grad_scaler.GradScaler"),
    *("cuda.nvtx.range_push", "cuda.memory.memory_allocated", "cuda.random.manual_seed"),
    *("cuda.streams.Stream", "cuda.graphs.CUDAGraph", "cuda.profiler.profile", "cuda.set_stream"),
    *("autograd.function.InplaceFunction", "autograd.function.once_differentiable"),
    *("autograd.function.NestedIOFunction", "autograd.function.FunctionCtx"),
    *("autograd.anomaly_mode.detect_anomaly", "autograd.functional.jacobian"),
    *("nn.common_types._size_2_t", "nn._reduction.get_enum", "nn.modules.lazy.LazyModuleMixin"),
    *("nn.modules.adaptive.AdaptiveLogSoftmaxWithLoss", "nn.modules.linear.LazyLinear"),
    *("nn.modules.batchnorm.LazyBatchNorm1d", "nn.modules.conv.LazyConv2d"),
    *("nn.modules.linear.NonDynamicallyQuantizableLinear", "nn.modules.utils._ntuple"),
    *("nn.modules.instancenorm.LazyInstanceNorm1d", "nn.modules.dropout._DropoutNd"),
    *("nn.modules.utils.consume_prefix_in_state_dict_if_present",),
    *("nn.parameter.UninitializedParameter", "nn.init._calculate_fan_in_and_fan_out"),
    *("nn.init._calculate_correct_fan", "utils._contextlib._DecoratorContextManager"),
    *("utils._foreach_utils._group_tensors_by_device_and_dtype",),
    *("_utils._flatten_dense_tensors", "_C._log_api_usage_once", "__config__.show"),
    *("torch_version.TorchVersion", "version.git_version", "accelerator.current_stream"),
    *("mps.is_available", "library.register_fake", "library.impl_abstract"),
    *("storage.UntypedStorage", "optim.lr_scheduler.StepLR", "utils.checkpoint.checkpoint"),
]


@pytest.mark.parametrize("path", PATHS)
@BOTH
def test_paths(tt: Any, path: str) -> None:
    """As an import, and as attributes after `import torch` and an import of the package."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(f"{tt.__name__}.{module}"), name)
    owner = tt
    for part in module.split("."):
        owner = getattr(owner, part)
    assert getattr(owner, name) is found


PACKAGES = (
    *("optim", "optim.lr_scheduler", "utils", "utils.data", "utils.data._utils", "nn"),
    *("nn.modules", "nn.utils", "autograd", "amp", "cuda", "cuda.amp", "distributions"),
)
# In a process of its own: what other tests have imported are attributes too.
MISSING = """
import importlib, json, sys, types

missing = {}
for name in sys.argv[1:]:
    theirs = importlib.import_module(f"torch.{name}")
    ours = importlib.import_module(f"tinyt.{name}")
    missing[name] = [
        sub
        for sub in dir(theirs)
        if not sub.startswith("_")
        and isinstance(value := getattr(theirs, sub, None), types.ModuleType)
        and value.__name__.startswith("torch.")
        and not hasattr(ours, sub)
    ]
print(json.dumps(missing))
"""


# What has no counterpart here; docs/coming-from-pytorch.md says what to do instead.
ELSEWHERE = {
    "utils": {
        *("backcompat", "backend_registration", "cpp_backtrace", "deterministic"),
        *("throughput_benchmark", "weak"),
    },
    "utils.data": {"datapipes", "graph", "graph_settings"},
    "utils.data._utils": {"signal_handling"},
    "nn": {"intrinsic", "qat", "quantizable", "quantized"},
    "nn.modules": {"linear_cross_entropy_options"},
    "autograd": {"forward_ad", "profiler_legacy"},
    "cuda": {"gds", "green_contexts", "jiterator", "nccl", "sparse", "tunable"},
}


def test_submodules_are_attributes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MISSING, *PACKAGES], capture_output=True, text=True, check=True
    )
    found = {name: set(subs) for name, subs in json.loads(done.stdout).items()}
    assert found == {name: ELSEWHERE.get(name, set()) for name in PACKAGES}


@BOTH
def test_collate_functions(tt: Any) -> None:
    module = importlib.import_module(f"{tt.__name__}.utils.data._utils.collate")

    def joined(batch: Any, *, collate_fn_map: Any = None) -> Any:
        assert collate_fn_map is not None
        return sum(batch)

    found = module.collate([[1, 2], [3, 4]], collate_fn_map={int: joined})
    assert found == [4, 6]

    class Mine:
        pass

    with pytest.raises(TypeError):
        module.default_collate([Mine()])
    module.default_collate_fn_map[Mine] = lambda batch, *, collate_fn_map=None: len(batch)
    try:
        assert module.default_collate([(Mine(), 1.0), (Mine(), 2.0)])[0] == 2
    finally:
        del module.default_collate_fn_map[Mine]
    fetcher = importlib.import_module(f"{tt.__name__}.utils.data._utils.fetch")
    assert fetcher._MapDatasetFetcher([5, 6, 7], True, list, False).fetch([0, 2]) == [5, 7]


@pytest.mark.filterwarnings("ignore")
@BOTH
def test_custom_forward_of_cuda(tt: Any) -> None:
    class Double(tt.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        @tt.cuda.amp.custom_fwd(cast_inputs=tt.float16)
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @tt.cuda.amp.custom_bwd
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = tt.ones(2, requires_grad=True)
    y = Double.apply(x)
    y.sum().backward()
    assert y.dtype == tt.float32
    assert x.grad.tolist() == [2, 2]


@BOTH
def test_inplace_functions(tt: Any) -> None:
    class Add(tt.autograd.function.InplaceFunction):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        @tt.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    x = tt.ones(2, requires_grad=True)
    y = x * 1
    Add.apply(y)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


@BOTH
def test_fakes_by_name(tt: Any) -> None:
    name = f"test_names::{tt.__name__}_twice"

    def function(x: Any) -> Any:
        return x + x

    function.__annotations__ = {"x": tt.Tensor, "return": tt.Tensor}
    twice = tt.library.custom_op(name, function, mutates_args=())

    @tt.library.register_fake(name)  # type: ignore[untyped-decorator]
    def _(x: Any) -> Any:
        return tt.empty_like(x)

    tt.library.register_autograd(name, lambda ctx, g: 2 * g)
    x = tt.ones(2, requires_grad=True)
    twice(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError):
        tt.library.register_fake("test_names::nobody", lambda x: x)
