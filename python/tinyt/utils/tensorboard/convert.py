"""What users log, as NumPy arrays: numbers, tensors, images in any order, figures."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from tinyt.dtypes import bfloat16, float32
from tinyt.tensor import Tensor

Array = Any  # numpy.ndarray

_COLUMNS = 8  # of a grid of images


def as_array(x: Any) -> Array:
    """A tensor, array, number or nested list as an array; bfloat16, which NumPy lacks, as float32.

    TypeError for text, which stands for other things in PyTorch's older versions.
    """
    if isinstance(x, str):
        raise TypeError(f"tensorboard: expected a number, array or tensor, got the text {x!r}")
    if isinstance(x, Tensor):
        x = x.detach()
        return (x.to(float32) if x.dtype is bfloat16 else x).numpy()
    array = np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"tensorboard: expected a number, array or tensor, got {type(x).__name__}")
    return array


def as_number(x: Any) -> float:
    """One number; ValueError for several."""
    array = as_array(x)
    if array.size != 1:
        raise ValueError(f"tensorboard: a scalar must be one number, got shape {array.shape}")
    return float(array.reshape(()))


def _grid(images: Array) -> Array:
    """Images (N, H, W, C) side by side, up to 8 in a row, black where there is none."""
    count, height, width, channels = images.shape
    cols = min(count, _COLUMNS)
    rows = -(-count // cols)
    out = np.zeros((rows * height, cols * width, channels), images.dtype)
    for i, image in enumerate(images):
        top, left = i // cols * height, i % cols * width
        out[top : top + height, left : left + width] = image
    return out


def as_image(x: Any, dataformats: str) -> Array:
    """An image (H, W, 3 or 4 channels) of bytes, or a grid of several.

    `dataformats` names the dimensions: of N, C, H and W. Floats from 0 to 1 become 0 to 255.
    """
    array = as_array(x)
    order = dataformats.upper()
    if len(set(order)) != len(order) or not set("HW") <= set(order) <= set("NCHW"):
        raise ValueError(
            f"tensorboard: dataformats must name dimensions of N, C, H, W once, got {dataformats!r}"
        )
    if array.ndim != len(order):
        raise ValueError(
            f"tensorboard: dataformats {dataformats!r} needs {len(order)} dimensions, "
            f"got shape {array.shape}"
        )
    array = array.transpose([order.index(c) for c in "NHWC" if c in order])
    if "C" not in order:
        array = array[..., np.newaxis]
    if array.shape[-1] == 1:
        array = np.concatenate([array] * 3, axis=-1)
    if array.shape[-1] not in (3, 4):
        raise ValueError(f"tensorboard: an image has 1, 3 or 4 channels, got {array.shape[-1]}")
    if "N" in order:
        array = _grid(array)
    if array.dtype == np.uint8:
        return array
    return np.clip(array.astype(np.float32) * 255, 0, 255).astype(np.uint8)


def as_png(image: Array) -> bytes:
    """An image (H, W, channels) of bytes as a PNG file."""
    from PIL import Image  # which tensorboard depends on

    out = io.BytesIO()
    Image.fromarray(image).save(out, format="PNG")
    return out.getvalue()


def figure_as_image(figures: Any, close: bool) -> Array:
    """A figure of matplotlib as an image (3, H, W) of bytes; a list of them as (N, 3, H, W)."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(figure: Any) -> Array:
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        image = np.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1)
        if close:
            pyplot.close(figure)
        return image

    if isinstance(figures, (list, tuple)):
        return np.stack([drawn(figure) for figure in figures])
    return drawn(figures)
