"""Kept results; a store without them passes."""

from datetime import timedelta

from history.beside.kept import KeepsBeside
from history.beside.results import KeptResult
from history.contract.common import TRIGGER
from tests.fixtures.beside import kept_in

_DAY = timedelta(days=1)
_GREAT = 2**53 + 1


class ResultContract:
    """Every client gets the result of the first run, by the greatest fence."""

    async def test_a_kept_result_is_read_by_another_client(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        kept = KeptResult(7, b'\x00\xff{"a": 1} ')

        assert await kept_in(store).results.put(TRIGGER, "u1", kept, _DAY)

        assert await kept_in(another).results.get(TRIGGER, "u1") == kept
        assert await kept_in(another).results.get(TRIGGER, "u2") is None
        assert await kept_in(another).results.get(f"{TRIGGER}-2", "u1") is None

    async def test_a_late_run_does_not_replace_the_result_of_its_successor(self, store: KeepsBeside) -> None:
        results = kept_in(store).results

        assert await results.put(TRIGGER, "u1", KeptResult(99, b"first"), _DAY)
        assert await results.put(TRIGGER, "u1", KeptResult(_GREAT, b"second"), _DAY)
        assert not await results.put(TRIGGER, "u1", KeptResult(_GREAT - 1, b"late"), _DAY)
        assert await results.get(TRIGGER, "u1") == KeptResult(_GREAT, b"second")
        assert await results.put(TRIGGER, "u1", KeptResult(_GREAT, b"more"), _DAY)
        assert await results.get(TRIGGER, "u1") == KeptResult(_GREAT, b"more")

    async def test_a_result_of_no_bytes_is_a_result(self, store: KeepsBeside) -> None:
        assert await kept_in(store).results.put(TRIGGER, "u1", KeptResult(1, b""), _DAY)

        assert await kept_in(store).results.get(TRIGGER, "u1") == KeptResult(1, b"")
