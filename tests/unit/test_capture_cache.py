"""What passes made of recordings, kept on disk: found again by content, and never believed."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
from drawn import same
from fuzz.case import function_of, inputs_of, nets_of
from fuzz.draw import drawn
from tinyt import Tensor, nn
from tinyt.compiler import set_cache_dir
from tinyt.compiler.capture import cache

pytestmark = pytest.mark.host
KNOWN = "simplified by an earlier process"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    set_cache_dir(tmp_path / "cache")
    yield tmp_path / "cache"
    set_cache_dir(None)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.graph"))


def function(x: Tensor) -> Tensor:
    return (x * 2 + 1).transpose(0, 1).contiguous().relu().sum(0) * 1.0


def test_found_again(folder: Path) -> None:
    x = tinyt.randn(3, 4)
    first = tinyt.compile(function)
    want = first(x)
    assert KNOWN not in first.explain()
    assert len(files(folder)) == 1
    again = tinyt.compile(function)
    again(x)
    assert KNOWN in again.explain()
    same(again(x), want)
    assert again.entries[0].program_object.steps() == first.entries[0].program_object.steps()
    assert str(again.report()) == str(first.report())
    other = tinyt.compile(lambda x: (x * 3 + 1).transpose(0, 1).contiguous().relu().sum(0) * 1.0)
    other(x)  # another number
    assert KNOWN not in other.explain()
    assert len(files(folder)) == 2


def test_drawn_graphs(folder: Path, request: pytest.FixtureRequest) -> None:
    """Graphs with backward passes, writes and loops: the results of one that was kept are those of
    one that was made."""
    seed = request.config.getoption("--seed")
    known = 0
    with np.errstate(all="ignore"):
        for number in range(40):
            case = drawn(np.random.default_rng([seed, number, 7]))
            found: list[Any] = []
            try:
                for _ in range(2):
                    nets = nets_of(case)
                    compiled = tinyt.compile(function_of(case, nets))
                    for _ in range(2):
                        tinyt.manual_seed(1)
                        result = compiled(*inputs_of(case))
                    found.append(result)
                    known += KNOWN in compiled.explain()
            except (RuntimeError, ValueError, IndexError, NotImplementedError):
                continue
            for x, y in zip(*map(tensors_in, found), strict=True):
                same(x, y)
    assert known >= 10


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in tensors_in(item)]
    if isinstance(value, dict):
        return [x for item in value.values() for x in tensors_in(item)]
    return [value.detach()] if isinstance(value, Tensor) else []


PROCESS = """
import tinyt
from tinyt import nn
tinyt.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = tinyt.optim.Adam(net.parameters())
@tinyt.compile
def step(x):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()
x = tinyt.randn(5, 4)
print([step(x).item().hex() for _ in range(4)], "earlier process" in step.explain())
"""


def test_another_process(folder: Path) -> None:
    environment = {**os.environ, "TINYT_CACHE_DIR": str(folder)}
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROCESS], env=environment, check=True, capture_output=True
        ).stdout.decode()
        for _ in range(2)
    ]
    assert printed[0].endswith("False\n")
    assert printed[1].endswith("True\n")
    assert printed[0].split("]")[0] == printed[1].split("]")[0]


@pytest.mark.parametrize("damage", ["empty", "cut", "other", "words", "missing"])
def test_damaged_files_are_as_none(damage: str, folder: Path) -> None:
    x = tinyt.randn(3, 4)
    want = tinyt.compile(function)(x)
    (path,) = files(folder)
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "other":
        tinyt.save({"nodes": tinyt.arange(3), "origins": tinyt.arange(2)}, path)
    elif damage == "words":
        for i in range(len(data) - 400, len(data)):
            data[i] ^= 0x55
        path.write_bytes(data)
    else:
        path.write_bytes(data[: len(data) // 2 if damage == "cut" else 0])
    again = tinyt.compile(function)
    same(again(x), want)
    same(again(x), want)
    assert KNOWN not in again.explain()
    third = tinyt.compile(function)  # it was written anew
    third(x)
    assert KNOWN in third.explain()


def test_every_word_changed(folder: Path) -> None:
    """Nothing that a file says is believed before it is checked: an error is a miss."""
    x = tinyt.randn(3, 4)
    compiled = tinyt.compile(function)
    compiled(x)
    core = compiled.entries[0].capture.core
    (path,) = files(folder)
    data = path.read_bytes()
    for at in range(0, len(data), 5):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        path.write_bytes(changed)
        cache.find(core)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are the system's own")
def test_a_folder_of_others_is_not_used(folder: Path) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match="is not used: others may write to it"):
        tinyt.compile(function)(tinyt.ones(2, 2))
    assert files(folder) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        tinyt.compile(function)(tinyt.ones(2, 2))
    set_cache_dir(folder / "a file" / "below")
    (folder / "a file").write_text("x")
    with pytest.warns(UserWarning, match="is not used"):
        tinyt.compile(function)(tinyt.ones(2, 2))


def test_off_unless_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYT_CACHE_DIR", str(folder))
    set_cache_dir(None)
    tinyt.compile(function)(tinyt.ones(2, 2))
    assert not folder.exists()


def test_control_flow_and_rewrites_are_made_anew(folder: Path) -> None:
    def scanned(x: Tensor) -> Tensor:
        return tinyt.scan(lambda c, r: (c + r, c), x[0], x)[1]

    compiled = tinyt.compile(scanned)
    compiled(tinyt.ones(3, 2))
    with tinyt.compiler.rewrite(lambda x: x * 2.0, lambda x: x + x):
        tinyt.compile(lambda x: x.exp() * 2)(tinyt.ones(2))
    assert files(folder) == []


def test_modules_in_training(folder: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    x = tinyt.randn(5, 4, requires_grad=True)
    found = []
    for _ in range(2):
        compiled = tinyt.compile(net)
        for _ in range(2):
            tinyt.manual_seed(3)
            y = compiled(x)
        x.grad = None
        y.sum().backward()
        assert x.grad is not None
        found.append((y.detach(), x.grad))
    for a, b in zip(*found, strict=True):
        same(a, b)
    assert KNOWN in compiled.compiled.explain()
