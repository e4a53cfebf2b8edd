"""The group of one process: how it begins and ends, and who is in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlparse

from tinyt._tensor import device
from tinyt.distributed.store import ALONE, HashStore

_NOT_BEGUN = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)
# PyTorch's.
default_pg_timeout = timedelta(minutes=30)
_BACKENDS = ("gloo", "nccl", "mpi", "ucc", "xccl", "fake")
_NOT_HERE = frozenset({"nccl", "mpi", "ucc", "xccl"})  # nor in PyTorch's builds for the CPU


class Backend(str):
    """The name of a backend, in lower case.

    Raises ValueError for a name that is not PyTorch's.
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UCC = "ucc"
    XCCL = "xccl"
    backend_list: ClassVar[list[str]] = [UNDEFINED, *_BACKENDS]

    def __new__(cls, name: str) -> Backend:
        """The name, checked."""
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name!r}")
        lower = name.lower()
        # "cpu:gloo,cuda:nccl" names one for each device.
        named = [part.rpartition(":")[2] for part in lower.split(",")]
        for part in named:
            if part not in cls.backend_list:
                raise ValueError(f"Backend: {part!r} is none of {', '.join(_BACKENDS)}")
        return super().__new__(cls, lower)

    def require_present(self) -> None:
        """RuntimeError for a backend that PyTorch's builds for the CPU lack."""
        for part in self.split(","):
            if (name := part.rpartition(":")[2]) in _NOT_HERE:
                raise RuntimeError(
                    f"Distributed package doesn't have {name.upper()} built in; use 'gloo'"
                )


class ProcessGroup:
    """A group of one process: this one."""

    def __init__(self, backend: Backend, name: str, store: Any, timeout: timedelta) -> None:
        self.backend, self.group_name, self.store, self.timeout = backend, name, store, timeout

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1

    def name(self) -> str:
        """The backend's name."""
        return str(self.backend)

    def __repr__(self) -> str:
        return f"ProcessGroup(backend={str(self.backend)!r}, size=1)"


class _World:
    """What `init_process_group` has made."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []
        self.made = 0


_world = _World()


class _GroupMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of `init_process_group`."""
        return _world.default


class group(metaclass=_GroupMeta):
    """Names of groups: `group.WORLD` is that of `init_process_group`."""


class GroupMember(metaclass=_GroupMeta):
    """Names of groups: `WORLD`, and what `new_group` gives to those who are not in it."""

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """False: there is no transport to other processes.

    What needs none, `init_process_group` in one process and all that follows, works.
    """
    return False


def is_initialized() -> bool:
    """Whether `init_process_group` was called, and `destroy_process_group` not since then."""
    return _world.default is not None


def is_backend_available(backend: str) -> bool:
    """False: there is no transport."""
    Backend(backend)
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


is_nccl_available = is_mpi_available = is_ucc_available = is_xccl_available = is_gloo_available


def is_torchelastic_launched() -> bool:
    """Whether `torchrun` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"init_process_group: {name} must be an int, got {text!r}") from None


def _place(init_method: str | None, world_size: int, rank: int) -> tuple[int, int]:
    """(rank, world size) of the arguments, the URL, the environment, in this order."""
    url = urlparse("env://" if init_method is None else init_method)
    if url.scheme not in ("env", "tcp", "file"):
        raise RuntimeError(
            f"init_process_group: no rendezvous handler for {url.scheme}://; init_method is "
            "env://, tcp://host:port or file://path"
        )
    query = {key: values[-1] for key, values in parse_qs(url.query).items()}
    found = {"rank": rank, "world_size": world_size}
    for key, value in found.items():
        if value == -1 and key in query:
            found[key] = _number(key, query[key])
        elif value == -1 and url.scheme == "env":
            found[key] = _number(key.upper(), os.environ.get(key.upper(), "-1"))
    alone = {"rank": 0, "world_size": 1}
    place = {key: alone[key] if value == -1 else value for key, value in found.items()}
    return place["rank"], place["world_size"]


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Makes the group of this one process.

    Args:
        backend: "gloo", the default, or "fake"; in a group of one both do the same.
        init_method: "env://" (the default), "tcp://…" or "file://…"; nobody is waited for.
        timeout: kept; nothing takes time.
        world_size: 1; from the variable WORLD_SIZE where it is -1, and 1 where that is not set.
        rank: 0; from the variable RANK likewise.
        store: kept as the group's.
        group_name, pg_options, device_id: PyTorch's; `device_id` must be on the CPU.

    Raises:
        RuntimeError: for a world of more than one process, which this library does not have, and
            for "nccl", "mpi", "ucc" and "xccl", as in PyTorch's builds for the CPU.
        ValueError: for a second call, or a name that is no backend's.

    >>> from tinyt import distributed as dist
    >>> dist.init_process_group("gloo", world_size=2, rank=0)
    Traceback (most recent call last):
    ...
    RuntimeError: init_process_group: got world size 2 and rank 0; tinyt runs in one process and \
cannot talk to others; start one process (without torchrun, or with --nproc_per_node=1), and use \
its threads: tinyt.set_num_threads
    """
    if _world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    name = Backend("gloo" if backend is None else backend)
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if device_id is not None:
        device(device_id).require_present()
    name.require_present()
    place, size = _place(init_method, int(world_size), int(rank))
    if size != 1 or place != 0:
        raise RuntimeError(f"init_process_group: got world size {size} and rank {place}; {ALONE}")
    limit = default_pg_timeout if timeout is None else timeout
    if not isinstance(limit, timedelta):
        raise TypeError(
            f"init_process_group: timeout must be a timedelta, got {type(timeout).__name__}"
        )
    _world.default = ProcessGroup(name, group_name or "0", store or HashStore(), limit)
    _world.groups = [_world.default]


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without one, all of them, so that `init_process_group` may be called again."""
    known = default_group() if group is None or group is _world.default else group
    if known is _world.default:
        _world.default, _world.groups = None, []
    elif known in _world.groups:
        _world.groups.remove(known)
    else:
        raise ValueError("Invalid process group specified")


def default_group() -> ProcessGroup:
    """The group of `init_process_group`; ValueError before that."""
    if _world.default is None:
        raise ValueError(_NOT_BEGUN)
    return _world.default


def group_of(group: Any) -> ProcessGroup | None:
    """The group that an argument names; None where this process is not in it."""
    if group is None:
        return default_group()
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup) or group not in _world.groups:
        raise ValueError(f"Invalid process group specified: {group!r}")
    return group


def get_rank(group: Any = None) -> int:
    """0; -1 where this process is not in the group.

    Raises ValueError where `init_process_group` was not called.
    """
    return -1 if group_of(group) is None else 0


def get_world_size(group: Any = None) -> int:
    """1; -1 where this process is not in the group.

    Raises ValueError where `init_process_group` was not called.
    """
    return -1 if group_of(group) is None else 1


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The variable LOCAL_RANK, `fallback_rank` where it is not set, else 0."""
    text = os.environ.get("LOCAL_RANK")
    return (fallback_rank or 0) if text is None else _number("LOCAL_RANK", text)


def get_backend(group: Any = None) -> Backend:
    """The backend that the group was made with."""
    known = group_of(group)
    if known is None:
        raise ValueError("Invalid process group specified")
    return known.backend


def get_backend_config(group: Any = None) -> str:
    """The backend that the group was made with, as text."""
    return str(get_backend(group))


def get_default_backend_for_device(device: Any) -> str:
    """PyTorch's choice for a device: "nccl" for CUDA, else "gloo"."""
    kind = device if isinstance(device, str) else device.type
    return "nccl" if kind.partition(":")[0] == "cuda" else "gloo"


def get_process_group_ranks(group: Any = None) -> list[int]:
    """[0]."""
    return [] if group_of(group) is None else [0]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of a rank of all: 0."""
    group_of(group)
    require_rank("get_group_rank", global_rank)
    return 0


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank of all of a rank in a group: 0."""
    group_of(group)
    require_rank("get_global_rank", group_rank)
    return 0


def require_rank(op: str, rank: int) -> None:
    """ValueError for a rank that there is not."""
    if rank != 0:
        raise ValueError(f"{op}: rank {rank} is not in the group; the only one is 0")


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Another group of the processes with these ranks (None: of all): of this one.

    Without this process among `ranks`, `GroupMember.NON_GROUP_MEMBER`. ValueError for ranks that
    there are not.
    """
    world = default_group()
    wanted = [0] if ranks is None else sorted(ranks)
    if len(set(wanted)) != len(wanted):
        raise ValueError(f"new_group: ranks must differ from each other, got {list(ranks or ())}")
    for rank in wanted:
        require_rank("new_group", rank)
    if not wanted:
        return GroupMember.NON_GROUP_MEMBER
    _world.made += 1
    name = world.backend if backend is None else Backend(backend)
    name.require_present()
    made = ProcessGroup(name, str(_world.made), world.store, timeout or world.timeout)
    _world.groups.append(made)
    return made


def new_subgroups(
    group_size: int | None = None, group: Any = None, **options: Any
) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """The group of `group_size` (1) processes that this one is in, and all of them."""
    if group_size not in (None, 1):
        raise ValueError(f"new_subgroups: the world has 1 process, got group_size={group_size}")
    made = new_group([0], **options)
    return made, [made]
