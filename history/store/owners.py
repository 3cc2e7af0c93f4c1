"""Tokens that no clone of a process has, too.

A process may be one of several that are all number 1 in namespaces of their own, were forked from one
parent, or were restored from one snapshot of a machine. What they had in memory they all have: a number drawn
at the start, a counter, even bytes drawn in advance. Of two that claim under one token each takes the other's
claim for its own that was sent twice, and both run the service.
"""

import os
import socket
import time

_HOST = socket.gethostname()


def owner_token() -> str:
    """Return a token unique to one attempt, readable as host and process.

    The time is in it because clones of a machine may begin with the same random bytes, but not at once.
    """
    # A third of a microsecond in all: nobody sees it beside a claim.
    return f"{_prefix}{time.time_ns():x}{os.urandom(6).hex()}"


def process_token() -> str:
    """Return a token of this process: another one in a forked child, the same at each call."""
    return _process


def _begin() -> None:
    global _prefix, _process  # noqa: PLW0603  (what a fork must change, and an attempt must find quickly)
    _prefix = f"{_HOST}:{os.getpid()}:"
    _process = owner_token()


_prefix = _process = ""
_begin()
os.register_at_fork(after_in_child=_begin)
