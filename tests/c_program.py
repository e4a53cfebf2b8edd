"""Compiled functions as C programs, built and run."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyt
from c_library import ENVIRONMENT, FLAGS, LEVEL

KEEP_BITS = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing")


def compile_c(folder: Path, name: str, *flags: str, compiler: str = "cc") -> Path:
    """A library of an exported program, without a warning."""
    made = folder / f"{name}.so"
    sources = [str(p) for p in sorted(folder.glob("*.c")) if not p.name.endswith("_test.c")]
    fma = ["-mfma", "-mavx2"] if "x86" in LEVEL else []
    command = [compiler, *FLAGS, *KEEP_BITS, *fma, *(flags or ("-O0",)), "-fPIC", "-shared"]
    subprocess.run([*command, *sources, "-o", str(made), "-lm"], check=True, env=ENVIRONMENT)
    return made


def _pointer(x: np.ndarray) -> Any:
    return x.ctypes.data_as(ctypes.c_void_p)


class CProgram:
    """A function of tensors as the C that it is exported to."""

    def __init__(
        self, folder: Path, function: Callable[..., Any], *args: Any, **options: Any
    ) -> None:
        self.step = tinyt.compile(function)
        with tinyt.no_grad():
            self.step.export_c(folder, *args, name="program", weights="arrays", **options)
        self.library = ctypes.CDLL(str(compile_c(folder, "program")))

    def __call__(self, args: list[tinyt.Tensor], like: list[tinyt.Tensor]) -> list[tinyt.Tensor]:
        """The outputs, which are as ``like``, of arguments in the order of the program."""
        inputs = [memory(x) for x in args]
        outputs = [np.zeros(max(1, x.numel() * x.dtype.itemsize), np.uint8) for x in like]
        code = self.library.program_run(*map(_pointer, [*inputs, *outputs]))
        if code != 0:
            self.library.program_error.restype = ctypes.c_char_p
            raise ValueError(self.library.program_error(code).decode())
        return [
            tinyt.from_numpy(y[: x.numel() * x.dtype.itemsize]).view(x.dtype).reshape(x.shape)
            if x.numel()
            else x
            for x, y in zip(like, outputs, strict=True)
        ]


def memory(x: tinyt.Tensor) -> np.ndarray:
    """The bytes of a tensor, from its first element on."""
    size = (
        1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    )
    if size == 0:
        return np.zeros(1, np.uint8)
    return x.detach().as_strided((size,), (1,)).clone().view(tinyt.uint8).numpy()


def run_both(
    folder: Path, function: Callable[..., Any], *args: tinyt.Tensor
) -> list[tuple[tinyt.Tensor, tinyt.Tensor]]:
    """(in C, compiled) of each result of a function whose arguments are tensors."""
    program = CProgram(folder, function, *args)
    with tinyt.no_grad():
        want = program.step(*args)
    want = [want] if isinstance(want, tinyt.Tensor) else list(want)
    return list(zip(program(list(args), want), want, strict=True))


def same_bits(a: tinyt.Tensor, b: tinyt.Tensor) -> bool:
    """Whether two tensors have the same bits, NaN of any payload alike."""
    if a.dtype.is_floating_point:
        equal = (a == b) & (a.signbit() == b.signbit()) | (a.isnan() & b.isnan())
    else:
        equal = a == b
    return a.shape == b.shape and bool(equal.all())
