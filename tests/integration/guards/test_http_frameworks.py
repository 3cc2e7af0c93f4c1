"""The HTTP guard in FastAPI and in Litestar: the two lines of the documentation protect an application."""

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from history import MemoryHistory, open_history
from history.store import HistoryStore
from tests.acceptance.command_line import CommandLine
from tests.fixtures.keys import CARD, a_key, encrypting, write_keys, written_to
from tests.unit.triggers.guards.test_http import Shop, ask
from triggers.guards.http import IdempotencyKey

Charged = list[str]


Make = Callable[[MemoryHistory, Charged], Any]


def _fastapi(history: MemoryHistory, charged: Charged) -> Any:
    fastapi: Any = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()
    app.add_middleware(IdempotencyKey, history=history)

    async def charge(body: dict[str, str]) -> dict[str, Any]:
        charged.append(body["order"])
        return {"order": body["order"], "number": len(charged)}

    app.post("/charges", status_code=201)(charge)
    return app


def _litestar(history: MemoryHistory, charged: Charged) -> Any:
    litestar: Any = pytest.importorskip("litestar")
    define: Any = import_module("litestar.middleware").DefineMiddleware

    async def charge(request: Any) -> dict[str, Any]:
        order = (await request.json())["order"]
        charged.append(order)
        return {"order": order, "number": len(charged)}

    charge.__annotations__["request"] = litestar.Request
    return litestar.Litestar(
        [litestar.post("/charges")(charge)], middleware=[define(IdempotencyKey, history=history)]
    )


@pytest.mark.parametrize("make", [_fastapi, _litestar])
async def test_a_framework_answers_a_copy_as_the_first(make: Make) -> None:
    charged: Charged = []
    transport = httpx.ASGITransport(make(MemoryHistory(), charged))
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:

        async def ask(order: str, key: str) -> httpx.Response:
            return await client.post(
                "/charges", json={"order": order}, headers={"Idempotency-Key": key, "X-API-Key": "a"}
            )

        first, copy = await ask("N-1", "k1"), await ask("N-1", "k1")
        other_body, other_key = await ask("N-2", "k1"), await ask("N-2", "k2")

    assert (first.status_code, first.json()) == (201, {"order": "N-1", "number": 1})
    assert (copy.status_code, copy.json()) == (201, {"order": "N-1", "number": 1})
    assert copy.headers["idempotent-replayed"] == "true"
    assert (other_body.status_code, other_body.json()["type"]) == (422, "urn:doubtless:another-body")
    assert other_key.json()["number"] == 2
    assert charged == ["N-1", "N-2"]


FASTAPI = """
from fastapi import FastAPI
from triggers.guards.http import IdempotencyKey

inner = FastAPI()
inner.add_middleware(IdempotencyKey, history="sqlite:///shop.sqlite3", name="inner", shadow=True)
app = FastAPI()
app.add_middleware(IdempotencyKey, history="sqlite:///shop.sqlite3", name="outer")
app.mount("/inner", inner)
wrapped = IdempotencyKey(FastAPI(), history="sqlite:///shop.sqlite3", name="wrapped")
del inner
"""


def test_the_guarantees_of_http_applications_are_said(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    (tmp_path / "web_shop.py").write_text(FASTAPI)

    said = CommandLine(tmp_path)("guarantees", "web_shop", "--json").json

    assert {row["trigger"]: row["guarantee"] for row in said} == {
        "inner": "none",
        "outer": "in doubt",
        "wrapped": "in doubt",
    }
    assert "shadow: no guarantee" in next(row["why"] for row in said if row["trigger"] == "inner")


@pytest.fixture
async def shop() -> Shop:
    shop = Shop()
    shop.headers += [(b"location", CARD.encode())]
    return shop


def guarded(shop: Shop, store: HistoryStore) -> IdempotencyKey:
    return IdempotencyKey(shop, history=store, lease=timedelta(hours=1))


async def test_an_answer_is_encrypted_and_given_again_to_who_has_the_key(shop: Shop, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite3"
    with_key = open_history(encrypting(url, write_keys(tmp_path / "key", a_key()))).for_asyncio()
    without = open_history(url).for_asyncio()

    first = await ask(guarded(shop, with_key))
    locked = await ask(guarded(shop, without))
    new = await ask(guarded(shop, without), "k2")
    again = await ask(guarded(shop, with_key))

    assert (first.status, first.headers["location"]) == (again.status, again.headers["location"])
    assert again.headers["idempotent-replayed"] == "true"
    assert (locked.status, locked.problem["type"]) == (503, "urn:doubtless:history-away")
    assert new.status == 201, "a key that was not used before is served"
    assert len(shop.charged) == 2
    await with_key.close()
    await without.close()


async def test_nothing_of_an_answer_is_found_in_the_file(shop: Shop, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite3?encrypt={write_keys(tmp_path / 'key', a_key())}"
    store = open_history(url).for_asyncio()

    await ask(guarded(shop, store))
    await store.close()

    written = written_to(tmp_path, "history.sqlite3*")
    assert CARD.encode() not in written
    assert b"charge 1" not in written
