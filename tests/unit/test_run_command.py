"""`tinyt run`: where programs come from, which arguments are theirs, what their errors say."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tinyt.cli import run as command

STANDS = "tinyt stands for PyTorch here and does not have it"


def tinyt(
    folder: Path, *arguments: str, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tinyt", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def said(folder: Path, *arguments: str, given: str | None = None) -> str:
    done = tinyt(folder, *arguments, given=given)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("script.py --lr 3", 1),
        ("script.py -- --lr 3", 1),
        ("-- script.py -m", 2),
        ("--pytorch-for a script.py --pytorch-for b", 3),
        ("--pytorch-for=a -m package -h", 3),
        ("-c text -c", 2),
        ("- -", 1),
        ("-h", 1),
        ("--pytorch-for", 1),
        ("", 0),
    ],
)
def test_whose_arguments_they_are(line: str, own: int) -> None:
    words = line.split()
    assert command.split(words) == (words[:own], words[own:])


ARGUMENTS = "import sys, torch\nprint(torch.__version__, sys.argv, __name__)\n"


def test_arguments_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a b ü.py").write_text(ARGUMENTS)
    want = "2.13.0+tinyt ['a b ü.py', '--', '--lr', '3', '--help'] __main__\n"
    assert said(tmp_path, "run", "a b ü.py", "--", "--lr", "3", "--help") == want
    assert said(tmp_path, "a b ü.py", "--", "--lr", "3", "--help") == want


@pytest.mark.parametrize("first", [("run",), ()])
def test_programs_that_are_no_files(tmp_path: Path, first: tuple[str, ...]) -> None:
    (tmp_path / "beside.py").write_text("import torch\nx = torch.ones(1)\n")
    text = ARGUMENTS + "import beside\nprint(beside.x, sys.path[0] == '')\n"
    rest = "__main__\ntensor([1.]) True\n"
    assert said(tmp_path, *first, "-c", text, "-h") == f"2.13.0+tinyt ['-c', '-h'] {rest}"
    assert said(tmp_path, *first, "-", "--", given=text) == f"2.13.0+tinyt ['-', '--'] {rest}"
    done = tinyt(tmp_path, *first, "-", given="def f():\n    1 / 0\nf()\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1] == '  File "<stdin>", line 3, in <module>'


def test_a_zip_file_and_a_folder(tmp_path: Path) -> None:
    helper = "import torch\nx = torch.ones(1)\n"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "helper.py").write_text(helper)
    (tmp_path / "folder" / "__main__.py").write_text(ARGUMENTS + "import helper; print(helper.x)\n")
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as file:
        file.writestr("helper.py", helper)
        file.writestr("__main__.py", ARGUMENTS + "import helper; print(helper.x)\n")
    for name in ("folder", "app.pyz"):
        want = f"2.13.0+tinyt ['{name}', '--a'] __main__\ntensor([1.])\n"
        assert said(tmp_path, "run", name, "--a") == want
    assert said(tmp_path, "app.pyz", "--a") == want


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "import torch; torch.linalg.no_such",
            "AttributeError: module 'torch.linalg' has no attri",
        ),
        (
            "from torch.linalg import no_such",
            "ImportError: cannot import name 'no_such' from 'torc",
        ),
        ("from torch import no_such", "ImportError: cannot import name 'no_such' from 'torch': "),
        ("from torch.nn import Linear, NoSuch", "ImportError: cannot import name 'NoSuch' from 't"),
        ("import torch.nn as nn; nn.NoSuch", "AttributeError: module 'torch.nn' has no attribute "),
        ("import torch.no_such", "ModuleNotFoundError: No module named 'torch.no_such': tinyt st"),
        ("import torch; torch.ones(1).no_such()", "AttributeError: 'Tensor' object has no attrib"),
        ("import torch; torch.Tensor.no_such", "AttributeError: type object 'Tensor' has no attr"),
    ],
)
def test_what_is_missing_is_said_on_the_program_s_line(
    tmp_path: Path, text: str, error: str
) -> None:
    """With no line of ours in the traceback."""
    if sys.version_info < (3, 11) and ".no_such" in text and "ensor object" in error:
        pytest.skip("notes of errors")
    done = tinyt(tmp_path, "run", "-c", text)
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[:2] == [
        "Traceback (most recent call last):",
        '  File "<string>", line 1, in <module>',
    ]
    assert lines[2].startswith(error)
    assert done.stderr.count(STANDS) == 1
    assert len(lines) == (4 if "Tensor'" in error else 3)


def test_asking_is_no_error(tmp_path: Path) -> None:
    text = """
import importlib, importlib.util, pickle, pkgutil
assert importlib.util.find_spec("torch.no_such") is None
assert importlib.util.find_spec("torch.nn.no_such") is None
import torch, torch.nn as nn
from torch import linalg
assert not hasattr(torch, "no_such") and not hasattr(linalg, "no_such")
assert getattr(nn, "NoSuch", 3) == 3
spec = importlib.util.find_spec("torch")
assert list(spec.submodule_search_locations) == list(torch.__path__)
assert "nn" in [module.name for module in pkgutil.iter_modules(torch.__path__)]
assert importlib.reload(torch) is torch and torch.__version__ == "2.13.0+tinyt"
assert importlib.reload(nn) is nn and torch.nn is nn
import torch.nn.utils.rnn
assert pickle.loads(pickle.dumps(torch)) is torch
import tinyt.as_torch
tinyt.as_torch.remove()
try: linalg.no_such
except AttributeError as error: print(error)
try: tinyt.distributed.no_such
except AttributeError as error: print(error)
"""
    lines = said(tmp_path, "-c", text).splitlines()
    assert lines[0] == "module 'tinyt.linalg' has no attribute 'no_such'"
    assert "stands for" not in lines[1]
