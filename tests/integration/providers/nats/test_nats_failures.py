"""NATS on bad days: refusals, slow services, lost servers, and streams that others made."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from nats.js.api import ConsumerConfig, StreamConfig

from history.bridge import drive
from tests.fixtures.ports import closed_port
from tests.fixtures.servers.certificates import make_certificate
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.waiting import eventually
from triggers import ConfigurationError, Message, ProviderUnavailableError
from triggers.providers import Limits, Receiver, Unreadable
from triggers.providers.contract.common import A_WHILE, bodies, numbered, take
from triggers.providers.nats.connection import driver
from triggers.providers.nats.provider import Nats

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("nats")]


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as started:
        yield started


@pytest.fixture
def subject() -> str:
    return f"orders-{uuid4().hex[:8]}"


class Open:
    """A provider and a receiver that end with the test."""

    def __init__(self, url: str) -> None:
        self.provider = Nats.from_url(url)
        self._receivers: list[Receiver] = []

    def receiver(self, subject: str, subscription: str = "book") -> Receiver:
        opened = drive(self.provider.open_receiver(subject, subscription=subscription, name="one"))
        self._receivers.append(opened)
        return opened

    def close(self) -> None:
        for receiver in self._receivers:
            drive(receiver.close())
        drive(self.provider.close())


@pytest.fixture
def opened(server: NatsServer) -> Iterator[Callable[[str], Open]]:
    """Open a provider of the server with some options."""
    made: list[Open] = []

    def make(options: str = "") -> Open:
        made.append(Open(f"nats://{server.address}{options}"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def by_hand(server: NatsServer, work: Callable[[Any], Awaitable[Any]]) -> None:
    """Do something with nats-py."""

    async def run() -> None:
        client = await driver.connect(f"nats://{server.address}")
        await work(client.jetstream())
        await client.close()

    asyncio.run(run())


async def add_stream(config: StreamConfig, js: Any) -> None:
    await js.add_stream(config)


class TestRefusals:
    def test_a_wrong_password_is_a_wrong_setting(self, server: NatsServer) -> None:
        with (
            closing(Open(f"nats://doubtless:wrong@127.0.0.1:{server.port}")) as one,
            pytest.raises(ConfigurationError, match="refuses the login"),
        ):
            one.receiver("orders")

    def test_nobody_there_is_an_outage(self) -> None:
        with (
            closing(Open(f"nats://127.0.0.1:{closed_port()}")) as one,
            pytest.raises(ProviderUnavailableError),
        ):
            drive(one.provider.ping())

    def test_a_token_logs_in(self) -> None:
        lines = ['authorization { token: "s3cret" }']
        with NatsServer(lines=lines, login=False) as server:
            where = f"127.0.0.1:{server.port}"
            with closing(Open(f"nats://s3cret@{where}")) as one:
                drive(one.provider.ping())
            with closing(Open(f"nats://other@{where}")) as one, pytest.raises(ConfigurationError):
                drive(one.provider.ping())

    def test_what_the_account_may_not_do_is_told(self) -> None:
        allowed = 'permissions: { publish: ["$JS.API.>", "$JS.ACK.>"], subscribe: ["_INBOX.>"] }'
        user = f'{{ user: "reader", password: "x", {allowed} }}'
        with NatsServer(lines=[f"authorization {{ users: [{user}] }}"], login=False) as server:
            url = f"nats://reader:x@127.0.0.1:{server.port}"
            with closing(Open(url)) as one, pytest.raises(ConfigurationError, match=r"forbids.*orders"):
                drive(one.provider.send("orders", numbered(1)))

    def test_a_server_without_jetstream_is_told(self) -> None:
        with (
            NatsServer(jetstream=False) as server,
            closing(Open(f"nats://{server.address}")) as one,
            pytest.raises(ProviderUnavailableError, match="JetStream"),
        ):
            drive(one.provider.send("orders", numbered(1)))

    @pytest.mark.parametrize("subject", ["", "a b", "a..b", ".a", "$JS.API.INFO"])
    def test_what_is_no_subject_is_no_destination(self, opened: Callable[[], Open], subject: str) -> None:
        with pytest.raises(ConfigurationError, match="destination"):
            drive(opened().provider.send(subject, numbered(1)))

    def test_nothing_is_sent_to_wildcards(self, opened: Callable[[], Open]) -> None:
        with pytest.raises(ConfigurationError, match="wildcards"):
            drive(opened().provider.send("orders.*", numbered(1)))

    def test_a_message_that_is_too_large_is_refused(self, opened: Callable[[], Open], subject: str) -> None:
        with pytest.raises(ConfigurationError, match="max_payload"):
            drive(opened().provider.send(subject, [Message(body=b"x" * 5_000_000)]))

    def test_a_stream_that_none_may_make_is_missed(self, opened: Callable[[str], Open], subject: str) -> None:
        one = opened("?create=false")
        with pytest.raises(ConfigurationError, match="no stream"):
            drive(one.provider.send(subject, numbered(1)))
        with pytest.raises(ConfigurationError, match="no stream"):
            one.receiver(subject)


class TestTls:
    def test_a_server_with_tls_is_verified(self, tmp_path: Path) -> None:
        authority = make_certificate(tmp_path, "authority")
        own = make_certificate(tmp_path, "server", authority=authority)
        lines = [f'tls {{ cert_file: "{own.certificate}", key_file: "{own.key}" }}']
        with NatsServer(lines=lines) as server:
            trusting = f"natss://{server.address}?cafile={authority.certificate}"
            with closing(Open(trusting)) as one:
                drive(one.provider.send("orders", numbered(1)))
                assert bodies(drive(take(one.receiver("orders"), 1))) == ["0"]
            with (
                closing(Open(f"natss://{server.address}")) as one,
                pytest.raises(ConfigurationError, match="certificate"),
            ):
                drive(one.provider.ping())

    def test_a_server_without_tls_gets_no_password(self, server: NatsServer) -> None:
        with (
            closing(Open(f"natss://{server.address}")) as one,
            pytest.raises(ConfigurationError, match="does not ask for TLS"),
        ):
            drive(one.provider.ping())


class TestTime:
    def test_a_silent_consumers_message_goes_to_another_one(
        self, opened: Callable[[str], Open], subject: str
    ) -> None:
        one = opened("?ack_wait=2")
        receiver = one.receiver(subject)
        drive(one.provider.send(subject, numbered(1)))
        drive(take(receiver, 1))

        [again] = drive(take(opened("?ack_wait=2").receiver(subject), 1))

        assert (again.message.delivery_count, again.message.redelivered) == (2, True)

    def test_a_retry_waits_at_the_server(self, server: NatsServer, subject: str) -> None:
        with closing(Open(f"nats://{server.address}")) as one:
            receiver = one.receiver(subject)
            drive(one.provider.send(subject, numbered(1)))
            drive(receiver.recover(drive(take(receiver, 1)), timedelta(seconds=1)))
        with closing(Open(f"nats://{server.address}")) as other:
            receiver = other.receiver(subject)
            assert not drive(receiver.receive(1, A_WHILE))
            assert bodies(drive(take(receiver, 1))) == ["0"]


class TestOutages:
    def test_a_server_that_comes_back_goes_on(self, subject: str) -> None:
        with NatsServer() as server, closing(Open(f"nats://{server.address}?ack_wait=2")) as one:
            receiver = one.receiver(subject)
            drive(one.provider.send(subject, numbered(2)))
            held = drive(take(receiver, 1))
            server.kill()
            with pytest.raises(ProviderUnavailableError):
                drive(take(receiver, 1))
            with pytest.raises(ProviderUnavailableError):
                drive(one.provider.send(subject, numbered(1)))
            server.start()

            assert sorted(bodies(drive(take(receiver, 2)))) == ["0", "1"]
            drive(receiver.acknowledge(held))  # this client is of no use any more

    def test_what_waits_until_it_is_due_outlives_a_killed_server(self, subject: str) -> None:
        with NatsServer() as server, closing(Open(f"nats://{server.address}")) as one:
            due = datetime.now(UTC) + timedelta(seconds=2)
            drive(one.provider.send(subject, [Message(body="later", delivery_time=due)]))
            server.kill()
            server.start()
            drive(one.provider.close())

            assert bodies(drive(take(one.receiver(subject), 1))) == ["later"]
            assert datetime.now(UTC) >= due

    def test_a_consumer_that_is_deleted_is_made_again(
        self, server: NatsServer, opened: Callable[[], Open], subject: str
    ) -> None:
        one = opened()
        receiver = one.receiver(subject)
        assert not drive(receiver.receive(1, A_WHILE))
        by_hand(server, lambda js: js.delete_consumer(subject, f"{subject}:book"))
        drive(one.provider.send(subject, numbered(1)))

        def received() -> bool:
            try:
                return bodies(drive(take(receiver, 1))) == ["0"]
            except ProviderUnavailableError:
                return False

        assert eventually(received)

    def test_a_session_that_is_over_leaves_no_subscription(self, subject: str) -> None:
        with NatsServer() as server, closing(Open(f"nats://{server.address}")) as one:
            receiver = one.receiver(subject)

            def receive_one() -> bool:
                try:
                    return bool(drive(take(receiver, 1)))
                except ProviderUnavailableError:
                    return False

            drive(one.provider.send(subject, numbered(1)))
            assert receive_one()
            at_work = server.subscriptions()
            by_hand(server, lambda js: js.delete_consumer(subject, f"{subject}:book"))
            assert not receive_one()
            eventually(receive_one)

            eventually(lambda: server.subscriptions() == at_work)
            drive(receiver.close())
            assert server.subscriptions() == at_work - 1

    def test_what_the_server_did_not_confirm_is_an_outage_for_the_next_one(
        self, server: NatsServer, opened: Callable[[], Open], subject: str
    ) -> None:
        one = opened()
        receiver = one.receiver(subject)
        drive(one.provider.send(subject, numbered(100)))
        held = drive(take(receiver, 100))
        by_hand(server, lambda js: js.delete_consumer(subject, f"{subject}:book"))

        def acknowledge_the_next() -> bool:
            try:
                drive(receiver.acknowledge([held.pop()]))
            except ProviderUnavailableError:
                return True
            return False

        eventually(acknowledge_the_next)

    def test_a_stream_that_is_deleted_is_made_again(
        self, server: NatsServer, opened: Callable[[], Open], subject: str
    ) -> None:
        one = opened()
        drive(one.provider.send(subject, numbered(1)))
        by_hand(server, lambda js: js.delete_stream(subject))

        drive(one.provider.send(subject, [Message(body="after")]))

        assert bodies(drive(take(one.receiver(subject), 1))) == ["after"]


class TestForeign:
    def test_subjects_with_wildcards_are_received_and_their_dead_letters_kept(
        self, server: NatsServer, opened: Callable[[], Open], subject: str
    ) -> None:
        by_hand(server, lambda js: js.add_stream(StreamConfig(name=subject, subjects=[f"{subject}.>"])))
        one = opened()
        receiver = one.receiver(f"{subject}.>")
        drive(one.provider.send(f"{subject}.eu", [Message(body="eu")]))
        drive(one.provider.send(f"{subject}.us", [Message(body="us")]))

        drive(receiver.dead_letter(drive(take(receiver, 2)), "no"))

        for part in ("eu", "us"):
            assert bodies(drive(take(one.receiver(f"DLQ.{subject}.{part}"), 1))) == [part]

    def test_a_subject_of_several_streams_is_refused(
        self, server: NatsServer, opened: Callable[[], Open], subject: str
    ) -> None:
        for part in ("a", "b"):
            config = StreamConfig(name=f"{subject}-{part}", subjects=[f"{subject}.{part}"])
            by_hand(server, partial(add_stream, config))

        with pytest.raises(ConfigurationError, match="several streams"):
            opened().receiver(f"{subject}.*")

    @pytest.mark.parametrize("also", [[], ["LATER.{}.*"]], ids=["without a place", "that may not"])
    def test_a_stream_that_keeps_nothing_until_it_is_due_refuses_it(
        self, server: NatsServer, opened: Callable[[], Open], subject: str, also: list[str]
    ) -> None:
        subjects = [subject, *(one.format(subject) for one in also)]
        by_hand(server, lambda js: js.add_stream(StreamConfig(name=subject, subjects=subjects)))
        due = datetime.now(UTC) + timedelta(hours=1)

        with pytest.raises(ConfigurationError, match=r"^delivery_time: .*allow_msg_schedules"):
            drive(opened().provider.send(subject, [Message(body="later", delivery_time=due)]))

    def test_a_time_that_the_server_cannot_count_to_is_refused(
        self, opened: Callable[[], Open], subject: str
    ) -> None:
        one = opened()
        receiver = one.receiver(subject)
        far = [datetime(year, 1, 1, tzinfo=UTC) for year in (2262, 2263)]
        waiting, refused = (Message(body="later", delivery_time=due) for due in far)

        drive(one.provider.send(subject, [waiting]))
        with pytest.raises(ConfigurationError) as error:
            drive(one.provider.send(subject, [Message(body="now"), refused]))

        assert error.value.setting == "delivery_time"
        assert not drive(receiver.receive(1, A_WHILE))

    def test_a_message_id_of_jetstream_is_an_identity(
        self, server: NatsServer, opened: Callable[[], Open], subject: str
    ) -> None:
        receiver = opened().receiver(subject)
        headers = {"Nats-Msg-Id": "order-1", "colour": "red"}
        by_hand(server, lambda js: js.publish(subject, b"x", headers=headers))

        [arrival] = drive(take(receiver, 1))

        assert (arrival.message.uuid, arrival.message.body) == ("order-1", b"x")
        assert arrival.message.properties["colour"] == "red"

    def test_what_cannot_be_read_comes_whole(
        self, server: NatsServer, opened: Callable[[], Open], subject: str
    ) -> None:
        receiver = opened().receiver(subject)
        headers = {"Content-Type": "application/json", "colour": "red"}
        by_hand(server, lambda js: js.publish(subject, b"{ cut", headers=headers))

        [delivery] = drive(receiver.receive(1, timedelta(seconds=10)))

        assert isinstance(delivery, Unreadable)
        assert (delivery.fields[b"body"], delivery.fields[b"colour"]) == (b"{ cut", b"red")
        drive(receiver.dead_letter([delivery], "not\nJSON"))
        [letter] = drive(opened().receiver(f"DLQ.{subject}").receive(1, timedelta(seconds=10)))
        assert isinstance(letter, Unreadable)
        assert letter.fields[b"dead-letter-reason"] == b"not JSON"

    def test_a_consumer_that_gives_messages_up_too_soon_is_refused(
        self, server: NatsServer, opened: Callable[[str], Open], subject: str
    ) -> None:
        by_hand(server, lambda js: js.add_stream(StreamConfig(name=subject, subjects=[subject])))
        config = ConsumerConfig(durable_name="mine", max_deliver=5, ack_wait=7)
        by_hand(server, lambda js: js.add_consumer(subject, config))
        receiver: Any = opened("?durable=mine").receiver(subject)

        receiver.limits = Limits(max_delivery_count=4)
        with pytest.raises(ConfigurationError, match="max_deliver"):
            receiver.limits = Limits(max_delivery_count=5)

    def test_after_how_many_deliveries_it_gives_up_can_be_asked(
        self, server: NatsServer, opened: Callable[[str], Open], subject: str
    ) -> None:
        provider = opened("?durable=mine").provider
        assert drive(provider.delivery_limit(subject, "book")) is None
        by_hand(server, lambda js: js.add_stream(StreamConfig(name=subject, subjects=[subject])))
        assert drive(provider.delivery_limit(subject, "book")) is None

        config = ConsumerConfig(durable_name="mine", max_deliver=5)
        by_hand(server, lambda js: js.add_consumer(subject, config))

        limit = drive(provider.delivery_limit(subject, "book"))
        assert limit is not None
        assert limit.deliveries == 5

    def test_a_push_consumer_is_refused(
        self, server: NatsServer, opened: Callable[[str], Open], subject: str
    ) -> None:
        by_hand(server, lambda js: js.add_stream(StreamConfig(name=subject, subjects=[subject])))
        config = ConsumerConfig(durable_name="pushing", deliver_subject="elsewhere")
        by_hand(server, lambda js: js.add_consumer(subject, config))

        with pytest.raises(ConfigurationError, match="push consumer"):
            opened("?durable=pushing").receiver(subject)
