"""With ``redact=``, no output of a run contains a card number from an error or a resolver.

Only the parked message itself stays whole.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from history import Parked, open_history
from history.bridge import drive
from resolvers import Resolution, Resolved
from tests.fixtures.beside import kept_in
from triggers import (
    CARD_NUMBERS,
    Message,
    Outcome,
    RetrievalFailureEvent,
    Retry,
    TransientError,
    flush_events,
    on_retrieval_failure,
    trigger,
)
from triggers.guards import protect
from triggers.sinks.sink import LogSink

CARD = "4111 1111 1111 1111"
MARKER = "(redacted: card number)"


class Declined(Exception):  # noqa: N818  (as users name them)
    """Quotes its message in its text and in its cause."""


def decline() -> None:
    raise Declined(f"card {CARD} is declined") from LookupError(f"no account of {CARD}")


class Left:
    """All outputs of a run, as text."""

    def __init__(self, url: str, caplog: pytest.LogCaptureFixture) -> None:
        self.url, self.caplog = url, caplog
        self.events: list[RetrievalFailureEvent] = []

    def parked(self) -> list[Parked]:
        store = open_history(self.url)
        try:
            found = [drive(store.parking.get(label.id)) for label in drive(store.parking.list())]
            return [one for one in found if one is not None]
        finally:
            drive(store.close())

    def texts(self, uuid: str = "card-1") -> dict[str, str]:
        """Return the texts that must not contain card numbers: everything but the message itself."""
        flush_events()
        store = open_history(self.url)
        try:
            journal, results = kept_in(store).journal, kept_in(store).results
            kept = drive(results.get("book", uuid))
            return {
                "log": self._log(),
                "events": "".join(event.model_dump_json(exclude={"message"}) for event in self.events),
                "journal": repr(drive(journal.read("book", uuid))),
                "kept": "" if kept is None else kept.data.decode(),
                "parked": "".join(one.model_dump_json(exclude={"message"}) for one in self.parked()),
            }
        finally:
            drive(store.close())

    def with_words(self, words: str) -> set[str]:
        """Return the names of the texts that contain these words."""
        return {name for name, text in self.texts().items() if words in text}

    def _log(self) -> str:
        formatter = logging.Formatter("%(message)s")  # prints exc_info, too
        return "\n".join(formatter.format(record) for record in self.caplog.records)


@pytest.fixture
def left(history_url: str, caplog: pytest.LogCaptureFixture) -> Iterator[Left]:
    for name in ("history", "triggers"):  # without the loggers of drivers, which log whole statements
        caplog.set_level(logging.DEBUG, name)
    found = Left(history_url, caplog)
    subscriptions = [on_retrieval_failure("book")(handler) for handler in (found.events.append, LogSink())]
    yield found
    for subscription in subscriptions:
        subscription.cancel()


Runs = Callable[[str, Any], Outcome]


def as_trigger(url: str, call: Callable[[], None], **options: Any) -> Outcome:
    @trigger("cards", name="book", history=url, journal=True, keep_result=True, **options)
    def book(body: str) -> None:
        call()

    with closing(book):
        return book.handle(Message(uuid="card-1", body=CARD))


def as_guard(url: str, call: Callable[[], None], **options: Any) -> Outcome:
    guard = protect("book", history=url, journal=True, keep_result=True, **options)
    with closing(guard):
        return guard.handle("card-1", call, body=CARD)


def as_guard_under_asyncio(url: str, call: Callable[[], None], **options: Any) -> Outcome:
    async def run() -> Outcome:
        guard = protect("book", history=url, journal=True, keep_result=True, **options)
        try:
            return await guard.ahandle("card-1", call, body=CARD)
        finally:
            await guard.aclose()

    return asyncio.run(run())


@pytest.fixture(params=[as_trigger, as_guard, as_guard_under_asyncio])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_nothing_that_a_failed_run_leaves_holds_a_card_number(left: Left, run: Any) -> None:
    outcome = run(left.url, decline, redact=CARD_NUMBERS)

    assert outcome.parked
    assert left.with_words(CARD) == set()
    assert left.with_words(MARKER) == {"log", "events", "kept", "parked"}
    log = left.texts()["log"]
    assert log.count("Declined") >= 2
    assert "LookupError: no account of (redacted: card number)" in log


def test_the_message_and_the_outcome_stay_whole(left: Left, run: Any) -> None:
    outcome = run(left.url, decline, redact=CARD_NUMBERS)

    [parked] = left.parked()
    flush_events()
    assert parked.message is not None
    assert parked.message.body == CARD
    assert [event.message and event.message.body for event in left.events] == [CARD]
    assert str(outcome.error) == f"card {CARD} is declined"


def test_without_it_nothing_is_changed(left: Left, run: Any) -> None:
    run(left.url, decline)

    assert left.with_words(CARD) == {"log", "events", "kept", "parked"}


def test_a_copy_is_told_how_the_first_run_failed_without_the_card_number(left: Left, run: Any) -> None:
    run(left.url, decline, redact=CARD_NUMBERS)

    copy = run(left.url, decline, redact=CARD_NUMBERS)

    assert not copy.executed
    assert MARKER in str(copy.error)
    assert CARD not in str(copy.error)


def test_the_tries_of_a_run_are_logged_without_the_card_number(left: Left, run: Any) -> None:
    def fail() -> None:
        raise TransientError(f"{CARD} is not known yet")

    run(left.url, fail, redact=[CARD_NUMBERS], retry=Retry(max_attempts=1))

    log = left.texts()["log"]
    assert "attempt 1 failed" in log
    assert CARD not in log


def interrupt() -> None:
    raise KeyboardInterrupt


Ask = Callable[[str, str, Message, object], Resolved]


def after_a_death(run: Any, url: str, resolver: Ask) -> Outcome:
    """Let the first run of a message die. The second run then asks the resolver."""
    with pytest.raises(KeyboardInterrupt):
        run(url, interrupt, redact=CARD_NUMBERS, lease=None, resolver=resolver)
    outcome: Outcome = run(url, interrupt, redact=CARD_NUMBERS, lease=None, resolver=resolver)
    return outcome


def test_what_a_resolver_says_is_redacted(left: Left, run: Any) -> None:
    def resolver(uuid: str, trigger_name: str, message: Message, evidence: object) -> Resolved:
        return Resolved(Resolution.IN_DOUBT, f"{CARD} has no booking")

    outcome = after_a_death(run, left.url, resolver)

    assert outcome.parked
    assert CARD not in outcome.reason
    assert left.with_words(CARD) == set()
    assert left.with_words(f"resolver: {MARKER} has no booking") >= {"journal", "parked"}


def test_a_resolver_that_fails_is_told_without_the_card_number(left: Left, run: Any) -> None:
    def resolver(uuid: str, trigger_name: str, message: Message, evidence: object) -> Resolved:
        raise LookupError(f"{CARD} has no booking")

    after_a_death(run, left.url, resolver)

    assert left.with_words(CARD) == set()
    assert "parked" in left.with_words(MARKER)


def test_of_a_text_whose_rule_fails_nothing_is_left_and_the_message_is_parked(left: Left, run: Any) -> None:
    def rule(text: str) -> str:
        raise LookupError(text)

    outcome = run(left.url, decline, redact=[CARD_NUMBERS, rule])

    assert outcome.parked
    assert left.with_words("declined") == set()
    assert left.with_words("rule 2 of redact=") == {"log", "events", "kept", "parked"}


def test_an_error_without_a_card_number_is_logged_with_its_traceback(left: Left, run: Any) -> None:
    def fail() -> None:
        raise Declined("no card at all")

    run(left.url, fail, redact=CARD_NUMBERS)

    assert [record.exc_info[1] for record in left.caplog.records if record.exc_info] != []


def test_what_a_hook_raises_about_a_duplicate_is_logged_without_the_card_number(left: Left) -> None:
    def hook(message: Message, outcome: Outcome) -> None:
        assert isinstance(message.body, str)
        raise LookupError(f"{message.body} came twice")

    for _ in range(2):
        as_trigger(left.url, lambda: None, redact=CARD_NUMBERS, on_duplicate=hook)

    log = left.texts()["log"]
    assert f"{MARKER} came twice" in log
    assert CARD not in log


def test_a_function_that_fails_when_asked_about_an_error_is_logged_without_the_card_number(
    left: Left, run: Any
) -> None:
    def transient(error: Exception) -> bool:
        return {"declined": True}[str(error)]

    run(left.url, decline, redact=CARD_NUMBERS, transient=transient)

    log = left.texts()["log"]
    assert "transient= failed" in log
    assert CARD not in log
