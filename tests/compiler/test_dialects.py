"""Sources in the languages of GPUs, as far as their compilers are here to read them.

OpenCL C is parsed by Clang, CUDA compiled by NVRTC (package ``nvidia-cuda-nvrtc-cu12``), WGSL
validated by wgpu (package ``wgpu``, on Mesa's software renderer). Nothing here reads Metal's C++
or HIP's, of which the second is CUDA's text.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tinyt
from c_library import ENVIRONMENT
from scalar_values import COMPUTE, ROWS, takes
from standin import nvrtc
from tinyt import _core

pytestmark = pytest.mark.host

CASES = [(name, dtype) for name in ROWS for dtype in COMPUTE if takes(name, dtype)]
WGSL = ("wgsl", "wgsl-two-words")
DIALECTS = ("c99", "cuda", "hip", "metal", "opencl", "opencl-gpu", *WGSL)


def functions(dialect: str) -> str:
    """All definitions that the language has the types for."""

    def spelled(case: tuple[str, str]) -> bool:
        name, dtype = case
        try:
            _core.scalar_source([("f", name, getattr(tinyt, dtype))], dialect)
        except NotImplementedError:
            return False
        return True

    named = [(f"{n}_{d}", n, getattr(tinyt, d)) for n, d in CASES if spelled((n, d))]
    return _core.scalar_source(named, dialect)


def kernels() -> list[Any]:
    """An elementwise one, a softmax, and one of halves, bools and whole numbers."""
    f, h, b, i, small = tinyt.float32, tinyt.bfloat16, tinyt.bool, tinyt.int64, tinyt.int8
    gelu = [("mul", f, f, False, [(0, False), (1, False)]), ("gelu", f, f, False, [(2, False)])]
    softmax = [
        ("amax", f, f, True, [(0, False)]),
        ("sub", f, f, False, [(0, False), (1, False)]),
        ("exp", f, f, False, [(2, False)]),
        ("sum", f, f, True, [(3, False)]),
        ("div", f, f, False, [(3, False), (4, False)]),
    ]
    mixed = [
        ("add", h, h, False, [(0, False), (0, False)]),
        ("gt", h, b, False, [(3, False), (2, True)]),
        ("sum", b, i, True, [(4, False)]),
        ("add", small, small, False, [(1, False), (1, False)]),
        ("sum", h, h, True, [(3, False)]),
    ]
    return [
        (_core.FusedKernel([4, 5, 6], 0, [f, f], gelu, [3]), [1, 2]),
        (_core.FusedKernel([4, 50], 1, [f], softmax, [5]), [1]),
        (_core.FusedKernel([4, 50], 1, [h, small, f], mixed, [3, 4, 5, 6, 7]), [1, 0, 2]),
    ]


def kernel_sources(dialect: str) -> list[str]:
    """By threads of their own and, where the language's share memory, by those of groups."""

    def source(number: int, kernel: Any, inner: list[int], by_lanes: bool) -> list[str]:
        try:
            return [kernel.source(inner, f"kernel{number}", dialect, by_lanes)]
        except ValueError:
            if not by_lanes:
                raise
            return []

    found = [source(i, *k, form) for i, k in enumerate(kernels()) for form in (False, True)]
    return [text for texts in found for text in texts]


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs Clang")
def test_clang_reads_opencl(tmp_path: Path) -> None:
    assert len(kernel_sources("opencl-gpu")) > len(kernel_sources("opencl")) == len(kernels())
    texts = [(functions(d), *kernel_sources(d)) for d in ("opencl", "opencl-gpu")]
    for text in (*texts[0], *texts[1]):
        file = tmp_path / "source.cl"
        file.write_text(text, encoding="utf-8")
        header = ("-Xclang", "-finclude-default-header", "-fsyntax-only")
        checks = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-function")
        command = ["clang", "-x", "cl", "-cl-std=CL1.2", *header, *checks, str(file)]
        subprocess.run(command, check=True, env=ENVIRONMENT)


@pytest.mark.skipif(not nvrtc(), reason="needs NVRTC")
def test_nvrtc_compiles_cuda() -> None:
    library = ctypes.CDLL(nvrtc())
    flags = (b"--gpu-architecture=compute_75", b"--fmad=false", b"--std=c++17")
    options = (ctypes.c_char_p * len(flags))(*flags)
    for text in (functions("cuda"), *kernel_sources("cuda")):
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        source = text.encode()
        assert not library.nvrtcCreateProgram(
            ctypes.byref(program), source, b"source.cu", 0, None, None
        )
        failed = library.nvrtcCompileProgram(program, len(flags), options)
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        assert not failed, log.value.decode()


def validator(dialect: str) -> Callable[[str], None] | None:
    """Makes a shader of a text; None where wgpu or an adapter is missing."""
    if importlib.util.find_spec("wgpu") is None:
        return None
    import wgpu

    try:
        adapter = wgpu.gpu.request_adapter_sync()
        features = ["shader-int64"] if dialect == "wgsl" else []
        device = adapter.request_device_sync(required_features=features)
    except RuntimeError:
        return None
    return lambda text: device.create_shader_module(code=text)


@pytest.mark.skipif(importlib.util.find_spec("wgpu") is None, reason="needs wgpu")
@pytest.mark.parametrize("dialect", WGSL)
def test_wgpu_validates_wgsl(dialect: str) -> None:
    validate = validator(dialect)
    if validate is None:
        pytest.skip("needs an adapter")
    main = "\n@compute @workgroup_size(64)\nfn main() {}\n"
    validate(functions(dialect) + main)
    for text in kernel_sources(dialect):
        validate(text)
    with pytest.raises(Exception, match=r"WGSL|validation|parsing|Shader"):
        validate("fn wrong() -> f32 { return 1u; }" + main)


def test_hip_is_cuda() -> None:
    assert functions("hip") == functions("cuda")
    assert kernel_sources("hip") == kernel_sources("cuda")


def test_what_a_language_lacks() -> None:
    for dialect in ("metal", *WGSL):
        with pytest.raises(NotImplementedError, match=f"{dialect}: no type f64, which f computes"):
            _core.scalar_source([("f", "add", tinyt.float64)], dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_language_has_the_common_functions(dialect: str) -> None:
    names = ("add", "mul", "where", "exp", "log", "tanh", "sigmoid", "erf", "gelu", "rsqrt", "lt")
    text = _core.scalar_source([(f"f_{n}", n, tinyt.float32) for n in names], dialect)
    assert all(f"f_{n}(" in text for n in names)
