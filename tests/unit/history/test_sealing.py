"""The layer that encrypts parked messages and kept results before a store gets them."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from history.beside.results import RESULTS, KeptResult, Results
from history.beside.sealing import (
    document_of,
    label_of,
    read_document,
    read_label,
    why_locked,
)
from history.bridge import drive
from history.entry import digest
from history.memory import MemoryHistory
from history.message import Message, Uuid
from history.store.parking import Parked, ParkedKind, ParkedLabel
from history.store.records import Put, Record
from history.support.encryption import Cipher, DecryptionError, MissingKeyError
from tests.contract.beside.parking import parked
from tests.fixtures.keys import CARD, a_key, write_keys

DAY = timedelta(days=1)
MESSAGE = Message(body={"card": CARD}, uuid=Uuid("u1"), properties={"holder": CARD})
FAILED = parked(
    1,
    message=MESSAGE,
    kind=ParkedKind.REJECTED,
    destination="orders",
    error_class="ValueError",
    error_message=f"bad card {CARD}",
    error_trace=f"ValueError: bad card {CARD}",
    error_place="shop/orders.py:7 in book",
)


@pytest.fixture
def cipher(tmp_path: Path) -> Cipher:
    return Cipher(write_keys(tmp_path / "key", a_key()))


def read(document: str | bytes, cipher: Cipher | None, *, id_: str = FAILED.id) -> Parked:
    return read_document(document, cipher=cipher, trigger=FAILED.trigger_name, parked_id=id_)


def test_without_a_cipher_everything_is_stored_as_before() -> None:
    assert document_of(FAILED, None) == FAILED.model_dump_json()
    assert label_of(FAILED, None) == ParkedLabel.of(FAILED).model_dump_json(exclude={"copies"})


def test_an_encrypted_message_comes_back_whole_and_shows_only_its_label(cipher: Cipher) -> None:
    document = document_of(FAILED, cipher)

    assert read(document, cipher) == read(document.encode(), cipher) == FAILED
    assert CARD not in document
    label = json.loads(document)["label"]
    assert (label["uuid"], label["destination"], label["reason"]) == ("u1", "orders", FAILED.reason)
    assert (label["error_class"], label["error_message"]) == ("ValueError", None)
    assert label["error_place"] == "shop/orders.py:7 in book"


def test_a_message_that_was_stored_in_plain_is_read(cipher: Cipher) -> None:
    assert read(FAILED.model_dump_json(), cipher) == FAILED


def test_a_message_that_was_stored_without_a_place_is_read() -> None:
    older = FAILED.model_copy(update={"error_place": None})

    document = json.dumps({k: v for k, v in FAILED.model_dump(mode="json").items() if k != "error_place"})
    label = json.dumps({k: v for k, v in json.loads(label_of(FAILED, None)).items() if k != "error_place"})

    assert read(document, None) == older
    assert read_label(label, None) == ParkedLabel.of(older)


@pytest.mark.parametrize("has_other_key", [False, True])
def test_a_message_whose_key_is_not_here_says_so_and_keeps_its_label(
    cipher: Cipher, tmp_path: Path, *, has_other_key: bool
) -> None:
    other = Cipher(write_keys(tmp_path / "other", a_key())) if has_other_key else None

    found = read(document_of(FAILED, cipher), other)

    assert found.message is None
    assert found.error_trace is None
    assert why_locked(found) is not None
    assert why_locked(found) == found.error_message
    assert found.raw is not None
    assert (found.id, found.uuid, found.kind, found.reason, found.parked_at) == (
        *(FAILED.id, FAILED.uuid, FAILED.kind, FAILED.reason, FAILED.parked_at),
    )


def test_a_message_that_was_moved_to_another_id_is_refused(cipher: Cipher) -> None:
    moved = read(document_of(FAILED, cipher), cipher, id_="another")

    assert moved.message is None
    assert moved.id == "another"
    assert "moved" in (why_locked(moved) or "")


@pytest.mark.parametrize("changed", ["", "AAAA", "not base64", "ruhig Blut"])
def test_a_message_whose_ciphertext_was_changed_is_refused(cipher: Cipher, changed: str) -> None:
    document = json.loads(document_of(FAILED, cipher)) | {"encrypted": changed}

    found = read(json.dumps(document, separators=(",", ":")), cipher)

    assert found.message is None
    assert why_locked(found) is not None
    assert found.uuid == "u1"


@pytest.mark.parametrize("text", ['{"encrypted":', '{"encrypted":1}', '{"encrypted":"AAAA","label":{}}'])
def test_a_broken_envelope_is_an_unreadable_record(cipher: Cipher, text: str) -> None:
    found = read(text, cipher)

    assert found.kind is ParkedKind.UNREADABLE
    assert found.raw == {"record": text}
    assert why_locked(found) is None


def test_the_error_of_a_label_is_encrypted_and_read(cipher: Cipher) -> None:
    text = label_of(FAILED, cipher)

    assert CARD not in text
    assert read_label(text, cipher) == ParkedLabel.of(FAILED)
    assert read_label(label_of(FAILED, None), cipher) == ParkedLabel.of(FAILED)
    without_key = read_label(text, None)
    facts = (without_key.uuid, without_key.reason, without_key.error_class)
    assert facts == ("u1", FAILED.reason, "ValueError")
    assert "encrypt=" in (without_key.error_message or "")


def test_a_label_without_an_error_is_plain(cipher: Cipher) -> None:
    assert read_label(label_of(parked(1), cipher), None) == ParkedLabel.of(parked(1))


def test_an_older_version_meets_an_encrypted_message_as_an_unreadable_record(cipher: Cipher) -> None:
    with pytest.raises(ValueError, match="Field required"):
        Parked.model_validate_json(document_of(FAILED, cipher))


def test_a_kept_result_comes_back_to_its_uuid_and_its_run_alone(cipher: Cipher) -> None:
    records, kept = MemoryHistory().records, KeptResult(7, CARD.encode())
    results, without_key = Results(records, cipher), Results(records)

    drive(results.put("t", "u1", kept, DAY))
    drive(without_key.put("t", "plain", kept, DAY))

    (stored,) = drive(records.get("t", RESULTS, [digest("u1")]))
    assert stored is not None
    assert stored.version == 7
    assert kept.data not in stored.value
    assert drive(results.get("t", "u1")) == kept
    assert drive(results.get("t", "plain")) == kept
    with pytest.raises(MissingKeyError):
        drive(without_key.get("t", "u1"))
    for trigger, uuid, fence in (("t", "u2", 7), ("t2", "u1", 7), ("t", "u1", 8)):
        drive(records.apply(trigger, [Put(RESULTS, Record(digest(uuid), stored.value, fence))]))
        with pytest.raises(DecryptionError):
            drive(results.get(trigger, uuid))
