"""Servers that fail over, move, stop, jump in time and are restored; ``make soak-chaos`` is more of it."""

import random

import pytest

from benchmarks.chaos.__main__ import run
from tests.fixtures.needed import missing
from tests.fixtures.proof import Proved
from tests.fixtures.servers.redis import redis_server
from triggers.testing.postgres_server import find_programs

__all__ = ["redis_server"]

pytestmark = [pytest.mark.crash, pytest.mark.prove]

#: The number of troubles by ground: enough that each kind of trouble happens.
TROUBLES = {"sentinel": 10, "sentinel-confirmed": 8, "cluster": 8, "postgres": 10, "postgres-atomic": 10}

#: A trouble of PostgreSQL lasts longer than one of Redis, and its messages do not wait for it.
MESSAGES = {"sentinel": 5000, "cluster": 5000}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("ground", TROUBLES)
def test_what_happens_twice_or_is_gone_is_what_a_server_lost_and_was_announced(
    ground: str, proved: Proved
) -> None:
    # It comes from the seed that pytest prints.
    seed = random.randrange(2**32)  # noqa: S311  (no secret)

    if ground.startswith("postgres") and find_programs() is None:
        missing("PostgreSQL", "apt-get install postgresql")
    messages = MESSAGES.get(ground, 1000)

    report = run(ground, messages=messages, troubles=TROUBLES[ground], seed=seed)

    assert report.mistakes == (), report
    assert "sentinel" not in ground or report.troubles["clock jump"], "libfaketime is installed"
    assert report.fates.total() >= messages
    proved(messages=messages, troubles=TROUBLES[ground])
