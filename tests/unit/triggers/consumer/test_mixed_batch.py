"""A batch has a message that succeeds and a delivery that is not a message: both are counted."""

from collections.abc import Sequence
from datetime import timedelta

from history import MemoryHistory, Message
from history.bridge import drive
from triggers import Consumer, trigger
from triggers.providers.memory import MemoryProvider, MemoryReceiver
from triggers.providers.provider import RECEIVE_WAIT, Arrival, Received, Unreadable


class PartlyUnreadable(MemoryProvider):
    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> MemoryReceiver:
        receiver = await super().open_receiver(destination, subscription=subscription, name=name)
        receive = receiver.receive

        async def receive_some(limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
            return [
                Unreadable({b"body": b"?"}, "it is broken", delivery.handle)
                if isinstance(delivery, Arrival) and delivery.message.uuid == "broken"
                else delivery
                for delivery in await receive(limit, wait)
            ]

        vars(receiver)["receive"] = receive_some
        return receiver


def test_an_unreadable_delivery_beside_a_good_message_is_counted() -> None:
    provider = PartlyUnreadable()
    drive(provider.send("orders", [Message(uuid=uuid, body="") for uuid in ("good", "broken")]))

    @trigger("orders", name="t", history=MemoryHistory(), batch=2)
    def work(messages: list[Message]) -> None: ...

    consumer = Consumer([work], provider)
    consumer.run(until_idle=0.01)

    assert consumer.counts["t"] == {"ok": 1, "unreadable": 1}
    assert consumer.parked["t"] == 1
