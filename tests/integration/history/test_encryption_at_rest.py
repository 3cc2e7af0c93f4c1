"""An encrypting store writes nothing of a message in plain text. Anybody with the key can read it."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text

from history import ConfigurationError, Message, Parked, ParkedKind, Uuid, open_history
from history.beside.kept import KeepsBeside
from history.beside.parking import MESSAGES
from history.beside.results import RESULTS, KeptResult, Results
from history.beside.sealing import why_locked
from history.bridge import drive
from history.sql.database.engine import open_engine
from history.sql.links.history import LinkHistory
from history.store import Hold, JoinPart, JoinTerms
from history.support.encryption import DecryptionError, MissingKeyError
from tests.contract.beside.parking import labels_once, parked
from tests.fixtures.beside import kept_in
from tests.fixtures.keys import CARD, a_key, encrypting, write_keys, written_to
from tests.fixtures.servers.redis import connected
from triggers import FatalError, trigger

DAY = timedelta(days=1)
KEPT = KeptResult(7, f'result:"{CARD}"'.encode())
TRIGGER = parked(1).trigger_name

JOINED = Message(body={"card": CARD}, uuid=Uuid("joined"), properties={"holder": CARD})

WITH_CARD = [
    parked(
        1,
        message=Message(body={"card": CARD}, uuid=Uuid("u1"), properties={"holder": CARD}),
        error_class="ValueError",
        error_message=f"no such card: {CARD}",
        error_trace=f"ValueError: no such card: {CARD}",
    ),
    parked(2, kind=ParkedKind.UNREADABLE, message=None, raw={"body": f"<{CARD}"}),
]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "key"


@pytest.fixture
def url(history_url: str, keys: Path) -> str:
    return encrypting(history_url, write_keys(keys, a_key()))


@contextmanager
def opened(url: str) -> Generator[KeepsBeside]:
    store = open_history(url)
    yield store
    drive(store.close())


@pytest.fixture
def store(url: str) -> Iterator[KeepsBeside]:
    with opened(url) as store:
        yield store


def results_in(store: KeepsBeside) -> Results:
    return kept_in(store).results


def fill(store: KeepsBeside) -> None:
    drive(store.parking.park(WITH_CARD))
    drive(results_in(store).put(TRIGGER, "u1", KEPT, DAY))
    drive(join(store))


async def join(store: KeepsBeside) -> None:
    """Add the first of two messages to a join, unless it is there."""
    claim = (await store.claim(TRIGGER, ["joined"], "owner", DAY))[0]
    part = JoinPart(activation="a", destination="orders", fence=claim.fence, message=JOINED)
    terms = JoinTerms(destinations=("orders", "payments"), time_out=DAY)
    await store.joining.add(TRIGGER, part, terms, Hold("owner", DAY))


def joined(store: KeepsBeside) -> list[Message]:
    return [
        part.message for period in drive(store.joining.waiting(TRIGGER)) for part in period.parts.values()
    ]


def everything_in(url: str, folder: Path) -> bytes:
    """Return all that a store has written: files of SQLite, all keys and values of Redis, all rows."""
    if url.startswith("sqlite"):
        return written_to(folder, "history.sqlite3*")
    if url.startswith("redis"):
        with connected(url) as client:
            return b"".join(repr((key, _value(client, key))).encode() for key in client.scan_iter())
    engine = open_engine(url, asyncio=False)
    assert isinstance(engine, Engine)
    with engine.connect() as connection:
        names = [name for name in inspect(connection).get_table_names() if name.startswith("doubtless_")]
        rows = [row for name in names for row in connection.execute(text(f"SELECT * FROM {name}"))]  # noqa: S608
    engine.dispose()
    return repr([tuple(row) for row in rows]).encode()


def _value(client: Any, key: bytes) -> Any:
    match client.type(key):
        case b"string":
            return client.get(key)
        case b"hash":
            return client.hgetall(key)
        case b"zset":
            return client.zrange(key, 0, -1, withscores=True)
        case b"set":
            return client.smembers(key)
        case b"stream":
            return client.xrange(key)
        case kind:
            raise AssertionError(kind)


def test_a_card_number_is_found_in_a_plain_store_and_in_no_encrypted_one(
    history_url: str, url: str, tmp_path: Path
) -> None:
    with opened(url) as store:
        fill(store)
    encrypted = everything_in(history_url, tmp_path)
    with opened(history_url) as store:
        fill(store)
        plain = everything_in(history_url, tmp_path)

    assert CARD.encode() not in encrypted
    assert CARD.encode() in plain


async def test_the_asyncio_form_of_a_history_has_the_same_key(url: str, store: KeepsBeside) -> None:
    fill(store)
    another = open_history(url).for_asyncio()

    assert await another.parking.get(WITH_CARD[0].id) == WITH_CARD[0]
    assert await results_in(another).get(TRIGGER, "u1") == KEPT
    await another.close()


def test_what_was_plain_stays_readable(history_url: str, store: KeepsBeside) -> None:
    with opened(history_url) as before:
        fill(before)

    drive(store.parking.park([parked(3)]))

    assert list(drive(store.parking.list())) == [*WITH_CARD, parked(3)]
    assert drive(results_in(store).get(TRIGGER, "u1")) == KEPT
    assert joined(store) == [JOINED]


@pytest.mark.parametrize("has_other_key", [False, True])
def test_without_the_key_each_value_says_so_and_hides_no_other(
    history_url: str, store: KeepsBeside, tmp_path: Path, *, has_other_key: bool
) -> None:
    fill(store)
    other = write_keys(tmp_path / "other", a_key())
    reader = open_history(encrypting(history_url, other) if has_other_key else history_url)
    drive(reader.parking.park([parked(3)]))

    listed = list(drive(reader.parking.list()))
    labels = drive(labels_once(reader))

    assert [one.id for one in listed] == [label.id for label in labels] == [parked(n).id for n in (1, 2, 3)]
    assert [one.message is None for one in listed] == [True, True, False]
    assert [why_locked(one) is None for one in listed] == [False, False, True]
    assert [label.uuid for label in labels] == ["u1", "u2", "u3"]
    assert [label.uuid for label in drive(reader.parking.of_uuid("u1"))] == ["u1"]
    with pytest.raises(MissingKeyError):
        drive(results_in(reader).get(TRIGGER, "u1"))
    with pytest.raises(MissingKeyError):
        joined(reader)
    drive(reader.close())
    assert list(drive(store.parking.list()))[:2] == WITH_CARD, "looking has changed nothing"
    assert joined(store) == [JOINED]
    assert drive(results_in(store).get(TRIGGER, "u1")) == KEPT


def test_keys_are_exchanged_while_services_run(
    history_url: str, url: str, store: KeepsBeside, keys: Path
) -> None:
    (old,) = keys.read_text().split()
    drive(store.parking.park([WITH_CARD[0]]))
    new = a_key()
    write_keys(keys, new, old)
    drive(store.parking.park([parked(3)]))

    assert list(drive(store.parking.list())) == [WITH_CARD[0], parked(3)]
    write_keys(keys, new)
    with opened(url) as later:
        assert [one.message is None for one in drive(later.parking.list())] == [True, False]
        assert drive(later.parking.remove(WITH_CARD[0]))


def test_a_value_that_was_put_in_anothers_place_is_refused(tmp_path: Path, keys: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite3"
    store = open_history(encrypting(url, write_keys(keys, a_key())))
    drive(store.parking.park([WITH_CARD[0], parked(3)]))
    for uuid in ("u1", "u2"):
        drive(results_in(store).put(TRIGGER, uuid, KeptResult(7, uuid.encode()), DAY))
    engine = open_engine(url, asyncio=False)
    assert isinstance(engine, Engine)
    with engine.begin() as connection:
        for kind in (MESSAGES, RESULTS):
            other = "SELECT value FROM doubtless_records WHERE kind = :kind LIMIT 1"
            same = f"UPDATE doubtless_records SET value = ({other}) WHERE kind = :kind"  # noqa: S608
            connection.execute(text(same), {"kind": kind.name})
    engine.dispose()

    found = {one.id: one.message is None for one in drive(store.parking.list())}

    assert sorted(found.values()) == [False, True]
    refused = 0
    for uuid in ("u1", "u2"):
        try:
            drive(results_in(store).get(TRIGGER, uuid))
        except DecryptionError:
            refused += 1
    assert refused == 1
    drive(store.close())


def test_a_trigger_parks_and_keeps_results_encrypted_and_claims_as_before(
    history_url: str, url: str, store: KeepsBeside, tmp_path: Path
) -> None:
    @trigger("orders", name="pay", history=url, keep_result=True, local_parking_file=tmp_path / "local")
    def pay(card: str) -> str:
        if card == CARD:
            raise FatalError(f"refused: {card}")
        return f"paid with {card[::-1]}"

    failed = pay.handle(Message(body=CARD, uuid=Uuid("u1")))
    paid = pay.handle(Message(body=CARD[::-1], uuid=Uuid("u2")))
    again = pay.handle(Message(body=CARD[::-1], uuid=Uuid("u2")))
    pay.close()

    assert failed.parked
    assert (paid.result, again.result) == (f"paid with {CARD}", f"paid with {CARD}")
    assert again.executed is False
    written = everything_in(history_url, tmp_path)
    assert CARD.encode() not in written
    assert CARD[::-1].encode() not in written
    (aside,) = drive(store.parking.list(trigger="pay"))
    assert aside.message is not None
    assert aside.message.body == CARD


def test_what_is_parked_inside_a_transaction_is_encrypted_too(tmp_path: Path, keys: Path) -> None:
    reference = write_keys(keys, a_key())
    store = LinkHistory.from_url(f"sqlite:///{tmp_path}/history.sqlite3?encrypt={reference}")

    async def park() -> None:
        async with await store.transaction() as transaction:
            await kept_in(transaction.history).parking.park([WITH_CARD[0]])

    drive(park())

    assert list(drive(store.parking.list())) == [WITH_CARD[0]]
    assert CARD.encode() not in everything_in(f"sqlite:///{tmp_path}/history.sqlite3", tmp_path)
    drive(store.close())


@pytest.mark.parametrize("given", ["encrypt=", "encrypt=secret-key", "encrypt=env:NOT_SET_ANYWHERE"])
def test_an_option_that_names_no_key_is_refused_before_anything_is_opened(
    history_url: str, given: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_history(f"{history_url}{'&' if '?' in history_url else '?'}{given}")

    assert refused.value.setting == "encrypt"
    assert "secret-key" not in str(refused.value)


def test_a_message_that_no_server_could_take_is_encrypted_in_the_local_file(
    tmp_path: Path, keys: Path
) -> None:
    reference = write_keys(keys, a_key())
    away = f"redis://127.0.0.1:1/0?encrypt={reference}"
    file = tmp_path / "local.sqlite3"

    @trigger("orders", name="pay", history=away, on_history_error="resolve", local_parking_file=file)
    def pay(card: str) -> None: ...

    outcome = pay.handle(Message(body=CARD, uuid=Uuid("u1")))
    pay.close()

    assert outcome.parked
    assert CARD.encode() not in written_to(tmp_path, "local.sqlite3*")
    with opened(f"sqlite:///{file}?encrypt={reference}") as local:
        (aside,) = list[Parked](drive(local.parking.list()))
    assert aside.message is not None
    assert aside.message.body == CARD
