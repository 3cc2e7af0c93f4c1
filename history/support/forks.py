"""Forks: whoever holds a connection, a thread or a lock says what becomes of it when this process forks.

A forked child has its parent's memory and descriptors, and none of its threads. What it sends on a connection
of its parent's is answered to either of them; a lock that another thread held stays locked.
"""

import logging
import os
from collections.abc import Callable
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

#: What children must neither use nor close: it is kept, so that nothing closes it either.
_kept: list[object] = []


def at_fork(
    owner: T,
    in_child: Callable[[T], object],
    *,
    before: Callable[[T], object] | None = None,
    in_parent: Callable[[T], object] | None = None,
) -> None:
    """Have functions called with ``owner`` whenever this process forks, as long as there is an ``owner``.

    ``before`` in the parent, then ``in_parent`` there and ``in_child`` in the child. What they raise is
    logged, and ends neither the fork nor the others.
    """
    _cares[owner] = _Care(in_child, before, in_parent)
    if not _watching and hasattr(os, "register_at_fork"):
        _watching.append(os.getpid())
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def keep(*things: object) -> None:
    """Keep what belongs to the parent of this process until the end: collecting it might close it."""
    _kept.extend(things)


def unplug(descriptor: int) -> None:
    """Put nothing in the place of a parent's socket: what is done with it fails, and does not reach its peer.

    Closing it would free its number for another connection, and leaving it open would keep the parent's
    session, with its locks, alive beyond the parent.
    """
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(nothing, descriptor, inheritable=False)
    finally:
        os.close(nothing)


def _before() -> None:
    for owner, care in _all():
        _do(care.before, owner)


def _in_parent() -> None:
    for owner, care in _all():
        _do(care.in_parent, owner)


def _in_child() -> None:
    for owner, care in _all():
        _do(care.in_child, owner)


def _all() -> list[tuple[Any, _Care]]:
    """Return the owners that live; another thread may add one meanwhile."""
    owners = [reference() for reference in _cares.keyrefs()]
    return [(owner, _cares[owner]) for owner in owners if owner is not None]


def _do(work: Callable[[Any], object] | None, owner: object) -> None:
    if work is None:
        return
    try:
        work(owner)
    except Exception:  # noqa: BLE001  (one that fails must not keep the others from theirs)
        _log.exception("the fork handler of %s failed", type(owner).__name__)
