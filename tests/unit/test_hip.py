"""AMD's devices by HIP, each time in a process of its own: on the library that stands for CUDA's
driver, under HIP's names, and with AMD's own libraries as far as they go without a device."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from apart import run, run_tests
from standin import standin

FOLDER = Path(__file__).parents[1] / "cuda"


def need_standin() -> dict[str, str]:
    """Both names: cases reach into the library by CUDA's."""
    variables = standin()
    if variables is None:
        pytest.skip("needs a C++ compiler")
    library = variables["TINYT_CUDA_LIBRARY"]
    return variables | {"TINYT_HIP_LIBRARY": library, "TINYT_HIPRTC_LIBRARY": library}


def need_hip() -> str:
    """The name of AMD's library."""
    for version in (7, 6, 5):
        try:
            ctypes.CDLL(name := f"libamdhip64.so.{version}")
        except OSError:
            continue
        return name
    pytest.skip("needs HIP's runtime")


OPENED = """
import tinyt
from tinyt import cuda
x = tinyt.tensor([1.0, -2.0], device="cuda")
print(tinyt.nn.functional.softmax(x, 0).sum().item(), x.__dlpack_device__())
print(cuda.device_count(), cuda.get_device_properties(0).warp_size)
try:
    cuda.CUDAGraph().capture_begin()
except NotImplementedError as error:
    print(error)
"""


def test_devices_open() -> None:
    done = run("-c", OPENED, STANDIN_CAPABILITY="90", **need_standin())
    assert done.stdout.splitlines() == [
        "1.0 (10, 0)",
        "2 32",
        "CUDAGraph: AMD's devices have no graphs here",
    ], done.stderr


def test_kernels_are_generated(tmp_path: Path) -> None:
    """Those by hand have instructions of NVIDIA's."""
    code = "import tinyt; x = tinyt.ones(64, 64, device='cuda'); print((x @ x)[0, 0].item())"
    variables = need_standin() | {"TINYT_KERNEL_CACHE_DIR": str(tmp_path)}
    assert run("-c", code, **variables).stdout == "64.0\n"
    kept = [file.read_bytes() for file in tmp_path.glob("*.kernel")]
    assert kept
    assert not any(b"asm" in kernel for kernel in kept)
    assert all(b"-ffp-contract=off" in kernel and b"HIP C++" in kernel for kernel in kept)


CASES = "names or moves or compiled or gradients or between_devices or waiting or fault"


@pytest.mark.parametrize("order", ["forward", "random"])
def test_cases(order: str) -> None:
    run_tests(FOLDER / "cases.py", "-k", CASES, STANDIN_ORDER=order, **need_standin())


def test_streams_and_pinned_memory() -> None:
    run_tests(FOLDER / "stream_cases.py", "-k", "not handle", **need_standin())
    run_tests(FOLDER / "pinned_cases.py", **need_standin())


WHY = """
import tinyt
print([device.missing for device in tinyt.devices() if device.name == "cuda"][0])
"""


def test_the_runtime_has_all_functions() -> None:
    """Without a device of AMD's it says so, and nothing else: each name was found."""
    library = need_hip()
    done = run("-c", WHY, TINYT_HIP_LIBRARY=library)
    assert done.returncode == 0, done.stderr
    if done.stdout != "\n":
        assert done.stdout == "HIP does not start (HIP's runtime knows no device here)\n"


def test_a_library_of_something_else_is_named() -> None:
    import tinyt._core

    done = run("-c", WHY, TINYT_HIP_LIBRARY=tinyt._core.__file__)
    assert done.stdout == f"HIP does not start ({tinyt._core.__file__} has no hipInit)\n"


def test_hiprtc_takes_the_kernels() -> None:
    """The texts are those of CUDA."""
    variables = need_standin() | {"STANDIN_HIPRTC": need_hip()}
    run_tests(FOLDER / "cases.py", "-k", "moves or compiled or gradients", **variables)
