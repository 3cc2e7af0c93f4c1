"""Every carrier of links passes the conformance suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from history.bridge import drive, settled
from tests.unit.helpers.lossy import LossyCarrier
from triggers import ConfigurationError, open_provider
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.sqlremote.carriers.carrier import (
    Carrier,
    CarrierUnavailableError,
    UnreadableMessageError,
)
from triggers.providers.sqlremote.carriers.directory import DirectoryCarrier
from triggers.providers.sqlremote.carriers.opening import open_carrier
from triggers.providers.sqlremote.carriers.over_provider import ProviderCarrier
from triggers.providers.sqlremote.carriers.table import TableCarrier


class CarrierContract:
    """Inboxes by address, in which messages stay whole until they are deleted."""

    async def test_what_is_put_is_listed_in_order_and_read_whole(self, carrier: Carrier) -> None:
        sent = [b"one", b"", bytes(range(256)) * 300]
        for data in sent:
            await settled(carrier.put("there", data))

        names = await settled(carrier.list("there"))

        assert [await settled(carrier.get("there", name)) for name in names] == sent

    async def test_reading_takes_nothing_away(self, carrier: Carrier) -> None:
        await settled(carrier.put("there", b"one"))

        (name,) = await settled(carrier.list("there"))
        await settled(carrier.get("there", name))
        again = await settled(carrier.list("there"))

        assert list(again) == [name]

    async def test_what_is_deleted_is_gone(self, carrier: Carrier) -> None:
        for data in (b"one", b"two"):
            await settled(carrier.put("there", data))
        first, second = await settled(carrier.list("there"))

        await settled(carrier.delete("there", [first]))
        await settled(carrier.delete("there", [first]))

        assert list(await settled(carrier.list("there"))) == [second]
        assert await settled(carrier.get("there", second)) == b"two"

    async def test_a_name_that_is_not_there_is_told(self, carrier: Carrier) -> None:
        await settled(carrier.put("there", b"one"))
        (name,) = await settled(carrier.list("there"))
        await settled(carrier.delete("there", [name]))

        try:
            await settled(carrier.get("there", name))
        except KeyError:
            return
        raise AssertionError("it was deleted, and can still be read")

    async def test_inboxes_are_apart(self, carrier: Carrier) -> None:
        await settled(carrier.put("there", b"one"))

        assert list(await settled(carrier.list("here"))) == []
        assert len(await settled(carrier.list("there"))) == 1


class TestMemory(CarrierContract):
    @pytest.fixture
    def carrier(self) -> Carrier:
        return LossyCarrier()


class TestDirectory(CarrierContract):
    @pytest.fixture
    def carrier(self, tmp_path: Path) -> Carrier:
        return DirectoryCarrier(tmp_path)


class TestTable(CarrierContract):
    @pytest.fixture
    def carrier(self, link_databases: list[str]) -> Iterator[Carrier]:
        carrier = TableCarrier.from_url(link_databases[0])
        yield carrier
        drive(carrier.close())


class TestRedisStreams(CarrierContract):
    @pytest.fixture
    def carrier(self, redis_url: str) -> Iterator[Carrier]:
        carrier = ProviderCarrier(RedisStreams.from_url(redis_url), name="agent")
        yield carrier
        drive(carrier.close())


class TestSqlJms(CarrierContract):
    @pytest.fixture
    def carrier(self, link_databases: list[str]) -> Iterator[Carrier]:
        carrier = open_carrier(
            f"sqljms+{link_databases[0]}", name="agent", largest=100_000, open_provider=open_provider
        )
        assert isinstance(carrier, ProviderCarrier)
        yield carrier
        drive(carrier.close())


def test_a_half_written_file_is_not_listed(tmp_path: Path) -> None:
    carrier = DirectoryCarrier(tmp_path)
    carrier.put("there", b"one")
    for name in (".half.msg", "notes.txt"):
        (tmp_path / "there" / name).write_bytes(b"...")
    (tmp_path / "there" / "folder.msg").mkdir()

    assert len(carrier.list("there")) == 1


def test_no_more_of_a_long_file_is_read_than_shows_that_it_is_too_long(tmp_path: Path) -> None:
    carrier = DirectoryCarrier(tmp_path, largest=10)
    carrier.put("there", bytes(1000))

    assert carrier.get("there", carrier.list("there")[0]) == bytes(11)


def test_a_folder_that_cannot_be_written_is_away(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"a file")

    with pytest.raises(CarrierUnavailableError):
        DirectoryCarrier(tmp_path).put("there", b"one")


def test_a_provider_delivers_again_what_an_agent_that_left_has_not_deleted(redis_url: str) -> None:
    first, second = (
        ProviderCarrier(RedisStreams.from_url(redis_url), name=name) for name in ("first", "second")
    )
    drive(first.put("there", b"one"))
    drive(first.list("there"))
    drive(first.close())

    (name,) = drive(second.list("there"))

    assert drive(second.get("there", name)) == b"one"
    drive(second.close())


@pytest.mark.parametrize("scheme", ["file", "sqlite", "memory"])
def test_a_carrier_is_opened_by_its_url(scheme: str, tmp_path: Path) -> None:
    urls = {
        "file": f"file://{tmp_path}/mail",
        "sqlite": f"sqlite:///{tmp_path}/mail.db",
        "memory": "memory://",
    }

    carrier = open_carrier(urls[scheme], name="agent", largest=1000, open_provider=open_provider)

    async def round_trip() -> None:
        await settled(carrier.put("there", b"one"))
        (name,) = await settled(carrier.list("there"))
        assert await settled(carrier.get("there", name)) == b"one"
        await settled(carrier.close())

    drive(round_trip())


def test_a_folder_with_a_messages_name_is_no_message(tmp_path: Path) -> None:
    carrier = DirectoryCarrier(tmp_path)
    carrier.put("there", b"one")
    (tmp_path / "there" / "folder.msg").mkdir()

    with pytest.raises(UnreadableMessageError, match="no regular file"):
        carrier.get("there", "folder.msg")


def test_what_can_neither_be_read_nor_moved_is_left_alone(tmp_path: Path) -> None:
    carrier = DirectoryCarrier(tmp_path)
    carrier.put("there", b"one")
    (tmp_path / "there" / "unreadable").write_text("a file, where a folder should be")
    (tmp_path / "there" / "odd.msg").symlink_to("odd.msg")

    assert carrier.set_aside("there", "odd.msg") == str(tmp_path / "there" / "odd.msg")
    carrier.delete("there", ["odd.msg"])

    assert len(carrier.list("there")) == 1
    assert (tmp_path / "there" / "odd.msg").is_symlink()


def test_a_carrier_over_a_provider_needs_what_opens_it() -> None:
    with pytest.raises(ConfigurationError, match=r"redis: is a provider's URL.*open_provider=open_provider"):
        open_carrier("redis://localhost", name="agent", largest=1000)
