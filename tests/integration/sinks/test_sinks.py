"""Behaviour of all sinks for retrieval failure events, and of the log and the Redis stream."""

import json
import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.fixtures.ports import closed_port
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from tests.integration.helpers.given_up import assert_it_changed_nothing, async_doomed, doomed, hearing
from triggers import Cause, ConfigurationError, Message, RetrievalFailureEvent, Retry
from triggers.sinks import (
    DeadLetterSink,
    LogSink,
    RedisStreamSink,
    Sink,
    SqlTableSink,
    WebhookSink,
    open_sink,
)
from triggers.testing.redis_server import RedisServer

#: A sink of each kind. Its server does not exist.
AWAY: dict[str, Callable[[int, Path], Sink]] = {
    "redis": lambda port, _: RedisStreamSink(f"redis://127.0.0.1:{port}/0"),
    "sqlite": lambda _, folder: SqlTableSink(f"sqlite:///{folder}/no/such/folder/events.db"),
    "postgres": lambda port, _: SqlTableSink(f"postgresql://nobody@127.0.0.1:{port}/none"),
    "webhook": lambda port, _: WebhookSink(f"http://127.0.0.1:{port}/", retry=Retry()),
    "dead letter": lambda port, _: DeadLetterSink(f"redis://127.0.0.1:{port}/0"),
}


@pytest.fixture(params=AWAY)
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return AWAY[request.param](closed_port(), tmp_path)


@pytest.mark.parametrize("hears", ["blocking", "asyncio", "in the background"])
async def test_a_sink_whose_server_is_away_changes_nothing_for_the_message(
    away: Sink, caplog: pytest.LogCaptureFixture, hears: str
) -> None:
    message = Message(body="secret body", uuid="alone")
    with hearing(away, synchronous=hears != "in the background"):
        outcome = await async_doomed().ahandle(message) if hears == "asyncio" else doomed().handle(message)

    assert_it_changed_nothing(outcome)
    (record,) = [one for one in caplog.records if one.name.startswith("triggers.events")]
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"the retrieval failure handler {type(away).__name__} failed: ")
    assert record.exc_info is None
    assert "\n" not in record.getMessage()
    assert (vars(record)["trigger"], vars(record)["uuid"]) == ("doomed", "alone")
    assert "secret body" not in caplog.text
    assert "document history" not in record.getMessage()


def test_an_event_arrives_in_the_stream_as_a_cloudevent(redis_url: str) -> None:
    with hearing(RedisStreamSink(redis_url, stream="events")):
        outcome = doomed().handle(Message(body="b", uuid="given-up"))

    with connected(redis_url) as client:
        [(_, fields)] = client.xrange("events")
    told = json.loads(fields[b"event"])
    assert outcome.event is not None
    assert told == outcome.event.to_cloudevent()
    assert Message.from_json(told["data"]["message"]) == Message(body="b", uuid="given-up")


def test_a_stream_keeps_about_so_many_events(redis_url: str) -> None:
    fail = doomed()

    with hearing(RedisStreamSink(redis_url, maxlen=1)):
        for number in range(250):  # Redis trims whole nodes of 100 entries
            fail.handle(Message(body="b", uuid=str(number)))

    with connected(redis_url) as client:
        assert client.xlen("doubtless:events") < 250


def test_a_stream_sink_goes_on_when_its_server_is_back(
    private_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    fail, numbers = doomed(), count()

    with hearing(RedisStreamSink(private_redis.url)), connected(private_redis.url) as client:
        private_redis.stop()
        fail.handle(Message(body="b", uuid="lost"))
        private_redis.start()
        # Calls fail immediately until the sink has seen that the server is back.
        eventually(
            lambda: (
                fail.handle(Message(body="b", uuid=str(next(numbers)))) and client.xlen("doubtless:events")
            ),
            30,
        )

    assert "failed: the Redis stream doubtless:events is unavailable while publishing an event" in caplog.text


@pytest.mark.parametrize("maxlen", [0, -1, True])
def test_a_stream_keeps_at_least_one_event(maxlen: int) -> None:
    with pytest.raises(ConfigurationError, match="maxlen"):
        RedisStreamSink("redis://127.0.0.1:6379/0", maxlen=maxlen)


def test_the_log_names_the_message_and_never_its_body(caplog: pytest.LogCaptureFixture) -> None:
    with hearing(LogSink()), caplog.at_level(logging.ERROR, logger="triggers.retrieval_failures"):
        doomed().handle(Message(body="secret body", uuid="logged"))

    assert "doomed gave up message logged" in caplog.text
    assert "no such account" in caplog.text
    assert "secret body" not in caplog.text


def test_the_log_says_nothing_of_an_error_that_there_is_not(caplog: pytest.LogCaptureFixture) -> None:
    event = RetrievalFailureEvent(
        trigger_name="doomed", destination="orders", delivery_count=2, cause=Cause.FAILED_BEFORE
    )
    unreadable = event.model_copy(update={"exception_message": "no JSON"})

    LogSink()(event)
    LogSink()(unreadable)

    assert [record.message for record in caplog.records] == [
        f"doomed gave up message None: {Cause.FAILED_BEFORE}",
        f"doomed gave up message None: {Cause.FAILED_BEFORE} (no JSON)",
    ]


class TestOpening:
    @pytest.mark.parametrize(
        ("url", "kind"),
        [
            ("log:", LogSink),
            ("redis://127.0.0.1:6379/0", RedisStreamSink),
            ("rediss://127.0.0.1:6379/0?stream=given-up", RedisStreamSink),
            ("unix:///run/redis.sock", RedisStreamSink),
            ("sqlite:///events.db", SqlTableSink),
            ("postgresql://somebody@127.0.0.1/shop?table=given_up", SqlTableSink),
            ("http://127.0.0.1/hook", WebhookSink),
            ("https://somebody:secret@127.0.0.1:8443/hook?key=value", WebhookSink),
            ("dead-letter:", DeadLetterSink),
            ("dead-letter:orders.dead", DeadLetterSink),
        ],
    )
    def test_a_url_leads_to_its_sink(self, url: str, kind: type[Sink]) -> None:
        sink = open_sink(url, provider="memory://")
        sink.close()
        sink.close()

        assert type(sink) is kind

    @pytest.mark.parametrize("url", ["", "log", "kafka://127.0.0.1", "events.db", "mailto:me@localhost"])
    def test_an_unknown_scheme_is_an_error_that_names_the_known_ones(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match=r"unknown URL scheme .*use log:, redis:.* dead-letter:"):
            open_sink(url)

    @pytest.mark.parametrize(
        ("url", "problem"),
        [
            ("redis://127.0.0.1/0?maxlen=many", "maxlen: must be a number, not 'many'"),
            ("redis://127.0.0.1/0?maxlen=0", "maxlen: must be 1 or more, not 0"),
            ("sqlite:///events.db?table=" + "e" * 59, "table: .* use 1 to 58 characters"),
            ("mysql+pymysql://127.0.0.1/shop", "unknown URL scheme 'mysql'"),
            ("http://", "write https://host/path"),
            ("https://host:port/", "write https://host/path"),
            ("dead-letter:", "needs a provider"),
        ],
    )
    def test_what_cannot_work_is_an_error_before_anything_is_connected(self, url: str, problem: str) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            open_sink(url)

    def test_the_stream_of_a_url_is_written_to(self, redis_url: str) -> None:
        with hearing(open_sink(f"{redis_url}?stream=given%20up&maxlen=10&socket_timeout=3")):
            doomed().handle(Message(body="b", uuid="u"))

        with connected(redis_url) as client:
            assert client.xlen("given up") == 1

    def test_without_httpx_the_error_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "httpx", None)
        monkeypatch.delitem(__import__("sys").modules, "triggers.sinks.webhook")

        with pytest.raises(ConfigurationError, match=r"pip install 'doubtless\[http\]'"):
            open_sink("https://127.0.0.1/hook")
