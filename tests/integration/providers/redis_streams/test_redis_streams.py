"""Redis Streams: consumers die, are slow, or have the same name. Entries wait, and are dropped."""

import logging
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, cast

import pytest

from history import ConfigurationError, Message
from history.bridge import drive
from tests.integration.helpers.streams import SOON, receive, receiver_of
from triggers.providers import Arrival
from triggers.providers.contract.common import NO_WAIT, numbered
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.receiver import StreamReceiver

QUICK = "?claim_idle=0.3&reclaim_interval=0.05"
CLAIM_IDLE = timedelta(seconds=0.3)


@pytest.fixture
def make(redis_url: str) -> Iterator[Callable[..., RedisStreams]]:
    """Make a provider with its own connections: ``make()``, ``make("&trim=acknowledged")``."""
    made: list[RedisStreams] = []

    def make_one(options: str = "") -> RedisStreams:
        made.append(RedisStreams.from_url(redis_url + QUICK + options))
        return made[-1]

    yield make_one
    for one in made:
        drive(one.close())


@pytest.fixture
def provider(make: Callable[..., RedisStreams]) -> RedisStreams:
    return make()


def send(provider: RedisStreams, count: int = 1) -> None:
    drive(provider.send("orders", numbered(count)))


def counts(received: list[Arrival]) -> list[int]:
    return [one.message.delivery_count for one in received]


def pending(client: Any, consumer: str) -> int:
    return len(client.xpending_range("orders", "s", "-", "+", 100, consumername=consumer))


# Death --------------------------------------------------------------------------------------------------


def hold_until_killed(url: str, name: str, count: int, line: Connection) -> None:
    """Be a consumer process: receive, print the delivery counts, and never acknowledge."""
    receiver = receiver_of(RedisStreams.from_url(url), name)
    line.send(counts(receive(receiver, count)))
    threading.Event().wait()


def die_holding(url: str, name: str, count: int) -> list[int]:
    """Start a consumer process, kill it once it holds ``count`` messages, and return their counts."""
    here, there = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=hold_until_killed, args=(url, name, count, there))
    process.start()
    try:
        assert here.poll(30), "the consumer process received nothing"
        told: list[int] = here.recv()
    finally:
        process.kill()
        process.join()
        process.close()
        here.close()
        there.close()
    return told


@pytest.mark.crash
def test_a_restarted_consumer_gets_its_own_messages_back(provider: RedisStreams, redis_url: str) -> None:
    send(provider, 2)
    die_holding(redis_url + QUICK, "the one", 2)

    successor = wait_for_name(provider, "the one")

    assert counts(receive(successor, 2)) == [2, 2]


def wait_for_name(provider: RedisStreams, name: str) -> StreamReceiver:
    deadline = time.monotonic() + SOON.total_seconds()
    while True:
        try:
            return receiver_of(provider, name)
        except ConfigurationError:
            assert time.monotonic() < deadline, "the name of a dead consumer was not freed"
            time.sleep(0.02)


def test_a_dead_consumer_leaves_no_trace_in_the_group(provider: RedisStreams, client: Any) -> None:
    send(provider)
    dead, heir = receiver_of(provider, "dead"), receiver_of(provider, "heir")
    receive(dead)

    receive(heir)

    assert {one["name"] for one in client.xinfo_consumers("orders", "s")} == {b"heir"}


def test_a_closed_consumer_leaves_no_trace_but_what_waits(provider: RedisStreams, client: Any) -> None:
    send(provider, 2)
    receiver = receiver_of(provider)
    receive(receiver, 2)

    drive(receiver.close())

    assert {one["name"] for one in client.xinfo_consumers("orders", "s")} == {b"doubtless:waiting"}
    assert pending(client, "doubtless:waiting") == 2
    assert client.keys("*consumer*") == []


# Life ---------------------------------------------------------------------------------------------------


def test_a_slow_consumer_that_is_kept_alive_by_another_thread_is_not_robbed(
    make: Callable[..., RedisStreams],
) -> None:
    slow = receiver_of(make("&claim_idle=1"), "slow")
    thief = receiver_of(make("&claim_idle=1"), "thief")
    send(make(), 700)  # more than one script call handles
    held = receive(slow, 700)
    done = threading.Event()

    def keep_alive() -> None:
        while not done.wait(slow.keep_alive_interval.total_seconds()):
            drive(slow.keep_alive())

    thread = threading.Thread(target=keep_alive)
    thread.start()
    stolen = receive(thief, 1, within=timedelta(seconds=2.5))
    done.set()
    thread.join()

    assert not stolen
    drive(slow.acknowledge(held))


def test_a_consumer_that_only_receives_keeps_what_it_holds(make: Callable[..., RedisStreams]) -> None:
    provider = make("&claim_idle=1")
    slow, thief = receiver_of(provider, "slow"), receiver_of(provider, "thief")
    send(provider)
    receive(slow)

    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        assert not drive(slow.receive(5, timedelta(seconds=0.02)))
        assert not drive(thief.receive(5, timedelta(seconds=0.02)))


def test_a_late_consumer_does_not_steal_back(
    provider: RedisStreams, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    late, heir = receiver_of(provider, "late"), receiver_of(provider, "heir")
    send(provider, 4)
    held = receive(late, 4)
    taken = receive(heir, 4)

    drive(late.keep_alive())
    drive(late.recover(held[:1]))
    drive(late.dead_letter(held[1:2], "too late"))

    assert counts(taken) == [2, 2, 2, 2]
    assert pending(client, "heir") == 4
    assert not client.exists("{orders}:dlq")
    assert "4 of 4 entries were given to other consumers, because late did not answer" in caplog.text


# Names --------------------------------------------------------------------------------------------------


def test_the_same_name_in_another_subscription_is_another_consumer(provider: RedisStreams) -> None:
    for subscription in ("s:1", "s"):
        receiver_of(provider, "worker", subscription=subscription)


def test_a_consumer_that_lost_its_name_by_being_silent_stops(
    provider: RedisStreams, make: Callable[..., RedisStreams], client: Any
) -> None:
    silent = receiver_of(provider, "worker")
    send(provider, 2)
    [held, other] = receive(silent, 2)
    successor = wait_for_name(make(), "worker")
    taken = receive(successor, 2)

    drive(silent.keep_alive())
    drive(silent.recover([held]))
    drive(silent.dead_letter([other], "too late"))
    with pytest.raises(ConfigurationError, match="is the name of another living consumer"):
        drive(silent.receive(1, NO_WAIT))
    drive(silent.close())

    assert counts(taken) == [2, 2]
    assert pending(client, "worker") == 2


# Waiting ------------------------------------------------------------------------------------------------


def test_a_delay_longer_than_claim_idle_is_kept_by_every_consumer(
    provider: RedisStreams, make: Callable[..., RedisStreams]
) -> None:
    receiver, other = receiver_of(provider, "a"), receiver_of(make(), "b")
    send(provider)
    started = time.monotonic()
    drive(receiver.recover(receive(receiver), 3 * CLAIM_IDLE))

    assert not receive(other, within=2 * CLAIM_IDLE)
    assert counts(receive(other)) == [2]

    assert time.monotonic() - started >= 3 * CLAIM_IDLE.total_seconds()


def test_what_waits_survives_the_consumer_that_gave_it_back(
    provider: RedisStreams, make: Callable[..., RedisStreams]
) -> None:
    send(provider)
    first = receiver_of(provider)
    started = time.monotonic()
    drive(first.recover(receive(first), 2 * CLAIM_IDLE))
    drive(first.close())

    second = receiver_of(make(), "b")

    assert counts(receive(second)) == [2]
    assert time.monotonic() - started >= 2 * CLAIM_IDLE.total_seconds()


def test_what_waits_is_delivered_even_when_its_time_was_forgotten(
    provider: RedisStreams, client: Any
) -> None:
    send(provider)
    receiver = receiver_of(provider)
    drive(receiver.recover(receive(receiver), timedelta(days=1)))

    client.delete("{orders}:doubtless:delayed:s")

    assert counts(receive(receiver)) == [2]


def test_many_that_wait_do_not_hide_what_a_dead_consumer_held(provider: RedisStreams) -> None:
    receiver, dead = receiver_of(provider), receiver_of(provider, "dead")
    send(provider, 1501)
    drive(receiver.recover(receive(receiver, 1500), timedelta(days=1)))
    [orphan] = receive(dead)

    [taken] = receive(receiver)

    assert (taken.handle, counts([taken])) == (orphan.handle, [2])


def test_recovering_keeps_the_order_and_counts_once(provider: RedisStreams) -> None:
    receiver = receiver_of(provider)
    send(provider, 3)
    held = receive(receiver, 3)

    drive(receiver.recover([held[2], held[0]]))
    drive(receiver.recover(held))
    again = receive(receiver, 3)

    assert [one.message.body for one in again] == ["0", "1", "2"]
    assert counts(again) == [2, 2, 2]


# Fields -------------------------------------------------------------------------------------------------


def test_the_unreadable_can_be_recovered_and_dead_lettered(provider: RedisStreams, client: Any) -> None:
    receiver = receiver_of(provider)
    entry_id = client.xadd("orders", {"payload": "x"})

    drive(receiver.recover(drive(receiver.receive(1, SOON))))
    [again] = drive(receiver.receive(1, SOON))
    drive(receiver.dead_letter([again], "no body"))

    [(_, letter)] = client.xrange("{orders}:dlq")
    assert letter == {
        b"payload": b"x",
        b"dead-letter-reason": b"no body",
        b"dead-letter-subscription": b"s",
        b"dead-letter-id": entry_id,
        b"JMSMessageID": b"ID:orders:" + entry_id,
    }
    assert client.xpending("orders", "s")["pending"] == 0


# Dropping -----------------------------------------------------------------------------------------------


def test_trimming_drops_what_every_subscription_has_acknowledged_and_nothing_else(
    make: Callable[..., RedisStreams], client: Any
) -> None:
    provider = make("&trim=acknowledged")
    fast, slow = receiver_of(provider, subscription="fast"), receiver_of(provider, subscription="slow")
    send(provider, 1000)
    drive(fast.acknowledge(receive(fast, 1000)))
    unread, [held, *done] = 400, receive(slow, 600)
    drive(slow.acknowledge(done[:200]))
    drive(slow.recover(done[200:210], timedelta(days=1)))
    drive(slow.acknowledge(done[210:]))

    drive(slow.keep_alive())
    assert client.xlen("orders") == 1000

    drive(slow.acknowledge([held]))
    drive(fast.keep_alive())

    left = {entry_id for entry_id, _ in client.xrange("orders")}
    assert unread + 10 <= len(left) < 1000
    assert {one.handle for one in done[200:210]} <= left
    assert len(receive(slow, unread)) == unread


def test_trimming_spares_a_subscription_that_has_not_begun(
    make: Callable[..., RedisStreams], client: Any
) -> None:
    provider = make("&trim=acknowledged")
    fast = receiver_of(provider, subscription="fast")
    receiver_of(provider, subscription="new")
    send(provider, 500)
    drive(fast.acknowledge(receive(fast, 500)))

    drive(fast.keep_alive())

    assert client.xlen("orders") == 500


def test_maxlen_bounds_the_stream(make: Callable[..., RedisStreams], client: Any) -> None:
    send(make("&maxlen=200"), 1000)

    assert 200 <= client.xlen("orders") < 400


def test_an_entry_deleted_while_it_waited_is_reported(
    provider: RedisStreams, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = receiver_of(provider)
    send(provider, 2)
    gone, kept = receive(receiver, 2)
    drive(receiver.recover([gone, kept]))
    client.xdel("orders", gone.handle)

    with caplog.at_level(logging.ERROR):
        again = receive(receiver)

    assert [one.handle for one in again] == [kept.handle]
    assert "1 unacknowledged entries were deleted or trimmed" in caplog.text


Answer = Callable[[StreamReceiver, list[Arrival]], object]

ANSWERS: dict[str, Answer] = {
    "recover": lambda receiver, held: drive(receiver.recover(held)),
    "recover later": lambda receiver, held: drive(receiver.recover(held, timedelta(minutes=1))),
    "keep alive": lambda receiver, _: drive(receiver.keep_alive()),
    "close": lambda receiver, _: drive(receiver.close()),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_entry_deleted_while_it_was_held_is_reported(
    provider: RedisStreams, client: Any, caplog: pytest.LogCaptureFixture, answer: Answer
) -> None:
    receiver = receiver_of(provider)
    send(provider, 2)
    held = receive(receiver, 2)
    client.xdel("orders", held[0].handle)

    with caplog.at_level(logging.WARNING):
        answer(receiver, held)
        answer(receiver, held)

    told = [record.args for record in caplog.records]
    assert told == [("orders", 1, cast("bytes", held[0].handle).decode())]


def test_an_entry_deleted_during_its_delay_is_reported(
    provider: RedisStreams, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = receiver_of(provider)
    send(provider, 2)
    gone, kept = receive(receiver, 2)
    drive(receiver.recover([gone, kept], timedelta(milliseconds=1)))
    client.xdel("orders", gone.handle)

    with caplog.at_level(logging.ERROR):
        again = receive(receiver)

    assert [one.handle for one in again] == [kept.handle]
    assert [record.args for record in caplog.records] == [("orders", 1, cast("bytes", gone.handle).decode())]


def test_a_dead_letter_whose_entry_was_deleted_is_written_from_our_copy(
    provider: RedisStreams, client: Any
) -> None:
    receiver = receiver_of(provider)
    drive(provider.send("orders", [Message(body="precious", properties={"half": 0.5})]))
    [held] = receive(receiver)
    client.xdel("orders", held.handle)

    drive(receiver.dead_letter([held], "no such customer"))

    letters = drive(provider.open_receiver("{orders}:dlq", subscription="s", name="a"))
    [letter] = receive(letters)
    assert (letter.message.body, letter.message.uuid) == ("precious", held.message.uuid)
    assert letter.message.properties["half"] == 0.5
    assert letter.message.properties["dead-letter-reason"] == "no such customer"
    assert client.xpending("orders", "s")["pending"] == 0
