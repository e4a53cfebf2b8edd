"""Dtypes of the safetensors format that tinyt lacks, and complex128, which the format lacks."""

import io
import json
import math
import struct

import numpy as np
import pytest

import tinyt
from tinyt import ops
from tinyt.serialization import SerializationError

FLOATS = {
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


def file_of(dtype, shape, data, metadata=None):
    header = {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": [0, len(data)]}}
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    return io.BytesIO(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("name", FLOATS)
def test_every_8_bit_float_is_the_value_of_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    codes = np.arange(256, dtype=np.uint8)
    expected = codes.view(getattr(ml_dtypes, FLOATS[name])).astype(np.float32)
    loaded = tinyt.load(file_of(name, (16, 16), codes.tobytes()))["x"]
    assert loaded.dtype == tinyt.float32
    np.testing.assert_array_equal(loaded.numpy().reshape(-1), expected)
    zeros = expected == 0
    np.testing.assert_array_equal(
        np.signbit(loaded.numpy().reshape(-1)[zeros]), np.signbit(expected[zeros])
    )


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        ("F8_E4M3", 0x7E, 448.0),
        ("F8_E4M3", 0x01, 2.0**-9),
        ("F8_E4M3", 0xFF, math.nan),
        ("F8_E5M2", 0x7B, 57344.0),
        ("F8_E5M2", 0x01, 2.0**-16),
        ("F8_E5M2", 0xFC, -math.inf),
        ("F8_E8M0", 0x00, 2.0**-127),
        ("F8_E8M0", 0xFE, 2.0**127),
        ("F8_E8M0", 0xFF, math.nan),
        ("F8_E4M3FNUZ", 0x7F, 240.0),
        ("F8_E4M3FNUZ", 0x80, math.nan),
        ("F8_E5M2FNUZ", 0x7F, 57344.0),
        ("F8_E5M2FNUZ", 0x01, 2.0**-17),
    ],
)
def test_ends_of_the_8_bit_floats(name, code, value):
    loaded = tinyt.load(file_of(name, (), bytes([code])))["x"]
    np.testing.assert_array_equal(loaded.numpy(), np.float32(value))


@pytest.mark.parametrize(
    ("name", "stored", "dtype"),
    [("U16", "<u2", "int32"), ("U32", "<u4", "int64"), ("U64", "<u8", "int64")],
)
def test_unsigned_integers_keep_their_values(name, stored, dtype):
    largest = min(np.iinfo(stored).max, 2**63 - 1)
    values = np.array([0, 1, largest // 2 + 1, largest - 1, largest], dtype=stored)
    loaded = tinyt.load(file_of(name, (5, 1), values.tobytes()))["x"]
    assert loaded.dtype == getattr(tinyt, dtype)
    assert loaded.flatten().tolist() == values.tolist()
    assert tuple(tinyt.load(file_of(name, (0, 3), b""))["x"].shape) == (0, 3)


def test_unsigned_values_beyond_int64_are_an_error():
    values = np.array([1, 2**63], dtype="<u8")
    with pytest.raises(SerializationError, match="tensor 'x': U64 value 9223372036854775808 is"):
        tinyt.load(file_of("U64", (2,), values.tobytes()))


@pytest.mark.parametrize("name", ["U16", "F8_E5M2", "BOOL"])
def test_conversion_goes_piece_by_piece(name, monkeypatch):
    monkeypatch.setattr("tinyt.io.safetensors._CHUNK", 7)
    codes = (np.arange(100) % 2).astype({"U16": "<u2"}.get(name, "u1"))
    loaded = tinyt.load(file_of(name, (4, 25), codes.tobytes()))["x"]
    scale = 2.0**-16 if name == "F8_E5M2" else 1
    np.testing.assert_array_equal(loaded.numpy().reshape(-1), codes * scale)


@pytest.mark.parametrize("name", ["F4", "F6_E2M3", "F6_E3M2"])
def test_less_than_a_byte_is_refused(name):
    with pytest.raises(SerializationError, match=f"unknown dtype '{name}'; readable are BOOL, U8"):
        tinyt.load(file_of(name, (8,), b"\0" * 8))


@pytest.mark.parametrize("name", ["U16", "U32", "U64"])
def test_safetensors_unsigned(name, tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    values = np.arange(12, dtype=f"uint{name[1:]}").reshape(3, 4)
    numpy.save_file({"x": values}, tmp_path / "f")
    np.testing.assert_array_equal(tinyt.load(tmp_path / "f")["x"].numpy(), values)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4), (1,) * 64])
def test_complex128_round_trips(shape):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    x = ops.from_numpy(np.asarray(values))
    for obj in ({"x": x, "y": ops.ones(2, 2)}, [x, (x, {"z": x})]):
        file = io.BytesIO()
        tinyt.save(obj, file)
        file.seek(0)
        loaded = tinyt.load(file)
        back = loaded["x"] if isinstance(loaded, dict) else loaded[1][1]["z"]
        assert back.dtype == tinyt.complex128
        assert back.numpy().tobytes() == np.asarray(values).tobytes()
        assert tuple(back.shape) == shape


def test_complex_layouts_are_stored_as_they_read():
    x = ops.randn(3, 4, dtype=tinyt.complex128)
    for value in (x.t(), x[::2, 1:], x.conj(), x.to(tinyt.complex64).conj()):
        file = io.BytesIO()
        tinyt.save(value, file)
        file.seek(0)
        loaded = tinyt.load(file)
        assert loaded.dtype == value.dtype
        np.testing.assert_array_equal(loaded.numpy(), value.resolve_conj().numpy())


def test_other_programs_see_complex128_as_pairs(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    x = ops.tensor([1 + 2j, 3 - 4j], dtype=tinyt.complex128)
    tinyt.save({"x": x, "c": x.to(tinyt.complex64)}, tmp_path / "f")
    loaded = numpy.load_file(tmp_path / "f")
    np.testing.assert_array_equal(loaded["x"], [[1.0, 2.0], [3.0, -4.0]])
    assert loaded["c"].dtype == np.complex64


@pytest.mark.parametrize(
    ("names", "shape", "message"),
    [
        ("[", (2,), "not valid JSON"),
        ("{}", (2,), "must be a list of names"),
        ("[1]", (2,), "must be a list of names"),
        ('["y"]', (2,), "names 'y', which is no F64 tensor"),
        ('["x"]', (1, 1, 2, 1), "last dimension of 2"),
    ],
)
def test_hostile_lists_of_complex_tensors(names, shape, message):
    with pytest.raises(SerializationError, match=message):
        tinyt.load(file_of("F64", shape, bytes(16), {"tinyt.complex128": names}))
    with pytest.raises(SerializationError):
        tinyt.load(file_of("F32", (2,), bytes(8), {"tinyt.complex128": '["x"]'}))
    with pytest.raises(SerializationError, match="at most 64"):
        tinyt.load(file_of("F64", (1,) * 65, bytes(8)))


def test_bools_are_stored_as_0_and_1():
    x = ops.tensor([0, 2, 128, 1], dtype=tinyt.uint8).view(tinyt.bool)
    file = io.BytesIO()
    tinyt.save({"x": x}, file)
    assert file.getvalue()[-4:] == b"\0\1\1\1"
    file.seek(0)
    assert tinyt.load(file)["x"].tolist() == [False, True, True, True]


def test_every_stored_byte_but_0_is_true():
    x = tinyt.load(file_of("BOOL", (4,), b"\0\1\2\x80"))["x"]
    assert x.view(tinyt.uint8).tolist() == [0, 1, 1, 1]
