"""Kept results; a store without them passes."""

from datetime import timedelta

import pytest

from history.contract.common import TRIGGER
from history.store import HistoryStore
from history.store.results import KeptResult, Results, results_of

_DAY = timedelta(days=1)
_GREAT = 2**53 + 1


def _results(store: HistoryStore) -> Results:
    results = results_of(store)
    if results is None:
        pytest.skip("it keeps no results")
    return results


class ResultContract:
    """Every client gets the result of the first run, by the greatest fence."""

    async def test_a_kept_result_is_read_by_another_client(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        kept = KeptResult(7, b'\x00\xff{"a": 1} ')

        assert await _results(store).put(TRIGGER, "u1", kept, _DAY)

        assert await _results(another).get(TRIGGER, "u1") == kept
        assert await _results(another).get(TRIGGER, "u2") is None
        assert await _results(another).get(f"{TRIGGER}-2", "u1") is None

    async def test_a_late_run_does_not_replace_the_result_of_its_successor(self, store: HistoryStore) -> None:
        results = _results(store)

        assert await results.put(TRIGGER, "u1", KeptResult(99, b"first"), _DAY)
        assert await results.put(TRIGGER, "u1", KeptResult(_GREAT, b"second"), _DAY)
        assert not await results.put(TRIGGER, "u1", KeptResult(_GREAT - 1, b"late"), _DAY)
        assert await results.get(TRIGGER, "u1") == KeptResult(_GREAT, b"second")
        assert await results.put(TRIGGER, "u1", KeptResult(_GREAT, b"more"), _DAY)
        assert await results.get(TRIGGER, "u1") == KeptResult(_GREAT, b"more")

    async def test_a_result_of_no_bytes_is_a_result(self, store: HistoryStore) -> None:
        assert await _results(store).put(TRIGGER, "u1", KeptResult(1, b""), _DAY)

        assert await _results(store).get(TRIGGER, "u1") == KeptResult(1, b"")
