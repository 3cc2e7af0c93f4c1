"""Resolvers for many messages in one call: how we recognise them, and how we check their answers."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from history import ConfigurationError, Evidence, Message
from history.bridge import drive
from resolvers import NonsenseAnswerError, Resolution, Resolved
from resolvers.bulk import AnswerShape, AskedInBulk, asking_in_bulk

MESSAGES = [Message(body="1", uuid="a"), Message(body="2", uuid="b")]


def by_row(uuid: str, trigger_name: str, message: Message) -> Resolution:
    if uuid == "b":
        raise ValueError(uuid)
    return Resolution.NEW


def by_sequence(
    uuids: Sequence[str], trigger_name: str, messages: Sequence[Message], evidences: Sequence[Evidence]
) -> Sequence[Any]:
    assert len(evidences) == len(messages)
    return ["DUPLICATE" if uuid == "a" else None for uuid in uuids]


def too_few(uuids: Sequence[str], trigger_name: str, messages: Sequence[Message]) -> Sequence[Resolution]:
    return []


def by_rows(rows: Any, trigger_name: str) -> Any:
    return rows


def ask(resolver: Any) -> Sequence[Resolved | Exception]:
    asked = asking_in_bulk(resolver)
    assert asked is not None
    return drive(asked.ask(["a", "b"], "orders", MESSAGES, [Evidence(), Evidence()]))


@pytest.mark.parametrize(
    ("resolver", "shape"),
    [(by_row, AnswerShape.ROW), (by_sequence, AnswerShape.SEQUENCE), (by_rows, AnswerShape.DATAFRAME)],
    ids=["row", "sequence", "dataframe"],
)
def test_a_resolver_is_known_by_its_parameters(resolver: Any, shape: AnswerShape) -> None:
    asked = asking_in_bulk(resolver)

    assert isinstance(asked, AskedInBulk)
    assert asked.shape is shape


def test_each_row_has_its_own_answer_or_failure() -> None:
    first, second = ask(by_row)

    assert first == Resolved(Resolution.NEW)
    assert isinstance(second, ValueError)


def test_a_sequence_is_checked_answer_by_answer() -> None:
    first, second = ask(by_sequence)

    assert first == Resolved(Resolution.DUPLICATE)
    assert isinstance(second, NonsenseAnswerError)


def test_a_sequence_of_another_length_is_nonsense_for_all() -> None:
    assert [type(one) for one in ask(too_few)] == [NonsenseAnswerError] * 2


def test_what_only_the_driver_can_ask_does_not_travel() -> None:
    asked = asking_in_bulk(by_rows)

    assert asked is not None
    answers = SimpleNamespace(columns=["doubtless_uuid", "Resolution"])
    assert asked.ask_rows(answers, "orders") is answers
    with pytest.raises(ConfigurationError, match="on the Spark driver"):
        asked.shipped.ask_rows(MESSAGES, "orders")


@pytest.mark.parametrize("answers", [None, True, SimpleNamespace(columns=["doubtless_uuid", "answer"])])
def test_an_answer_that_is_no_frame_of_answers_is_refused(answers: Any) -> None:
    asked = asking_in_bulk(by_rows)
    assert asked is not None

    with pytest.raises(ConfigurationError) as refused:
        asked.ask_rows(answers, "orders")

    assert refused.value.setting == f"resolver {asked.name}"


def test_no_resolver_is_none() -> None:
    assert asking_in_bulk(None) is None
