"""`tinyt train chars` and `tinyt generate`: any text in, a continuation out."""

import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tinyt
from tinyt.cli import train as train_command
from tinyt.cli.__main__ import main
from tinyt.cli.chars.data import UNKNOWN, Vocabulary, Windows, read_text
from tinyt.cli.chars.generate import continuation
from tinyt.cli.chars.task import CharsConfig, CharsTrainer
from tinyt.cli.errors import CommandError
from tinyt.models import CharTransformer

SMALL = ["--width", "16", "--layers", "1", "--heads", "2", "--context", "16", "--epochs", "2"]
TEXT = "the quick brown fox jumps over the lazy dog.\n" * 60


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(train_command, "is_installed", lambda package: False)


def train(*options, text="text.txt", out="run"):
    return main(["train", "chars", "--text", text, *SMALL, *options, "--out", out])


def last_line(capsys):
    return capsys.readouterr().out.splitlines()[-1]


def test_train_eval_generate(capsys):
    assert train() == 0
    line = last_line(capsys)
    assert re.fullmatch(r"held-out bits per character: \d\.\d{3}", line)
    assert main(["eval", "run"]) == 0
    assert last_line(capsys) == line
    texts = []
    for _ in range(2):
        assert main(["generate", "run", "the quick", "--length", "30", "--seed", "3"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].startswith("the quick")
    assert len(texts[0]) == len("the quick") + 30 + 1
    assert set(texts[0]) <= set(TEXT)


def test_compiled_steps_give_the_bits_of_eager_ones():
    assert train("--dropout", "0.1", out="compiled") == 0
    assert train("--dropout", "0.1", "--eager", out="eager") == 0
    one, other = (Path(f"{run}/checkpoint.safetensors") for run in ("compiled", "eager"))
    a, b = (tinyt.load(str(path)) for path in (one, other))
    for x, y in zip(a["model"].values(), b["model"].values(), strict=True):
        assert x.numpy().tobytes() == y.numpy().tobytes()
    for record, expected in zip(a["history"], b["history"], strict=True):
        assert record | {"seconds": 0} == expected | {"seconds": 0}


def test_learns_a_text_that_repeats(capsys):
    alphabet = "abcdefghijklmnopqrstuvwxyz\n"
    Path("abc.txt").write_text(alphabet * 100)
    assert train("--epochs", "12", "--lr", "0.01", text="abc.txt") == 0
    # Single characters have 4.8 bits.
    assert float(last_line(capsys).split()[-1]) < 0.5
    assert main(["generate", "run", "abc", "--length", "23", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == alphabet


def test_resumed_elsewhere_equals_uninterrupted(capsys, monkeypatch, tmp_path):
    assert train(out="whole") == 0
    expected = last_line(capsys)
    stop_after = iter([False, True])
    run_epoch = CharsTrainer.run_epoch

    def interrupted(self, step, on_batch):
        if next(stop_after):
            raise KeyboardInterrupt
        return run_epoch(self, step, on_batch)

    with monkeypatch.context() as patch:
        patch.setattr(CharsTrainer, "run_epoch", interrupted)
        assert train(out="parts") == 130
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert main(["train", "chars", "--resume", "../parts"]) == 0
    assert last_line(capsys) == expected


def test_errors(capsys, tmp_path):
    def error_of(*argv):
        assert main(list(argv)) == 1
        return capsys.readouterr().err

    assert "no such file" in error_of("train", "chars", "--text", "missing").lower()
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    assert "is not UTF-8 text" in error_of("train", "chars", "--text", "latin")
    (tmp_path / "short").write_text("abc" * 9)
    assert "27 characters is too short" in error_of("train", "chars", "--text", "short", *SMALL)
    (tmp_path / "empty").write_text("")
    assert "0 characters is too short" in error_of("train", "chars", "--text", "empty", *SMALL)
    assert "multiple of heads, got 10 and 3" in error_of(
        "train", "chars", "--width", "10", "--heads", "3"
    )
    assert train() == 0
    assert "no character 'é'" in error_of("generate", "run", "café")
    assert "at least one character" in error_of("generate", "run", "")
    assert "run of another task" in error_of("train", "digits", "--resume", "run")
    (tmp_path / "text.txt").write_text(TEXT + "!")
    assert "is not the one that the run began with" in error_of("eval", "run")
    state = tinyt.load("run/checkpoint.safetensors")
    tinyt.save({**state, "vocabulary": "ab"}, "run/checkpoint.safetensors")
    assert "does not fit its run" in error_of("generate", "run", "a")
    tinyt.save({**state, "vocabulary": 3}, "run/checkpoint.safetensors")
    assert "does not fit its run" in error_of("generate", "run", "a")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--temperature", "-1"], "at least 0"),
        (["--temperature", "nan"], "at least 0"),
        (["--length", "0"], "must be at least 1"),
        (["--top-k", "0"], "must be at least 1"),
    ],
)
def test_wrong_options_of_generate(capsys, option, message):
    with pytest.raises(SystemExit, match="2"):
        main(["generate", "run", "a", *option])
    assert message in capsys.readouterr().err


def test_built_in_text_is_pythons_documentation():
    text = read_text("")
    assert len(text) > 200_000
    assert 'The "while" statement' in text


def test_vocabulary_of_many_characters_keeps_the_frequent_ones():
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 1200)))
    vocabulary = Vocabulary.of(rare + "ab" * 3)
    assert len(vocabulary) == 1000
    assert {"a", "b", UNKNOWN} <= set(vocabulary.characters)
    last = rare[-1]
    assert vocabulary.decode(vocabulary.encode(f"a{last}b").tolist()) == f"a{UNKNOWN}b"


def test_vocabulary_refuses_what_it_lacks():
    vocabulary = Vocabulary.of("abca")
    assert vocabulary.encode("cab").tolist() == [2, 0, 1]
    with pytest.raises(CommandError, match="'xy'"):
        vocabulary.encode("yax")
    with pytest.raises(ValueError, match="each once"):
        Vocabulary("aa")


def test_windows_cover_the_text_once_in_another_order():
    text = tinyt.arange(101)
    tinyt.manual_seed(1)
    passes = [list(Windows(text, 10, 3)) for _ in range(2)]
    for batches in passes:
        assert len(batches) == len(Windows(text, 10, 3)) == 3
        seen = Counter()
        for inputs, targets in batches:
            assert tuple(inputs.shape) == (3, 10)
            np.testing.assert_array_equal(targets.numpy(), inputs.numpy() + 1)
            seen.update(inputs.flatten().tolist())
        assert set(seen.values()) == {1}
    assert passes[0][0][0].tolist() != passes[1][0][0].tolist()


def test_bits_per_character_is_the_mean_over_every_character():
    """A network that knows nothing needs log2(classes), also in the last, shorter window."""
    Path("ab.txt").write_text("ab" * 200)
    trainer = CharsTrainer(
        CharsConfig(text="ab.txt", context=16, width=4, layers=1), tinyt.device("cpu")
    )
    for param in trainer.model.parameters():
        param.data.zero_()
    text = trainer.vocabulary.encode("ab" * 18 + "a")
    assert math.isclose(trainer.bits_per_character(text), 1.0, rel_tol=1e-6)


def test_continuation_follows_temperature_and_top_k():
    tinyt.manual_seed(0)
    model = CharTransformer(classes=5, context=4, width=8, layers=1, heads=2, dropout=0.0).eval()
    prompt = tinyt.tensor([1, 2, 3, 4, 0, 1])

    def drawn(temperature, top_k, seed=0):
        generator = tinyt.Generator()
        generator.manual_seed(seed)
        return list(continuation(model, prompt, 20, temperature, top_k, generator))

    greedy = drawn(0, None)
    assert greedy == drawn(3.0, 1)  # one character to choose from
    assert greedy == drawn(1e-30, None)
    assert drawn(100.0, None) != drawn(100.0, None, seed=1)
    assert set(drawn(100.0, None)) == set(range(5))


def test_model_sees_only_what_came_before():
    tinyt.manual_seed(0)
    model = CharTransformer(classes=5, context=6, width=8, layers=2, heads=2, dropout=0.0).eval()
    text = tinyt.tensor([[0, 1, 2, 3, 4, 0]])
    with tinyt.no_grad():
        before = model(text)
        text[0, 4] = 1
        after = model(text)
    np.testing.assert_array_equal(before[0, :4].numpy(), after[0, :4].numpy())
    assert (before[0, 4] != after[0, 4]).any()
    with pytest.raises(ValueError, match="at most 6 characters, got 7"):
        model(tinyt.zeros(1, 7, dtype=tinyt.int64))
