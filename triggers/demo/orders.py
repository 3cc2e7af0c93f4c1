"""Make the demo's orders: ``python -m triggers.demo.orders 2500 > orders.jsonl``.

About one order in five comes again: re-sent (its uuid under another JMSMessageID) or redelivered (the same
headers, JMSRedelivered true). A few lines are unreadable, and a few orders have no uuid.
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

#: Lines that are not orders: cut off, not UTF-8, not JSON, a missing field, an amount that is not positive.
BROKEN = (
    b'{"headers": {"uuid": "cut-off"}, "body": {"id": "A-1", "cust',
    b'{"headers": {"uuid": "latin-1"}, "body": {"id": "A-2", "customer": "M\xfcller", "amount": 3.5}}',
    b"id;customer;amount",
    b'{"headers": {"uuid": "no-amount"}, "body": {"id": "A-3", "customer": "Sato"}}',
    b'{"headers": {"uuid": "negative"}, "body": {"id": "A-4", "customer": "Okafor", "amount": -1}}',
)

_CUSTOMERS = ("Garcia", "Sato", "Okafor", "Müller", "Ivanova", "Nguyen", "Silva", "Kaya")


def make_orders(count: int) -> Iterator[bytes]:
    """Yield the lines of a file with ``count`` different orders; each call yields the same lines."""
    dice = random.Random(20)  # noqa: S311  (test data, not secrets)
    sent: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        line = _order(dice, number)
        sent.append(line)
        yield _text(line)
        if dice.random() < 0.2:  # noqa: PLR2004  (one in five)
            yield _text(_again(dice, dice.choice(sent[-50:])))
        if number % (count // len(BROKEN) or 1) == 0:
            yield BROKEN[number // (count // len(BROKEN) or 1) % len(BROKEN)]


def _order(dice: random.Random, number: int) -> dict[str, Any]:
    headers: dict[str, Any] = {"JMSMessageID": f"ID:shop-{number}"}
    if number % 500:
        headers["uuid"] = f"order-{number}"
    body = {
        "id": f"N-{number:05}",
        "customer": dice.choice(_CUSTOMERS),
        "amount": round(dice.uniform(1, 900), 2),
    }
    return {"headers": headers, "body": body}


def _again(dice: random.Random, line: dict[str, Any]) -> dict[str, Any]:
    if "uuid" in line["headers"] and dice.random() < 0.5:  # noqa: PLR2004  (half of them)
        return {**line, "headers": {**line["headers"], "JMSMessageID": f"ID:resent-{dice.getrandbits(48):x}"}}
    return {**line, "headers": {**line["headers"], "JMSRedelivered": True}}


def _text(line: dict[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode()


if __name__ == "__main__":
    for text in make_orders(int(sys.argv[1]) if len(sys.argv) > 1 else 2500):
        sys.stdout.buffer.write(text + b"\n")
