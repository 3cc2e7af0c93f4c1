"""Fingerprints of first bodies; a store that keeps none passes."""

from datetime import timedelta

import pytest

from history.contract.common import TRIGGER
from history.store import HistoryStore
from history.store.fingerprints import Fingerprints, fingerprints_of

_DAY = timedelta(days=1)
_FIRST, _OTHER = b"\x00\xff 1234\n", b"\x00\xff 1235\n"


def _fingerprints(store: HistoryStore) -> Fingerprints:
    fingerprints = fingerprints_of(store)
    if fingerprints is None:
        pytest.skip("it keeps no fingerprints")
    return fingerprints


class FingerprintContract:
    """The fingerprint that came first is the one that every client is told."""

    async def test_the_first_fingerprint_of_a_uuid_stays(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        mine, yours = _fingerprints(store), _fingerprints(another)

        assert await mine.first(TRIGGER, "u1", _FIRST, _DAY) == _FIRST

        assert await yours.first(TRIGGER, "u1", _OTHER, _DAY) == _FIRST
        assert await mine.first(TRIGGER, "u1", _FIRST, _DAY) == _FIRST
        assert await yours.first(TRIGGER, "u1", _OTHER, _DAY) == _FIRST

    async def test_each_uuid_of_each_trigger_has_a_fingerprint_of_its_own(self, store: HistoryStore) -> None:
        fingerprints = _fingerprints(store)

        assert await fingerprints.first(TRIGGER, "u1", _FIRST, _DAY) == _FIRST

        assert await fingerprints.first(TRIGGER, "u2", _OTHER, _DAY) == _OTHER
        assert await fingerprints.first(f"{TRIGGER}-2", "u1", _OTHER, _DAY) == _OTHER
