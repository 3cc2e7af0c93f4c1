"""An envelope opens to the content that was put in, and any other envelope is refused."""

import random
import zlib
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.errors import ConfigurationError
from triggers.providers.sqlremote.protocol.parts import MangledError
from triggers.providers.sqlremote.protocol.sealing import OVERHEAD, Seal, UntrustedError

OLD, NEW = b"the old key of the link", b"the new key of the link"


class Way(TypedDict):
    sender: str
    receiver: str


WAY: Way = {"sender": "x", "receiver": "y"}


@given(data=st.binary(max_size=2000), compression=st.integers(0, 9), signed=st.booleans())
def test_what_is_closed_is_opened(data: bytes, compression: int, *, signed: bool) -> None:
    seal = Seal(keys=[NEW] if signed else [], compression=compression, message_size=2000)

    sealed = seal.close(data, **WAY)

    assert seal.open(sealed, **WAY) == data
    assert len(sealed) <= len(data) + OVERHEAD <= seal.largest


@given(data=st.binary(min_size=1, max_size=300), place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_a_signed_message_is_opened_as_it_is_or_not_at_all(data: bytes, place: int, bit: int) -> None:
    seal = Seal(keys=[NEW])
    sealed = bytearray(seal.close(data, **WAY))
    sealed[place % len(sealed)] ^= 1 << bit

    with pytest.raises(UntrustedError):
        seal.open(bytes(sealed), **WAY)


def test_a_message_that_is_unsigned_turned_round_or_put_elsewhere_is_not_trusted() -> None:
    seal = Seal(keys=[NEW])
    sealed = seal.close(b"work", **WAY)

    for way in ({"sender": "y", "receiver": "x"}, {"sender": "x", "receiver": "z"}):
        with pytest.raises(UntrustedError):
            seal.open(sealed, **way)
    with pytest.raises(UntrustedError):
        seal.open(Seal().close(b"work", **WAY), **WAY)


def test_keys_are_changed_at_one_end_after_the_other() -> None:
    changing = Seal(keys=[NEW, OLD])

    assert changing.open(Seal(keys=[OLD]).close(b"work", **WAY), **WAY) == b"work"
    assert Seal(keys=[NEW]).open(changing.close(b"work", **WAY), **WAY) == b"work"


def test_a_signed_message_is_read_where_nobody_asks_for_signatures() -> None:
    assert Seal().open(Seal(keys=[NEW]).close(b"work", **WAY), **WAY) == b"work"


@pytest.mark.parametrize(
    "data",
    [b"", b"dbl1", b"something else", b"dbl1\x01garbage", b"dbl1\x01" + zlib.compress(b"work")[:-3]],
    ids=["empty", "short", "foreign", "no-zlib", "cut-off"],
)
def test_what_is_no_envelope_counts_as_never_arrived(data: bytes) -> None:
    with pytest.raises(MangledError):
        Seal().open(data, **WAY)


def test_a_small_message_that_would_fill_the_memory_is_not_opened() -> None:
    bomb = b"dbl1\x01" + zlib.compress(bytes(50_000_000))

    with pytest.raises(MangledError, match="message_size"):
        Seal(message_size=100_000).open(bomb, **WAY)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="too short"):
        Seal(keys=[b"short"])


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("compression", [0, 6])
def test_what_is_told_beside_a_message_arrives_with_it_and_is_no_business_of_older_versions(
    compression: int, *, signed: bool
) -> None:
    seal = Seal(keys=[NEW] if signed else [], compression=compression, message_size=2000)

    sealed = seal.close(b"work" * 100, trailer=b"beside", **WAY)

    assert seal.unwrap(sealed, **WAY) == (b"work" * 100, b"beside")
    # As the other system reads it: the envelope without its signature, and the compressed body to its end.
    body = sealed[5:-32] if signed else sealed[5:]
    assert zlib.decompressobj().decompress(body) == b"work" * 100


def test_what_is_told_is_left_out_where_there_is_no_room() -> None:
    data = random.Random(1).randbytes(2000)  # noqa: S311  (to be repeated)
    seal = Seal(message_size=2000)

    sealed = seal.close(data, trailer=b"beside", **WAY)

    assert len(sealed) <= seal.largest
    assert seal.unwrap(sealed, **WAY) == (data, b"")


def test_what_is_told_is_not_believed_when_it_is_mangled() -> None:
    sealed = bytearray(Seal().close(b"work" * 100, trailer=b"beside", **WAY))

    for place in range(len(sealed) - 30, len(sealed)):
        mangled = bytes(sealed[:place]) + bytes([sealed[place] ^ 1]) + bytes(sealed[place + 1 :])
        with pytest.raises(MangledError):
            Seal().unwrap(mangled, **WAY)
