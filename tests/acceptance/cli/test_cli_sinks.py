"""``doubtless run --sink`` sends the events of given-up messages to sinks while a consumer runs."""

import json
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.message import Message
from tests.acceptance.in_process import InProcess
from tests.fixtures.servers.http_server import HANG
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.webhook_server import WebhookServer
from triggers.events import mailbox
from triggers.providers.redis_streams import RedisStreams

#: At its end, a consumer waits so long for a sink that hangs.
SOON = timedelta(seconds=0.2)

#: A module with a trigger of each kind that gives every message up.
GIVES_UP = """
from triggers import FatalError, Message, trigger

@trigger("orders", name="book")
def book(message: Message) -> None:
    raise FatalError("no such customer")
"""

ASYNC_GIVES_UP = """
from triggers import FatalError, Message, trigger

@trigger("orders", name="book")
async def book(message: Message) -> None:
    raise FatalError("no such customer")
"""


@pytest.fixture(params=[GIVES_UP, ASYNC_GIVES_UP], ids=["blocking", "asyncio"])
def each_kind(request: pytest.FixtureRequest, doubtless: InProcess) -> None:
    """Let ``shop`` have a blocking service, then one that is a coroutine function."""
    (doubtless.folder / "mine.py").write_text(request.param)


@pytest.fixture
def blocking(doubtless: InProcess) -> None:
    (doubtless.folder / "mine.py").write_text(GIVES_UP)


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    with WebhookServer() as server:
        yield server


def send(url: str, *uuids: str) -> None:
    provider = RedisStreams.from_url(url)
    drive(provider.send("orders", [Message(body="secret body", uuid=uuid) for uuid in uuids]))
    drive(provider.close())


def words(url: str, *sinks: str) -> list[str]:
    told = [word for sink in sinks for word in ("--sink", sink)]
    return ["run", "mine", "--provider", url, "--history", url, "--until-idle", "0.3", *told]


def uuids_of(events: list[Any]) -> list[str | None]:
    return [Message.from_json(event["data"]["message"]).uuid for event in events]


def streamed(url: str, stream: str) -> list[Any]:
    with connected(url) as client:
        return [json.loads(fields[b"event"]) for _, fields in client.xrange(stream)]


@pytest.mark.usefixtures("each_kind")
def test_every_sink_hears_of_every_event(
    doubtless: InProcess, redis_url: str, postgres_url: str, server: WebhookServer, store: KeepsBeside
) -> None:
    send(redis_url, "1", "2")

    answer = doubtless(
        *words(
            redis_url,
            "log:",
            f"{redis_url}?stream=given-up",
            "sqlite:///events.db?table=given_up",
            postgres_url,
            f"{server.url}/hook",
            "dead-letter:",
            "dead-letter:graveyard",
        ),
        "--json",
    )

    assert (answer.code, answer.json) == (0, [{"trigger": "book", "messages": 2, "failed": 2}])
    assert [line for line in answer.err.splitlines() if "book gave up message 2: " in line]
    assert uuids_of(streamed(redis_url, "given-up")) == ["1", "2"]
    with sqlite3.connect(doubtless.folder / "events.db") as lite:
        assert lite.execute("SELECT uuid FROM given_up ORDER BY time").fetchall() == [("1",), ("2",)]
    lite.close()
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM doubtless_events").fetchone() == (2,)
    assert uuids_of([posted.json for posted in server.posted]) == ["1", "2"]
    with connected(redis_url) as client:
        assert [client.xlen("orders.dead"), client.xlen("graveyard")] == [2, 2]
    assert drive(store.parking.count()) == 2
    assert "secret body" not in answer.err


@pytest.mark.usefixtures("blocking")
def test_the_sinks_may_stand_in_the_environment(doubtless: InProcess, redis_url: str) -> None:
    send(redis_url, "1")

    answer = doubtless(*words(redis_url), DOUBTLESS_SINKS=f"log: {redis_url}?stream=given-up")

    assert answer.code == 0
    assert "book gave up message 1" in answer.err
    assert len(streamed(redis_url, "given-up")) == 1


@pytest.mark.usefixtures("blocking")
@pytest.mark.prove
def test_each_process_has_the_sinks(doubtless: InProcess, redis_url: str, server: WebhookServer) -> None:
    sinks = (f"{redis_url}?stream=given-up", "sqlite:///events.db", server.url)
    uuids = [str(number) for number in range(30)]
    send(redis_url, *uuids)

    assert doubtless.process(*words(redis_url, *sinks), "--processes", "2").code == 0
    assert sorted(uuids_of(streamed(redis_url, "given-up")), key=str) == sorted(uuids)
    assert sorted(uuids_of([posted.json for posted in server.posted]), key=str) == sorted(uuids)
    with sqlite3.connect(doubtless.folder / "events.db") as lite:
        assert lite.execute("SELECT count(DISTINCT uuid) FROM doubtless_events").fetchone() == (30,)
    lite.close()


@pytest.mark.usefixtures("blocking")
def test_a_webhook_that_does_not_answer_is_left_behind_at_the_end_and_named(
    doubtless: InProcess, redis_url: str, server: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(redis_url, "1", "2")
    server.status = HANG
    monkeypatch.setattr(mailbox, "PATIENCE", SOON)
    monkeypatch.setattr(mailbox.flush_events, "__defaults__", (SOON,))

    answer = doubtless(*words(redis_url, server.url), "--json")

    assert (answer.code, answer.json) == (0, [{"trigger": "book", "messages": 2, "failed": 2}])
    assert "WebhookSink has not come back from an event [trigger=book uuid=1]" in answer.err
    assert "WebhookSink was not told of an event in time [trigger=book uuid=2]" in answer.err


@pytest.mark.usefixtures("blocking")
def test_what_waits_for_a_webhook_is_posted_before_the_end(
    doubtless: InProcess, redis_url: str, server: WebhookServer
) -> None:
    send(redis_url, "1", "2", "3")
    server.answers += [503, 503]  # retries after 1 and 2 seconds, long after the messages are done

    answer = doubtless(*words(redis_url, f"http://user:secret1@{server.address}/?key=secret2"), "--verbose")

    assert answer.code == 0
    assert uuids_of([posted.json for posted in server.posted]) == ["1", "1", "1", "2", "3"]
    assert "secret" not in answer.err


@pytest.mark.usefixtures("each_kind")
def test_a_sink_that_cannot_be_opened_is_an_error_before_a_message_is_touched(
    doubtless: InProcess, redis_url: str
) -> None:
    send(redis_url, "1")

    answer = doubtless(*words(redis_url, "log:", "kafka://127.0.0.1"))

    assert answer.code == 2
    assert answer.error.startswith("error: --sink: unknown URL scheme 'kafka'; use log:, redis:")
    with connected(redis_url) as client:
        assert client.keys("*doubtless*") == []
