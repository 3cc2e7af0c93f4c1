"""The names of headers that other publishers write in their own way."""

import pytest

from history.message import Message
from triggers.providers.brokers.headers import spelled, to_texts, typed_of


def test_names_that_we_know_have_no_case_and_others_keep_theirs() -> None:
    headers = {
        "Content-Type": "a",
        "CONTENT-ENCODING": "b",
        "jmscorrelationid": "c",
        "Uuid": "d",
        "Shop": "e",
    }

    assert spelled(headers) == {
        "content-type": "a",
        "content-encoding": "b",
        "JMSCorrelationID": "c",
        "uuid": "d",
        "Shop": "e",
    }


def test_a_header_in_our_spelling_wins_over_another_one() -> None:
    assert spelled({"UUID": "theirs", "uuid": "ours"}) == {"UUID": "theirs", "uuid": "ours"}


@pytest.mark.parametrize(
    "name", ["UUID", "JMSMessageId", "jmstype", "Properties", "Content-Type", "content-encoding"]
)
def test_a_property_that_looks_like_a_header_of_ours_stays_a_property(name: str) -> None:
    sent = Message(body="x", message_id="ID:1", properties={name: "theirs"})

    headers = spelled(dict(to_texts(sent, lambda _, __: True)))
    typed = typed_of(headers.pop("properties", None))

    assert {**headers, **typed} == {"JMSMessageID": "ID:1", name: "theirs"}
