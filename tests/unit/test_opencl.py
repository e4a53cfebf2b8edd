"""OpenCL devices, each time in a process of its own: others have no accelerator."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

CASES = Path(__file__).parents[1] / "opencl" / "cases.py"


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTEST_ADDOPTS": ""} | variables,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


@cache
def has_device() -> bool:
    return run("-c", "import tinyt; tinyt.ones(1, device='opencl')").returncode == 0


@pytest.mark.parametrize(
    ("chosen", "variables"),
    [
        ("elementwise", {}),
        ("not elementwise", {}),
        ("not elementwise", {"TINYT_OPENCL_AS_GPU": "1"}),
    ],
    ids=["elementwise", "others", "others as on a GPU"],
)
def test_cases(chosen: str, variables: dict[str, str]) -> None:
    if not has_device():
        pytest.skip("needs a device of OpenCL: Debian's pocl-opencl-icd is one")
    command = ("-m", "pytest", str(CASES), "-q", "-n", "0", "-p", "no:cacheprovider")
    done = run(*command, "-k", chosen, **variables)
    assert done.returncode == 0, done.stdout + done.stderr


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
print([(d.name, d.missing[:28]) for d in tinyt.devices()], tinyt.accelerator.is_available())
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
    assert "library has no clGetPlatformIDs" in done.stdout, done.stderr


def test_looking_for_devices_makes_no_accelerator() -> None:
    code = "import tinyt; print(len(tinyt.devices()) > 1, tinyt.accelerator.is_available())"
    assert run("-c", code).stdout == "True False\n"
