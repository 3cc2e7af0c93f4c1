"""Servers that fail over, move, stop, jump in time and are restored; ``make soak-chaos`` is more of it."""

import random

import pytest

from benchmarks.chaos.__main__ import run
from tests.fixtures.servers.redis import redis_server

__all__ = ["redis_server"]

pytestmark = [pytest.mark.crash, pytest.mark.prove]

#: Of each kind, by ground: so many that each happens.
TROUBLES = {"sentinel": 10, "cluster": 8}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("ground", TROUBLES)
def test_what_happens_twice_or_is_gone_is_what_a_server_lost_and_was_announced(ground: str) -> None:
    # pytest-randomly prints what this seed comes from.
    seed = random.randrange(2**32)  # noqa: S311  (no secret)

    report = run(ground, messages=5000, troubles=TROUBLES[ground], seed=seed)

    assert report.mistakes == (), report
    assert ground != "sentinel" or report.troubles["clock jump"], "libfaketime is installed"
    assert report.fates.total() >= 5000
