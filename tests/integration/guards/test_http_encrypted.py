"""Answers of the HTTP guard in a history that encrypts: given again with the key, not lost without."""

from datetime import timedelta
from pathlib import Path

import pytest

from history import open_history
from history.store import HistoryStore
from tests.fixtures.keys import CARD, a_key, encrypting, write_keys, written_to
from tests.unit.triggers.guards.test_http import Shop, ask
from triggers.guards.http import IdempotencyKey


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
