"""An application of Starlette that charges once for each key: ``uvicorn --fd N ...hosts.http_app:app``."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.fixtures.ledger import Ledger
from triggers.guards.http import IdempotencyKey

EFFECTS = Ledger(Path(os.environ["EFFECTS"]))
GATE = Path(os.environ["GATE"])


async def charge(request: Request) -> JSONResponse:
    """Charge, and then stand still until the gate opens, or the process is killed."""
    order = (await request.json())["order"]
    EFFECTS.note(order)
    while not GATE.exists():  # noqa: ASYNC110, ASYNC240  (another process opens it)
        await asyncio.sleep(0.01)
    return JSONResponse({"order": order, "by": os.getpid()}, status_code=201)


guarded = Middleware(
    IdempotencyKey,
    history=os.environ["HISTORY"],
    name="charges",
    lease=timedelta(seconds=2),
    wait=timedelta(seconds=1),
)
app = Starlette(routes=[Route("/charges", charge, methods=["POST"])], middleware=[guarded])
