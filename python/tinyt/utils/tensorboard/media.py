"""The part of `SummaryWriter` that writes images, figures, sounds, curves and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyt.utils.tensorboard import summary
from tinyt.utils.tensorboard.convert import as_array, as_image, as_png, figure_as_image
from tinyt.utils.tensorboard.embedding import write_embedding


class MediaWriter:
    """Writes media by `_write(summary, step, walltime)`, into `log_dir`."""

    log_dir: str

    def _write(self, made: Any, step: int | None, walltime: float | None) -> None:
        raise NotImplementedError

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Writes an image.

        Args:
            img_tensor: bytes, or floats from 0 to 1, of 1, 3 or 4 channels.
            dataformats: the order of its dimensions: "CHW", "HWC", "HW".
        """
        pixels = as_image(img_tensor, dataformats)
        self._write(summary.image(tag, pixels, as_png(pixels)), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Writes several images as one, eight in a row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Sequence[str] | None = None,
    ) -> None:
        """Writes an image with red boxes: a row of left, top, right and bottom in pixels each."""
        from PIL import Image, ImageDraw  # which tensorboard depends on

        picture = Image.fromarray(as_image(img_tensor, dataformats))
        boxes = as_array(box_tensor).reshape(-1, 4).tolist()
        if isinstance(labels, str):
            labels = [labels]
        if labels is not None and len(labels) != len(boxes):
            raise ValueError(
                f"add_image_with_boxes: {len(labels)} labels do not fit {len(boxes)} boxes"
            )
        draw = ImageDraw.Draw(picture)
        for i, box in enumerate(boxes):
            draw.rectangle(box, outline=(255, 0, 0))
            if labels:
                draw.text((box[0] + 2, box[1]), labels[i], fill=(255, 0, 0))
        if rescale != 1:
            width, height = picture.size
            picture = picture.resize((int(width * rescale), int(height * rescale)))
        pixels = np.asarray(picture)
        self._write(summary.image(tag, pixels, as_png(pixels)), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Writes a figure of matplotlib, or a list of them as one image; `close` closes them."""
        order = "NCHW" if isinstance(figure, (list, tuple)) else "CHW"
        self.add_image(tag, figure_as_image(figure, close), global_step, walltime, order)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Writes a sound of one channel, values from -1 to 1."""
        self._write(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Writes precision and recall of predictions (0 to 1) of labels (0 or 1)."""
        made = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._write(made, global_step, walltime)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Writes points for the projector.

        Args:
            mat: a row for each point.
            metadata: a label for each point, or with `metadata_header` a row of them.
            label_img: a picture for each point, (N, C, H, W).
            metadata_header: names of the columns of `metadata`.
        """
        step = 0 if global_step is None else int(global_step)
        write_embedding(self.log_dir, mat, metadata, label_img, step, tag, metadata_header)
