import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import BaseModel

from doubtless import Producer
from doubtless.guards.http import IdempotencyKey

REDIS = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")


class Order(BaseModel):
    id: str
    amount: float


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Producer(REDIS) as app.state.producer:
        yield


app = FastAPI(lifespan=lifespan)
app.add_middleware(IdempotencyKey, history=REDIS)


@app.post("/orders", status_code=202)
async def take(order: Order) -> dict[str, str]:
    uuid = f"order-{order.id}"
    sent = await app.state.producer.asend("orders", order, uuid=uuid)
    return {"uuid": sent.uuid}
