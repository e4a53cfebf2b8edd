"""`Compare`: measurements side by side."""

from __future__ import annotations

from collections.abc import Iterable

from tinyt.utils.benchmark.measurement import Measurement, select_unit, trim_sigfig, unit_to_english

_BEST, _GOOD, _BAD, _VERY_BAD, _PLAIN = "\033[92m", "\033[34m", "\033[93m", "\033[91m", "\033[0m"


class Compare:
    """A table for each label: a row for each statement or sub-label, a column for each description,
    sections by threads.

    >>> from tinyt.utils.benchmark import Compare, Measurement, TaskSpec
    >>> def made(row, column, time):
    ...     return Measurement(1, [time], TaskSpec(row, "pass", label="sums", description=column))
    >>> print(Compare([made("a", "new", 1e-6), made("a", "old", 2e-6)]), end="")
    [--------- sums ---------]
                |  new  |  old
    1 threads: ---------------
          a     |   1   |   2
    <BLANKLINE>
    Times are in microseconds (us).
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = self._colors = self._warnings = False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements; ValueError for anything else."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(result).__name__} instead."
                )
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Shows as many digits as mean something."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours times, by how they stand to the best of their row."""
        self._colors = True

    def highlight_warnings(self) -> None:
        """Marks times whose measurements differ much with "(!)"."""
        self._warnings = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        labels = dict.fromkeys(m.task_spec.label for m in self._results)
        merged = Measurement.merge(self._results)
        tables = [
            self._table(label, [m for m in merged if m.task_spec.label == label])
            for label in labels
        ]
        return "\n".join(tables)

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(m.median for m in results))
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in results))
        envs = list(dict.fromkeys(m.task_spec.env for m in results))
        names = {m.as_row_name for m in results}
        left = max([12, *(len(name) + 6 for name in names)])
        cells = {id(m): self._cell(m, scale, results) for m in results}
        widths = []
        for title in columns:
            here = [m for m in results if (m.task_spec.description or "") == title]
            widths.append(max(len(title), *(len(cells[id(m)]) for m in here)) + 4)
        body = []
        for threads in sorted({m.task_spec.num_threads for m in results}):
            rows = [m for m in results if m.task_spec.num_threads == threads]
            body.append(f"{threads} threads: ")
            for env in envs:
                for name in dict.fromkeys(m.as_row_name for m in rows if m.task_spec.env == env):
                    shown = name if env is None or len(envs) == 1 else f"({env}) {name}"
                    body.append(self._row(shown, left, rows, (name, env), columns, widths, cells))
        head = (
            " " * left
            + "".join(
                "|" + title.center(width) for title, width in zip(columns, widths, strict=True)
            ).rstrip()
        )
        return (
            _framed(label or "", head, body)
            + f"\n\nTimes are in {unit_to_english(unit)}s ({unit}).\n"
        )

    def _cell(self, m: Measurement, scale: float, results: list[Measurement]) -> str:
        value = m.median / scale
        digits = m.significant_figures if self._trim else 4
        text = f"{trim_sigfig(value, digits):.10g}"
        return text + (" (!)" if self._warnings and len(m.times) >= 4 and m.has_warnings else "")

    def _row(
        self,
        shown: str,
        left: int,
        rows: list[Measurement],
        key: tuple[str, str | None],
        columns: list[str],
        widths: list[int],
        cells: dict[int, str],
    ) -> str:
        here = [m for m in rows if (m.as_row_name, m.task_spec.env) == key]
        best = min(m.median for m in here)
        line = f"      {shown}".ljust(left)
        for title, width in zip(columns, widths, strict=True):
            m = next((m for m in here if (m.task_spec.description or "") == title), None)
            text = "" if m is None else cells[id(m)]
            line += "|" + self._colored(text.center(width), m, best)
        return line.rstrip()

    def _colored(self, text: str, m: Measurement | None, best: float) -> str:
        if not self._colors or m is None:
            return text
        ratio = m.median / best
        steps = ((1.01, _BEST), (1.25, _GOOD), (2.0, _BAD))
        color = next((c for limit, c in steps if ratio <= limit), _VERY_BAD)
        return f"{color}{text}{_PLAIN}"


def _framed(label: str, head: str, body: list[str]) -> str:
    """The lines between a title and rules as wide as they are."""
    width = max(len(line) for line in (head, *body))
    title = f" {label} " if label else ""
    lines = ["[" + title.center(width - 2, "-") + "]", head]
    lines += [x + "-" * (width - len(x)) if x.endswith("threads: ") else x for x in body]
    return "\n".join(lines)
