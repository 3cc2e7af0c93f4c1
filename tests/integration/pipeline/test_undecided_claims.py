"""If the answer to a claim never comes, its messages are not In Doubt: the claimer knows that nothing ran."""

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history import Claim, Entry, HistoryUnavailableError, State, open_history
from history.bridge import drive
from history.store import HistoryStore
from resolvers import Resolution
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from triggers import Message, Outcome, Status, Trigger, trigger
from triggers.testing.redis_server import RedisServer

UUIDS = [f"u{number}" for number in range(5)]


class Losing:
    """A history that does its work, but loses its answer while ``loses`` names the verb."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self.loses = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *words: Any, **terms: Any) -> Sequence[Claim]:
        claims = await self._store.claim(*words, **terms)
        self._lose("claim")
        return claims

    async def take_over(self, *words: Any, **terms: Any) -> Claim | None:
        taken = await self._store.take_over(*words, **terms)
        self._lose("take_over")
        return taken

    def _lose(self, verb: str) -> None:
        if verb == self.loses:
            raise HistoryUnavailableError(f"waiting for the answer to {verb}")


@pytest.fixture
def losing(history_url: str) -> Iterator[Losing]:
    store = open_history(history_url)
    yield Losing(store)
    drive(store.close())


@pytest.fixture
def runs() -> list[str | None]:
    return []


@pytest.fixture(params=[timedelta(seconds=30), None], ids=["leased", "without a lease"])
def book(
    losing: Losing, runs: list[str | None], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Trigger[..., Any]]:
    book = booking(losing, runs, tmp_path, lease=request.param)
    yield book
    book.close()


def booking(store: Any, runs: list[str | None], folder: Path, **settings: Any) -> Trigger[..., Any]:
    @trigger("orders", name="book", history=store, local_parking_file=folder / "parked", **settings)
    def book(message: Message) -> None:
        runs.append(message.uuid)

    return book


def deliveries(times: int, uuids: Sequence[str] = UUIDS) -> list[Message]:
    return [Message(uuid=uuid, body="", delivery_count=times) for uuid in uuids]


def told(outcomes: Sequence[Outcome]) -> list[tuple[Status | None, bool]]:
    return [(outcome.status, outcome.acknowledge) for outcome in outcomes]


def entries(store: HistoryStore) -> list[Entry | None]:
    return list(drive(store.lookup("book", UUIDS)))


def test_messages_whose_claim_had_no_answer_run_when_they_come_again(
    book: Trigger[..., Any], losing: Losing, runs: list[str | None], store: HistoryStore
) -> None:
    losing.loses = "claim"
    lost = book.handle_batch(deliveries(1))
    stood = entries(store)
    losing.loses = ""

    again = book.handle_batch(deliveries(2))

    assert told(lost) == [(None, False)] * 5
    assert [entry.state for entry in stood if entry] == [State.STARTED] * 5
    assert told(again) == [(Status.NEW, True)] * 5
    assert runs == UUIDS
    assert told(book.handle_batch(deliveries(3))) == [(Status.DUPLICATE, True)] * 5


def test_what_is_left_is_released_for_others_when_the_history_answers(
    book: Trigger[..., Any], losing: Losing, runs: list[str | None], store: HistoryStore
) -> None:
    losing.loses = "claim"
    book.handle_batch(deliveries(1))
    losing.loses = ""

    book.handle(Message(uuid="another", body=""))

    assert entries(store) == [None] * 5
    assert runs == ["another"]


def test_a_take_over_that_had_no_answer_is_taken_up(
    book: Trigger[..., Any], losing: Losing, runs: list[str | None], store: HistoryStore
) -> None:
    losing.loses = "claim"
    book.handle(deliveries(1)[0])
    losing.loses = "take_over"
    lost = book.handle(deliveries(2)[0])
    losing.loses = ""

    assert told([lost, book.handle(deliveries(3)[0])]) == [(None, False), (Status.NEW, True)]
    assert runs == UUIDS[:1]


def test_somebody_else_who_has_taken_it_over_keeps_it(
    book: Trigger[..., Any], losing: Losing, runs: list[str | None], store: HistoryStore
) -> None:
    losing.loses = "claim"
    book.handle(deliveries(1)[0])
    losing.loses = ""
    entry = entries(store)[0]
    assert entry is not None
    assert drive(store.take_over("book", UUIDS[0], "somebody", timedelta(hours=1), entry.fence))

    again = book.handle(deliveries(2)[0])

    assert (again.status, again.acknowledge, runs) == (None, False, [])


def test_another_process_knows_nothing_of_it(
    book: Trigger[..., Any], losing: Losing, runs: list[str | None], tmp_path: Path
) -> None:
    losing.loses = "claim"
    book.handle(deliveries(1)[0])
    losing.loses = ""

    with closing(booking(losing, runs, tmp_path, lease=None)) as other:
        again = other.handle(deliveries(2)[0])

    assert runs == []
    assert again.status is not Status.NEW


def is_started(url: str) -> bool:
    store = open_history(url)
    try:
        return drive(store.lookup("book", UUIDS[:1]))[0] is not None
    finally:
        drive(store.close())


def test_a_server_that_stood_still_makes_nothing_in_doubt(
    private_redis: RedisServer, runs: list[str | None], tmp_path: Path, form: str
) -> None:
    url = f"{private_redis.url}?socket_timeout=0.2&circuit=off"
    with connected(private_redis.url) as client:
        process = int(client.info("server")["process_id"])

    async def handled() -> list[Outcome]:
        book = booking(url, runs, tmp_path)

        async def handle(message: Message) -> Outcome:
            return book.handle(message) if form == "blocking" else await book.ahandle(message)

        with ExitStack() as stack:
            stack.callback(book.close)
            outcomes = [await handle(Message(uuid="first", body=""))]
            os.kill(process, signal.SIGSTOP)
            stack.callback(os.kill, process, signal.SIGCONT)
            outcomes.append(await handle(deliveries(1)[0]))
            os.kill(process, signal.SIGCONT)
            await asyncio.to_thread(eventually, lambda: is_started(private_redis.url))
            outcomes.append(await handle(deliveries(2)[0]))
            await book.aclose()
            return outcomes

    outcomes = asyncio.run(handled())

    assert told(outcomes) == [(Status.NEW, True), (None, False), (Status.NEW, True)]
    assert runs == ["first", "u0"]


def test_what_a_resolver_let_run_without_the_history_is_not_taken_for_what_never_ran(
    losing: Losing, runs: list[str | None], store: HistoryStore, tmp_path: Path
) -> None:
    answers = [Resolution.NEW, Resolution.IN_DOUBT]

    def ask(uuid: str, trigger_name: str, message: Message) -> Resolution:
        return answers.pop(0)

    settings: dict[str, Any] = {"on_history_error": "resolve", "resolver": ask, "lease": None}
    with closing(booking(losing, runs, tmp_path, **settings)) as book:
        losing.loses = "claim"
        first = book.handle(deliveries(1)[0])
        losing.loses = ""
        book.handle(Message(uuid="another", body=""))
        again = book.handle(deliveries(2)[0])

    assert [first.status, again.status] == [Status.NEW, Status.IN_DOUBT]
    assert runs == ["u0", "another"]
