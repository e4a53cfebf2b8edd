"""OpenCL devices, each time in a process of its own: others have no accelerator."""

from __future__ import annotations

from pathlib import Path

import pytest

from apart import has_device, run, run_tests, try_to_open
from faulty import faulty_library

FOLDER = Path(__file__).parents[1] / "opencl"


def need_device() -> None:
    if not has_device("opencl"):
        pytest.skip("needs a device of OpenCL: Debian's pocl-opencl-icd is one")


@pytest.mark.parametrize(
    ("chosen", "variables"),
    [
        ("elementwise", {}),
        ("not elementwise", {}),
        # PoCL takes 10 s for a kernel of attention.
        ("not elementwise and not attention_of_any", {"TINYT_OPENCL_AS_GPU": "1"}),
    ],
    ids=["elementwise", "others", "others as on a GPU"],
)
def test_cases(chosen: str, variables: dict[str, str]) -> None:
    need_device()
    run_tests(FOLDER / "cases.py", "-k", chosen, **variables)


def faulty() -> str:
    """A library that fails where it is told to."""
    need_device()
    library = faulty_library("opencl/faulty.c")
    if library is None:
        pytest.skip("needs a C compiler")
    return library


def test_faults() -> None:
    run_tests(FOLDER / "faults.py", TINYT_OPENCL_LIBRARY=faulty())


@pytest.mark.parametrize("most", [1024, 128])
def test_bytes_of_arguments(most: int) -> None:
    run_tests(FOLDER / "arguments.py", TINYT_OPENCL_LIBRARY=faulty(), FAULTY_INFO=f"0x1017={most}")


NONE = "DeviceError ones: the OpenCL library knows no device that compiles kernels"
WORKS = "[1.0, 1.0] 1"


@pytest.mark.parametrize(
    ("variables", "first", "second"),
    [
        ({"FAULTY_FAIL": "clGetPlatformIDs:1:-1:-1001"}, NONE + ";", NONE),
        ({"FAULTY_FAIL": "clGetPlatformIDs:1:-1:-6"}, NONE + " (opencl: clGetPlatformIDs", NONE),
        ({"FAULTY_FAIL": "clGetDeviceIDs:1:-1:-1"}, NONE + ";", NONE),
        ({"FAULTY_FAIL": "clGetDeviceIDs:1:-1:-30"}, NONE + " (opencl: clGetDeviceIDs", NONE),
        ({"FAULTY_INFO": "0x1028=0"}, NONE + ";", NONE),  # no compiler
        ({"FAULTY_INFO": "0x1027=0"}, NONE + ";", NONE),  # not available
        ({"FAULTY_FAIL": "clGetDeviceInfo:1:-1:-33"}, NONE + " (opencl: clGetDeviceInfo", NONE),
        ({"FAULTY_EXTRA": "2"}, WORKS, WORKS),  # which have disappeared
        ({"FAULTY_FAIL": "clCreateContext:1:1:-6"}, "OutOfMemoryError", WORKS),
        ({"FAULTY_FAIL": "clCreateCommandQueue:1:1:-2"}, "DeviceError", WORKS),
    ],
    ids=lambda x: " ".join(x.values()) if isinstance(x, dict) else "",
)
def test_devices_that_do_not_open(variables: dict[str, str], first: str, second: str) -> None:
    lines = try_to_open("opencl", TINYT_OPENCL_LIBRARY=faulty(), **variables)
    assert lines[0].startswith(first), lines
    assert lines[1].startswith(second), lines
    assert lines[2].startswith("[1.0, 1.0]"), lines


BUILT = """
import ctypes, os
import tinyt
x = tinyt.tensor([0.5, -2.0]).to("opencl")
print([v.hex() for v in x.exp().tolist() + (x + x).tolist()])
calls = ctypes.CDLL(os.environ["TINYT_OPENCL_LIBRARY"]).faulty_calls
print(calls(b"clCreateProgramWithSource"), calls(b"clCreateProgramWithBinary"))
"""


def test_kernels_are_kept_for_later_processes(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    results = set()

    def built(*arguments: str, **variables: str) -> tuple[int, int]:
        """Kernels from source, and tries of binaries."""
        given = {"TINYT_KERNEL_CACHE_DIR": str(folder), **variables}
        done = run(*arguments, "-c", BUILT, TINYT_OPENCL_LIBRARY=faulty(), **given)
        assert done.returncode == 0, done.stderr
        warned.append(done.stderr)
        values, counts = done.stdout.splitlines()
        results.add(values)
        source, binary = counts.split()
        return int(source), int(binary)

    warned: list[str] = []
    assert built(TINYT_KERNEL_CACHE_DIR="") == (2, 0)
    assert not folder.exists()
    assert built() == (2, 0)
    one, other = sorted(folder.glob("*.kernel"))
    whole = one.read_bytes(), other.read_bytes()
    assert built() == (0, 2)
    data = bytearray(whole[0])
    data[-100] ^= 1
    one.write_bytes(data)
    other.write_bytes(whole[1][: len(whole[1]) // 2])
    assert built() == (2, 0)
    assert built() == (0, 2)  # they were written anew
    # Binaries that the driver does not take.
    assert built(FAULTY_FAIL="clCreateProgramWithBinary:1:-1:-42") == (2, 2)
    assert built(FAULTY_FAIL="clBuildProgram:1:1:-11") == (1, 2)
    assert built(FAULTY_FAIL="clCreateKernel:1:1:-46") == (1, 2)
    assert built(FAULTY_FAIL="clGetProgramInfo:1:-1:-5") == (0, 2)
    assert not any(warned)
    for path in (one, other):
        path.unlink()
    assert built(FAULTY_FAIL="clGetProgramInfo:1:-1:-5") == (2, 0)
    assert not any(folder.iterdir())
    folder.chmod(0o777)
    assert built() == (2, 0)
    assert f"the kernel cache {folder} is not used: others may write to it" in warned[-1]
    assert not any(folder.iterdir())
    assert len(results) == 1


def test_no_library_is_opened_before_it_is_asked_for() -> None:
    code = (
        "import tinyt; (tinyt.ones(3) + 1).sum(); tinyt.device('opencl:1'); "
        "print('OpenCL' in open('/proc/self/maps').read())"
    )
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    assert run("-c", code).stdout == "False\n"


def test_an_absent_library_is_a_device_error(tmp_path: Path) -> None:
    code = """
import tinyt
for _ in range(2):
    try:
        tinyt.ones(1, device="opencl")
    except tinyt.DeviceError as error:
        print(error)
print(tinyt.ones(1).item(), tinyt.accelerator.is_available())
here = [(d.name, d.missing[:28]) for d in tinyt.devices() if d.name in ("cpu", "opencl")]
print(here, tinyt.accelerator.is_available())
"""
    done = run("-c", code, TINYT_OPENCL_LIBRARY=str(tmp_path / "none.so"))
    lines = done.stdout.splitlines()
    assert lines[0] == lines[1], done.stderr
    assert "there is no OpenCL library" in lines[0]
    assert "ocl-icd-libopencl1" in lines[0]
    assert lines[2] == "1.0 False"
    assert lines[3] == "[('cpu', ''), ('opencl', 'there is no OpenCL library (')] False"


def test_a_library_without_its_functions_is_a_device_error() -> None:
    import tinyt._core

    code = """
import tinyt
try:
    tinyt.ones(1, device="opencl")
except tinyt.DeviceError as error:
    print(error)
"""
    done = run("-c", code, TINYT_OPENCL_LIBRARY=tinyt._core.__file__)
    want = f"{tinyt._core.__file__} is not OpenCL's library, or one before OpenCL 1.2: it has no cl"
    assert want in done.stdout, done.stderr


def test_looking_for_devices_makes_no_accelerator() -> None:
    code = "import tinyt; print(len(tinyt.devices()) > 1, tinyt.accelerator.is_available())"
    assert run("-c", code).stdout == "True False\n"
