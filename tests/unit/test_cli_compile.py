"""`tinyt compile`: graphs as texts, through the command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tinyt
from c_library import ENVIRONMENT, FLAGS, LEVEL, compiles, has_fma
from tinyt.cli.__main__ import main
from tinyt.cli.compile import TARGETS

GRAPH = """
tinyt graph 1
def affine(%x, %w, %b) {
  %y = matmul(%x, %w)
  %z = add(%y, %b)
  return %z
}
%x = argument 0 : float32[4, 2]
%w = tensor "weight" : float32[2, 3]
%b = constant [0.5, 0, -1] : float32[3]
%h = affine(%x, %w, %b) : float32[4, 3]
%e = exp(%h)
%s = sum(%e, dims=[1], keepdim=true)
%r = div(%e, %s)
return %r, %s
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "softmax.txt").write_text(GRAPH, encoding="utf-8")
    tinyt.save({"weight": tinyt.randn(2, 3)}, tmp_path / "given.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMAND = ["compile", "softmax.txt", "--tensors", "given.safetensors"]


@pytest.mark.parametrize("target", [t for t in TARGETS if t != "c"])
def test_printed(target: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--target", target]) == 0
    printed = capsys.readouterr().out
    assert "exp sum div" in printed
    assert ("kernel_1" in printed) == (target != "report")
    assert main([*COMMAND, "--target", target, "--out", "made"]) == 0
    if target != "report":
        assert (folder / "made").read_text(encoding="utf-8") == printed


@compiles
@has_fma
def test_a_project(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--target", "c", "--out", "project"]) == 0
    names = [Path(line).name for line in capsys.readouterr().out.split()]
    assert names[:2] == ["softmax.h", "softmax.c"]
    sources = [str(p) for p in (folder / "project").glob("*.c")]
    fma = ["-mfma", "-mavx2"] if "x86" in LEVEL else []
    build = ["cc", *FLAGS, *fma, *sources, "-lm", "-o", "check"]
    subprocess.run(build, check=True, env=ENVIRONMENT)
    done = subprocess.run(["./check"], check=True, env=ENVIRONMENT, capture_output=True, text=True)
    assert "output_1: 4 elements" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "tinyt graph 1\n%x = argument 0 : float32[2]\n%y = nothing(%x)\nreturn %y\n",
        GRAPH.replace("float32[2, 3]", "float32[3, 3]"),
        "\xff",
    ],
)
def test_wrong_texts(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "softmax.txt").write_bytes(text.encode("latin-1"))
    assert main([*COMMAND]) == 1
    assert capsys.readouterr().err.startswith("tinyt: error: softmax.txt")
    assert main(["compile", "nowhere.txt"]) == 1
    assert main(["compile", "softmax.txt", "--tensors", "nowhere.safetensors"]) == 1
