"""Summaries: what an event of TensorBoard's format holds, made of arrays.

The messages are those of the package `tensorboard` (tensorboard/compat/proto/summary.proto and the
plugins' plugin_data.proto), which say what each field means.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as layout_metadata
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.pr_curve import metadata as pr_metadata

from tinyt.utils.tensorboard.convert import Array, as_array

Summary = Any


def _edges() -> Array:
    """The edges of TensorFlow's histograms: 0, and ±1e-12 times powers of 1.1 below 1e20."""
    up = []
    edge = 1e-12
    while edge < 1e20:
        up.append(edge)
        edge *= 1.1
    return np.array([-x for x in reversed(up)] + [0.0] + up)


EDGES = _edges()


def _named(tag: str, **content: Any) -> Summary:
    return summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, **content)])


def _plugin(name: str, content: bytes = b"") -> Any:
    data = summary_pb2.SummaryMetadata.PluginData(plugin_name=name, content=content)
    return summary_pb2.SummaryMetadata(plugin_data=data)


def scalar(tag: str, value: float, new_style: bool, double_precision: bool) -> Summary:
    """One number: as a float32, or new_style as a tensor of float32 or float64."""
    if not new_style:
        return _named(tag, simple_value=value)
    if double_precision:
        tensor = tensor_pb2.TensorProto(double_val=[value], dtype=types_pb2.DT_DOUBLE)
    else:
        tensor = tensor_pb2.TensorProto(float_val=[value], dtype=types_pb2.DT_FLOAT)
    return _named(tag, tensor=tensor, metadata=_plugin("scalars"))


def _tensor_of(array: Array) -> Any:
    """A float32 array as a message."""
    sizes = [tensor_shape_pb2.TensorShapeProto.Dim(size=n) for n in array.shape]
    return tensor_pb2.TensorProto(
        dtype=types_pb2.DT_FLOAT,
        float_val=array.reshape(-1).astype(np.float32).tolist(),
        tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=sizes),
    )


def tensor(tag: str, value: Any) -> Summary:
    """A tensor of any shape, as float32."""
    return _named(tag, tensor=_tensor_of(as_array(value)), metadata=_plugin("tensor"))


def text(tag: str, value: str) -> Summary:
    """Markdown."""
    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
    content = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING, string_val=[value.encode()], tensor_shape=shape
    )
    return _named(f"{tag}/text_summary", tensor=content, metadata=_plugin("text"))


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> Summary:
    """How many values lie between edges: TensorFlow's ("tensorflow"), or `numpy.histogram`'s.

    Ranges without values at both ends are left out, but for one.
    """
    array = np.asarray(as_array(values), np.float64).reshape(-1)
    if array.size == 0:
        raise ValueError("add_histogram: the input has no element")
    if not np.isfinite(array).all():
        raise ValueError("add_histogram: the values must be finite, got inf or nan")
    counts, edges = np.histogram(
        array, bins=EDGES if isinstance(bins, str) and bins == "tensorflow" else bins
    )
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        padded = np.append(counts, [0] * (-len(counts) % step))
        counts = padded.reshape(-1, step).sum(axis=1)
        edges = np.append(edges[:-1:step], edges[-1])
    held = np.flatnonzero(counts)
    if held.size == 0:
        raise ValueError("add_histogram: no value lies between the edges")
    first, last = int(held[0]), int(held[-1])
    # bucket_limit[i] is the upper end of bucket i; the first bucket is empty and ends where the
    # first value's begins.
    limits = edges[first : last + 2]
    content = summary_pb2.HistogramProto(
        min=float(array.min()),
        max=float(array.max()),
        num=float(array.size),
        sum=float(array.sum()),
        sum_squares=float(array @ array),
        bucket_limit=limits.tolist(),
        bucket=[0.0, *counts[first : last + 1].tolist()],
    )
    return _named(tag, histo=content)


def histogram_of_facts(tag: str, **facts: Any) -> Summary:
    """A histogram that was counted elsewhere: `min`, `max`, `num`, `sum`, `sum_squares`,
    `bucket_limit`, `bucket`."""
    return _named(tag, histo=summary_pb2.HistogramProto(**facts))


def image(tag: str, pixels: Array, png: bytes) -> Summary:
    """An image (H, W, channels) and its file."""
    height, width, channels = pixels.shape
    content = summary_pb2.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=png
    )
    return _named(tag, image=content)


def audio(tag: str, sound: Any, sample_rate: int) -> Summary:
    """A sound of one channel, from -1 to 1, as a WAVE file of 16 bits."""
    array = as_array(sound).reshape(-1)
    samples = (np.clip(array, -1, 1) * np.iinfo(np.int16).max).astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples.tobytes())
    content = summary_pb2.Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(samples),
        encoded_audio_string=out.getvalue(),
        content_type="audio/wav",
    )
    return _named(tag, audio=content)


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> Summary:
    """Precision and recall of predictions from 0 to 1, at evenly spaced thresholds.

    A prediction p counts as positive from the threshold t on where p >= t, both in steps of
    1 / (thresholds - 1).
    """
    truth = as_array(labels).reshape(-1).astype(bool)
    scores = as_array(predictions).reshape(-1).astype(np.float64)
    if truth.shape != scores.shape:
        raise ValueError(f"add_pr_curve: {len(truth)} labels do not fit {len(scores)} predictions")
    weight = np.ones(len(truth)) if weights is None else as_array(weights).reshape(-1)
    steps = np.clip(np.floor(scores * (thresholds - 1)), 0, thresholds - 1).astype(int)

    def at_or_above(chosen: Array) -> Array:
        counts = np.bincount(steps[chosen], weight[chosen], thresholds)
        return counts[::-1].cumsum()[::-1]

    true_positive, false_positive = at_or_above(truth), at_or_above(~truth)
    false_negative = true_positive[0] - true_positive
    true_negative = false_positive[0] - false_positive
    least = 1e-7
    precision = true_positive / np.maximum(true_positive + false_positive, least)
    recall = true_positive / np.maximum(true_positive + false_negative, least)
    rows = (true_positive, false_positive, true_negative, false_negative, precision, recall)
    return pr_curve_of_counts(tag, np.stack(rows), thresholds)


def pr_curve_of_counts(tag: str, rows: Array, thresholds: int) -> Summary:
    """True and false positives, true and false negatives, precision, recall: a row each."""
    about = pr_metadata.create_summary_metadata(tag, "", thresholds)
    return _named(tag, tensor=_tensor_of(rows), metadata=about)


def layout(categories: Mapping[str, Mapping[str, Sequence[Any]]]) -> Summary:
    """Charts of several scalars: {category: {chart: ["Multiline" or "Margin", [tags]]}}."""
    found = []
    for category, charts in categories.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise ValueError(f"add_custom_scalars: a margin has 3 tags, got {len(tags)}")
                value, lower, upper = tags
                series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
                content: dict[str, Any] = {"margin": layout_pb2.MarginChartContent(series=[series])}
            else:
                content = {"multiline": layout_pb2.MultilineChartContent(tag=list(tags))}
            made.append(layout_pb2.Chart(title=title, **content))
        found.append(layout_pb2.Category(title=category, chart=made))
    data = layout_pb2.Layout(category=found).SerializeToString()
    content_proto = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING,
        string_val=[data],
        tensor_shape=tensor_shape_pb2.TensorShapeProto(),
    )
    about = layout_metadata.create_summary_metadata()
    return _named(layout_metadata.CONFIG_SUMMARY_TAG, tensor=content_proto, metadata=about)


# Hyperparameters ---------------------------------------------------------------------------------


def _hparams_event(tag: str, **content: Any) -> Summary:
    data = plugin_data_pb2.HParamsPluginData(**content)
    about = hparams_metadata.create_summary_metadata(data)
    return _named(tag, metadata=about, tensor=hparams_metadata.NULL_TENSOR)


def _kind_of(name: str, value: Any) -> tuple[Any, str, Any]:
    """(data type, field, value) of a hyperparameter."""
    if isinstance(value, bool):
        return api_pb2.DATA_TYPE_BOOL, "bool_value", value
    if isinstance(value, (int, float)):
        return api_pb2.DATA_TYPE_FLOAT64, "number_value", value
    if isinstance(value, str):
        return api_pb2.DATA_TYPE_STRING, "string_value", value
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # 0-d tensors, NumPy's numbers
        return _kind_of(name, value.item())
    raise ValueError(
        f"add_hparams: {name!r} must be a bool, number or text, got {type(value).__name__}"
    )


def hparams(
    hparam_dict: Mapping[str, Any],
    metric_dict: Mapping[str, Any],
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Summary, Summary, Summary]:
    """The experiment, the beginning and the end of a session with these hyperparameters."""
    for what, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, Mapping):
            raise TypeError(f"add_hparams: {what} must be a dict, got {type(given).__name__}")
    infos = []
    start = plugin_data_pb2.SessionStartInfo()
    for name, value in hparam_dict.items():
        if value is None:
            continue
        kind, field, plain = _kind_of(name, value)
        setattr(start.hparams[name], field, plain)
        info = api_pb2.HParamInfo(name=name, type=kind)
        for choice in (hparam_domain_discrete or {}).get(name, ()):
            info.domain_discrete.values.add(**{field: choice})
        infos.append(info)
    measured = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metric_dict]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=measured)
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
    return (
        _hparams_event(hparams_metadata.EXPERIMENT_TAG, experiment=experiment),
        _hparams_event(hparams_metadata.SESSION_START_INFO_TAG, session_start_info=start),
        _hparams_event(hparams_metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )
