"""Processes with an atomic trigger on SQL-JMS, killed at random: exactly one effect each, and no row is left.

``DOUBTLESS_SOAK_MESSAGES`` and ``DOUBTLESS_SOAK_KILLS`` scale it; 52631 and 20 make 50,000 effects.
"""

import os
import random
from pathlib import Path

import pytest

from benchmarks.soak import Fate, Soak

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1200)]

MESSAGES = int(os.environ.get("DOUBTLESS_SOAK_MESSAGES", "400"))
KILLS = int(os.environ.get("DOUBTLESS_SOAK_KILLS", "3"))


def test_atomic_triggers_on_messages_in_the_same_database_execute_everything_once(
    tmp_path: Path, postgres_url: str
) -> None:
    seed = random.randrange(2**32)  # noqa: S311  (no secret)
    soak = Soak(
        folder=tmp_path,
        redis_url="",
        history=postgres_url,
        atomic=True,
        sqljms=True,
        messages=MESSAGES,
        kills=KILLS,
        seed=seed,
    )

    report = soak.run()

    assert report.mistakes == (), report
    assert report.kills == KILLS
    copies = report.fates[Fate.DUPLICATE]
    assert report.fates == {Fate.EXECUTED: MESSAGES - copies, Fate.DUPLICATE: copies}
