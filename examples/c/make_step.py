"""Saves a training step and a prediction for train.c and train.lua: python make_step.py [FOLDER]"""

import sys
from pathlib import Path

import tinyt
from tinyt import nn, optim

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
tinyt.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = optim.Adam(model.parameters(), lr=0.01)


@tinyt.compile
def step(points, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(points), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


@tinyt.compile
def predict(points):
    return model(points).argmax(dim=1)


points, labels = tinyt.randn(64, 2), tinyt.zeros(64, dtype=tinyt.int64)
kept = {name: x.clone() for name, x in model.state_dict().items()}
for _ in range(2):  # the first call makes the optimiser's states, the second the program
    step(points, labels)
model.load_state_dict(kept)
for state in optimizer.state.values():
    for x in state.values():
        x.zero_()
with tinyt.no_grad():
    predict(points)
step.save(folder / "step.tinyt", model.state_dict())
predict.save(folder / "predict.tinyt", model.state_dict())
