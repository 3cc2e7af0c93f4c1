from pathlib import Path

from faststream import AckPolicy, FastStream
from faststream.redis import RedisBroker, StreamSub

from doubtless.guards.faststream import guarded

REDIS = "redis://127.0.0.1:6379/0"

broker = RedisBroker(REDIS)
guarded(broker, history=REDIS, uuid="order-id")  # a header of the message
app = FastStream(broker)


@broker.subscriber(
    stream=StreamSub("orders", group="shop", consumer="shop-1", last_id="0"),
    ack_policy=AckPolicy.NACK_ON_ERROR,
)
async def ship(order: dict) -> None:
    with Path("shipped.txt").open("a") as shipped:
        shipped.write(f"{order['id']}\n")
