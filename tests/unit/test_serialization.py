"""save and load: round trips, the safetensors package as reference, hostile files, interruption."""

import gzip
import io
import json
import math
import os
import struct
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import tinyt
from tinyt import nn, ops, optim
from tinyt.io import atomic
from tinyt.serialization import SerializationError

try:
    import torch
except ImportError:
    torch = None

try:
    import safetensors.numpy
except ImportError:
    safetensors = None
else:
    if torch is not None:
        import safetensors.torch

needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")
needs_safetensors = pytest.mark.skipif(safetensors is None, reason="reads and writes with it")

REAL_DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


def same(a, b):
    """Equality of nested data, of types and of bits; NaN equals NaN."""
    if isinstance(a, tinyt.Tensor):
        return (
            isinstance(b, tinyt.Tensor)
            and a.dtype == b.dtype
            and tuple(a.shape) == tuple(b.shape)
            and a.detach().float().numpy().tobytes() == b.float().numpy().tobytes()
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


def file_of(header, data=b"", length=None):
    """The bytes of a file with this header (text, or an object to write as JSON)."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


# Round trips -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "obj",
    [
        {},
        [],
        (),
        None,
        True,
        -3,
        2**80,
        0.1,
        -0.0,
        "text é \u2028",
        [1, 1.0, True, None, "1", (1, [2, ()])],
        {"a": {"b": [{"c": 1}]}},
        {1: "int", "1": "text", 1.5: "float", None: "none", False: "bool"},
        {"tensor": "not one", "dict": {}, "items": [[1, 2]], "float": "nan", "tuple": [1]},
        [math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308],
        {"__metadata__": {"__metadata__": 1}},
    ],
)
def test_plain_values_round_trip(path, obj):
    tinyt.save(obj, path)
    assert same(obj, tinyt.load(path))
    assert math.copysign(1, tinyt.load(path)) == -1 if obj == 0 and type(obj) is float else True


def test_numbers_of_numpy_become_plain(path):
    given = {
        "best": np.float32(0.5),
        "epochs": [np.int64(3), np.uint8(255)],
        "done": np.bool_(True),
        "double": np.float64(0.1),
        "inf": np.float16(np.inf),
        np.int64(7): 1,
    }
    tinyt.save(given, path)
    found = tinyt.load(path)
    assert found == given
    kinds = [type(x) for x in (*found, *found.values())]
    assert kinds == [*[str] * 5, int, float, list, bool, float, float, int]
    assert [type(x) for x in found["epochs"]] == [int, int]
    with pytest.raises(TypeError, match="complex64 at z"):
        tinyt.save({"z": np.complex64(1)}, path)


def test_tensors_in_nested_data_round_trip(path):
    obj = {
        "model": OrderedDict(w=ops.randn(3, 4), b=ops.zeros(())),
        "list": [ops.arange(3), (ops.ones(2, dtype=tinyt.bool), "x")],
        "empty": ops.zeros(0, 3),
        7: {"a.b": ops.ones(1), "a": {"b": ops.zeros(1)}},
        "__metadata__": ops.ones(2),
    }
    tinyt.save(obj, path)
    loaded = tinyt.load(path)
    obj["model"] = dict(obj["model"])  # a subclass comes back as its base
    assert same(obj, loaded)


def test_one_tensor_and_views_round_trip(path):
    base = ops.arange(12, dtype=tinyt.float32).reshape(3, 4)
    for value in (base, base.t(), base[1:, ::2], base[1, 2], nn.Parameter(base)):
        tinyt.save(value, path)
        loaded = tinyt.load(path)
        assert same(value, loaded)
        assert type(loaded) is tinyt.Tensor
        assert not loaded.requires_grad
    loaded.fill_(0)  # its memory is its own
    assert base.sum().item() == 66


@pytest.mark.parametrize("nested", [False, True])
def test_state_dicts_keep_the_versions_of_modules(path, nested):
    state = nn.Sequential(nn.BatchNorm1d(2), nn.ReLU()).state_dict()
    tinyt.save({"model": state, "step": 3} if nested else state, path)
    loaded = tinyt.load(path)["model"] if nested else tinyt.load(path)
    assert type(loaded) is OrderedDict
    assert {k: v.tolist() for k, v in loaded.items()} == {k: v.tolist() for k, v in state.items()}
    assert loaded._metadata == state._metadata
    assert loaded._metadata["0"] == {"version": 2}
    del loaded._metadata
    tinyt.save(loaded, path)
    assert type(tinyt.load(path)) is dict
    state._metadata = {"": {"scale": ops.ones(1) if not nested else object()}}
    with pytest.raises(TypeError, match="_metadata"):
        tinyt.save({"model": state, "step": 3} if nested else state, path)


@pytest.mark.parametrize("versions", ["[", "3", '{"dict":{"":1}}', '{"tensor":"a"}', "{}"])
def test_hostile_versions(path, versions):
    header = {"__metadata__": {"tinyt.state_dict": versions}, "a": entry()}
    path.write_bytes(file_of(header, b"\0" * 8))
    with pytest.raises(SerializationError, match="load: "):
        tinyt.load(path)


@pytest.mark.parametrize("name", [*REAL_DTYPES, "bfloat16"])
def test_every_dtype_round_trips(path, name):
    values = ops.tensor([0.0, 1.0, 1.0, 0.0, 1.0]).to(getattr(tinyt, name))
    tinyt.save({"x": values, "y": [values[:3]]}, path)
    loaded = tinyt.load(path)
    assert same(values, loaded["x"])
    assert same(values[:3], loaded["y"][0])


def test_training_state_round_trips_exactly(path):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = optim.AdamW(net.parameters(), amsgrad=True)
    net(ops.randn(5, 3)).sum().backward()
    optimizer.step()
    state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
    tinyt.save(state, path)
    loaded = tinyt.load(path)
    assert same(state, loaded)
    assert list(loaded["optimizer"]["state"]) == [0, 1, 2, 3]
    optimizer.load_state_dict(loaded["optimizer"])


def test_named_tuple_comes_back_as_tuple(path):
    tinyt.save(namedtuple("Point", "x y")(1, 2), path)
    assert tinyt.load(path) == (1, 2)


# The safetensors package -----------------------------------------------------------------------


@needs_safetensors
def test_safetensors_reads_what_we_write(path):
    arrays = {
        "b": np.array([True, False, True]),
        "a.weight": np.arange(6, dtype=np.float64).reshape(2, 3),
        "c": np.array(3, dtype=np.int16),
        "é": np.zeros((0, 2), dtype=np.float32),
    }
    tinyt.save({name: ops.from_numpy(array) for name, array in arrays.items()}, path)
    loaded = safetensors.numpy.load_file(path)
    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)
    assert list(tinyt.load(path)) == list(arrays)
    tinyt.save({"nested": [ops.ones(2)]}, path)
    assert list(safetensors.numpy.load_file(path)) == ["nested.0"]


@needs_safetensors
def test_we_read_what_safetensors_writes(path):
    arrays = {name: np.arange(5).astype(name) for name in REAL_DTYPES}
    safetensors.numpy.save_file(arrays, path, metadata={"format": "np"})
    loaded = tinyt.load(path)
    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == getattr(tinyt, name)
        np.testing.assert_array_equal(loaded[name].numpy(), array)


@needs_torch
@needs_safetensors
def test_bfloat16_agrees_with_safetensors_and_pytorch(path):
    theirs = torch.tensor([1.0, -2.5, 3e38, 1e-40]).bfloat16()
    safetensors.torch.save_file({"x": theirs}, path)
    ours = tinyt.load(path)["x"]
    assert ours.dtype == tinyt.bfloat16
    assert ours.float().tolist() == theirs.float().tolist()
    tinyt.save({"x": ours}, path)
    assert torch.equal(safetensors.torch.load_file(path)["x"], theirs)


def test_values_start_aligned(path):
    tinyt.save({"a": ops.ones(3, dtype=tinyt.bool), "b": ops.ones(2, dtype=tinyt.float64)}, path)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert header["b"]["data_offsets"] == [0, 16]
    assert header["a"]["data_offsets"] == [16, 19]


# Saving what cannot be saved -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "kind", "message"),
    [
        ({"a": [object()]}, TypeError, "cannot store an object of type object at a.0"),
        (b"bytes", TypeError, "type bytes at the top level"),
        ({(1, 2): 3}, TypeError, "dict keys must be .*, got tuple at the top level"),
        ({1: {2, 3}}, TypeError, "type set at 1"),
    ],
)
def test_unsupported_objects_leave_the_old_file(path, obj, kind, message):
    tinyt.save([1], path)
    with pytest.raises(kind, match=message):
        tinyt.save(obj, path)
    assert tinyt.load(path) == [1]


def test_data_that_contains_itself(path):
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested deeper than 100"):
        tinyt.save(loop, path)
    loop.clear()
    assert not path.exists()


# Interruption ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_interrupted_save_keeps_the_old_file_and_leaves_nothing(path, monkeypatch, step, error):
    tinyt.save({"x": ops.ones(3)}, path)

    def fail(*args):
        raise error("interrupted")

    monkeypatch.setattr(atomic.os, step, fail)
    with pytest.raises(error):
        tinyt.save({"x": ops.zeros(3)}, path)
    monkeypatch.undo()
    assert tinyt.load(path)["x"].tolist() == [1, 1, 1]
    assert os.listdir(path.parent) == [path.name]


def test_save_syncs_file_before_rename_and_folder_after(path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def record(*args, name=name, real=real):
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(atomic.os, name, record)
    tinyt.save([1], path)
    assert calls == ["fsync", "replace", "fsync"]


def test_save_writes_through_a_symbolic_link(path):
    real = path.with_name("real.safetensors")
    path.symlink_to(real)
    tinyt.save([1], path)
    assert path.is_symlink()
    assert tinyt.load(real) == [1]


def test_missing_files_and_folders(path):
    with pytest.raises(FileNotFoundError):
        tinyt.load(path)
    with pytest.raises(FileNotFoundError):
        tinyt.save([1], path / "deeper")


# Hostile files ---------------------------------------------------------------------------------


def test_every_truncation_is_an_error(path):
    tinyt.save({"a": ops.ones(2), "b": [1, ops.arange(3)]}, path)
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(SerializationError):
            tinyt.load(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(SerializationError, match="the file holds"):
        tinyt.load(path)


def test_flipped_bytes_never_crash(path):
    tinyt.save({"a": ops.ones(2), "b": [1, ops.arange(3)]}, path)
    content = path.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")
    for position in range(header_end):
        for value in (0x00, 0x22, 0x39, 0x7B, 0xFF):
            path.write_bytes(content[:position] + bytes([value]) + content[position + 1 :])
            try:
                tinyt.load(path)
            except SerializationError:
                continue


TWICE = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8"}}'
DEEP = 200_000

HOSTILE = {
    "empty": (b"", "at least 8 bytes"),
    "huge header length": (struct.pack("<Q", 2**64 - 1) + b"{}", "the limit is 100000000"),
    "header length beyond the file": (file_of({}, length=99), "only 2 follow"),
    "no object": (file_of(b"[]"), "does not start with"),
    "space first": (file_of(b" {}"), "does not start with"),
    "no JSON": (file_of(b'{"a":'), "not valid JSON"),
    "no UTF-8": (file_of(b'{"\xff":1}'), "not valid JSON"),
    "repeated name": (file_of(TWICE, b"\0"), "key 'a' occurs more than once"),
    "repeated field": (
        file_of(b'{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
        "key 'dtype' occurs more than once",
    ),
    "NaN": (file_of(b'{"a":{"dtype":NaN}}'), "NaN is not a number"),
    "deep": (file_of(b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}"), "entry must have"),
    "endless number": (file_of(b'{"a":' + b"9" * 5000 + b"}"), "entry must have"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "must map text to text"),
    "metadata list": (file_of({"__metadata__": []}), "must map text to text"),
    "entry list": (file_of({"a": []}), "entry must have"),
    "missing field": (file_of({"a": {"dtype": "F32", "shape": []}}), "entry must have"),
    "extra field": (file_of({"a": {**entry(), "x": 1}}, b"\0" * 8), "entry must have"),
    "unknown dtype": (
        file_of({"a": entry("F4")}, b"\0" * 8),
        "unknown dtype 'F4'; readable are BOOL",
    ),
    "dtype list": (file_of({"a": entry([])}, b"\0" * 8), r"unknown dtype \[\]"),
    "negative size": (file_of({"a": entry(shape=(-2, -1))}, b"\0" * 8), "non-negative integers"),
    "fractional size": (file_of({"a": entry(shape=(2.0,))}, b"\0" * 8), "non-negative integers"),
    "boolean size": (file_of({"a": entry(shape=(True, 2))}, b"\0" * 8), "non-negative integers"),
    "shape text": (file_of({"a": {**entry(), "shape": "2"}}, b"\0" * 8), "list of at most"),
    "rank": (file_of({"a": entry(shape=[1] * 1000, offsets=(0, 4))}, b"\0" * 4), "at most 64"),
    "huge size": (file_of({"a": entry(shape=(2**64,))}, b"\0" * 8), "non-negative integers"),
    "overflow": (file_of({"a": entry(shape=(2**32, 2**32))}, b"\0" * 8), "overflows 64 bits"),
    "overflow to the right size": (  # 8 * (2**61 + 1) is 8 modulo 2**64
        file_of({"a": entry("U8", (8, 2**61 + 1))}, b"\0" * 8),
        "overflows 64 bits",
    ),
    "overflow beside zero": (
        file_of({"a": entry(shape=(0, 2**40, 2**40), offsets=(0, 0))}),
        "overflows 64 bits",
    ),
    "large claim": (file_of({"a": entry(shape=(2**40,))}, b"\0" * 8), "needs 4398046511104 bytes"),
    "large claim and offsets": (
        file_of({"a": entry(shape=(2**40,), offsets=(0, 2**42))}, b"\0" * 8),
        "the file holds 8",
    ),
    "offsets beyond": (file_of({"a": entry()}, b"\0" * 7), "take 8 bytes of data"),
    "offsets negative": (file_of({"a": entry(offsets=(-8, 0))}, b"\0" * 8), "data_offsets must"),
    "offsets reversed": (file_of({"a": entry(offsets=(8, 0))}, b"\0" * 8), "data_offsets must"),
    "offsets three": (file_of({"a": entry(offsets=(0, 8, 8))}, b"\0" * 8), "data_offsets must"),
    "overlap": (
        file_of({"a": entry(), "b": entry(offsets=(4, 12))}, b"\0" * 12),
        "overlaps the tensor before it",
    ),
    "same data twice": (file_of({"a": entry(), "b": entry()}, b"\0" * 8), "overlaps"),
    "gap": (file_of({"a": entry(), "b": entry(offsets=(9, 17))}, b"\0" * 17), "leaves a gap"),
    "gap at the start": (file_of({"a": entry(offsets=(1, 9))}, b"\0" * 9), "leaves a gap"),
    "unclaimed data": (file_of({}, b"\0"), "the file holds 1"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_file(path, case):
    content, message = HOSTILE[case]
    path.write_bytes(content)
    with pytest.raises(SerializationError, match=message):
        tinyt.load(path)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ('{"tensor":"b"}', "bad object"),
        ('{"tensor":["a"]}', "bad object"),
        ('{"code":"print()"}', "bad object"),
        ('{"float":"1e3"}', "bad object"),
        ('{"float":["inf"]}', "bad object"),
        ('{"dict":[1]}', "bad object"),
        ('{"tuple":{}}', "bad object"),
        ('{"dict":{},"tuple":[]}', "one tag"),
        ("{}", "one tag"),
        ('{"items":[[1]]}', "pair"),
        ('{"items":[[[1],2]]}', "list is no dict key"),
        ('{"items":[[1,2],[1,3]]}', "occurs more than once"),
        ('{"dict":{"a":1,"a":2}}', "occurs more than once"),
        ("[" * 150 + "]" * 150, "nested deeper than 100"),
        ("[" * DEEP + "]" * DEEP, "nested too deeply"),
        ("[1", "the nesting is not valid JSON"),
        ("Infinity", "Infinity is not a number"),
        ('{"state_dict":[{"dict":{}}]}', "bad object"),
        ('{"state_dict":[1,{"dict":{}}]}', "dicts by module path"),
        ('{"state_dict":[{"dict":{}},{"dict":{"":1}}]}', "dicts by module path"),
        ('{"state_dict":[{"dict":{}},{"items":[[1,{"dict":{}}]]}]}', "dicts by module path"),
    ],
)
def test_hostile_nesting(path, tree, message):
    header = {"__metadata__": {"tinyt.object": tree}, "a": entry()}
    path.write_bytes(file_of(header, b"\0" * 8))
    with pytest.raises(SerializationError, match=message):
        tinyt.load(path)


def test_serialization_error_is_a_runtime_error():
    assert issubclass(SerializationError, RuntimeError)


@pytest.mark.parametrize("obj", [{"a": tinyt.arange(3)}, [tinyt.ones(2), {"epoch": 3}], None])
def test_open_files(obj, tmp_path):
    buffer = io.BytesIO(b"before")
    buffer.seek(0, os.SEEK_END)
    tinyt.save(obj, buffer)
    buffer.seek(len(b"before"))
    assert same(tinyt.load(buffer), obj)
    with open(tmp_path / "file", "wb") as file:
        tinyt.save(obj, file)
    with open(tmp_path / "file", "rb") as file:
        assert same(tinyt.load(file), obj)
    with gzip.open(tmp_path / "packed", "wb") as file:
        tinyt.save(obj, file)
    with gzip.open(tmp_path / "packed", "rb") as file:
        assert same(tinyt.load(file), obj)


def test_neither_path_nor_file():
    with pytest.raises(TypeError, match="save: expected a path or a binary file, got int"):
        tinyt.save({}, 3)
    with pytest.raises(TypeError, match="load: expected a path or a binary file, got NoneType"):
        tinyt.load(None)
    with pytest.raises(TypeError, match="load: the file must be opened in binary mode"):
        tinyt.load(io.StringIO("text"))
