"""The `tinyt` command: what it prints, what it leaves behind, how it stops and goes on."""

import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyt
from tinyt.cli import errors, progress, runs
from tinyt.cli import train as train_command
from tinyt.cli.__main__ import main
from tinyt.cli.digits import data as digits
from tinyt.cli.digits import plots
from tinyt.cli.digits.task import MODELS, Digits, DigitsConfig
from tinyt.compiler.api import compile

pytest.importorskip("sklearn")

TRAIN = ["train", "digits", "--model", "mlp", "--batch-size", "256"]


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_pictures(monkeypatch):
    """matplotlib is slow to load, and its pictures are tested on their own."""
    monkeypatch.setattr(train_command, "is_installed", lambda package: False)


def state_of(run):
    """The checkpoint without the wall-clock times in its history."""
    state = tinyt.load(f"{run}/checkpoint.safetensors")
    for record in state["history"]:
        del record["seconds"]
    return state


def flatten(value, path=""):
    if isinstance(value, dict):
        return {
            p: v for key, item in value.items() for p, v in flatten(item, f"{path}/{key}").items()
        }
    if isinstance(value, list):
        return {
            p: v for i, item in enumerate(value) for p, v in flatten(item, f"{path}/{i}").items()
        }
    if isinstance(value, tinyt.Tensor):
        return {path: (str(value.dtype), tuple(value.shape), value.numpy().tobytes())}
    return {path: value}


def interrupt_at(monkeypatch, batch, error=KeyboardInterrupt):
    """Raises what `error` makes, by default that of Ctrl-C, after that many batches."""
    count = 0

    class Interrupting(progress._PlainProgress):
        def batch(self, loss):
            nonlocal count
            count += 1
            if count == batch:
                raise error()

    monkeypatch.setattr(
        train_command,
        "make_progress",
        lambda epochs, done, batches, summary: Interrupting(epochs, summary),
    )


@pytest.mark.usefixtures("matplotlib_loaded")
def test_train_leaves_a_whole_run_and_ends_with_the_accuracy(capsys):
    assert main([*TRAIN, "--epochs", "3", "--seed", "1", "--out", "run", "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"test accuracy: \d\d\.\d\d%", lines[-1])
    config = json.loads(Path("run/config.json").read_text())
    assert (config["model"], config["epochs"], config["seed"]) == ("mlp", 3, 1)
    records = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [record.get("epoch") for record in records] == [1, 2, 3, None]
    assert f"{100 * records[-1]['test_accuracy']:.2f}%" in lines[-1]
    assert records[2]["train_loss"] < records[0]["train_loss"]
    for name in ("curves.png", "misread.png"):
        assert Path(f"run/{name}").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert main(["eval", "run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == lines[-1]


@pytest.mark.parametrize("model", ["cnn", "mlp"])
@pytest.mark.parametrize("batch", [1, 8])
def test_interrupted_and_resumed_equals_uninterrupted(
    capsys, monkeypatch, no_pictures, model, batch
):
    command = ["train", "digits", "--model", model, "--batch-size", "256", "--epochs", "2"]
    assert main([*command, "--out", "whole"]) == 0
    expected = capsys.readouterr().out.splitlines()[-1]
    with monkeypatch.context() as patch:
        interrupt_at(patch, batch)
        assert main([*command, "--out", "parts"]) == 130
    done = 0 if batch == 1 else 1
    message = capsys.readouterr().err
    assert f"saved as of epoch {done} of 2" in message
    assert message.rstrip().endswith("tinyt train digits --resume parts")
    tinyt.manual_seed(99)  # the state at resumption must not matter
    assert main(["train", "digits", "--resume", "parts"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == expected
    assert flatten(state_of("parts")) == flatten(state_of("whole"))


@pytest.mark.parametrize("error", [tinyt.OutOfMemoryError, tinyt.DeviceError])
def test_a_device_that_fails_ends_it_in_a_line(capsys, monkeypatch, no_pictures, error):
    """Memory that is short, and a device that is lost; the run can be gone on with."""
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1, lambda: error("add: no more\nat all"))
        assert main([*TRAIN, "--epochs", "1", "--out", "run"]) == 1
    assert capsys.readouterr().err == "tinyt: error: add: no more at all\n"
    assert main(["train", "digits", "--resume", "run"]) == 0


@pytest.mark.parametrize("model", ["cnn", "mlp"])
def test_result_does_not_depend_on_threads(no_pictures, model):
    states = []
    for threads in ("1", "2", "3"):
        options = ["--model", model, "--epochs", "1", "--batch-size", "256", "--threads", threads]
        assert main(["train", "digits", *options, "--out", threads]) == 0
        states.append(flatten(state_of(threads)))
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("model", ["cnn", "mlp"])
def test_compiled_steps_give_the_bits_of_eager_ones(monkeypatch, no_pictures, model):
    made = []
    monkeypatch.setattr(
        train_command, "compile", lambda step: made.append(compile(step)) or made[-1]
    )
    options = ["--model", model, "--epochs", "2", "--batch-size", "256"]
    assert main(["train", "digits", *options, "--out", "compiled"]) == 0
    assert main(["train", "digits", *options, "--out", "eager", "--eager"]) == 0
    assert flatten(state_of("compiled")) == flatten(state_of("eager"))
    (step,) = made
    assert step.cache_info().hits > step.cache_info().misses


def test_resuming_a_finished_run_prints_its_result_again(capsys, no_pictures):
    assert main([*TRAIN, "--epochs", "1", "--out", "run"]) == 0
    expected = capsys.readouterr().out.splitlines()[-1]
    assert main(["train", "digits", "--resume", "run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == expected


def test_real_interrupt_signal(tmp_path):
    command = [sys.executable, "-m", "tinyt.cli", *TRAIN, "--epochs", "500", "--out", "run"]
    # A shell's background job ignores the signal, and so would its children.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, ignored)
    with process:
        for line in process.stdout:
            if line.startswith("epoch 2/"):
                process.send_signal(signal.SIGINT)
                break
        _, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "tinyt train digits --resume run" in error
    assert state_of(tmp_path / "run")["epoch"] >= 2


def test_missing_matplotlib_is_said_and_does_not_fail(capsys, no_pictures):
    assert main([*TRAIN, "--epochs", "1", "--out", "run"]) == 0
    captured = capsys.readouterr()
    assert 'pip install "tinyt[demo]"' in captured.err
    assert captured.out.splitlines()[-1].startswith("test accuracy: ")


def test_missing_sklearn_is_said(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert main([*TRAIN, "--out", "run"]) == 1
    assert 'scikit-learn is needed for the digits data: pip install "tinyt[demo]"' in (
        capsys.readouterr().err
    )


def test_info(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"tinyt {tinyt.__version__}\n")
    for part in ("configuration:", "memory:", "packages:", "numpy"):
        assert part in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "COMMAND"),
        (["train"], "TASK"),
        (["train", "letters"], "invalid choice"),
        (["train", "digits", "--epochs", "0"], "must be at least 1"),
        (["train", "digits", "--epochs", "many"], "invalid integer value"),
        (["train", "digits", "--seed", "-1"], "must be at least 0"),
        (["train", "digits", "--lr", "nan"], "must be at least"),
        (["train", "digits", "--lr", "0"], "must be at least"),
        (["train", "digits", "--label-smoothing", "2"], "at most 1"),
        (["train", "digits", "--model", "rnn"], "invalid choice"),
        (["train", "digits", "--resume", "x", "--batch-size", "3"], "--batch-size cannot be"),
    ],
)
def test_wrong_usage_exits_with_2(capsys, argv, message):
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["train", "--help"],
        ["train", "digits", "--help"],
        ["train", "chars", "--help"],
        ["eval", "--help"],
        ["generate", "--help"],
        ["bench", "--help"],
    ],
)
def test_help(capsys, argv):
    with pytest.raises(SystemExit, match="0"):
        main(argv)
    assert "usage: tinyt" in capsys.readouterr().out


def test_errors_of_run_folders(capsys, tmp_path, no_pictures):
    def error_of(*argv):
        assert main(list(argv)) == 1
        return capsys.readouterr().err

    assert "is no run folder" in error_of("eval", "nothing")
    assert "is no run folder" in error_of("train", "digits", "--resume", "nothing")
    assert main([*TRAIN, "--epochs", "1", "--out", "run"]) == 0
    assert "holds a run already" in error_of(*TRAIN, "--out", "run")
    (tmp_path / "run/checkpoint.safetensors").write_bytes(b"damaged")
    assert "checkpoint.safetensors: load: " in error_of("eval", "run")
    tinyt.save({"model": {}}, "run/checkpoint.safetensors")
    assert "does not fit" in error_of("eval", "run")
    assert "does not fit" in error_of("train", "digits", "--resume", "run")
    tinyt.save([1], "run/checkpoint.safetensors")
    assert "holds no training state" in error_of("eval", "run")
    (tmp_path / "run/checkpoint.safetensors").unlink()
    assert "has no checkpoint yet" in error_of("eval", "run")
    for text in (
        "{",
        "[]",
        '{"epochs": 3}',
        '{"task": "letters"}',
        '{"task": ["digits"]}',
        '{"task": "digits", "epochs": "3"}',
        '{"task": "digits", "unknown": 1}',
        '{"task": "digits", "epochs": 0}',
        '{"task": "digits", "model": "rnn"}',
    ):
        (tmp_path / "run/config.json").write_text(text)
        assert "tinyt: error: " in error_of("eval", "run")
    assert "more than the 1293 training images" in error_of(
        "train", "digits", "--batch-size", "2000", "--out", "large"
    )


def test_default_folders_are_dated_and_distinct(monkeypatch):
    monkeypatch.setattr(runs.time, "strftime", lambda pattern: "digits-20260102-030405")
    folders = [runs.Run.create(None, Digits, DigitsConfig()).folder for _ in range(3)]
    assert [str(folder) for folder in folders] == [
        "runs/digits-20260102-030405",
        "runs/digits-20260102-030405-2",
        "runs/digits-20260102-030405-3",
    ]


def test_split_is_fixed_disjoint_and_stratified():
    parts = digits.load_digits()
    assert [len(part.labels) for part in parts] == [1293, 144, 360]
    rows = np.concatenate([part.images.numpy().reshape(-1, 64) for part in parts])
    labels = np.concatenate([part.labels.numpy() for part in parts])
    from sklearn.datasets import load_digits

    bunch = load_digits()
    mine = sorted(map(tuple, np.column_stack([rows * 16, labels]).tolist()))
    assert mine == sorted(map(tuple, np.column_stack([bunch.data, bunch.target]).tolist()))
    counts = np.bincount(parts.test.labels.numpy())
    assert counts.min() >= 34
    assert counts.max() <= 38


def test_networks_take_images_and_give_logits():
    for model in MODELS.values():
        assert tuple(model()(tinyt.zeros(3, 1, 8, 8)).shape) == (3, 10)


def summary(record):
    return f"loss {record['train_loss']:.4f}"


def test_live_progress_shows_epoch_and_metrics():
    rich = pytest.importorskip("rich.console")
    live = progress._LiveProgress(epochs=2, done=1, batches=2, summary=summary)
    record = {"epoch": 2, "train_loss": 0.5, "validation_accuracy": 0.75, "seconds": 1.0}
    with rich.Console(record=True, width=120, file=io.StringIO()) as console:
        live._bar.live.console = console
        live.batch(0.25)
        live.epoch(record)
        console.print(live._bar.get_renderable())
    text = console.export_text()
    assert "epoch 2/2" in text
    assert "loss 0.5000  1.00 s" in text


def test_plain_progress_away_from_a_terminal(capsys):
    shown = progress.make_progress(epochs=2, done=0, batches=1, summary=summary)
    with shown:
        shown.batch(1.0)
        shown.epoch({"epoch": 1, "train_loss": 0.5, "validation_accuracy": 1.0, "seconds": 2.0})
    assert capsys.readouterr().out == "epoch 1/2  loss 0.5000  2.00 s\n"


@pytest.fixture(scope="module")
def matplotlib_loaded(tmp_path_factory):
    """The first picture loads fonts and back ends, whose frames would keep a test's tensors."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    figure.subplots().set_title("1")
    figure.savefig(tmp_path_factory.mktemp("loaded") / "empty.png")


@pytest.mark.usefixtures("matplotlib_loaded")
@pytest.mark.parametrize("wrong", [0, 1, 60])
def test_misread_picture(tmp_path, wrong):
    labels = tinyt.zeros(60, dtype=tinyt.int64)
    logits = tinyt.zeros(60, 10)
    logits[:, 0] = 1.0
    logits[:wrong, 3] = 2.0
    part = digits.Part(tinyt.zeros(60, 1, 8, 8), labels)
    plots.plot_misread(part, logits, tmp_path / "misread.png")
    assert (tmp_path / "misread.png").stat().st_size > 1000


def test_require_names_package_and_remedy():
    with pytest.raises(errors.CommandError, match=r'pip install "tinyt\[demo\]"'):
        errors.require("tinyt_no_such_package", "no-such-project", "this test")
