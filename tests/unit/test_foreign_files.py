"""`load` says what a file is that it cannot read, and what to do; nothing in it is run."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt

MAGIC = 0x1950A86A20F9469CFC6C  # of PyTorch's files before 1.6


class Bomb:
    """Leaves a trace where it is unpickled."""

    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('unpickled')",)


def archive(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return out.getvalue()


def written(write: Callable[[Any], Any]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def tar() -> bytes:
    def write(out: Any) -> None:
        with tarfile.open(fileobj=out, mode="w") as made:
            made.addfile(tarfile.TarInfo("sys_info"))

    return written(write)


BOMB = pickle.dumps(Bomb(), protocol=2)
FILES: dict[str, tuple[bytes, str]] = {
    "checkpoint": (
        archive(a__data_dot_pkl=BOMB, a__data__0=b"\0" * 8),
        r"a PyTorch checkpoint .*data\.pkl.*torch\.load.*load_state_dict.*safetensors",
    ),
    "script": (archive(a__constants_dot_pkl=BOMB, a__data_dot_pkl=BOMB), "a TorchScript program"),
    "npz": (written(lambda out: np.savez(out, x=np.ones(2), y=np.ones(1))), r"numpy\.load"),
    "npy": (written(lambda out: np.save(out, np.ones(2))), r"a NumPy array \(\.npy\)"),
    "keras": (archive(model_dot_weights_dot_h5=b"x"), "a Keras model"),
    "zip": (archive(a=b"x"), "a ZIP archive"),
    "empty zip": (archive(), "a ZIP archive"),
    "cut zip": (archive(a__data_dot_pkl=BOMB)[:-20], "a damaged ZIP archive"),
    "older checkpoint": (
        pickle.dumps(MAGIC, protocol=2) + pickle.dumps(1001, protocol=2) + BOMB,
        r"a PyTorch checkpoint of the older kind.*torch\.load",
    ),
    "pickle": (BOMB, "a pickle.*does not unpickle"),
    "newest pickle": (pickle.dumps({"a": Bomb()}, protocol=5), "a pickle"),
    "first pickle": (pickle.dumps({"a": Bomb()}, protocol=0), "text"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "an HDF5 file"),
    "gzip": (gzip.compress(b"abc" * 10), r"gzip.*gzip\.open"),
    "bzip2": (bz2.compress(b"abc" * 10), "bzip2"),
    "xz": (lzma.compress(b"abc" * 10), "xz"),
    "zstandard": (b"\x28\xb5\x2f\xfd" + b"\1" * 20, "Zstandard"),
    "tar": (tar(), "a tar archive"),
    "gguf": (b"GGUF\3\0\0\0" + b"\0" * 20, "a GGUF model"),
    "png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "a PNG image"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
    "page": (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "a web page.*log in"),
    "json": (b'{"a": [1, 2, 3], "b": "text"}', "text"),
    "text": ("größe,höhe\n1.5,2.5\n".encode() * 100, "text"),
}


@pytest.mark.parametrize("kind", FILES)
def test_kinds(kind: str, tmp_path: Path) -> None:
    content, expected = FILES[kind]
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises(tinyt.SerializationError, match=f"model.pt is .*{expected}"):
        tinyt.load(path)
    with pytest.raises(tinyt.SerializationError, match=f"the file is .*{expected}"):
        tinyt.load(io.BytesIO(content))


def test_what_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(tinyt.SerializationError, match="at least 8 bytes"):
        tinyt.load(io.BytesIO(b""))
    with pytest.raises(tinyt.SerializationError, match="header claims"):
        tinyt.load(io.BytesIO(b"\1\2\3\4\5\6\7\x08" + bytes(range(40))))


@given(
    st.sampled_from([content[:n] for content, _ in FILES.values() for n in (2, 8, 11, 30, 300)]),
    st.binary(max_size=300),
)
def test_beginnings_of_files(start: bytes, rest: bytes) -> None:
    """Whatever follows is a SerializationError, and is not run."""
    with pytest.raises(tinyt.SerializationError):
        tinyt.load(io.BytesIO(start + rest))


@given(st.text(max_size=40), st.integers(1, 300))
def test_our_own_files_are_read(name: str, size: int) -> None:
    """A header of any length is one, whatever its first bytes spell."""
    if name == "__metadata__" or any(0xD800 <= ord(c) < 0xE000 for c in name):
        return
    out = io.BytesIO()
    tinyt.save({name + "x" * size: tinyt.ones(2)}, out)
    assert list(tinyt.load(io.BytesIO(out.getvalue()))) == [name + "x" * size]
