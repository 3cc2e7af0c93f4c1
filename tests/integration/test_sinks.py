"""The sinks of retrieval failure events, on a real Redis."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from history import MemoryHistory
from tests.fixtures.redis import connected
from triggers import FatalError, Message, on_retrieval_failure, trigger
from triggers.sinks import LogSink, RedisStreamSink


@trigger("orders", name="doomed", history=MemoryHistory())
def doomed(message: Message) -> None:
    raise FatalError("no such account")


@pytest.fixture
def stream_sink(redis_url: str) -> Iterator[RedisStreamSink]:
    sink = RedisStreamSink(redis_url, stream="events")
    subscription = on_retrieval_failure("doomed")(sink)
    yield sink
    subscription.cancel()
    sink.close()


def test_an_event_arrives_in_the_stream_as_a_cloudevent(stream_sink: RedisStreamSink, redis_url: str) -> None:
    outcome = doomed.handle(Message(body="b", uuid="given-up"))

    with connected(redis_url) as client:
        [(_, fields)] = client.xrange("events")
    event = json.loads(fields[b"event"])
    assert outcome.event is not None
    assert event["specversion"] == "1.0"
    assert event["type"] == "doubtless.retrieval_failure.v1"
    assert event["data"]["trigger_name"] == "doomed"
    assert event["data"]["exception_class"] == "triggers.failures.FatalError"
    assert Message.from_json(event["data"]["message"]) == Message(body="b", uuid="given-up")


def test_a_sink_whose_server_is_away_changes_nothing_for_the_message(tmp_path: Path) -> None:
    sink = RedisStreamSink("redis://127.0.0.1:1/0")
    subscription = on_retrieval_failure("doomed")(sink)

    outcome = doomed.handle(Message(body="b", uuid="alone"))

    subscription.cancel()
    sink.close()
    assert outcome.acknowledge
    assert outcome.parked
    assert outcome.event is not None


def test_the_log_names_the_message_and_never_its_body(caplog: pytest.LogCaptureFixture) -> None:
    subscription = on_retrieval_failure("doomed")(LogSink())

    with caplog.at_level(logging.ERROR, logger="triggers.retrieval_failures"):
        doomed.handle(Message(body="secret body", uuid="logged"))

    subscription.cancel()
    assert "doomed gave up message logged" in caplog.text
    assert "no such account" in caplog.text
    assert "secret body" not in caplog.text
