"""Requests and replies over a provider in memory."""

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from history import ConfigurationError, MemoryHistory, Message
from history.bridge import drive
from tests.fixtures.threads import in_threads
from tests.fixtures.waiting import patience
from tests.unit.triggers.producer.producers import Line, arrived
from triggers import Consumer, Producer, Trigger, trigger
from triggers.providers import Provider
from triggers.providers.memory import MemoryProvider
from triggers.providers.nats.settings import check_subject
from triggers.providers.sqs.settings import check_queue

SOON = timedelta(seconds=patience(10.0))
SHORT = timedelta(milliseconds=50)


@contextmanager
def answering(provider: Provider, answer: Callable[[Producer, Message], object]) -> Generator[None]:
    """Run a trigger on ``questions`` while entered."""
    producer = Producer(provider)

    @trigger("questions", name="answer", history=MemoryHistory())
    def service(message: Message) -> None:
        answer(producer, message)

    consumer = Consumer([service], provider)
    thread = threading.Thread(target=consumer.run)
    thread.start()
    try:
        yield
    finally:
        consumer.stop()
        thread.join()
        producer.close()


def echo(producer: Producer, request: Message) -> None:
    producer.reply(request, {"echo": request.body})


async def test_a_request_under_asyncio_as_well() -> None:
    provider = MemoryProvider()

    with answering(provider, echo):
        async with Producer(provider) as producer:
            replies = await asyncio.gather(
                *(producer.arequest("questions", number, timeout=SOON) for number in range(20))
            )

    assert [reply and reply.body for reply in replies] == [{"echo": number} for number in range(20)]


def test_concurrent_requests_get_their_own_replies_over_one_destination() -> None:
    provider = MemoryProvider()
    replies: dict[int, Message | None] = {}

    with answering(provider, echo), Producer(provider) as producer:

        def ask(number: int) -> None:
            replies[number] = producer.request("questions", number, timeout=SOON)

        in_threads(ask, range(8))

    assert {number: reply and reply.body for number, reply in replies.items()} == {
        number: {"echo": number} for number in range(8)
    }
    assert len({one.reply_to for one in arrived(provider, "questions")}) == 1


def test_a_late_reply_is_dropped_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    provider = MemoryProvider()
    caplog.set_level(logging.INFO)

    with Producer(provider) as producer:
        assert producer.request("questions", 1, timeout=SHORT, uuid="r-1") is None
        [asked] = arrived(provider, "questions")
        producer.reply(asked, "too late")
        # The listener works in order: when it has answered this one, it has seen the late one.
        with answering(provider, lambda one, request: one.reply(request, "!") if request.body == 2 else None):
            assert producer.request("questions", 2, timeout=SOON) is not None

    assert "dropped the reply" in caplog.text
    assert "to r-1" in caplog.text


def test_a_second_request_under_a_uuid_that_waits_is_refused() -> None:
    provider = MemoryProvider()

    with Producer(provider) as producer:
        waiting = threading.Thread(
            target=lambda: producer.request("questions", "?", uuid="r", timeout=timedelta(milliseconds=500))
        )
        waiting.start()
        while not arrived(provider, "questions"):
            pass
        with pytest.raises(ConfigurationError, match="'r' waits"):
            producer.request("questions", "?", uuid="r", timeout=SHORT)
        waiting.join()

        assert producer.request("questions", "?", uuid="r", timeout=SHORT) is None


@pytest.mark.parametrize("wrong", [{"timeout": timedelta(0)}, {"timeout": 5}, {"reply_to": "mine"}], ids=str)
def test_a_request_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with Producer(MemoryProvider()) as producer, pytest.raises(ConfigurationError):
        producer.request("questions", "?", **{"timeout": SHORT, **wrong})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_run_that_is_repeated_sends_the_same_reply_again() -> None:
    provider = MemoryProvider()
    request = Message(body="?", uuid="r-1", reply_to="answers")

    with Producer(provider) as producer:
        first, second = producer.reply(request, 1), producer.reply(request, 1)
        own = producer.reply(request, 2, uuid="part-2")

    assert (first.uuid, own.uuid) == (second.uuid, "part-2")
    assert {one.correlation_id for one in arrived(provider, "answers")} == {"r-1"}


def test_the_destination_for_replies_is_gone_with_its_producer() -> None:
    provider = MemoryProvider()
    producer = Producer(provider)
    producer.request("questions", "?", timeout=SHORT)
    producer.close()

    [asked] = arrived(provider, "questions")
    receiver = drive(provider.open_receiver(asked.reply_to or "", subscription="temporary", name="owner"))

    assert asked.reply_to is not None
    assert list(drive(receiver.receive(1, timedelta(0)))) == []


@pytest.mark.parametrize("alias", ["shop", "shop: Rome / 1, the one with a long name"])
def test_without_temporary_destinations_replies_have_one_that_every_broker_takes(alias: str) -> None:
    line = Line()

    with answering(line, echo), Producer(line, alias=alias) as producer:
        first, second = (producer.request("questions", number, timeout=SOON) for number in range(2))

    assert first is not None
    assert second is not None
    name = first.destination or ""
    assert check_queue(name) == check_subject(name, sending=True) == name == second.destination


class Quote(BaseModel):
    price: float


class TestADuplicateRequest:
    def quoting(self, producer: Producer, **options: Any) -> Trigger[..., Any]:
        given: dict[str, Any] = {"history": MemoryHistory(), "on_duplicate": producer.reply_again} | options

        @trigger("prices", name="quote", **given)
        def quote(message: Message) -> Quote:
            if message.body == "bad":
                raise ValueError("no such article")
            answer = {"price": 12.5}
            producer.reply(message, answer)
            return Quote.model_validate(answer)

        return quote

    def test_it_gets_the_first_reply(self) -> None:
        provider = MemoryProvider()
        with Producer(provider) as producer:
            quote = self.quoting(producer, keep_result=True)
            for reply_to in ("answers", "elsewhere"):
                quote.handle(Message(body="?", uuid="r-1", reply_to=reply_to))
            quote.handle(Message(body="?", uuid="r-1"))

        (first,), (again,) = arrived(provider, "answers"), arrived(provider, "elsewhere")
        assert again.body == first.body == {"price": 12.5}
        assert (again.uuid, again.correlation_id) == (first.uuid, "r-1")

    @pytest.mark.parametrize(("body", "keeps"), [("?", False), ("bad", True)], ids=["not kept", "failed"])
    def test_it_gets_none_where_there_is_none(
        self, body: str, caplog: pytest.LogCaptureFixture, *, keeps: bool
    ) -> None:
        provider = MemoryProvider()
        with Producer(provider) as producer:
            quote = self.quoting(producer, keep_result=keeps)
            for _ in range(2):
                quote.handle(Message(body=body, uuid="r-1", reply_to="answers"))

        assert len(arrived(provider, "answers")) == (body == "?")
        assert "r-1: a duplicate request has no reply: no result of the first is kept" in caplog.text

    async def test_it_gets_the_first_reply_under_asyncio(self) -> None:
        provider = MemoryProvider()
        producer = Producer(provider)
        history = MemoryHistory()

        @trigger(
            "prices", name="quote", history=history, keep_result=True, on_duplicate=producer.areply_again
        )
        async def quote(message: Message) -> str:
            await producer.areply(message, "12.5")
            return "12.5"

        for _ in range(2):
            await quote.ahandle(Message(body="?", uuid="r-1", reply_to="answers"))
        await quote.aclose()
        await producer.aclose()

        assert [one.body for one in arrived(provider, "answers")] == ["12.5", "12.5"]
