"""``doubtless parked`` and ``why`` on a history that encrypts: with the key, and without."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.opening import open_history
from tests.acceptance.cli.test_cli_parked import aside, done, ids_in, park, park_locally
from tests.acceptance.in_process import InProcess
from tests.fixtures.keys import CARD, a_key, encrypting, write_keys, written_to


@pytest.fixture
def reference(tmp_path: Path) -> str:
    return write_keys(tmp_path / "key", a_key())


@pytest.fixture
def url(redis_url: str, reference: str) -> str:
    return encrypting(redis_url, reference)


@pytest.fixture
def store(url: str) -> Iterator[KeepsBeside]:
    store = open_history(url)
    yield store
    drive(store.close())


def test_show_prints_the_body_with_the_key_and_an_error_without(
    doubtless: InProcess, redis_url: str, url: str, store: KeepsBeside
) -> None:
    park(store, aside("u1", CARD))

    shown = doubtless("parked", "show", "u1", "--history", url)
    locked = doubtless("parked", "show", "u1", "--history", redis_url)

    assert (shown.json["message"]["body"], locked.code) == ({"id": CARD}, 2)
    assert locked.json["message"] is None
    assert (locked.json["uuid"], locked.json["reason"]) == ("u1", "row 10")
    assert "u1u1: its message cannot be shown; it is encrypted with the key" in locked.err
    assert "?encrypt=file:" in locked.err
    assert CARD not in locked.out + locked.err


def test_list_and_why_show_what_is_plain_without_the_key(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    park(store, aside("u1", CARD, error_class="ValueError", error_message=f"no {CARD}"), aside("u2", 2))

    listed = doubtless("parked", "list", "--json", "--history", redis_url)
    explained = doubtless("why", "u1", "--history", redis_url)

    reasons = [(row["uuid"], row["reason"].partition(":")[0]) for row in listed.json]
    assert reasons == [("u1", "row 10"), ("u2", "row 10")]
    assert "encrypt=" in listed.json[0]["error_message"]
    assert "parked u1u1 (in doubt): row 10" in explained.out


def test_run_refuses_what_it_cannot_read_and_runs_the_others(
    doubtless: InProcess, redis_url: str, url: str, store: KeepsBeside
) -> None:
    park(store, aside("u1", "P-1"))
    plain = open_history(redis_url)
    park(plain, aside("u2", "P-2"))
    drive(plain.close())

    refused = doubtless("parked", "run", "shop", "u1", "--yes", "--json", "--history", redis_url)
    others = doubtless(
        "parked", "run", "shop", "--trigger", "book", "--yes", "--json", "--history", redis_url
    )
    left = ids_in(store)
    ran = doubtless("parked", "run", "shop", "u1", "--yes", "--json", "--history", url)

    assert (refused.code, others.code, ran.code) == (1, 1, 0)
    assert [row["executed"] for row in refused.json] == [False]
    assert "it is encrypted with the key" in refused.json[0]["reason"]
    assert {row["uuid"]: row["executed"] for row in others.json} == {"u1": False, "u2": True}
    assert left == ["u1u1"]
    assert [row["executed"] for row in ran.json] == [True]
    assert done(doubtless) == ["P-2", "P-1"]
    assert ids_in(store) == []


def test_what_cannot_be_read_can_be_discarded(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    park(store, aside("u1", 1), aside("u2", 2))

    answer = doubtless("parked", "discard", "u1", "--yes", "--json", "--history", redis_url)

    assert answer.code == 0
    assert ids_in(store) == ["u2u2"]


def test_the_local_file_is_read_with_the_key_of_the_history(
    doubtless: InProcess, redis_url: str, url: str, reference: str
) -> None:
    file = doubtless.folder / "state" / "doubtless" / "parked.sqlite3"
    park_locally(file, aside("u1", CARD), reference)

    shown = doubtless("parked", "show", "u1", "--local", "--history", url)
    locked = doubtless("parked", "show", "u1", "--local", "--history", redis_url)
    listed = doubtless("parked", "list", "--local", "--json")

    assert (shown.json["message"]["body"], locked.code) == ({"id": CARD}, 2)
    assert "its message cannot be shown; it is encrypted" in locked.err
    assert [row["uuid"] for row in listed.json] == ["u1"]


def test_send_encrypts_the_file_of_its_queue(doubtless: InProcess, reference: str) -> None:
    (doubtless.folder / "orders.jsonl").write_text(f'{{"headers": {{"uuid": "u1"}}, "body": "{CARD}"}}\n')
    send = ("send", "orders", "orders.jsonl", "--queue", "q", "--provider", "redis://127.0.0.1:1/0")

    answer = doubtless(*send, "--encrypt", reference, "--json")
    without = doubtless(*send[:3], *send[5:], "--encrypt", reference)

    assert answer.json["waiting"] == 1
    assert CARD.encode() not in written_to(doubtless.folder, "q*")
    assert without.code == 2
    assert "encrypt: there is no queue to encrypt" in without.err
