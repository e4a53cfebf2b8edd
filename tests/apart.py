"""Devices that are tested in processes of their own, so that others have no accelerator."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTEST_ADDOPTS": ""} | variables,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def run_tests(path: Path, *arguments: str, **variables: str) -> None:
    command = ("-m", "pytest", str(path), "-q", "-n", "0", "-p", "no:cacheprovider")
    done = run(*command, *arguments, **variables)
    assert done.returncode == 0, done.stdout + done.stderr


ABSENT = """
import sys, tinyt
try:
    tinyt.ones(1, device=sys.argv[1])
except tinyt.DeviceError as error:
    print("absent:", error)
"""


@cache
def has_device(name: str) -> bool:
    done = run("-c", ABSENT, name)
    assert done.returncode == 0, done.stderr
    return not done.stdout.startswith("absent:")


OPENED = """
import sys, tinyt
for _ in range(2):
    try:
        print(tinyt.ones(2, device=sys.argv[1]).tolist(), tinyt.accelerator.device_count())
    except RuntimeError as error:
        print(type(error).__name__, str(error).replace(chr(10), " "))
print(tinyt.ones(2).tolist(), [d.missing[:30] for d in tinyt.devices()])
"""


def try_to_open(device: str, **variables: str) -> list[str]:
    """What two attempts to make a tensor there say, a line each; then one of the CPU."""
    done = run("-c", OPENED, device, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
