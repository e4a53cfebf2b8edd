"""Python on an OpenCL device (PoCL's, where no other is installed): run by
`tests/unit/test_opencl.py` in a process of its own, so that others have no accelerator."""

import pytest

import tinyt
from device_cases import *  # noqa: F403
from exact_cases import *  # noqa: F403
from group_cases import *  # noqa: F403
from int64_cases import test_draws, test_indices, test_numbers_from_nothing  # noqa: F401


@pytest.fixture(scope="session")
def place():
    return tinyt.device("opencl:0")
