"""Training, saving and loading in a process where NumPy is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
sys.modules["numpy"] = None  # an import of it fails
import tinyt
from tinyt import nn
from tinyt.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = tinyt.optim.Adam(model.parameters())
step = tinyt.compile(lambda x, y: nn.functional.cross_entropy(model(x), y))
data = TensorDataset(tinyt.randn(12, 4), tinyt.randint(0, 2, (12,)))
for x, y in DataLoader(data, batch_size=4, shuffle=True):
    optimizer.zero_grad()
    step(x, y).backward()
    optimizer.step()
names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
for name in names.split():
    dtype = getattr(tinyt, name)
    wide = tinyt.arange(16).reshape(4, 4).to(dtype)
    given = {"wide": wide, "part": wide[1:, 2:].t(), "one": wide[1, 1], "none": wide[:0]}
    tinyt.save(given, sys.argv[1])
    for key, x in tinyt.load(sys.argv[1]).items():
        assert x.dtype is dtype and x.shape == given[key].shape and (x == given[key]).all(), name
tinyt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, sys.argv[1])
state = tinyt.load(sys.argv[1])
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
print(model, tinyt.ones(2), tinyt.ones(2).tolist())
"""


def test_a_program(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path / "saved")],
        timeout=120,
        check=True,
    )
