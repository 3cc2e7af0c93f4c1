"""The checks for any carrier; subclass it with a fixture ``carrier``."""

from history.bridge import settled
from triggers.providers.sqlremote.carriers.carrier import Carrier


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
