"""The vectors D11 to D13: delayed delivery, and redelivery with delay, attempts and a failure port."""

from pathlib import Path
from typing import cast

import pytest

from history.message import Message
from tests.integration.patchbay.components import DOES, Patched, counts, fails, later, seen, wire

pytestmark = pytest.mark.usefixtures("fresh_components")


@pytest.fixture
def patched(sql_database: str, tmp_path: Path) -> Patched:
    found = wire(tmp_path, sql_database)
    found.prepare()
    return found


def entries(patched: Patched) -> int:
    ((count,),) = patched.rows("SELECT COUNT(*) FROM dms_topic_entry")
    return cast("int", count)


def test_d11_a_delayed_message_is_in_limbo_until_it_is_due_and_then_in_its_queue(patched: Patched) -> None:
    patched.send(later(3_600_000))

    assert patched.waiting() == [(0, 3_600_000)]
    assert entries(patched) == 0
    assert patched.release_at(3_599_999) == 0
    assert entries(patched) == 0
    assert patched.release_at(3_600_000) == 1
    assert entries(patched) == 2  # one for each subscription
    assert patched.is_empty()
    assert patched.release_at(3_600_001) == 0


def test_d11_a_delayed_message_is_delivered_once_with_its_headers(patched: Patched) -> None:
    told = {"uuid": "m1", "type": "order", "correlation_id": "c", "reply_to": "answers", "priority": 7}
    patched.send(later(1000, properties={"big": True, "n": 1.5, "none": None}, group_id="g", **told))

    patched.run_at(1000)

    ((port, message),) = seen("service")
    assert (port, message.body) == ("orders", {"n": 1})
    assert {name: getattr(message, name) for name in told} == told
    assert message.properties == {"big": True, "n": 1.5, "none": None, "uuid": "m1"}
    assert message.group_id == "g"
    assert patched.is_empty()


def test_d12_a_message_that_always_fails_is_tried_three_times_and_leaves_by_the_failure_port(
    patched: Patched,
) -> None:
    DOES.append(fails)
    patched.send(Message(body="hello", uuid="m1", type="order", properties={"colour": "red"}))

    patched.run_at(0)
    assert patched.waiting() == [(1, 60_000)]
    patched.run_at(59_999)
    assert counts("service") == [1]
    patched.run_at(60_000)
    assert patched.waiting() == [(2, 120_000)]
    patched.run_at(120_000)

    assert counts("service") == [1, 2, 3]
    assert counts("other") == [1]
    assert [message.redelivered for _, message in seen("service")] == [False, True, True]
    assert len({message.message_id for _, message in seen("service")}) == 1
    assert patched.is_empty()
    for port in ("errors", "dead"):
        ((_, copy),) = seen(port)
        assert (copy.body, copy.type, copy.uuid) == ("hello", "order", "m1")
        told = copy.properties
        assert (told["colour"], told["doubtless_destination"]) == ("red", "orders")
        assert told["doubtless_delivery_count"] == 3
        assert told["doubtless_exception_message"] == "cannot do m1"
        assert told["doubtless_message_id"] == seen("service")[0][1].message_id
