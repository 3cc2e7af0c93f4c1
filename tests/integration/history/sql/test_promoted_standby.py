"""A standby that is promoted without the last commits of its primary: noticed, and no fence comes twice."""

import logging

import pytest

from history.bridge import drive
from history.contract.common import TRIGGER
from history.sql import SqlHistory
from tests.fixtures.servers.postgres_pair import Pair
from triggers.testing.postgres_server import PostgresServer

#: More than the fences that PostgreSQL logs ahead.
MANY = 100


@pytest.mark.parametrize("client", ["new", "old"])
def test_no_fence_is_granted_again_after_a_promotion(
    postgres_pair: Pair, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlHistory.from_url(postgres_pair.url)
    (kept,) = drive(store.claim(TRIGGER, ["kept"], "worker"))
    assert drive(store.complete(TRIGGER, "kept", kept.fence))
    postgres_pair.copy()
    lost = drive(store.claim(TRIGGER, [f"lost-{n}" for n in range(MANY)], "worker"))
    postgres_pair.fail_over()
    if client == "new":
        drive(store.close())
        store = SqlHistory.from_url(postgres_pair.url)

    with caplog.at_level(logging.WARNING):
        claims = drive(store.claim(TRIGGER, ["lost-1", "kept"], "worker-2"))

    assert [claim.found is None for claim in claims] == [True, False]
    assert claims[0].fence > max(claim.fence for claim in lost)
    assert "on another server than before" in caplog.text
    drive(store.close())


def test_a_server_that_only_restarts_is_the_same(
    private_postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fence(uuid: str) -> int:
        store = SqlHistory.from_url(private_postgres.url)
        (claim,) = drive(store.claim(TRIGGER, [uuid], "worker"))
        drive(store.close())
        return claim.fence

    first = fence("u1")
    private_postgres.restart()

    with caplog.at_level(logging.WARNING):
        assert fence("u2") == first + 1
    assert "another server" not in caplog.text
