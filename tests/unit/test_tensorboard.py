"""`utils.tensorboard`: what is written, as TensorBoard's own reader sees it."""

from __future__ import annotations

import io
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt

pytest.importorskip("tensorboard", reason="tensorboard is in the extra `test`")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from tinyt.utils.tensorboard import FileWriter, SummaryWriter

Write = Callable[[SummaryWriter], None]


def read(folder: Path, write: Write | None = None, **options: Any) -> EventAccumulator:
    if write is not None:
        with SummaryWriter(folder, **options) as writer:
            write(writer)
    found = EventAccumulator(str(folder), {"images": 0, "audio": 0, "scalars": 0, "tensors": 0})
    return found.Reload()


def test_scalars(tmp_path: Path) -> None:
    values = [1.0, 0.5, tinyt.tensor(0.25), np.float32(0.125), tinyt.tensor([2]), True]

    def write(w: SummaryWriter) -> None:
        for step, value in enumerate(values):
            w.add_scalar("loss/train", value, step, walltime=100.0 + step)
        w.add_scalar("half", tinyt.tensor(1.5, dtype=tinyt.bfloat16, requires_grad=True))

    found = read(tmp_path, write)
    events = found.Scalars("loss/train")
    assert [e.value for e in events] == [1.0, 0.5, 0.25, 0.125, 2.0, 1.0]
    assert [e.step for e in events] == list(range(6))
    assert [e.wall_time for e in events] == [100.0 + i for i in range(6)]
    assert found.Scalars("half")[0].value == 1.5


def test_scalars_of_the_newer_form(tmp_path: Path) -> None:
    def write(w: SummaryWriter) -> None:
        w.add_scalar("a", 0.1, 1, new_style=True)
        w.add_scalar("b", 0.1, 1, new_style=True, double_precision=True)

    found = read(tmp_path, write)
    assert found.Tensors("a")[0].tensor_proto.float_val[0] == np.float32(0.1)
    assert found.Tensors("b")[0].tensor_proto.double_val[0] == 0.1
    assert found.SummaryMetadata("a").plugin_data.plugin_name == "scalars"


def test_several_scalars_in_one_chart(tmp_path: Path) -> None:
    read(tmp_path, lambda w: w.add_scalars("run/x", {"a": 1, "b": tinyt.tensor(2.0)}, 3))
    for name, value in (("a", 1.0), ("b", 2.0)):
        (event,) = read(tmp_path / f"run_x_{name}").Scalars("run/x")
        assert (event.step, event.value) == (3, value)


def test_histogram(tmp_path: Path) -> None:
    values = tinyt.tensor([-2.0, -1.0, 0.0, 0.5, 0.5, 3.0])

    def write(w: SummaryWriter) -> None:
        w.add_histogram("h", values, 7)
        w.add_histogram("n", values, 7, bins=5)
        w.add_histogram("edges", [0.5, 1.5, 1.5], bins=[0.0, 1.0, 2.0, 3.0])
        w.add_histogram("few", tinyt.arange(100), bins=50, max_bins=10)

    found = read(tmp_path, write)
    h = found.Histograms("h")[0]
    value = h.histogram_value
    assert (h.step, value.min, value.max, value.num) == (7, -2.0, 3.0, 6.0)
    assert value.sum == pytest.approx(1.0)
    assert value.sum_squares == pytest.approx(14.5)
    assert sum(value.bucket) == 6
    assert len(value.bucket) == len(value.bucket_limit)
    lower = [-np.inf, *value.bucket_limit[:-1]]
    for low, high, count in zip(lower, value.bucket_limit, value.bucket, strict=True):
        assert count == sum(low <= x < high for x in values.tolist())
    edges = found.Histograms("edges")[0].histogram_value
    assert (list(edges.bucket_limit), list(edges.bucket)) == ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
    assert sum(found.Histograms("n")[0].histogram_value.bucket) == 6
    few = found.Histograms("few")[0].histogram_value
    assert (len(few.bucket), sum(few.bucket)) == (11, 100)


def test_raw_histogram(tmp_path: Path) -> None:
    def write(w: SummaryWriter) -> None:
        w.add_histogram_raw("h", 0, 3, 3, 4.0, 6.0, [1.0, 2.0, 4.0], [1, 1, 1], 2)

    value = read(tmp_path, write).Histograms("h")[0].histogram_value
    assert (value.num, value.sum, list(value.bucket_limit)) == (3, 4.0, [1.0, 2.0, 4.0])


def pixels_of(found: EventAccumulator, tag: str) -> Any:
    from PIL import Image

    event = found.Images(tag)[0]
    array = np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
    assert array.shape[:2] == (event.height, event.width)
    return array


@pytest.mark.parametrize(
    ("order", "shape"),
    [
        ("CHW", (3, 4, 5)),
        ("HWC", (4, 5, 3)),
        ("HW", (4, 5)),
        ("CHW", (1, 4, 5)),
        ("CHW", (4, 4, 5)),
    ],
)
def test_image(tmp_path: Path, order: str, shape: tuple[int, ...]) -> None:
    image = np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    found = read(tmp_path, lambda w: w.add_image("i", tinyt.tensor(image), dataformats=order))
    full = image[None] if order == "HW" else image if order == "CHW" else image.transpose(2, 0, 1)
    want = np.clip(full * 255, 0, 255).astype(np.uint8).transpose(1, 2, 0)
    if want.shape[-1] == 1:
        want = want.repeat(3, axis=-1)
    np.testing.assert_array_equal(pixels_of(found, "i"), want)


def test_images(tmp_path: Path) -> None:
    batch = np.random.default_rng(0).integers(0, 256, (11, 3, 2, 4), dtype=np.uint8)

    def write(w: SummaryWriter) -> None:
        w.add_images("b", tinyt.tensor(batch))
        w.add_images("n", tinyt.tensor(batch.transpose(0, 2, 3, 1)), dataformats="NHWC")

    found = read(tmp_path, write)
    grid = pixels_of(found, "b")
    assert grid.shape == (4, 32, 3)
    np.testing.assert_array_equal(grid[:2, 4:8], batch[1].transpose(1, 2, 0))
    np.testing.assert_array_equal(grid[2:, 8:12], batch[10].transpose(1, 2, 0))
    assert not grid[2:, 12:].any()
    np.testing.assert_array_equal(pixels_of(found, "n"), grid)


def test_boxes(tmp_path: Path) -> None:
    black = tinyt.zeros(3, 20, 30)

    def write(w: SummaryWriter) -> None:
        w.add_image_with_boxes("b", black, tinyt.tensor([[2.0, 3.0, 10.0, 12.0]]), labels=["x"])
        w.add_image_with_boxes("big", black, [[0, 0, 5, 5]], rescale=2)

    found = read(tmp_path, write)
    image = pixels_of(found, "b")
    assert image[3, 2].tolist() == image[12, 10].tolist() == [255, 0, 0]
    assert image[0, 0].tolist() == [0, 0, 0]
    assert pixels_of(found, "big").shape == (40, 60, 3)


def test_figure(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figures = [pyplot.figure(figsize=(2, 1), dpi=50) for _ in range(3)]

    def write(w: SummaryWriter) -> None:
        w.add_figure("one", figures[0])
        w.add_figure("two", figures[1:], close=False)

    found = read(tmp_path, write)
    assert pixels_of(found, "one").shape == (50, 100, 3)
    assert pixels_of(found, "two").shape == (50, 200, 3)
    assert pyplot.get_fignums() == [f.number for f in figures[1:]]
    pyplot.close("all")


def test_audio(tmp_path: Path) -> None:
    sound = tinyt.tensor([[0.0, 0.5, -1.0, 2.0]])
    event = read(tmp_path, lambda w: w.add_audio("s", sound, 1, 8000)).Audio("s")[0]
    with wave.open(io.BytesIO(event.encoded_audio_string)) as file:
        assert (file.getframerate(), file.getnchannels()) == (8000, 1)
        frames = np.frombuffer(file.readframes(4), "<i2").tolist()
    assert frames == [0, 16383, -32767, 32767]
    assert event.sample_rate == 8000


def test_text_and_tensors(tmp_path: Path) -> None:
    def write(w: SummaryWriter) -> None:
        w.add_text("notes", "**bold** ü", 2)
        w.add_tensor("t", tinyt.tensor([[1.0, 2.0], [3.0, 4.0]]), 1)

    found = read(tmp_path, write)
    (event,) = found.Tensors("notes/text_summary")
    assert event.step == 2
    assert event.tensor_proto.string_val[0].decode() == "**bold** ü"
    assert found.SummaryMetadata("notes/text_summary").plugin_data.plugin_name == "text"
    proto = found.Tensors("t")[0].tensor_proto
    assert list(proto.float_val) == [1.0, 2.0, 3.0, 4.0]
    assert [d.size for d in proto.tensor_shape.dim] == [2, 2]


def test_hyperparameters(tmp_path: Path) -> None:
    values = {"lr": 0.1, "bs": 32, "opt": "sgd", "nesterov": True, "t": tinyt.tensor(2), "no": None}
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams(
            values, {"hparam/loss": 0.5}, {"opt": ["sgd", "adam"]}, run_name="first", global_step=4
        )
    found = read(tmp_path / "first")
    (event,) = found.Scalars("hparam/loss")
    assert (event.step, event.value) == (4, 0.5)

    def data(tag: str) -> Any:
        content = found.SummaryMetadata(tag).plugin_data.content
        return plugin_data_pb2.HParamsPluginData.FromString(content)

    start = data("_hparams_/session_start_info").session_start_info.hparams
    assert {k: v.WhichOneof("kind") for k, v in start.items()} == {
        "lr": "number_value",
        "bs": "number_value",
        "opt": "string_value",
        "nesterov": "bool_value",
        "t": "number_value",
    }
    assert start["bs"].number_value == 32
    experiment = data("_hparams_/experiment").experiment
    assert [m.name.tag for m in experiment.metric_infos] == ["hparam/loss"]
    (opt,) = (h for h in experiment.hparam_infos if h.name == "opt")
    assert [v.string_value for v in opt.domain_discrete.values] == ["sgd", "adam"]
    assert data("_hparams_/session_end_info").session_end_info.status


def test_precision_and_recall(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    labels, scores = rng.integers(0, 2, 50), rng.random(50)

    def write(w: SummaryWriter) -> None:
        w.add_pr_curve("pr", tinyt.tensor(labels), tinyt.tensor(scores), num_thresholds=11)

    proto = read(tmp_path, write).Tensors("pr")[0].tensor_proto
    tp, fp, tn, fn, precision, recall = np.array(proto.float_val).reshape(6, 11)
    for i in range(11):
        chosen = scores >= i / 10
        assert tp[i] == (chosen & (labels == 1)).sum()
        assert fp[i] == (chosen & (labels == 0)).sum()
        assert fn[i] == (~chosen & (labels == 1)).sum()
        assert tn[i] == (~chosen & (labels == 0)).sum()
    np.testing.assert_allclose(precision, tp / np.maximum(tp + fp, 1e-7), rtol=1e-6)
    np.testing.assert_allclose(recall, tp / (tp + fn), rtol=1e-6)


def test_embedding(tmp_path: Path) -> None:
    from google.protobuf import text_format
    from tensorboard.plugins.projector import projector_config_pb2

    matrix = tinyt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(matrix, ["a", "b\tb", "c"], tinyt.rand(3, 3, 4, 4), 1, "words")
        writer.add_embedding(matrix, [["a", 1], ["b", 2], ["c", 3]], None, 2, "more",
                             ["name", "number"])  # fmt: skip
        with pytest.raises(ValueError, match="one entry a row"):
            writer.add_embedding(matrix, ["a"])
    config = projector_config_pb2.ProjectorConfig()
    text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), config)
    first, second = config.embeddings
    assert (first.tensor_name, second.tensor_name) == ("words:00001", "more:00002")
    rows = np.loadtxt(tmp_path / first.tensor_path, delimiter="\t")
    np.testing.assert_array_equal(rows, matrix.numpy())
    assert (tmp_path / first.metadata_path).read_text() == "a\nb b\nc\n"
    assert (tmp_path / first.sprite.image_path).exists()
    assert (tmp_path / second.metadata_path).read_text().splitlines()[0] == "name\tnumber"


def test_layout_of_charts(tmp_path: Path) -> None:
    from tensorboard.plugins.custom_scalar import layout_pb2, metadata

    layout = {"Losses": {"all": ["Multiline", ["a", "b"]], "range": ["Margin", ["a", "b", "c"]]}}
    found = read(tmp_path, lambda w: w.add_custom_scalars(layout))
    proto = found.Tensors(metadata.CONFIG_SUMMARY_TAG)[0].tensor_proto
    read_back = layout_pb2.Layout.FromString(proto.string_val[0])
    chart, margin = read_back.category[0].chart
    assert list(chart.multiline.tag) == ["a", "b"]
    assert margin.margin.series[0].lower == "b"


def test_purged_steps(tmp_path: Path) -> None:
    def write(w: SummaryWriter) -> None:
        for step in range(4):
            w.add_scalar("x", step, step)

    read(tmp_path, write, filename_suffix=".1")
    found = read(tmp_path, lambda w: w.add_scalar("x", 20, 2), purge_step=2, filename_suffix=".2")
    assert [(e.step, e.value) for e in found.Scalars("x")] == [(0, 0.0), (1, 1.0), (2, 20.0)]


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_mine", filename_suffix=".end")
    assert writer.get_logdir().startswith("runs/")
    assert writer.get_logdir().endswith("_mine")
    writer.add_scalar("x", 1, 1)
    writer.flush()
    assert [e.value for e in read(tmp_path / writer.get_logdir()).Scalars("x")] == [1.0]
    writer.close()
    writer.add_scalar("x", 2, 2)  # opens another file
    writer.close()
    (first, *_) = (tmp_path / writer.get_logdir()).iterdir()
    assert first.name.endswith(".end")
    plain = FileWriter(tmp_path / "plain")
    plain.close()
    assert plain.get_logdir() == str(tmp_path / "plain")


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda w: w.add_scalar("x", tinyt.ones(2)), ValueError, "one number"),
        (lambda w: w.add_scalar("x", "blob"), TypeError, "text"),
        (lambda w: w.add_scalar("x", None), TypeError, "NoneType"),
        (lambda w: w.add_histogram("x", []), ValueError, "no element"),
        (lambda w: w.add_histogram("x", [float("nan")]), ValueError, "finite"),
        (lambda w: w.add_image("x", tinyt.ones(2, 2)), ValueError, "needs 3 dimensions"),
        (lambda w: w.add_image("x", tinyt.ones(2, 2, 2)), ValueError, "channels, got 2"),
        (lambda w: w.add_image("x", tinyt.ones(2, 2), dataformats="XY"), ValueError, "'XY'"),
        (lambda w: w.add_text("x", 3), TypeError, "got int"),
        (lambda w: w.add_hparams([1], {}), TypeError, "hparam_dict"),
        (lambda w: w.add_hparams({"a": [1]}, {}), ValueError, "'a'"),
        (lambda w: w.add_graph(None), NotImplementedError, r"graph\(\)"),
        (lambda w: w.add_mesh("x"), NotImplementedError, "add_mesh"),
        (lambda w: w.add_pr_curve("x", [1], [0.5, 0.5]), ValueError, "1 labels"),
    ],
)
def test_errors(tmp_path: Path, call: Write, error: type[Exception], match: str) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(error, match=match):
        call(writer)


def test_missing_package_is_named() -> None:
    program = (
        "import sys, importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'tensorboard' else find(n, *a)\n"
        "import tinyt\n"
        "try:\n    import tinyt.utils.tensorboard\n"
        "except ImportError as error:\n    assert 'pip install tensorboard' in str(error)\n"
        "else:\n    sys.exit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
