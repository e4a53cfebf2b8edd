"""Compiled functions as C programs, beside the programs themselves."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tinyt
from c_library import ENVIRONMENT, FLAGS, LEVEL, compiles, has_fma
from c_program import CProgram, compile_c, run_both, same_bits
from tinyt.compiler import export
from tinyt.compiler.export.source import Source, _functions_of

pytestmark = [compiles, has_fma, pytest.mark.host]


def test_a_chain_and_a_copy(tmp_path: Path) -> None:
    x, y = tinyt.randn(5, 7), tinyt.randn(7)
    for have, want in run_both(
        tmp_path, lambda x, y: ((x.exp() + y).relu() * 2, x.t().contiguous()), x, y
    ):
        assert same_bits(have, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool", "uint8"])
def test_conversions(tmp_path: Path, dtype: str) -> None:
    x = tinyt.randn(40).abs().to(getattr(tinyt, dtype))
    for have, want in run_both(tmp_path, lambda x: (x.float() * 2, (x.float() + 1).to(x.dtype)), x):
        assert same_bits(have, want)


def test_results_are_row_major(tmp_path: Path) -> None:
    x = tinyt.arange(6).float().reshape(2, 3)
    for have, want in run_both(tmp_path, lambda x: ((x + 0).t(), (x + 1)[:, ::2]), x):
        assert same_bits(have, want)
    header = (tmp_path / "program.h").read_text(encoding="utf-8")
    assert "strides" not in header


def test_integers_by_zero(tmp_path: Path) -> None:
    a, b = tinyt.tensor([7, -7, 5]), tinyt.tensor([2, 2, -3])

    def function(a: tinyt.Tensor, b: tinyt.Tensor) -> tuple[tinyt.Tensor, tinyt.Tensor]:
        return a // b, a % b

    program = CProgram(tmp_path, function, a, b)
    want = list(program.step(a, b))
    for have, right in zip(program([a, b], want), want, strict=True):
        assert same_bits(have, right)
    with pytest.raises(ValueError, match="floor_divide: division by zero"):
        program([a, tinyt.tensor([1, 0, 1])], want)


def test_a_weights_file_is_its_program_s(tmp_path: Path) -> None:
    """A damaged one, that of another program of as many bytes, or none leaves no program that
    runs."""
    v, w = tinyt.randn(6), tinyt.randn(6)
    folders = [tmp_path / name for name in "ab"]
    x = tinyt.randn(6)
    for folder, function in zip(folders, (lambda x: x + v, lambda x: x * w), strict=True):
        step = tinyt.compile(function)
        step.export_c(folder, x, name="program", weights="file")
    library = ctypes.CDLL(str(compile_c(folders[0], "program")))
    y = np.zeros(6, np.float32)
    run = [ctypes.c_void_p(z) for z in (x.data_ptr(), y.ctypes.data)]
    own = folders[0] / "program.weights"
    damaged = tmp_path / "damaged"
    data = bytearray(own.read_bytes())
    data[30] ^= 1
    damaged.write_bytes(data)

    def load(path: Path) -> int:
        return library.program_load(str(path).encode())

    assert library.program_run(*run) == 1004
    assert load(own) == library.program_run(*run) == 0
    assert y.tolist() == (x + v).tolist()
    for wrong in (damaged, folders[1] / "program.weights"):
        assert load(wrong) == 1002
        assert library.program_run(*run) == 1004
    assert load(tmp_path / "nothing") == 1001


WRONG_NAMES = ["string", "1x", "x-y", "größe", "", "features", "Pthread", "x\n", "x" * 101]


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_wrong_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="name must"):
        tinyt.compile(lambda x: x + 1).export_c(tmp_path, tinyt.ones(2), name=name)


def test_arguments_that_are_captured_or_share_memory(tmp_path: Path) -> None:
    w = tinyt.ones(3)
    for function, arguments, message in (
        (lambda x: x * 2 + w, (w,), "captured for"),
        (lambda x, y: x + y, (w, w), "share memory"),
    ):
        with pytest.raises(NotImplementedError, match=message):
            tinyt.compile(function).export_c(tmp_path, *arguments)


def test_the_test_program_sees_what_is_wrong(tmp_path: Path) -> None:
    step = tinyt.compile(lambda x: (x + 1, x.half() * 2))
    step.export_c(tmp_path, tinyt.tensor([1.0, float("inf"), 3.0]), name="program")
    test = tmp_path / "program_test.c"
    text = test.read_text(encoding="utf-8")
    want = "0x1.0000000000000p+1f, INFINITY, 0x1.0000000000000p+2f,"
    assert want in text
    for other, is_wrong in (
        (want, False),
        (want.replace("INFINITY", "0x1p+1f"), True),
        (want.replace("INFINITY", "-INFINITY"), True),
        (want.replace("0x1.0000000000000p+1f", "NAN"), True),
    ):
        test.write_text(text.replace(want, other), encoding="utf-8")
        sources = [str(path) for path in tmp_path.glob("*.c")]
        build = ["cc", *FLAGS, "-mfma" if "x86" in LEVEL else "-O0", *sources]
        subprocess.run([*build, "-lm", "-o", str(tmp_path / "test")], check=True, env=ENVIRONMENT)
        done = subprocess.run([str(tmp_path / "test")], stdout=subprocess.DEVNULL, check=False)
        assert (done.returncode != 0) == is_wrong


def test_functions_of_one_name_have_one_text(tmp_path: Path) -> None:
    """In all templates; a file that would have two is an error of tinyt's own."""
    texts: dict[str, str] = {}
    for path in (Path(export.__file__).parent / "c").glob("*.c"):
        for name, text in _functions_of(path.read_text(encoding="utf-8"))[1].items():
            assert texts.setdefault(name, text) == text, name
    source = Source()
    source.add("tt_one", "static int tt_one(void);")
    source.add("tt_one", "static int tt_one(void);")
    with pytest.raises(RuntimeError, match="two functions are called tt_one"):
        source.add("tt_one", "static long tt_one(void);")
    x = tinyt.randn(6, 5)
    for have, want in run_both(tmp_path, lambda x: (x.softmax(0), x.logsumexp(0)), x):
        assert same_bits(have, want)


def test_a_header_s_name_is_no_default(tmp_path: Path) -> None:
    def features(x: tinyt.Tensor) -> tinyt.Tensor:
        return x + 1

    files = tinyt.compile(features).export_c(tmp_path, tinyt.ones(2))
    assert files[0].name == "program_features.h"


def test_the_function_s_name_stays_in_its_comment(tmp_path: Path) -> None:
    function = lambda x: x + 1  # noqa: E731
    function.__qualname__ = "f\n#error injected\r\u2028//\ud800" + "x" * 300
    files = tinyt.compile(function).export_c(tmp_path, tinyt.ones(2), name="program")
    for path in files[:2]:
        first, second = path.read_text(encoding="utf-8").splitlines()[:2]
        assert first.startswith("// f?#error injected??//?xxx")
        assert len(first) < 300
        assert "xxx" not in second
    compile_c(tmp_path, "program")


def test_a_directory_is_one_export_s(tmp_path: Path) -> None:
    step, x = tinyt.compile(lambda x: x + 1), tinyt.ones(2)
    files = step.export_c(tmp_path, x, name="one")
    assert step.export_c(tmp_path, x, name="one") == files
    texts = [path.read_text(encoding="utf-8") for path in files]
    for name in ("two", "one_test", "ONE"):
        with pytest.raises(ValueError, match=r"holds the export one; each export needs a dir"):
            step.export_c(tmp_path, x, name=name)
    assert texts == [path.read_text(encoding="utf-8") for path in files]
    (tmp_path / "CMakeLists.txt").write_text("project(mine)\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"holds another project"):
        step.export_c(tmp_path, x, name="one")
