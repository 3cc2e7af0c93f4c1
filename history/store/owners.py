"""Owners of claims: attempts and batches, and tokens that are unique even among clones of a process.

Several processes may all have number 1 in their own namespaces, be forked from one parent, or be restored
from one snapshot of a machine. They all have the same memory: a number drawn at the start, a counter, even
bytes drawn in advance. If two of them claim under one token, each takes the other's claim for its own claim
that was sent twice, and both run the service.
"""

import os
import socket
import time
from dataclasses import dataclass

from history.support.forks import at_fork

_HOST = socket.gethostname()


@dataclass(frozen=True, slots=True)
class BatchOwner:
    """An owner that claims thousands of uuids and completes them with one write.

    ``token`` names the batch, and must be equal when the same batch is tried again, such as ``"<query
    id>/<batch id>"`` in Spark. The batch ledger holds the state of all its entries.
    """

    token: str


#: The owner of a claim: a token unique to the attempt, or a batch.
Owner = str | BatchOwner


class _Process:
    """The part of this process in tokens; a forked child draws another one."""

    def __init__(self) -> None:
        self.draw()
        at_fork(self, _Process.draw)

    def draw(self) -> None:
        self.prefix = f"{_HOST}:{os.getpid()}:"
        self.token = f"{self.prefix}{_unique()}"


def owner_token() -> str:
    """Return a token unique to one attempt, readable as host and process."""
    # A third of a microsecond in total, which is little next to a claim.
    return f"{_process.prefix}{time.time_ns():x}{os.urandom(6).hex()}"


def process_token() -> str:
    """Return the token of this process: the same at each call, but another one in a forked child."""
    return _process.token


def _unique() -> str:
    """Return the time and random bytes: clones of a machine may draw the same bytes, but at another time."""
    return f"{time.time_ns():x}{os.urandom(6).hex()}"


_process = _Process()
