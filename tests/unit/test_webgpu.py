"""WebGPU devices, each time in a process of its own: others have no accelerator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from apart import has_device, run, run_tests

CASES = Path(__file__).parents[1] / "webgpu" / "cases.py"


FEW = "in_place or launches or moves or faults"


# The second time as on an adapter with the least that WebGPU promises, and fewer groups.
@pytest.mark.parametrize(
    ("chosen", "variables"),
    [
        ("test", {}),
        (FEW, {"TINYT_WEBGPU_LIMITS": "8,600,33554432,5"}),
        ("in_pieces or in_place", {"TINYT_WEBGPU_LIMITS": "8,600,65536"}),
    ],
    ids=["all", "some with the least limits", "small buffers"],
)
def test_cases(chosen: str, variables: dict[str, str]) -> None:
    if not has_device("webgpu"):
        pytest.skip("needs the package wgpu and an adapter: mesa-vulkan-drivers is one")
    run_tests(CASES, "-k", chosen, **variables)


def test_no_library_is_opened_before_it_is_asked_for() -> None:
    code = (
        "import sys, tinyt; (tinyt.ones(3) + 1).sum(); tinyt.device('webgpu:1'); "
        "print('wgpu' in open('/proc/self/maps').read(), 'wgpu' in sys.modules)"
    )
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    assert run("-c", code).stdout == "False False\n"


SHOW_ERROR = """
import tinyt
for _ in range(2):
    try:
        tinyt.ones(1, device="webgpu")
    except tinyt.DeviceError as error:
        print(error)
print(tinyt.ones(1).item(), tinyt.accelerator.is_available())
print([d.missing[:30] for d in tinyt.devices() if d.name == "webgpu"])
"""


def test_an_absent_package_is_a_device_error() -> None:
    absent = "import importlib.util; importlib.util.find_spec = lambda *names: None"
    lines = run("-c", absent + SHOW_ERROR).stdout.splitlines()
    assert lines[0] == lines[1]
    assert "the package wgpu is not installed" in lines[0]
    assert "tinyt[webgpu]" in lines[0]
    assert lines[2] == "1.0 False"
    assert lines[3] == "['there is no WebGPU library: th']"


def test_a_wrong_library_is_a_device_error(tmp_path: Path) -> None:
    import tinyt._core

    none = run("-c", SHOW_ERROR, TINYT_WEBGPU_LIBRARY=str(tmp_path / "none.so")).stdout
    assert "there is no WebGPU library (" in none
    other = run("-c", SHOW_ERROR, TINYT_WEBGPU_LIBRARY=tinyt._core.__file__).stdout
    assert "is not wgpu-native" in other


def test_another_version_is_a_device_error(tmp_path: Path) -> None:
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("unsigned wgpuGetVersion(void) { return 0x16000301; }", encoding="utf-8")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except FileNotFoundError:
        pytest.skip("needs a C compiler")
    shown = run("-c", SHOW_ERROR, TINYT_WEBGPU_LIBRARY=str(library)).stdout
    assert "is wgpu-native 22.0, of which version 29 is needed" in shown
    assert "wgpu 0.32" in shown


def test_without_an_adapter_it_is_a_device_error(tmp_path: Path) -> None:
    import importlib.util

    if importlib.util.find_spec("wgpu") is None or sys.platform != "linux":
        pytest.skip("needs the package wgpu on Linux")
    none = str(tmp_path / "none.json")
    shown = run("-c", SHOW_ERROR, VK_ICD_FILENAMES=none, VK_DRIVER_FILES=none).stdout
    assert "knows no adapter that runs kernels" in shown
    assert "mesa-vulkan-drivers" in shown
