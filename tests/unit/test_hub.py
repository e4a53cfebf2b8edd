"""`tinyt.hub` and `utils.model_zoo`: folders and files of this machine."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest

import tinyt
from tinyt import hub
from tinyt.utils import model_zoo

CONFIG = '''
dependencies = ["tinyt"]
from parts import made as _made

def model(size=2, *, bias=True):
    """A layer."""
    return _made(size, bias)

def _hidden():
    pass

value = 3
'''
PARTS = """
import tinyt

def made(size, bias):
    return tinyt.nn.Linear(size, 1, bias=bias)
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "hubconf.py").write_text(CONFIG)
    (folder / "parts.py").write_text(PARTS)
    return folder


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    sys.modules.pop("parts", None)


def test_a_folder(repo: Path) -> None:
    before = list(sys.path)
    layer = hub.load(repo, "model", 3, bias=False, source="local")
    assert (layer.in_features, layer.bias) == (3, None)
    assert hub.load(str(repo), "model").in_features == 2  # a folder needs no source
    assert hub.list(repo, source="local") == ["model"]
    assert hub.help(repo, "model", source="local") == "A layer."
    assert sys.path == before


def test_what_is_not_there(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"nothing is downloaded; clone https://github.com/a/b"):
        hub.load("a/b", "model")
    with pytest.raises(FileNotFoundError, match=r"no hubconf\.py"):
        hub.load(tmp_path, "model", source="local")
    with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
        hub.load(repo, "nothing", source="local")
    with pytest.raises(RuntimeError, match="Cannot find callable value"):
        hub.load(repo, "value", source="local")
    with pytest.raises(ValueError, match='Unknown source: "x"'):
        hub.load(repo, "model", source="x")
    (repo / "hubconf.py").write_text("dependencies = ['tinyt', 'no_such_thing']\ndef f(): pass\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_thing"):
        hub.load(repo, "f", source="local")


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"weight": tinyt.tensor([1.0, 2.0])}
    path = tmp_path / "a b.safetensors"
    tinyt.save(state, path)
    found = hub.load_state_dict_from_url(path.as_uri())
    assert found["weight"].tolist() == [1.0, 2.0]
    assert model_zoo.load_url is hub.load_state_dict_from_url
    with pytest.raises(RuntimeError, match=r"nothing is downloaded; fetch https://x.org/m.pth"):
        hub.load_state_dict_from_url("https://x.org/m.pth", model_dir=str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    assert hub.get_dir() == str(tmp_path / "home" / "hub")
    folder = tmp_path / "home" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / f"m-{digest[:8]}.safetensors").write_bytes(path.read_bytes())
    url = f"https://x.org/m-{digest[:8]}.safetensors"
    assert "weight" in hub.load_state_dict_from_url(url, check_hash=True)
    (folder / "m-00000000.safetensors").write_bytes(path.read_bytes())
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.load_state_dict_from_url("https://x.org/m-00000000.safetensors", check_hash=True)
    monkeypatch.setattr(hub, "_dir", None)
    hub.set_dir(tmp_path / "other")
    assert hub.get_dir() == str(tmp_path / "other")


def test_copies(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"data")
    hub.download_url_to_file((tmp_path / "a").as_uri(), str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == b"data"
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file((tmp_path / "a").as_uri(), str(tmp_path / "c"), "00")
    with pytest.raises(RuntimeError, match="nothing is downloaded"):
        hub.download_url_to_file("https://x.org/a", str(tmp_path / "c"))
