"""Embeddings for TensorBoard's projector: tables of numbers, labels and pictures in a folder."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector import projector_config_pb2

from tinyt.utils.tensorboard.convert import Array, as_array, as_image, as_png

_CONFIG = "projector_config.pbtxt"
_MOST_PIXELS = 8192  # of a sprite's side


def _write_rows(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    lines = ["\t".join(str(cell) for cell in row) for row in rows]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def _labels(metadata: Sequence[Any], header: Sequence[str] | None) -> list[list[Any]]:
    """Lines of labels; several columns have a header."""
    if not header:
        return [[str(x).replace("\t", " ").replace("\n", " ")] for x in metadata]
    rows = [list(header), *([*row] for row in metadata)]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(
                f"add_embedding: metadata_header has {len(header)} names, a row {len(row)} values"
            )
    return rows


def _sprite(pictures: Any) -> Array:
    """All pictures (N, C, H, W) in a square, black where there is none."""
    array = as_array(pictures)
    count, channels, height, width = array.shape
    side = math.ceil(math.sqrt(count))
    if side * max(height, width) > _MOST_PIXELS:
        raise ValueError(
            f"add_embedding: {count} pictures of {height} x {width} need a sprite of more than "
            f"{_MOST_PIXELS} pixels a side, the most that the projector shows"
        )
    out = np.zeros((channels, side * height, side * width), array.dtype)
    for i, picture in enumerate(array):
        top, left = i // side * height, i % side * width
        out[:, top : top + height, left : left + width] = picture
    return as_image(out, "CHW")


def write_embedding(
    log_dir: str,
    matrix: Any,
    metadata: Sequence[Any] | None,
    pictures: Any,
    global_step: int,
    tag: str,
    header: Sequence[str] | None,
) -> None:
    """Writes the files of one embedding, and its entry in the projector's settings."""
    array = as_array(matrix)
    if array.ndim != 2:
        raise ValueError(f"add_embedding: mat must be 2-dimensional, got shape {array.shape}")
    for what, given in (("metadata", metadata), ("label_img", pictures)):
        if given is not None and len(given) != len(array):
            raise ValueError(
                f"add_embedding: {what} must have one entry a row ({len(array)}), got {len(given)}"
            )
    safe_tag = re.sub(r"[^\w.-]", "_", tag)
    name = f"{global_step:05d}/{safe_tag}"
    folder = Path(log_dir) / name
    folder.mkdir(parents=True, exist_ok=True)
    entry = projector_config_pb2.EmbeddingInfo(
        tensor_name=f"{tag}:{global_step:05d}", tensor_path=f"{name}/tensors.tsv"
    )
    _write_rows(folder / "tensors.tsv", array.tolist())
    if metadata is not None:
        _write_rows(folder / "metadata.tsv", _labels(metadata, header))
        entry.metadata_path = f"{name}/metadata.tsv"
    if pictures is not None:
        (folder / "sprite.png").write_bytes(as_png(_sprite(pictures)))
        entry.sprite.image_path = f"{name}/sprite.png"
        entry.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    settings = projector_config_pb2.ProjectorConfig()
    config = Path(log_dir) / _CONFIG
    if config.exists():
        text_format.Parse(config.read_text(encoding="utf-8"), settings)
    kept = [e for e in settings.embeddings if e.tensor_name != entry.tensor_name]
    del settings.embeddings[:]
    settings.embeddings.extend([*kept, entry])
    config.write_text(text_format.MessageToString(settings), encoding="utf-8")
