"""Fingerprints of first bodies; a store without them passes."""

from datetime import timedelta

from history.beside.fingerprints import first_of
from history.beside.kept import KeepsBeside
from history.contract.common import SHORT, TRIGGER, eventually
from tests.fixtures.beside import kept_in

_DAY = timedelta(days=1)
_FIRST, _OTHER = b"\x00\xff 1234\n", b"\x00\xff 1235\n"


class FingerprintContract:
    """Every client gets the first fingerprint."""

    async def test_the_first_fingerprint_of_a_uuid_stays(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        mine, yours = kept_in(store).fingerprints, kept_in(another).fingerprints

        assert await first_of(mine, TRIGGER, "u1", _FIRST, _DAY) == _FIRST

        assert await first_of(yours, TRIGGER, "u1", _OTHER, _DAY) == _FIRST
        assert await first_of(mine, TRIGGER, "u1", _FIRST, _DAY) == _FIRST
        assert await first_of(yours, TRIGGER, "u1", _OTHER, _DAY) == _FIRST

    async def test_many_bodies_are_kept_and_told_in_order_by_one_call(self, store: KeepsBeside) -> None:
        fingerprints = kept_in(store).fingerprints
        await first_of(fingerprints, TRIGGER, "u-7", _OTHER, _DAY)
        bodies = [*((f"u-{number}", _FIRST) for number in range(1500)), ("u-3", _OTHER)]

        kept = await fingerprints.first_of_each(TRIGGER, bodies, _DAY)

        assert [index for index, one in enumerate(kept) if one != _FIRST] == [7]
        assert kept[7] == _OTHER
        assert await fingerprints.first_of_each(TRIGGER, [], _DAY) == []

    async def test_each_uuid_of_each_trigger_has_a_fingerprint_of_its_own(self, store: KeepsBeside) -> None:
        fingerprints = kept_in(store).fingerprints

        assert await first_of(fingerprints, TRIGGER, "u1", _FIRST, _DAY) == _FIRST

        assert await first_of(fingerprints, TRIGGER, "u2", _OTHER, _DAY) == _OTHER
        assert await first_of(fingerprints, f"{TRIGGER}-2", "u1", _OTHER, _DAY) == _OTHER

    async def test_a_fingerprint_goes_when_its_time_to_live_is_over(self, store: KeepsBeside) -> None:
        fingerprints = kept_in(store).fingerprints
        await first_of(fingerprints, TRIGGER, "u1", _FIRST, SHORT)

        async def another_is_first() -> bool:
            return await first_of(fingerprints, TRIGGER, "u1", _OTHER, _DAY) == _OTHER

        await eventually(another_is_first)
        assert await first_of(fingerprints, TRIGGER, "u1", _FIRST, _DAY) == _OTHER
