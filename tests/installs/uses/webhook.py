"""Tell a webhook of a message that is given up; ask a server for an effect: ``webhook.py HOOK SERVER``."""

import sys

from history import MemoryHistory
from resolvers.effect_exists import http_resource_exists
from triggers import Message, on_retrieval_failure, trigger
from triggers.sinks import WebhookSink


@trigger("orders", name="webhook", history=MemoryHistory())
def book(body: int) -> None:
    """Do nothing."""


if __name__ == "__main__":
    hook, server = sys.argv[1:]
    on_retrieval_failure("webhook")(WebhookSink(f"{hook}/events"))
    given_up = book.handle(Message(body="no number", uuid="one"))
    found = http_resource_exists(f"{server}/orders/{{uuid}}")("one", "webhook", Message(body=b"", uuid="one"))
    sys.stdout.write(f"{given_up.event is not None} {found.resolution}")
