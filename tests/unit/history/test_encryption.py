"""The cipher for stored data: keys, rotation, and what it refuses."""

import base64
import logging
from pathlib import Path

import pytest

from history.errors import ConfigurationError, MissingExtraError
from history.support.encryption import (
    MAGIC,
    Cipher,
    DecryptionError,
    MissingKeyError,
    cipher_of,
    decrypted,
    is_encrypted,
)
from tests.fixtures.keys import CARD, a_key, write_keys

HERE = ["parked", "book-order", "u1"]
DATA = CARD.encode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "key"


@pytest.mark.parametrize("data", [b"", DATA, bytes(range(256)), b"x" * 1_000_000], ids=len)
def test_what_was_encrypted_comes_back_and_is_not_seen(file: Path, data: bytes) -> None:
    cipher = Cipher(write_keys(file, a_key()))

    value = cipher.encrypt(data, about=HERE)

    assert cipher.decrypt(value, about=HERE) == data
    assert not data or data not in value
    assert value.startswith(MAGIC)
    assert is_encrypted(value)


def test_equal_data_are_different_each_time(file: Path) -> None:
    cipher = Cipher(write_keys(file, a_key()))

    assert len({cipher.encrypt(DATA, about=HERE) for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "elsewhere",
    [
        ["parked", "book-order", "u2"],
        ["parked", "another", "u1"],
        ["label", "book-order", "u1"],
        ["parked", "book-orderu1"],
        ["parked", "book-order", "u1", ""],
        [],
    ],
)
def test_a_value_of_another_place_is_refused(file: Path, elsewhere: list[str]) -> None:
    cipher = Cipher(write_keys(file, a_key()))
    value = cipher.encrypt(DATA, about=HERE)

    with pytest.raises(DecryptionError) as refused:
        cipher.decrypt(value, about=elsewhere)

    assert not isinstance(refused.value, MissingKeyError)


def test_a_value_that_is_changed_anywhere_is_refused(file: Path) -> None:
    cipher = Cipher(write_keys(file, a_key()))
    value = cipher.encrypt(DATA, about=HERE)

    for place in range(len(value)):
        changed = bytearray(value)
        changed[place] ^= 1
        with pytest.raises(DecryptionError):
            cipher.decrypt(bytes(changed), about=HERE)
    for end in range(len(MAGIC), len(value)):
        with pytest.raises(DecryptionError):
            cipher.decrypt(value[:end], about=HERE)


def test_keys_are_exchanged_without_a_restart_and_old_values_are_read(file: Path) -> None:
    old, new = a_key(), a_key()
    cipher = Cipher(write_keys(file, old))
    before = cipher.encrypt(DATA, about=HERE)

    write_keys(file, new, old)
    after = cipher.encrypt(DATA, about=HERE)

    assert cipher.decrypt(before, about=HERE) == cipher.decrypt(after, about=HERE) == DATA
    only_new = Cipher(write_keys(file, new))
    assert only_new.decrypt(after, about=HERE) == DATA
    with pytest.raises(MissingKeyError) as missing:
        only_new.decrypt(before, about=HERE)
    assert before[len(MAGIC) :][:4].hex() in missing.value.problem
    assert str(file) in missing.value.problem


def test_a_key_that_comes_into_the_file_reads_what_could_not_be_read(file: Path) -> None:
    mine, other = a_key(), a_key()
    value = Cipher(write_keys(file, other)).encrypt(DATA, about=HERE)
    cipher = Cipher(write_keys(file, mine))
    with pytest.raises(MissingKeyError):
        cipher.decrypt(value, about=HERE)

    write_keys(file, mine, other)

    assert cipher.decrypt(value, about=HERE) == DATA


@pytest.mark.parametrize("spoilt", ["no key", ""])
def test_keys_from_before_count_while_the_file_cannot_be_read(
    file: Path, spoilt: str, caplog: pytest.LogCaptureFixture
) -> None:
    cipher = Cipher(write_keys(file, a_key()))
    value = cipher.encrypt(DATA, about=HERE)

    write_keys(file, spoilt)
    with caplog.at_level(logging.ERROR):
        again = [cipher.decrypt(value, about=HERE) for _ in range(3)]
    file.unlink()

    assert (again, len(caplog.records)) == ([DATA] * 3, 1)
    assert cipher.decrypt(value, about=HERE) == DATA


def test_a_plain_value_is_read_with_a_key_and_without(file: Path) -> None:
    cipher = Cipher(write_keys(file, a_key()))

    for plain in (b"", b'result:{"a": 1}', b"\0", MAGIC[:3]):
        assert decrypted(cipher, plain, about=HERE) == plain
        assert decrypted(None, plain, about=HERE) == plain


def test_an_encrypted_value_without_a_key_says_what_to_give(file: Path) -> None:
    value = Cipher(write_keys(file, a_key())).encrypt(DATA, about=HERE)

    with pytest.raises(MissingKeyError) as missing:
        decrypted(None, value, about=HERE)

    assert missing.value.setting == "encrypt"
    assert "encrypt=" in missing.value.remedy
    assert value[len(MAGIC) :][:4].hex() in missing.value.problem


def test_a_value_of_a_later_version_is_not_taken_for_a_plain_one(file: Path) -> None:
    cipher = Cipher(write_keys(file, a_key()))
    later = MAGIC[:-1] + b"\2" + cipher.encrypt(DATA, about=HERE)[len(MAGIC) :]

    for one in (cipher, None):
        with pytest.raises(MissingKeyError, match="newer version"):
            decrypted(one, later, about=HERE)


def test_keys_may_be_written_in_each_form_and_in_a_variable(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = bytes(range(200, 232))
    standard, urlsafe = base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()
    assert standard != urlsafe
    monkeypatch.setenv("OUR_KEY", f"# of November\n\n {key.hex().upper()} \n{a_key()}")

    value = Cipher("env:OUR_KEY").encrypt(DATA, about=HERE)

    for text in (key.hex(), standard, urlsafe, f"# mine\r\n{standard}\r"):
        assert Cipher(write_keys(file, text)).decrypt(value, about=HERE) == DATA


@pytest.mark.parametrize(
    "text",
    ["hunter2-hunter2", "00" * 31, "zz" * 32, "00" * 33, base64.b64encode(b"x" * 31).decode(), "# nothing"],
)
def test_a_line_that_is_not_a_key_is_refused_and_not_quoted(file: Path, text: str) -> None:
    reference = write_keys(file, a_key(), text) if not text.startswith("#") else write_keys(file, text)

    with pytest.raises(ConfigurationError) as refused:
        Cipher(reference)

    assert refused.value.setting == "encrypt"
    assert text not in str(refused.value)
    assert "openssl rand -base64 32" in refused.value.remedy


@pytest.mark.parametrize("given", ["", "00" * 32, "/run/secrets/key", "key.txt", 5, b"file:/x", ("file:/x",)])
def test_what_names_no_key_is_refused_and_not_quoted(given: object) -> None:
    with pytest.raises(ConfigurationError) as refused:
        cipher_of(given)  # type: ignore[arg-type]

    assert refused.value.setting == "encrypt"
    assert not given or str(given) not in str(refused.value)


def test_a_file_that_all_users_may_read_is_refused(file: Path) -> None:
    reference = write_keys(file, a_key())
    file.chmod(0o644)

    with pytest.raises(ConfigurationError) as refused:
        Cipher(reference)

    assert refused.value.setting == "encrypt"
    assert "644" in refused.value.problem


def test_without_the_package_the_extra_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(MissingExtraError) as missing:
        Cipher(write_keys(file, a_key()))

    assert missing.value.extra == "encryption"
