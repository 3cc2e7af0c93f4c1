"""Who claims: attempts and batches, and the tokens that no clone of a process has, too.

A process may be one of several that are all number 1 in namespaces of their own, were forked from one
parent, or were restored from one snapshot of a machine. What they had in memory they all have: a number drawn
at the start, a counter, even bytes drawn in advance. Of two that claim under one token each takes the other's
claim for its own that was sent twice, and both run the service.
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

    ``token`` names the batch and must be equal when the same batch is tried again, such as
    ``"<query id>/<batch id>"`` in Spark. The batch ledger holds the state of all its entries.
    """

    token: str


#: Who claims: a token unique to the attempt, or a batch.
Owner = str | BatchOwner


class _Process:
    """What this process puts into tokens; a forked child draws its own."""

    def __init__(self) -> None:
        self.draw()
        at_fork(self, _Process.draw)

    def draw(self) -> None:
        self.prefix = f"{_HOST}:{os.getpid()}:"
        self.token = f"{self.prefix}{_unique()}"


def owner_token() -> str:
    """Return a token unique to one attempt, readable as host and process."""
    # A third of a microsecond in all: nobody sees it beside a claim.
    return f"{_process.prefix}{time.time_ns():x}{os.urandom(6).hex()}"


def process_token() -> str:
    """Return a token of this process: another one in a forked child, the same at each call."""
    return _process.token


def _unique() -> str:
    """Return the time and random bytes: clones of a machine may draw the same bytes, but not at once."""
    return f"{time.time_ns():x}{os.urandom(6).hex()}"


_process = _Process()
