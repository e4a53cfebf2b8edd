"""Faults of an OpenCL driver: run by `tests/unit/test_opencl.py` in a process of its own, with the
library of `faulty.c`."""

from __future__ import annotations

import pytest

from device_faults import *  # noqa: F403
from device_faults import (
    ADD,
    ADD_IN_PLACE,
    CLONE,
    CONTIGUOUS,
    LOST,
    SHORT,
    TO_CPU,
    TO_DEVICE,
    WAIT,
    BuildFailure,
    DriverCalls,
    Failure,
    StatusDevice,
    failure_id,
)

OUT_OF_MEMORY, OUT_OF_RESOURCES, NOT_AVAILABLE, INVALID_QUEUE = -4, -5, -2, -36
OUT_OF_HOST_MEMORY = -6
DRIVER = StatusDevice(
    "opencl",
    DriverCalls(
        allocate="clCreateBuffer",
        release="clReleaseMemObject",
        launch="clEnqueueNDRangeKernel",
        write="clEnqueueWriteBuffer",
        read="clEnqueueReadBuffer",
        fill="clEnqueueFillBuffer",
        wait="clFinish",
        waiting_write="a write that waits",
        staging=("clEnqueueMapBuffer",),
        short=(OUT_OF_MEMORY, OUT_OF_RESOURCES),
        lost=(NOT_AVAILABLE, OUT_OF_RESOURCES, INVALID_QUEUE),
        tries=2,
    ),
)


@pytest.fixture
def faulty() -> StatusDevice:
    return DRIVER


FAILURES: list[Failure] = [
    ("clCreateBuffer", OUT_OF_MEMORY, SHORT, ADD),
    ("clCreateBuffer", OUT_OF_MEMORY, SHORT, TO_DEVICE),
    ("clCreateBuffer", NOT_AVAILABLE, LOST, ADD),
    ("clEnqueueWriteBuffer", OUT_OF_RESOURCES, LOST, TO_DEVICE),
    ("clEnqueueReadBuffer", INVALID_QUEUE, LOST, TO_CPU),
    ("clEnqueueNDRangeKernel", OUT_OF_RESOURCES, LOST, ADD),
    ("clEnqueueNDRangeKernel", NOT_AVAILABLE, LOST, CONTIGUOUS),
    ("clEnqueueCopyBuffer", OUT_OF_RESOURCES, LOST, CLONE),
    ("clEnqueueNDRangeKernel", OUT_OF_MEMORY, SHORT, ADD_IN_PLACE),
    ("clSetKernelArg", -38, RuntimeError, ADD),
    ("clFinish", OUT_OF_RESOURCES, LOST, WAIT),
]


@pytest.fixture(params=FAILURES, ids=failure_id)
def failure(request: pytest.FixtureRequest) -> Failure:
    return request.param


@pytest.fixture
def build_failures() -> list[BuildFailure]:
    refused = "does not compile a kernel (-11):\nfaulty: this build"
    host = "failed with -6, out of host memory"
    return [
        ("clBuildProgram", -11, RuntimeError, refused),
        ("clBuildProgram", OUT_OF_HOST_MEMORY, SHORT, "clBuildProgram failed with -6"),
        ("clCreateProgramWithSource", OUT_OF_HOST_MEMORY, SHORT, host),
        ("clCreateKernel", NOT_AVAILABLE, LOST, "clCreateKernel failed with -2"),
    ]
