"""Worker threads of a loader: batches are made ahead of time and come in order.

Task k goes to a worker by turns, and every task gets exactly one reply, so which batch comes when
depends on the sampler alone. Kernels release the GIL, and so do file reads and NumPy.
"""

from __future__ import annotations

import copy
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tinyt.data.dataset import Dataset, IterableDataset
from tinyt.data.fetch import Fetcher
from tinyt.random import Generator, use_in_this_thread

JOIN_SECONDS = 5.0  # how long a break waits for a worker that is in the middle of a batch


class WorkerInfo(NamedTuple):
    """Which worker this thread is: `id` of `num_workers`, its `seed`, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Dataset[Any]


_local = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """In a loader's worker thread what it is; None elsewhere."""
    info: WorkerInfo | None = getattr(_local, "info", None)
    return info


class Job(NamedTuple):
    """What a worker needs to know of its loader."""

    dataset: Dataset[Any]
    fetcher: Callable[[Dataset[Any]], Fetcher]
    init: Callable[[int], Any] | None
    seed: int
    workers: int


class _End:
    """The reply of a worker whose stream is at its end."""


class _Restart:
    """The task that starts a stream anew."""


class _Failure:
    """The reply to a task that raised."""

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error

    def throw(self) -> None:
        """Raises in this thread what was raised in the other, traceback and all."""
        # The traceback will hold this frame and the caller's: neither may hold the error.
        error, self._error = self._error, None
        try:
            raise error or RuntimeError("DataLoader: a worker could not be set up")
        finally:
            del error


class _Worker:
    """The state of one thread; a failure to set it up is the reply to every task."""

    def __init__(self, number: int, job: Job) -> None:
        dataset = job.dataset
        if isinstance(dataset, IterableDataset) or job.init is not None:
            # Processes have copies; this lets worker_init_fn set attributes of its own.
            dataset = copy.copy(dataset)
        self.seed = job.seed + number
        generator = Generator()
        generator.manual_seed(self.seed)
        use_in_this_thread(generator)
        _local.info = WorkerInfo(number, job.workers, self.seed, dataset)
        self._job = job
        self._dataset = dataset
        self._fetch: Fetcher | None = None
        if job.init is not None:
            job.init(number)

    def reply(self, task: Any) -> Any:
        """What a task gives: a batch, an end or a failure."""
        try:
            if task is _Restart or self._fetch is None:
                self._fetch = self._job.fetcher(self._dataset)
            return None if task is _Restart else self._fetch(task)
        except StopIteration:
            return _End
        except BaseException as error:  # handed to the thread that waits for the batch
            return _Failure(error)


def _setup(number: int, job: Job) -> Any:
    try:
        return _Worker(number, job)
    except BaseException as error:
        return _Failure(error)


def _work(number: int, job: Job, tasks: queue.SimpleQueue[Any], replies: Any) -> None:
    """A worker thread: one reply for each task until None comes."""
    worker = _setup(number, job)
    while (item := tasks.get()) is not None:
        at, task = item
        replies.put((at, worker if isinstance(worker, _Failure) else worker.reply(task)))
        # Nothing is held while waiting for the next task.
        del item, task


def _stop(
    process: int, threads: list[threading.Thread], tasks: list[queue.SimpleQueue[Any]]
) -> None:
    """Ends the threads; used by a finalizer too, so it knows no iterator."""
    if process != os.getpid():  # the child of a fork has not got them
        return
    for line in tasks:
        line.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(JOIN_SECONDS)


class ThreadedIterator:
    """Batches of one pass (or, with persistent workers, of several) made by worker threads.

    Args:
        job: what the workers do.
        indices: the tasks of the first pass.
        prefetch: how many tasks to hand out ahead for each worker.
        timeout: seconds to wait for a batch; 0: for ever.
        in_order: False gives batches as they come.
        persistent: whether the threads outlive a pass.
    """

    def __init__(
        self,
        job: Job,
        indices: Iterator[Any],
        prefetch: int,
        timeout: float,
        in_order: bool,
        persistent: bool,
    ) -> None:
        self._prefetch = prefetch
        self._timeout = timeout
        self._in_order = in_order
        self._persistent = persistent
        self._replies: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._tasks: list[queue.SimpleQueue[Any]] = [
            queue.SimpleQueue() for _ in range(job.workers)
        ]
        self._threads = [
            threading.Thread(
                target=_work,
                args=(number, job, line, self._replies),
                name=f"tinyt-loader-{number}",
                daemon=True,
            )
            for number, line in enumerate(self._tasks)
        ]
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _stop, self._process, self._threads, self._tasks)
        for thread in self._threads:
            thread.start()
        self._begin(indices)

    def _begin(self, indices: Iterator[Any]) -> None:
        self._indices: Iterator[Any] | None = indices
        self._sent = 0  # tasks handed out
        self._next = 0  # the batch that comes next
        self._turn = 0
        self._active = [True] * len(self._tasks)
        self._owner: dict[int, int] = {}
        self._waiting: dict[int, Any] = {}
        for _ in range(self._prefetch * len(self._tasks)):
            self._hand_out()

    def restart(self, indices: Iterator[Any]) -> None:
        """Starts another pass with the same threads."""
        self._waiting.clear()
        while self._owner:  # what a broken pass left
            self._owner.pop(self._receive()[0])
        for number, line in enumerate(self._tasks):
            line.put((number, _Restart))
        for _ in self._tasks:
            reply = self._receive()[1]
            if isinstance(reply, _Failure):
                reply.throw()
        self._begin(indices)

    def _hand_out(self) -> None:
        """Gives the next task to the next worker that has something left."""
        if self._indices is None or not any(self._active):
            return
        try:
            task = next(self._indices)
        except StopIteration:
            self._indices = None
            return
        while not self._active[self._turn]:
            self._turn = (self._turn + 1) % len(self._tasks)
        self._owner[self._sent] = self._turn
        self._tasks[self._turn].put((self._sent, task))
        self._sent += 1
        self._turn = (self._turn + 1) % len(self._tasks)

    def __iter__(self) -> ThreadedIterator:
        return self

    def is_of_this_process(self) -> bool:
        """False in the child of a fork, which has not got the threads."""
        return self._process == os.getpid()

    def __next__(self) -> Any:
        if not self.is_of_this_process():
            raise RuntimeError(
                f"DataLoader: the worker threads of this pass are in process {self._process}, not "
                f"in its forked child {os.getpid()}; start a new pass here: iter(loader)"
            )
        while self._owner or self._waiting:
            reply = self._take()
            if reply is _End:
                continue
            self._hand_out()
            if isinstance(reply, _Failure):
                reply.throw()
            return reply
        if not self._persistent:
            self.close()
        raise StopIteration

    def _take(self) -> Any:
        """The reply to the task that is next in order (or to any)."""
        while self._next not in self._waiting:
            at, reply = self._receive()
            owner = self._owner.pop(at)
            if reply is _End:
                self._active[owner] = False
            if not self._in_order:
                return reply
            self._waiting[at] = reply
        self._next += 1
        return self._waiting.pop(self._next - 1)

    def _receive(self) -> tuple[int, Any]:
        try:
            return self._replies.get(timeout=self._timeout or None)
        except queue.Empty:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None

    def close(self) -> None:
        """Ends the threads."""
        self._finalizer()
