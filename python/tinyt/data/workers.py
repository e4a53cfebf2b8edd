"""Worker threads of a loader: batches are made ahead of time and come in order.

Task k goes to a worker by turns, and every task gets exactly one reply, so which batch comes when
depends on the sampler alone. Kernels release the GIL, and so do file reads and NumPy.

An interrupt (Ctrl-C) may end a call of the consumer between any two of its steps. A reply therefore
lies in a dict of its pass until it is taken, and the consumer waits for the reply, not for a
wake-up, which an interrupt may lose. Replies of an earlier pass are not waited for.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
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


class _Task(NamedTuple):
    """What a worker is to make, and the replies of its pass, where its own goes under `number`."""

    number: int
    index: Any
    replies: dict[int, Any]


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
        self._pass: dict[int, Any] | None = None
        if job.init is not None:
            job.init(number)

    def reply(self, task: _Task) -> Any:
        """What a task gives: a batch, an end or a failure."""
        try:
            if self._pass is not task.replies:  # every pass starts a stream anew
                self._pass, self._fetch = task.replies, None
            if self._fetch is None:
                self._fetch = self._job.fetcher(self._dataset)
            return self._fetch(task.index)
        except StopIteration:
            return _End
        except BaseException as error:  # handed to the thread that waits for the batch
            return _Failure(error)


def _setup(number: int, job: Job) -> Any:
    try:
        return _Worker(number, job)
    except BaseException as error:
        return _Failure(error)


def _work(
    number: int, job: Job, tasks: queue.SimpleQueue[_Task | None], arrival: threading.Lock
) -> None:
    """A worker thread: one reply for each task until None comes."""
    worker = _setup(number, job)
    while (task := tasks.get()) is not None:
        task.replies[task.number] = worker if isinstance(worker, _Failure) else worker.reply(task)
        # Nothing is held while waiting for the next task.
        del task
        with contextlib.suppress(RuntimeError):  # released already, and nobody has looked since
            arrival.release()


def _stop(
    process: int, threads: list[threading.Thread], tasks: list[queue.SimpleQueue[_Task | None]]
) -> None:
    """Ends the threads; used by a finalizer too, so it knows no iterator."""
    if process != os.getpid():  # the child of a fork has not got them
        return
    for line in tasks:
        line.put(None)
    for thread in threads:
        if thread is not threading.current_thread() and thread.is_alive():
            thread.join(JOIN_SECONDS)


class LoaderIterator:
    """Batches of one pass of a loader.

    Args:
        visits: what the batches are made of, one entry for each: it has a length, or none.
    """

    def __init__(self, visits: Any) -> None:
        self._visits = visits

    def __iter__(self) -> Any:
        return self

    def __len__(self) -> int:
        """The number of batches of a whole pass; TypeError where the sampler has no length."""
        return len(self._visits)


class ThreadedIterator(LoaderIterator):
    """Batches of one pass (or, with persistent workers, of several) made by worker threads.

    Args:
        visits: as for `LoaderIterator`.
        job: what the workers do.
        indices: the tasks of the first pass.
        prefetch: how many tasks to hand out ahead for each worker.
        timeout: seconds to wait for a batch; 0: for ever.
        in_order: False gives batches as they come.
        persistent: whether the threads outlive a pass.
    """

    def __init__(
        self,
        visits: Any,
        job: Job,
        indices: Iterator[Any],
        prefetch: int,
        timeout: float,
        in_order: bool,
        persistent: bool,
    ) -> None:
        super().__init__(visits)
        self._prefetch = prefetch
        self._timeout = timeout
        self._in_order = in_order
        self._persistent = persistent
        self._streamed = isinstance(job.dataset, IterableDataset)
        self._numbers = itertools.count()
        self._arrival = threading.Lock()  # released after a reply; held: nothing new to look at
        self._tasks: list[queue.SimpleQueue[_Task | None]] = [
            queue.SimpleQueue() for _ in range(job.workers)
        ]
        self._threads = [
            threading.Thread(
                target=_work,
                args=(number, job, line, self._arrival),
                name=f"tinyt-loader-{number}",
                daemon=True,
            )
            for number, line in enumerate(self._tasks)
        ]
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _stop, self._process, self._threads, self._tasks)
        for thread in self._threads:
            thread.start()
        self.restart(indices)

    def restart(self, indices: Iterator[Any]) -> None:
        """Starts another pass with the same threads; what is left of the last one is dropped."""
        self._indices: Iterator[Any] | None = indices
        self._turn = 0
        self._active = [True] * len(self._tasks)
        self._owner: dict[int, int] = {}  # who has which task, the first one handed out first
        self._replies: dict[int, Any] = {}
        self._fill()

    def _fill(self) -> None:
        for _ in range(self._prefetch * len(self._tasks)):
            self._hand_out()

    def _hand_out(self) -> None:
        """Gives the next task to the next worker that has something left."""
        if self._indices is None or not any(self._active):
            return
        try:
            index = next(self._indices)
        except StopIteration:
            self._indices = None
            return
        while not self._active[self._turn]:
            self._turn = (self._turn + 1) % len(self._tasks)
        owner, number = self._turn, next(self._numbers)
        self._turn = (owner + 1) % len(self._tasks)
        # In this order: nothing waits for a task that an interrupt has kept from its worker.
        self._tasks[owner].put(_Task(number, index, self._replies))
        self._owner[number] = owner

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
        while self._is_going_on():
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

    def _is_going_on(self) -> bool:
        if not self._owner:
            self._fill()  # workers that are left when the others have ended or interrupts
        return bool(self._owner)

    def _take(self) -> Any:
        """The reply to the task that is next in order (or to any)."""
        while (number := self._arrived()) is None:
            if not self._arrival.acquire(timeout=self._timeout or -1):
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        owner = self._owner.pop(number)
        reply = self._replies.pop(number)
        if reply is _End:
            self._active[owner] = False
            if not self._streamed:
                self._indices = None
                self._owner.clear()
        return reply

    def _arrived(self) -> int | None:
        """The number of a reply that can be taken now."""
        if self._in_order:
            number = next(iter(self._owner))
            return number if number in self._replies else None
        # A list at once: workers add to the dict meanwhile.
        for number in list(self._replies):
            if number in self._owner:
                return number
        return None

    def close(self) -> None:
        """Ends the threads."""
        self._finalizer()
