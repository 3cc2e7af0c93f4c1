"""An application of FastAPI that charges once for each key: ``uvicorn --fd N ...hosts.http_app:app``."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from fastapi import FastAPI

from tests.fixtures.ledger import Ledger
from triggers.guards.http import IdempotencyKey

EFFECTS = Ledger(Path(os.environ["EFFECTS"]))
GATE = Path(os.environ["GATE"])


app = FastAPI()
app.add_middleware(
    IdempotencyKey,
    history=os.environ["HISTORY"],
    name="charges",
    lease=timedelta(seconds=2),
    wait=timedelta(seconds=1),
)


@app.post("/charges", status_code=201)
async def charge(body: dict[str, str]) -> dict[str, object]:
    """Charge, and then wait until the gate opens or the process is killed."""
    order = body["order"]
    EFFECTS.note(order)
    while not GATE.exists():  # noqa: ASYNC110, ASYNC240  (another process opens it)
        await asyncio.sleep(0.01)
    return {"order": order, "by": os.getpid()}
