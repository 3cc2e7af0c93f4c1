"""Many small batches in the ledger; ``python -m benchmarks.ledger_week`` is a week of one a second."""

from benchmarks.ledger_week import measure
from triggers.testing.redis_server import RedisServer


def test_the_ledger_shrinks_to_what_is_alive_while_batches_go_on(private_redis: RedisServer) -> None:
    found = measure(private_redis, batches=5000, expired=2000, new=100)

    assert found.filled == 5001
    # As many seconds as have passed, so many have expired since.
    assert found.alive - 600 < found.left <= found.alive
