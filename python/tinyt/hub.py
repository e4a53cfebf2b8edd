"""PyTorch's `torch.hub` for folders on this machine: their ``hubconf.py`` says what they offer.

Nothing is downloaded. `load(folder, name, source="local")` runs code of that folder, as PyTorch
does: use folders that you trust.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import unquote, urlparse

from tinyt import serialization

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

_CONFIG = "hubconf.py"
_HASH = re.compile(r"-([a-f0-9]*)\.")
_dir: str | None = None


def get_dir() -> str:
    """The folder for files of `load_state_dict_from_url`: that of `set_dir`, else "hub" in
    ``$TORCH_HOME``, ``$XDG_CACHE_HOME/torch`` or ``~/.cache/torch``."""
    if _dir is not None:
        return _dir
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder of `get_dir`."""
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


def _folder(op: str, repo: str | os.PathLike[str], source: str) -> Path:
    """The folder that is meant; an error for what would be a download."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    path = Path(repo).expanduser()
    if source == "local" or path.is_dir():
        if not (path / _CONFIG).is_file():
            raise FileNotFoundError(f"hub.{op}: {path} has no {_CONFIG}")
        return path.resolve()
    raise RuntimeError(
        f"hub.{op}: nothing is downloaded; clone https://github.com/{repo} and call "
        f'hub.{op}(folder, ..., source="local")'
    )


@contextmanager
def _configuration(folder: Path) -> Iterator[ModuleType]:
    """The module of a folder, whose other modules can be imported inside the block."""
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(_CONFIG, folder / _CONFIG)
        if spec is None or spec.loader is None:
            raise ImportError(f"hub: cannot import {folder / _CONFIG}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(folder))


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    needed = getattr(module, "dependencies", [])
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    found = getattr(module, name, None)
    if found is None or not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found  # type: ignore[no-any-return]


def list(
    github: str | os.PathLike[str],
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
    verbose: bool = True,
    *,
    source: str = "github",
) -> builtins.list[str]:
    """The names of what a folder offers."""
    with _configuration(_folder("list", github, source)) as module:
        members = vars(module).items()
        return [name for name, x in members if callable(x) and not name.startswith("_")]


def help(
    github: str | os.PathLike[str],
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
    *,
    source: str = "github",
) -> str | None:
    """The docstring of what a folder offers under a name."""
    with _configuration(_folder("help", github, source)) as module:
        return _entry(module, model).__doc__


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str | None = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What a folder offers under a name, called with `args` and `kwargs`.

    Args:
        repo_or_dir: a folder with a ``hubconf.py``.
        model: the name of a function in it.
        source: "local"; with "github", where a folder of this name is not there, a RuntimeError:
            nothing is downloaded.
        trust_repo, force_reload, verbose, skip_validation: of PyTorch's downloads; no effect.

    Raises:
        FileNotFoundError: for a folder without a ``hubconf.py``.
        RuntimeError: where the function, or a package that it needs, is missing.
    """
    with _configuration(_folder("load", repo_or_dir, source)) as module:
        return _entry(module, model)(*args, **kwargs)


def _refuse_download(op: str, url: str, place: str) -> NoReturn:
    raise RuntimeError(
        f"hub.{op}: nothing is downloaded; fetch {url} yourself, and put it to {place} or read it "
        "with tinyt.load(path)"
    )


def _check_hash(path: str, name: str) -> None:
    """ValueError unless a file has the SHA-256 that its name says the beginning of."""
    found = _HASH.search(name)
    if found is None:
        return
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    if not digest.startswith(found[1]):
        raise RuntimeError(f'invalid hash value (expected "{found[1]}", got "{digest}")')


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Loads a file that is on this machine: of a ``file://`` URL, or one that was put to
    `model_dir` (``get_dir()/checkpoints`` by default) under the URL's last part or `file_name`.

    Args:
        check_hash: whether the file must have the SHA-256 that its name says the beginning of.
        map_location, weights_only: as `tinyt.load` takes them.
        progress: PyTorch's; no effect.

    RuntimeError for a file that is not there: nothing is downloaded.
    """
    parts = urlparse(url)
    name = file_name or os.path.basename(parts.path)
    if parts.scheme == "file":
        path = unquote(parts.path)
    else:
        path = os.path.join(model_dir or os.path.join(get_dir(), "checkpoints"), name)
        if not os.path.exists(path):
            _refuse_download("load_state_dict_from_url", url, path)
    if check_hash:
        _check_hash(path, name)
    return serialization.load(path, map_location)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Copies the file of a ``file://`` URL; RuntimeError for any other: nothing is downloaded."""
    parts = urlparse(url)
    if parts.scheme != "file":
        _refuse_download("download_url_to_file", url, dst)
    data = Path(unquote(parts.path)).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if hash_prefix is not None and not digest.startswith(hash_prefix):
        raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest}")')
    Path(dst).write_bytes(data)
