"""`SummaryWriter`: the one object that a program logs to."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from tensorboard.compat.proto.event_pb2 import Event, SessionLog

from tinyt.utils.tensorboard import summary
from tinyt.utils.tensorboard.convert import as_number
from tinyt.utils.tensorboard.files import FileWriter
from tinyt.utils.tensorboard.media import MediaWriter


class SummaryWriter(MediaWriter):
    """Writes what a program says into files of a folder, which TensorBoard shows.

    Args:
        log_dir: the folder; "runs/TIME_HOST" by default.
        comment: the end of that default name.
        purge_step: TensorBoard hides what an earlier run has written from this step on.
        max_queue, flush_secs: how many events may wait, and how long.
        filename_suffix: the end of the file's name.

    All methods take `global_step`, the step of a value, and `walltime`, its time in seconds since
    1970 (now by default). Values may be tensors, arrays and numbers.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = purge_step
        self._options: tuple[Any, ...] = (max_queue, flush_secs, filename_suffix)
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] = {}
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = self._writer_of(self.log_dir)
            if self.purge_step is not None:
                # Where an event says that a session began, TensorBoard drops later steps.
                begin = Event(step=self.purge_step, file_version="brain.Event:2")
                self.file_writer.add_event(begin)
                log = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=self.purge_step, session_log=log))
                self.purge_step = None
        return self.file_writer

    def _writer_of(self, folder: str) -> FileWriter:
        """The file of a folder, a new one where there is none."""
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(folder, *self._options)
        return self.all_writers[folder]

    def _write(self, made: Any, step: int | None, walltime: float | None) -> None:
        self._get_file_writer().add_summary(made, step, walltime)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Writes one number; with `new_style` in TensorFlow 2's form, then in float64 with
        `double_precision`. ValueError for several numbers, TypeError for text."""
        made = summary.scalar(tag, as_number(scalar_value), new_style, double_precision)
        self._write(made, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Writes several numbers into one chart: each in a folder ``MAIN_TAG_NAME`` of its own."""
        walltime = time.time() if walltime is None else walltime
        for name, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{name}"
            made = summary.scalar(main_tag, as_number(value), False, False)
            self._writer_of(folder).add_summary(made, global_step, walltime)

    def add_tensor(
        self,
        tag: str,
        tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Writes a tensor of any shape, as float32."""
        self._write(summary.tensor(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Writes how many values lie in which ranges.

        Args:
            bins: "tensorflow": ranges that grow by a tenth; else as `numpy.histogram` takes them
                ("auto", a number, edges).
            max_bins: the most ranges; neighbours are joined.

        ValueError for no values, and for inf or nan.
        """
        self._write(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Writes a histogram that was counted elsewhere: facts of the values, the upper ends of the
        ranges, and how many values are in each."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                "len(bucket_limits) != len(bucket_counts), see the document. Got "
                f"{len(bucket_limits)} and {len(bucket_counts)}"
            )
        facts = dict(min=min, max=max, num=num, sum=sum, sum_squares=sum_squares)
        made = summary.histogram_of_facts(
            tag,
            **{name: as_number(value) for name, value in facts.items()},
            bucket_limit=[as_number(x) for x in bucket_limits],
            bucket=[as_number(x) for x in bucket_counts],
        )
        self._write(made, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Writes text, which TensorBoard shows as Markdown."""
        if not isinstance(text_string, str):
            raise TypeError(f"add_text: expected text, got {type(text_string).__name__}")
        self._write(summary.text(tag, text_string), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Writes the hyperparameters of a run and what came of them.

        Args:
            hparam_dict: names and values: bools, numbers, text; None is left out.
            metric_dict: names and numbers; the names should not be used otherwise.
            hparam_domain_discrete: the values that a hyperparameter may have.
            run_name: the folder below the writer's; the time by default.
        """
        events = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        name = run_name or str(time.time())
        with SummaryWriter(os.path.join(self.log_dir, name)) as writer:
            for made in events:
                writer._write(made, None, None)
            for metric, value in metric_dict.items():
                writer.add_scalar(metric, value, global_step)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Writes which scalars stand in one chart:
        ``{"category": {"chart": ["Multiline", ["tag", …]]}}``; "Margin" takes three tags."""
        self._write(summary.layout(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Writes one chart of several scalars."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Writes one chart of a scalar between two others."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> NoReturn:
        """NotImplementedError: a compiled function shows its graph itself."""
        raise NotImplementedError(
            "add_graph: TensorBoard shows TorchScript's graphs, which are not there; "
            "tinyt.compile(model).graph() writes a page of the model's"
        )

    def add_onnx_graph(self, prototxt: Any) -> NoReturn:
        """NotImplementedError: there is no ONNX."""
        raise NotImplementedError(
            "add_onnx_graph: there is no ONNX; tinyt.compile(model).graph() writes a page"
        )

    def add_mesh(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotImplementedError: points and meshes are not written."""
        raise NotImplementedError("add_mesh: not written; add_figure takes a figure of matplotlib")

    def add_video(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotImplementedError: moving pictures are not written."""
        raise NotImplementedError("add_video: not written; add_images takes the single pictures")

    def flush(self) -> None:
        """Writes to the disk what waits."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Writes what waits, and closes the files; a later value opens new ones."""
        for writer in self.all_writers.values():
            writer.close()
        self.file_writer = None
        self.all_writers = {}

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
