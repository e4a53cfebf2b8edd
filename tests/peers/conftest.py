"""Comparisons with PyTorch; skipped where it is not installed."""

from __future__ import annotations

import importlib.util
import zlib

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """What a test draws from PyTorch's generator does not depend on the tests before it."""
    import torch

    torch.manual_seed(zlib.crc32(request.node.nodeid.encode()))
