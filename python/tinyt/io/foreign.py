"""What a file is that is no safetensors file, told by its first bytes, and what to do with it.

Nothing in such a file is run or unpickled; of a ZIP archive the names of its members are read.

Sources of the signatures: the formats' own specifications (APPNOTE of ZIP, HDF5, NPY of NumPy,
RFC 1952 of gzip, RFC 8878 of Zstandard, the xz format, GGUF, Git LFS), and Python's pickletools;
the number in PyTorch's files of before 1.6 is `torch.serialization.MAGIC_NUMBER`.
"""

from __future__ import annotations

from typing import BinaryIO, NamedTuple

HEAD_BYTES = 512
_MOST_NAMES = 100_000  # members of an archive that are looked at

_TORCH = (
    "it holds pickled code, which tinyt does not run. In a process "
    "without `tinyt run` and `tinyt.as_torch`, with PyTorch installed: "
    'state = torch.load(path, map_location="cpu", weights_only=True); '
    "net.load_state_dict(state) takes its tensors as they are, "
    'and safetensors.torch.save_file(state, "x.safetensors") makes a file that tinyt.load reads'
)
_NUMPY = "read it with numpy.load and make tensors with tinyt.from_numpy"
_UNPACK = "unpack it first"

_MAGIC = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")


class _Kind(NamedTuple):
    name: str
    advice: str


# Beginnings of files.
_SIGNATURES: tuple[tuple[bytes, _Kind], ...] = (
    (b"\x93NUMPY", _Kind("a NumPy array (.npy)", _NUMPY)),
    (b"\x89HDF\r\n\x1a\n", _Kind("an HDF5 file", "read it with h5py or Keras")),
    (b"\x1f\x8b", _Kind("compressed by gzip", _UNPACK + ", with gzip.open")),
    (b"BZh", _Kind("compressed by bzip2", _UNPACK + ", with bz2.open")),
    (b"\xfd7zXZ\x00", _Kind("compressed by xz", _UNPACK + ", with lzma.open")),
    (b"\x28\xb5\x2f\xfd", _Kind("compressed by Zstandard", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", _Kind("a 7z archive", _UNPACK)),
    (b"GGUF", _Kind("a GGUF model", "read it with the gguf package")),
    (b"\x7fELF", _Kind("a program or library", "it holds no tensors")),
    (b"\x89PNG\r\n\x1a\n", _Kind("a PNG image", "read it with Pillow")),
    (b"\xff\xd8\xff", _Kind("a JPEG image", "read it with Pillow")),
    (b"%PDF", _Kind("a PDF document", "it holds no tensors")),
    (
        b"version https://git-lfs.github.com/spec/v1",
        _Kind("a pointer of Git LFS, not the file itself", "fetch the file with `git lfs pull`"),
    ),
)


def foreign_kind(file: BinaryIO) -> str | None:
    """What the file is and what to do with it, as the rest of a sentence that begins with its name;
    None where that is not known. The file is left at another position."""
    file.seek(0)
    head = file.read(HEAD_BYTES)
    kind = _kind_of(head, file)
    return None if kind is None else f"is {kind.name}, no safetensors file; {kind.advice}"


def _kind_of(head: bytes, file: BinaryIO) -> _Kind | None:
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _archive(file)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 2:
        if _MAGIC in head[:24]:
            return _Kind("a PyTorch checkpoint of the older kind", _TORCH)
        return _Kind("a pickle", "tinyt does not unpickle, as that runs code")
    for beginning, kind in _SIGNATURES:
        if head.startswith(beginning):
            return kind
    if head[257:262] == b"ustar":
        return _Kind("a tar archive", _UNPACK)
    return _text(head)


def _archive(file: BinaryIO) -> _Kind:
    """A ZIP archive, by the names in it."""
    import zipfile  # here: most programs that import tinyt load no such file

    try:
        with zipfile.ZipFile(file) as archive:
            names = [info.filename for info in archive.infolist()[:_MOST_NAMES]]
    except Exception:  # of many types, as the file may be anything
        return _Kind("a damaged ZIP archive (a PyTorch checkpoint or .npz?)", "get it again")
    ends = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in ends:
        return _Kind(
            "a TorchScript program (a ZIP archive with constants.pkl)",
            "in PyTorch, in a process without `tinyt run`, "
            'save torch.jit.load(path, map_location="cpu").state_dict() with '
            "safetensors.torch.save_file",
        )
    if "data.pkl" in ends:
        return _Kind("a PyTorch checkpoint (a ZIP archive with data.pkl)", _TORCH)
    if names and all(name.endswith(".npy") for name in names):
        return _Kind("arrays of NumPy (.npz)", _NUMPY)
    if any(name.endswith(".weights.h5") for name in names):
        return _Kind("a Keras model", "read it with Keras")
    return _Kind("a ZIP archive", _UNPACK)


def _text(head: bytes) -> _Kind | None:
    """Text, by having no control characters but blanks."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if len(start) < 8:
        return None
    if start[:14].lower() == b"<!doctype html" or start[:5].lower() == b"<html":
        return _Kind("a web page", "the download went wrong: it may ask to log in first")
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # a character may be cut at the end
            return None
        text = head[: error.start].decode("utf-8")
    if any(ord(c) < 32 and c not in "\t\r\n\f" for c in text) or "\x7f" in text:
        return None
    return _Kind("text", "it holds no tensors")
