"""Offsets of Kafka in the transaction of the effects: real consumers and databases, and a mock cluster."""

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from history.bridge import drive
from history.sql import OffsetHistory
from history.sql.offsets.history import OffsetIdentity
from history.sql.offsets.seen import Place
from tests.fixtures.histories import with_store
from tests.fixtures.network import Network
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, parked_in
from tests.integration.providers.kafka.shop import Shop, opened
from triggers import ConfigurationError, Consumer, FatalError, TransientError, trigger
from triggers.operations.running import run_parked
from triggers.providers.kafka import forget_offsets

ORDERS = 20


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.sqlite3"
    return cast("str", request.getfixturevalue("postgres_url"))


@pytest.fixture
def shop(kafka: AnyKafka, database: str) -> Iterator[Shop]:
    with opened(kafka, f"orders-{uuid4().hex[:8]}", database) as shop:
        yield shop


@pytest.fixture
def blocking(lane: Lane) -> Lane:
    if lane.asyncio:
        pytest.skip("nothing of it differs under asyncio")
    return lane


class TestOnce:
    @pytest.mark.parametrize("prefetch", [1, 10], ids=["one-a-transaction", "many-share-one"])
    def test_each_message_is_booked_once_and_leaves_no_entry(
        self, lane: Lane, shop: Shop, prefetch: int
    ) -> None:
        shop.place(range(ORDERS))

        assert shop.run_out(lane, prefetch=prefetch) == {"ok": ORDERS}
        assert shop.run_out(lane) == {}
        assert shop.booked == list(range(ORDERS))
        assert (shop.rows, shop.entries) == ([(ORDERS, "")], 0)

    def test_kafka_is_told_for_the_tools_that_show_how_far_a_group_is(
        self, blocking: Lane, shop: Shop
    ) -> None:
        shop.place(range(ORDERS))
        shop.run_out(blocking)

        assert shop.committed == ORDERS

    def test_what_a_publisher_sends_twice_is_two_messages(self, blocking: Lane, shop: Shop) -> None:
        shop.place([1], uuid=b"order-1")
        shop.place([1], uuid=b"order-1")

        assert shop.run_out(blocking) == {"ok": 2}

    def test_messages_are_settled_out_of_order(
        self, blocking: Lane, kafka: AnyKafka, postgres_url: str
    ) -> None:
        """Orders with different keys run in parallel. SQLite runs one transaction at a time."""
        others = threading.Event()

        def first_is_last(number: int) -> None:
            assert number or others.wait(PATIENCE)

        with opened(kafka, f"orders-{uuid4().hex[:8]}", postgres_url) as shop:
            shop.place(range(ORDERS))
            with shop.run(blocking, first_is_last, ordered=True, concurrency=4):
                eventually(lambda: shop.booked == list(range(1, ORDERS)))
                assert shop.rows == [(0, f"1-{ORDERS - 1}")]
                others.set()
                eventually(lambda: shop.rows == [(ORDERS, "")])

            assert shop.booked == list(range(ORDERS))

    def test_a_message_that_waits_for_its_retry_holds_nothing_up(self, lane: Lane, shop: Shop) -> None:
        tried: list[int] = []

        def fail_once(number: int) -> None:
            if number == 3 and not tried:
                tried.append(number)
                raise TransientError("for now")

        shop.place(range(ORDERS))

        assert shop.run_out(lane, fail_once) == {"ok": ORDERS, "recovered": 1}
        assert shop.booked == list(range(ORDERS))
        assert shop.rows == [(ORDERS, "")]


class TestWhereItBegins:
    @pytest.mark.parametrize("committed", [0, ORDERS])
    def test_it_begins_at_the_row_whatever_kafka_has(self, lane: Lane, shop: Shop, committed: int) -> None:
        shop.place(range(10))
        shop.run_out(lane)
        shop.place(range(10, ORDERS))
        shop.commit_to_kafka(committed)

        assert shop.run_out(lane) == {"ok": 10}
        assert shop.booked == list(range(ORDERS))

    def test_without_a_row_it_begins_where_the_group_has_committed(self, lane: Lane, shop: Shop) -> None:
        shop.place(range(ORDERS))
        shop.commit_to_kafka(15)

        assert shop.run_out(lane) == {"ok": 5}
        assert shop.booked == list(range(15, ORDERS))
        assert shop.rows == [(ORDERS, "")]

    def test_what_is_settled_beyond_is_skipped(self, blocking: Lane, shop: Shop) -> None:
        shop.place(range(10))
        shop.run_out(blocking)
        shop.change("UPDATE doubtless_offsets SET next_offset = 2, settled_beyond = '4-7,9'")
        shop.change("DELETE FROM booked WHERE number IN (2, 3, 8)")

        assert shop.run_out(blocking) == {"ok": 3}
        assert shop.booked == list(range(10))
        assert shop.rows == [(10, "")]

    def test_an_older_copy_of_the_database_has_its_messages_run_again(self, lane: Lane, shop: Shop) -> None:
        shop.place(range(ORDERS))
        shop.run_out(lane)
        put_back(shop, 5)

        assert shop.run_out(lane) == {"ok": ORDERS - 5}
        assert shop.booked == list(range(ORDERS))

    def test_a_consumer_that_runs_notices_that_its_database_is_an_older_copy(
        self, lane: Lane, shop: Shop
    ) -> None:
        shop.place(range(ORDERS))
        with shop.run(lane):
            eventually(lambda: shop.rows == [(ORDERS, "")])
            put_back(shop, 5)
            shop.place([ORDERS])
            eventually(lambda: shop.rows == [(ORDERS + 1, "")])

        assert shop.booked == list(range(ORDERS + 1))

    def test_a_message_that_is_forgotten_runs_again(self, blocking: Lane, shop: Shop) -> None:
        shop.place(range(ORDERS))
        shop.run_out(blocking)
        shop.change("DELETE FROM booked WHERE number = 7")
        history = OffsetHistory.from_url(shop.url)
        uuid = OffsetIdentity(Place(shop.group, shop.topic, 0), 7).uuid

        assert drive(history.forget("book", uuid))
        assert not drive(history.forget("book", uuid))
        drive(history.close())
        assert shop.rows == [(7, f"8-{ORDERS - 1}")]
        assert shop.run_out(blocking) == {"ok": 1}
        assert shop.booked == list(range(ORDERS))

    def test_a_topic_that_was_made_anew_is_refused_until_its_rows_are_forgotten(
        self, lane: Lane, shop: Shop
    ) -> None:
        shop.place(range(ORDERS))
        shop.run_out(lane)
        shop.change("DELETE FROM booked")
        shop.change("UPDATE doubtless_offsets SET next_offset = 1000")

        with pytest.raises(ConfigurationError, match=f"ends at {ORDERS}, and offsets up to 1000"):
            shop.run_out(lane)
        assert shop.booked == []

        assert forget_offsets(shop.url, group=shop.group, topic=shop.topic) == 1
        shop.commit_to_kafka(0)
        assert shop.run_out(lane) == {"ok": ORDERS}

    def test_what_retention_has_deleted_is_counted_and_the_rest_is_run(
        self, blocking: Lane, kafka: AnyKafka, shop: Shop, caplog: pytest.LogCaptureFixture
    ) -> None:
        shop.place(range(3))
        shop.run_out(blocking)
        shop.place([0] * 64, padding=bytes(125_000))
        kafka.expire(shop.topic)
        shop.place([3])

        shop.run_out(blocking)

        warned = re.search(r"(\d+) messages before offset (\d+) were not run", caplog.text)
        assert warned is not None
        lost, begins = int(warned[1]), int(warned[2])
        assert (lost > 0, begins) == (True, 3 + lost)
        assert (len(shop.booked), shop.rows) == (3 + 65 - lost, [(68, "")])


class TestAway:
    def test_nothing_is_handed_out_while_the_database_does_not_say_where_to_begin(
        self, lane: Lane, kafka: AnyKafka, postgres_url: str
    ) -> None:
        address = urlsplit(postgres_url)
        assert address.hostname is not None
        assert address.port is not None
        ran: list[int] = []
        with (
            opened(kafka, f"orders-{uuid4().hex[:8]}", postgres_url) as shop,
            Network(address.hostname, address.port) as network,
        ):
            away = replace(shop, url=network.url(postgres_url))
            shop.place(range(ORDERS))
            network.take_down()
            with away.run(lane, ran.append) as running:
                eventually(lambda: running.gates[0].away is not None)
                assert "reading where to begin" in str(running.gates[0].away)
                assert ran == []
                network.bring_up()
                eventually(lambda: shop.rows == [(ORDERS, "")])

            assert shop.booked == list(range(ORDERS))


def put_back(shop: Shop, number: int) -> None:
    """Restore the database to its state before an order was booked."""
    shop.change("DELETE FROM booked WHERE number >= :number", number=number)
    shop.change("UPDATE doubtless_offsets SET next_offset = :number, settled_beyond = ''", number=number)


class TestApart:
    """Messages without effects are also settled, and leave no row behind."""

    def test_what_no_service_wants_is_settled(self, lane: Lane, shop: Shop) -> None:
        shop.place(range(5))
        shop.place(range(5, 8), unwanted=b"yes")

        shop.run_out(lane, selector="unwanted IS NULL")

        assert shop.booked == list(range(5))
        assert shop.rows == [(8, "")]

    def test_a_failure_is_parked_and_can_be_run_by_hand(self, blocking: Lane, shop: Shop) -> None:
        failing = True

        def fail(number: int) -> None:
            if failing and number == 2:
                raise FatalError("no such article")

        shop.place(range(5))
        counts = shop.run_out(blocking, fail)
        (parked,) = parked_in(shop.url, "book")

        assert counts["ok"] == 4
        assert (shop.booked, shop.rows, shop.entries) == ([0, 1, 3, 4], [(5, "")], 1)
        assert shop.run_out(blocking, fail) == {}

        failing = False
        book = shop.book(blocking, fail, history=shop.url)
        outcome = with_store(shop.url, lambda store: run_parked(book, parked, store.parking))
        book.close()
        assert outcome.executed
        assert shop.booked == list(range(5))
        assert parked_in(shop.url, "book") == []


class TestZombie:
    def test_a_consumer_that_has_lost_its_partition_commits_nothing_that_another_has_settled(
        self, blocking: Lane, kafka: AnyKafka, postgres_url: str
    ) -> None:
        """A second cluster with the same messages plays the group that moved the partition away."""
        topic, resumed, stopped = f"orders-{uuid4().hex[:8]}", threading.Event(), threading.Event()

        def stop(number: int) -> None:
            if number == 0 and not stopped.is_set():
                stopped.set()
                assert resumed.wait(PATIENCE)

        with opened(kafka, topic, postgres_url) as shop, KafkaServer() as other:
            other.create(topic, 1)
            successor = Shop(other, topic, postgres_url, shop.engine)
            shop.place(range(ORDERS))
            successor.place(range(ORDERS))
            with shop.run(blocking, stop) as zombie:
                assert stopped.wait(PATIENCE)
                assert successor.run_out(blocking) == {"ok": ORDERS}
                resumed.set()
                eventually(lambda: zombie.counts["book"].get("duplicate", 0) == ORDERS)
                counts = zombie.counts["book"]

            assert counts["recovered"] == 1
            assert "ok" not in counts
            assert shop.booked == list(range(ORDERS))


class TestRefused:
    def test_a_trigger_without_a_transaction(self, shop: Shop) -> None:
        @trigger(shop.topic, name="book")
        def book(body: bytes) -> None: ...

        with pytest.raises(
            ConfigurationError, match=r"trigger book: .* say transacted=True and take a Connection"
        ):
            Consumer([book], shop.provider).run(until_idle=0.5)

    @pytest.mark.parametrize("settings", [{"uuid": "body.number"}, {"forgotten": "in_doubt"}])
    def test_settings_that_are_about_entries(
        self, blocking: Lane, shop: Shop, settings: dict[str, Any]
    ) -> None:
        (name,) = settings

        with pytest.raises(ConfigurationError, match=f"leave {name}= out, or leave offsets= out"):
            Consumer([shop.book(blocking, **settings)], shop.provider).run(until_idle=0.5)

    def test_a_claim_outside_of_a_transaction(self, shop: Shop) -> None:
        history = OffsetHistory.from_url(shop.url)

        with pytest.raises(ConfigurationError, match=r"set transacted=True and take a Connection"):
            drive(history.claim("book", ["kafka:g:orders:0:1"], "me"))
        drive(history.close())
