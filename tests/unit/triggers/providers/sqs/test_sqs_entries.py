"""The entries that the provider sends to a FIFO queue, over a link that only records them."""

from collections.abc import Mapping
from typing import Any

import pytest

from history import Message
from history.bridge import drive
from triggers.providers.sqs.link import SqsLink
from triggers.providers.sqs.provider import Sqs


def test_copies_of_a_message_are_not_dropped_by_a_fifo_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    entries: list[dict[str, Any]] = []

    def note(_link: SqsLink, _doing: str, method: str, **arguments: Any) -> Mapping[str, Any]:
        if method == "send_message_batch":
            entries.extend(arguments["Entries"])
        return {"QueueUrl": "http://sqs/orders.fifo"}

    monkeypatch.setattr(SqsLink, "call", note)
    provider = Sqs.from_url("sqs://eu-west-1")
    came = Message(body="x", message_id="ID:" + 200 * "0", uuid="order-1")

    parts = [came.model_copy(update={"uuid": f"order-1/{number}"}) for number in range(3)]
    drive(provider.send("orders.fifo", [*parts, came, came]))

    ids = [entry["MessageDeduplicationId"] for entry in entries]
    assert len(set(ids)) == len(ids) == 5
    assert all(1 <= len(one) <= 128 for one in ids)
