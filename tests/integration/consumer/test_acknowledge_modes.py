"""A delivery is acknowledged after it was processed, on receipt, or lazily after it was processed."""

import threading

import pytest

from history.message import Message
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, is_drained, send
from triggers import TransientError


def pending(url: str, stream: str) -> int:
    """Count the messages that were delivered and are not acknowledged."""
    with connected(url) as client:
        return int(client.xinfo_groups(stream)[0]["pending"])


@pytest.mark.parametrize(
    ("mode", "in_the_first_run", "in_the_second_run"),
    [("client", 2, 1), ("auto", 1, 0), ("dups_ok", 2, 2)],
    ids=["client", "auto", "dups_ok"],
)
def test_what_is_unanswered_while_the_service_runs(
    lane: Lane, redis_url: str, mode: str, in_the_first_run: int, in_the_second_run: int
) -> None:
    seen: list[int] = []

    def look(message: Message) -> None:
        seen.append(pending(redis_url, "orders"))

    send(redis_url, "orders", "a", "b")
    orders = lane.trigger("orders", look, acknowledge_mode=mode, prefetch=2)

    with lane.run([orders], redis_url, history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert seen == [in_the_first_run, in_the_second_run]


def test_lazy_acknowledgements_are_sent_when_the_consumer_ends(lane: Lane, redis_url: str) -> None:
    done = threading.Event()
    send(redis_url, "orders", "a")
    orders = lane.trigger("orders", lambda _: done.set(), acknowledge_mode="dups_ok")

    with lane.run([orders], redis_url, history=redis_url):
        assert done.wait(PATIENCE)

    assert is_drained(redis_url, "orders")


def test_lazy_acknowledgements_are_sent_when_the_trigger_is_suspended(lane: Lane, redis_url: str) -> None:
    def fail_at_the_last(message: Message) -> None:
        if message.uuid == "c":
            raise TransientError

    send(redis_url, "orders", "a", "b", "c")
    orders = lane.trigger(
        "orders", fail_at_the_last, acknowledge_mode="dups_ok", prefetch=3, on_retry_failure="suspend"
    )

    with lane.run([orders], redis_url, history=redis_url) as running:
        eventually(lambda: running.gates[0].suspended is not None)
        eventually(lambda: pending(redis_url, "orders") == 1)
