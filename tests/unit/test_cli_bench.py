"""`tinyt bench`: a table that anybody can make."""

import re

import pytest

from tinyt.cli import bench
from tinyt.cli.__main__ import main

try:
    import torch
except ImportError:
    torch = None


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Times are not tested: each call once."""

    def once(functions, rounds):
        for function in functions:
            function()
        return [1e-6 * (1 + i) for i in range(len(functions))]

    before = torch and torch.get_num_threads()
    monkeypatch.setattr(bench, "interleaved", once)
    yield
    if torch:
        torch.set_num_threads(before)


@pytest.mark.parametrize("with_torch", [False, True])
def test_table(capsys, monkeypatch, with_torch):
    if with_torch and torch is None:
        pytest.skip("compares with PyTorch")
    monkeypatch.setattr(bench, "is_installed", lambda package: with_torch)
    assert main(["bench", "--threads", "1", "--rounds", "1"]) == 0
    head, names, *rows, foot = capsys.readouterr().out.splitlines()
    assert "1 threads" in head
    assert ("torch" in names) == with_torch
    assert len(rows) == len(bench.CASES)
    for case, row in zip(bench.CASES, rows, strict=True):
        columns = re.split(r"\s+", row.removeprefix(case.name).strip())
        assert len(columns) == (5 if with_torch else 3)
        assert (columns[1] == "-") == (case.arrays is None)
    assert "times faster" in foot


@pytest.mark.parametrize("case", bench.CASES, ids=lambda case: case.name)
def test_calls_of_a_case_agree(case):
    import numpy as np

    calls = bench._calls(case, torch)
    ours = np.asarray(calls["tinyt"]())
    for call in calls.values():
        np.testing.assert_allclose(ours, np.asarray(call()), rtol=1e-3, atol=1e-3)
