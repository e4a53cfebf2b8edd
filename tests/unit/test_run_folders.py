"""Run folders that were cut short or tampered with: one line of error, or training goes on."""

import json
import os
from pathlib import Path

import pytest

import tinyt
from tinyt.cli import runs
from tinyt.cli import train as train_command
from tinyt.cli.__main__ import main

pytest.importorskip("sklearn")

TRAIN = ["train", "digits", "--model", "mlp", "--batch-size", "256", "--epochs", "1"]
RESUME = ["train", "digits", "--resume", "run"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train_command, "is_installed", lambda package: False)
    return tmp_path / "run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The files of a run of one epoch."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert main([*TRAIN, "--out", str(folder)]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def make(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def error_of(capsys, *argv):
    capsys.readouterr()
    assert main(list(argv)) == 1
    error = capsys.readouterr().err
    assert error.startswith("tinyt: error: ")
    assert error.count("\n") == 1
    assert len(error) < 1200
    return error


def test_resume_of_a_run_killed_before_its_first_checkpoint(capsys, monkeypatch, folder):
    def killed(self, state):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs.Run, "save_checkpoint", killed)
        assert main([*TRAIN, "--out", "run"]) == 130
    assert os.listdir(folder) == ["config.json"]
    assert "tinyt train digits --resume run" in error_of(capsys, *TRAIN, "--out", "run")
    assert "train it: tinyt train digits --resume run" in error_of(capsys, "eval", "run")
    assert main(RESUME) == 0
    resumed = capsys.readouterr().out.splitlines()[-1]
    assert main([*TRAIN, "--out", "whole"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == resumed


def test_checkpoint_without_settings_is_no_circle(capsys, folder, trained):
    make(folder, {"checkpoint.safetensors": trained["checkpoint.safetensors"]})
    error = error_of(capsys, *TRAIN, "--out", "run")
    assert "choose another --out" in error
    assert "--resume" not in error


def huge(name, value):
    return json.dumps({"task": "digits", name: value})


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "\ufeff{}",
        '{"task": null}',
        '{"task": "digits", "epochs": 1e999}',
        '{"task": "digits", "epochs": ' + "9" * 5000 + "}",
        '{"task": "digits", "lr": NaN}',
        '{"task": "digits\\n\\u001b[31m"}',
        huge("epochs", 2**70),
        huge("seed", -1),
        huge("batch_size", 2**62),
        huge("model", "x" * 10**5),
        huge("x" * 10**5, 1),
        json.dumps({"task": "digits", "y": "x" * 2_000_000}),
        json.dumps({"task": "chars", "layers": 2**40}),
        json.dumps({"task": "chars", "width": 2**62, "heads": 1}),
        json.dumps({"task": "chars", "text": "/nowhere\u0000"}),
    ],
)
def test_hostile_settings(capsys, folder, trained, text):
    make(folder, {**trained, "config.json": text.encode("utf-8")})
    for argv in (["eval", "run"], RESUME):
        error_of(capsys, *argv)


@pytest.mark.parametrize("name", ["config.json", "checkpoint.safetensors"])
@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "dangling", "bytes", "empty"])
def test_what_is_no_file(capsys, folder, trained, name, kind):
    make(folder, trained)
    path = folder / name
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    else:
        path.write_bytes(b"\xff\xfe" if kind == "bytes" else b"")
    error_of(capsys, "eval", "run")
    if kind != "dangling":
        error_of(capsys, *RESUME)


@pytest.mark.parametrize("kind", [os.mkdir, os.mkfifo])
def test_metrics_that_are_no_file(capsys, folder, trained, kind):
    make(folder, trained)
    (folder / "metrics.jsonl").unlink()
    kind(folder / "metrics.jsonl")
    assert "metrics.jsonl is no regular file" in error_of(capsys, *RESUME)


def test_what_is_no_folder(capsys, folder):
    folder.write_text("file")
    for argv in (["eval", "run"], RESUME, [*TRAIN, "--out", "run"], ["generate", "run", "x"]):
        error_of(capsys, *argv)


def change(state, path, value):
    *keys, last = path
    for key in keys:
        state = state[key]
    if value is KeyError:
        del state[last]
    else:
        state[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["epoch"], "1"),
        (["epoch"], float("inf")),
        (["epoch"], -1),
        (["epoch"], 10**30),
        (["epoch"], 0),
        (["epoch"], KeyError),
        (["history"], 3),
        (["history"], [None]),
        (["history"], []),
        (["history", 0, "train_loss"], "x"),
        (["history", 0, "validation_loss"], KeyError),
        (["history", 0, "epoch"], [1]),
        (["model"], [1]),
        (["optimizer"], None),
        (["optimizer", "state"], [1]),
        (["optimizer", "state", 0], {}),
        (["optimizer", "state", 0, "exp_avg"], 3),
        (["optimizer", "state", 10**30], {}),
        (["optimizer", "param_groups"], []),
        (["optimizer", "param_groups", 0, "lr"], "x"),
        (["optimizer", "param_groups", 0, "betas"], (0.9,)),
        (["optimizer", "param_groups", 0, "amsgrad"], True),
        (["optimizer", "param_groups", 0, "params"], [10**30]),
        (["scheduler"], {}),
        (["scheduler", "last_epoch"], 10**400),
        (["scheduler", "last_epoch"], "x"),
        (["random"], 7),
        (["random"], "x"),
    ],
)
def test_hostile_checkpoint(capsys, folder, trained, path, value):
    make(folder, trained)
    checkpoint = Path("run/checkpoint.safetensors")
    state = tinyt.load(checkpoint)
    change(state, path, value)
    tinyt.save(state, checkpoint)
    del state
    error_of(capsys, *RESUME)
    error_of(capsys, "eval", "run")
