"""Forks: owners of connections, threads and locks decide what happens to these when this process forks.

A forked child has its parent's memory and descriptors, and none of its threads. If it sends something on its
parent's connection, either of them may get the answer. A lock that another thread held stays locked.
"""

import logging
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Care:
    in_child: Callable[[Any], object]
    before: Callable[[Any], object] | None
    in_parent: Callable[[Any], object] | None


_cares: WeakKeyDictionary[Any, _Care] = WeakKeyDictionary()
_watching: list[int] = []

#: Things that children must neither use nor close: this list keeps them, so that nothing closes them.
_kept: list[object] = []


def at_fork(
    owner: T,
    in_child: Callable[[T], object],
    *,
    before: Callable[[T], object] | None = None,
    in_parent: Callable[[T], object] | None = None,
) -> None:
    """Call functions with ``owner`` whenever this process forks, as long as ``owner`` exists.

    Call ``before`` in the parent, then ``in_parent`` there and ``in_child`` in the child. If a function
    raises, that is logged. It stops neither the fork nor the other functions.
    """
    _cares[owner] = _Care(in_child, before, in_parent)
    _watch()


def _watch() -> None:
    if not _watching and hasattr(os, "register_at_fork"):
        _watching.append(os.getpid())
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def forkable_lock() -> threading.Lock:
    """Return a lock that a forked child finds free, although another thread of its parent held it.

    That thread does not exist in the child, and nobody else would ever release the lock there. Use it if the
    lock is held during slow work and children may go on with its owner. Do not fork while you hold it.
    """
    lock = threading.Lock()
    at_fork(lock, free)
    return lock


def free(lock: Any) -> None:
    """Free a lock in a child: the thread that holds it, if any, is not there."""
    lock._at_fork_reinit()  # noqa: SLF001  (as Python's own modules do)


#: How long a fork waits for threads that work :func:`without_forks`, in seconds.
PATIENCE = 10.0

_opening = threading.RLock()

#: Whether a fork has the lock, for its own thread.
_waited: list[bool] = []


@contextmanager
def without_forks() -> Generator[None]:
    """Let a fork of this process wait for this work, such as the import of a driver by another thread.

    A child that is forked meanwhile would wait for ever for that import, because Python keeps a lock for each
    module that is half imported.
    """
    _watch()
    with _opening:
        yield


def keep(*things: object) -> None:
    """Keep things of this process's parent until the end: garbage collection might close them."""
    _kept.extend(things)


def unplug(descriptor: int) -> None:
    """Replace a parent's socket with nothing: later calls on it fail, and do not reach its peer.

    If it were closed, its number could become another connection's. If it stayed open, the parent's session,
    with its locks, would outlive the parent.
    """
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(nothing, descriptor, inheritable=False)
    finally:
        os.close(nothing)


def _before() -> None:
    _waited.append(_opening.acquire(timeout=PATIENCE))
    for owner, care in _all():
        _do(care.before, owner)


def _in_parent() -> None:
    for owner, care in _all():
        _do(care.in_parent, owner)
    if _waited.pop():
        _opening.release()


def _in_child() -> None:
    for owner, care in _all():
        _do(care.in_child, owner)
    if _waited.pop():
        _opening.release()
    else:
        free(_opening)


def _all() -> list[tuple[Any, _Care]]:
    """Return the owners that still exist; another thread may add one meanwhile."""
    owners = [reference() for reference in _cares.keyrefs()]
    return [(owner, _cares[owner]) for owner in owners if owner is not None]


def _do(work: Callable[[Any], object] | None, owner: object) -> None:
    if work is None:
        return
    try:
        work(owner)
    except Exception:  # noqa: BLE001  (a function that fails must not stop the others)
        _log.exception("the fork handler of %s failed", type(owner).__name__)
