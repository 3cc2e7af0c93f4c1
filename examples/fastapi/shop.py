import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from doubtless import AsyncConsumer, Producer, trigger
from doubtless.guards.http import IdempotencyKey

DATABASE = "sqlite:///shop.sqlite3"  # or redis://..., postgresql://...

shipped: list[str] = []


class Order(BaseModel):
    id: str
    amount: float


@trigger("orders", name="ship-order")
async def ship(order: Order) -> None:
    shipped.append(order.id)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    consumer = AsyncConsumer([ship], DATABASE, history=DATABASE)
    app.state.running = asyncio.create_task(consumer.run())
    async with Producer(DATABASE) as app.state.producer:
        yield
    consumer.stop()
    await app.state.running


app = FastAPI(lifespan=lifespan)
app.add_middleware(IdempotencyKey, history=DATABASE)


@app.post("/orders", status_code=202)
async def take(order: Order) -> dict[str, str]:
    sent = await app.state.producer.asend(
        "orders", order, uuid=f"order-{order.id}"
    )
    return {"uuid": sent.uuid}


@app.get("/health")
async def health() -> str:
    if app.state.running.done():
        raise HTTPException(503, "the consumer has ended")
    return "ok"
