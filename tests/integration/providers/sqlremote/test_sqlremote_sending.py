"""Each message to a link is one transaction with its own identity. It arrives whole at the other end."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history import ConfigurationError, Message
from history.bridge import drive
from tests.integration.providers.sqlremote.link_ends import Side, both, linked
from triggers.cli.sqlremote.running import run_sender
from triggers.providers import Arrival


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with linked(link_databases) as sides:
        yield sides


def arrived(x: Side, y: Side, count: int) -> list[Message]:
    """Let messages reach the other end one by one, as in a trigger with its own history."""
    x.run()
    receiver, found = y.receiver(), list[Message]()
    while len(found) < count:
        (received,) = drive(receiver.receive(1, timedelta(0)))
        assert isinstance(received, Arrival)
        drive(receiver.acknowledge([received]))
        found.append(received.message)
    assert drive(receiver.receive(1, timedelta(0))) == []
    return found


def test_a_link_that_only_receives_refuses_messages(tmp_path: Path) -> None:
    x = Side("x", "y", f"sqlite:///{tmp_path}/x.db", settings={"direction": "receive"})

    with pytest.raises(ConfigurationError) as raised:
        drive(x.links.send("link:orders", [Message(body=1)]))

    assert raised.value.setting == "links.orders.direction"
    x.leave()
    x.engine.dispose()


def test_each_message_of_a_call_is_a_transaction_with_an_identity_of_its_own(pair: tuple[Side, Side]) -> None:
    x, y = pair

    ids = drive(x.links.send("link:orders", [Message(body={"id": name}) for name in "abc"]))
    both(x, y, rounds=2)

    assert (len(set(ids)), y.got) == (3, ["{'id': 'a'}", "{'id': 'b'}", "{'id': 'c'}"])
    assert len(y.outcomes) == 3, "three transactions"
    assert x.commit("after") == 4


def test_properties_headers_and_the_senders_uuid_arrive(pair: tuple[Side, Side]) -> None:
    x, y = pair
    sent = Message(
        body={"id": "o-1"},
        uuid="sender-1",
        type="order",
        correlation_id="c-1",
        priority=7,
        properties={"region": "north", "weight": 1.5, "urgent": True},
    )

    (message_id, _) = drive(x.links.send("link:orders", [sent, Message(body="bare")]))
    first, second = arrived(x, y, 2)

    assert (first.body, second.body) == ([{"id": "o-1"}], ["bare"])
    assert (first.message_id, first.uuid) == (message_id, message_id.removeprefix("ID:"))
    assert (first.type, first.correlation_id, first.priority) == ("order", "c-1", 7)
    assert {name: first.properties[name] for name in ("region", "weight", "urgent", "sent_uuid")} == {
        "region": "north",
        "weight": 1.5,
        "urgent": True,
        "sent_uuid": "sender-1",
    }
    assert first.properties["commit_offset"] == 1
    assert "sent_uuid" not in second.properties


def test_of_a_call_that_fails_nothing_is_published(pair: tuple[Side, Side]) -> None:
    x, y = pair

    with pytest.raises(ConfigurationError, match="not bytes"):
        drive(x.links.send("link:orders", [Message(body="a"), Message(body=b"b")]))
    both(x, y)

    assert y.got == []
    assert x.commit("first") == 1


def test_a_sender_goes_on_once_its_link_is_there_again(
    pair: tuple[Side, Side], caplog: pytest.LogCaptureFixture
) -> None:
    x, y = pair
    agent, pauses = x.links.agent("orders", applies=False), list[float]()
    x.commit("first")
    x.execute("UPDATE sysremoteuser SET doubtless_link = 'hidden'")

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            x.execute("UPDATE sysremoteuser SET doubtless_link = 'orders'")

    drive(run_sender(agent, stopping=lambda: len(pauses) == 4, pause=pause))
    y.run()

    assert y.got == ["first"]
    assert caplog.text.count("link orders does not send") == 1
    assert "does not exist" in caplog.text
    assert caplog.text.count("link orders sends again") == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"doubtless:message": 7},
        {"doubtless:message": {"headers": {}, "body-kind": "json"}},
        {"doubtless:message": {"headers": {"JMSPriority": 99}, "body-kind": "json", "body": 1}},
        {"doubtless:message": {"headers": None, "body-kind": "bytes", "body": "!"}},
        {"doubtless:message": {}, "more": 1},
    ],
)
def test_an_operation_that_only_looks_like_a_message_is_an_operation(
    pair: tuple[Side, Side], odd: dict[str, Any]
) -> None:
    x, y = pair
    x.commit(odd)
    x.commit("good")

    first, second = arrived(x, y, 2)

    assert (first.body, second.body) == ([odd], ["good"])
