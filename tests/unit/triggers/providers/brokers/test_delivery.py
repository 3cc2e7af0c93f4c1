"""If a decoder raises an error, the receiver returns an unreadable delivery."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import triggers.providers
from triggers import Message, ProviderUnavailableError
from triggers.providers import NO_LIMITS, Arrival, Limits, Received, Unreadable
from triggers.providers.brokers.delivery import MOST_WORDS, UndecodableError, read


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(error: BaseException) -> Callable[[], Message]:
    def decode() -> Message:
        raise error

    return decode


def fields() -> dict[bytes, bytes]:
    return {b"body": b"\xff"}


def read_with(decode: Callable[[], Message], raw: Callable[[], dict[bytes, bytes]] = fields) -> Received:
    return read(decode, handle=7, delivery_id=lambda: "delivery 7", raw=raw)


@pytest.mark.parametrize(
    "error",
    [
        *(
            ValueError("v"),
            OverflowError("o"),
            LookupError("l"),
            KeyError("k"),
            TypeError("t"),
            MemoryError(),
        ),
        *(
            RecursionError("r"),
            UnicodeError("u"),
            AttributeError("a"),
            OSError("x"),
            AssertionError(),
            MuteError(),
        ),
        UndecodableError("body", "is no text"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_decoder_raises_makes_the_delivery_unreadable(error: Exception) -> None:
    received = read_with(raising(error))

    assert isinstance(received, Unreadable)
    assert (received.fields, received.handle, received.delivery_id) == (fields(), 7, "delivery 7")
    assert "correct the sender" in received.problem


def test_a_message_is_an_arrival() -> None:
    message = Message(body="x")

    assert read_with(lambda: message) == Arrival(message, 7)


@pytest.mark.parametrize("error", [ProviderUnavailableError("it", "decoding"), KeyboardInterrupt()])
def test_a_provider_that_is_away_and_the_end_of_the_process_are_no_garbage(error: BaseException) -> None:
    with pytest.raises(type(error)):
        read_with(raising(error))


def test_fields_that_cannot_be_shown_are_said_to_be_so() -> None:
    def raw() -> dict[bytes, bytes]:
        raise MemoryError

    received = read_with(raising(ValueError("v")), raw)

    assert isinstance(received, Unreadable)
    assert b"cannot be shown: MemoryError" in received.fields[b"problem"]


def test_a_problem_is_told_in_bounded_and_encodable_words() -> None:
    received = read_with(raising(UndecodableError("n" * 100_000, "\ud800 is odd")))

    assert isinstance(received, Unreadable)
    assert len(received.problem.encode()) < 2 * MOST_WORDS
    assert received.problem.startswith("nnn")
    assert r"\ud800 is odd; correct the sender" in received.problem


@pytest.mark.parametrize(
    ("size", "count", "left"),
    [(10, 1, False), (11, 1, True), (10, 3, False), (10, 4, False), (10, 5, True), (10, -1, False)],
)
def test_what_is_refused_for_its_size_or_again_for_its_count_is_left_encoded(
    size: int, count: int, *, left: bool
) -> None:
    assert Limits(max_body_size=10, max_delivery_count=3).leaves_encoded(size, count) is left
    assert not NO_LIMITS.leaves_encoded(size, count)


#: Modules that do not decode messages, or decode them in their own way.
ELSEWHERE = {"reading.py", "memory.py"}


def test_no_receiver_of_a_broker_decides_by_itself_what_is_readable() -> None:
    folder = Path(triggers.providers.__file__).parent
    makers: set[str] = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                makers |= {file.name} if node.func.id in {"Arrival", "Unreadable"} else set()

    assert makers - ELSEWHERE == set()
