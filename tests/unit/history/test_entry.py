"""The pure transitions of an entry."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.entry import (
    LONGEST,
    SHORTEST,
    Claim,
    Entry,
    EntryOutcome,
    EntryTerms,
    Fence,
    claim,
    current,
    digest,
    fail,
    renew,
    settle,
    started,
    take_over,
)
from history.errors import ConfigurationError

NOW = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TERMS = EntryTerms(lease=MINUTE, time_to_live=10 * MINUTE)
FIRST, SECOND = Fence(1), Fence(2)


def an_entry() -> Entry:
    return started("worker-1", FIRST, NOW, TERMS)


def completed(outcome: EntryOutcome = EntryOutcome.OK) -> Entry:
    entry, _ = settle(an_entry(), fence=FIRST, outcome=outcome, now=NOW)
    assert entry is not None
    return entry


def state_of(entry: Entry | None) -> str:
    if entry is None:
        return "absent"
    return entry.state.name if entry.outcome is None else f"{entry.state.name} {entry.outcome}"


class TestClaim:
    @pytest.mark.parametrize("held", [an_entry(), completed()])
    def test_what_has_expired_is_claimed_anew(self, held: Entry) -> None:
        entry, answer = claim(held, "worker-2", fence=SECOND, now=NOW + 10 * MINUTE, terms=TERMS)

        assert answer == Claim(None, SECOND)
        assert entry == started("worker-2", SECOND, NOW + 10 * MINUTE, TERMS)


class TestTime:
    def test_without_a_lease_nobody_is_presumed_alive(self) -> None:
        assert not started("worker-1", FIRST, NOW, EntryTerms()).lease_alive

    def test_a_completed_entry_has_no_lease(self) -> None:
        assert not completed().lease_alive
        assert completed().lease_until is None

    def test_an_entry_is_absent_when_its_time_to_live_is_over_to_the_instant(self) -> None:
        assert current(an_entry(), NOW + 10 * MINUTE - timedelta.resolution) is not None
        assert current(an_entry(), NOW + 10 * MINUTE) is None

    def test_completing_does_not_prolong_the_time_to_live(self) -> None:
        entry, _ = settle(an_entry(), fence=FIRST, outcome=EntryOutcome.OK, now=NOW + 5 * MINUTE)

        assert entry is not None
        assert entry.expires_at == NOW + 10 * MINUTE

    def test_a_renewal_keeps_an_entry_for_twice_as_long_as_the_run_may_have_taken(self) -> None:
        entry, renewed = renew(an_entry(), fence=FIRST, lease=MINUTE, now=NOW + 8 * MINUTE)

        assert renewed
        assert entry is not None
        assert entry.expires_at == NOW + 18 * MINUTE
        assert current(entry, NOW + 17 * MINUTE) is not None

    def test_a_batch_lives_as_long_as_was_decided_when_it_was_opened(self) -> None:
        held = replace(an_entry(), batch=True)

        entry, renewed = renew(held, fence=FIRST, lease=MINUTE, now=NOW + 8 * MINUTE)
        late, granted = renew(held, fence=FIRST, lease=3 * MINUTE, now=NOW + 8 * MINUTE)

        assert renewed
        assert entry is not None
        assert (entry.lease_until, entry.expires_at) == (NOW + 9 * MINUTE, NOW + 10 * MINUTE)
        assert not granted
        assert late == replace(held, read_at=NOW + 8 * MINUTE)

    @pytest.mark.parametrize("wrong", [timedelta.max, LONGEST + SHORTEST, timedelta(0), -MINUTE])
    def test_terms_that_no_store_can_hold_are_refused(self, wrong: timedelta) -> None:
        with pytest.raises(ConfigurationError, match=r"time_to_live: .* is out of range"):
            EntryTerms(time_to_live=wrong)
        with pytest.raises(
            ConfigurationError, match=r"lease: .* is out of range; use 1 millisecond to 36,525 days"
        ):
            EntryTerms(lease=wrong)

    def test_a_lease_is_alive_until_it_is_over(self) -> None:
        before, after = current(an_entry(), NOW + MINUTE * 0.99), current(an_entry(), NOW + MINUTE)

        assert before is not None
        assert after is not None
        assert (before.lease_alive, after.lease_alive) == (True, False)

    def test_a_renewal_counts_from_now_and_changes_nothing_else(self) -> None:
        held = an_entry()

        entry, renewed = renew(held, fence=FIRST, lease=MINUTE, now=NOW + 4 * MINUTE)

        assert renewed
        assert entry is not None
        assert entry.lease_until == NOW + 5 * MINUTE
        assert (entry.started_at, entry.expires_at, entry.fence) == (NOW, held.expires_at, FIRST)


class TestDigest:
    def test_a_digest_has_sixteen_bytes_for_an_id_of_any_length(self) -> None:
        assert {len(digest(uuid)) for uuid in ("", "u", "u" * 100_000, "\ud800", "🧾")} == {16}

    @given(st.lists(st.text(), min_size=2, unique=True))
    def test_different_ids_have_different_digests(self, uuids: list[str]) -> None:
        assert len({digest(uuid) for uuid in uuids}) == len(uuids)

    def test_a_digest_never_changes(self) -> None:
        assert digest("ID:1").hex() == "edfa4771e2a421f19d59fab2b1daac69"


def test_every_step_is_a_legal_transition() -> None:
    seen: set[tuple[str, str]] = set()
    for held in (None, an_entry(), completed(), completed(EntryOutcome.FAILED)):
        for now in (NOW, NOW + 10 * MINUTE):
            for fence in (FIRST, SECOND):
                results = [
                    claim(held, "worker-2", fence=SECOND, now=now, terms=TERMS)[0],
                    take_over(held, "worker-2", expected_fence=fence, fence=SECOND, now=now, terms=TERMS)[0],
                    renew(held, fence=fence, lease=MINUTE, now=now)[0],
                    *(
                        settle(held, fence=fence, outcome=outcome, now=now)[0]
                        for outcome in (*EntryOutcome, None)
                    ),
                    fail(held, fence=fence, now=now),
                ]
                before = state_of(current(held, now))
                seen |= {(before, state_of(after)) for after in results}

    steps = {(before, after) for before, after in seen if before != after}
    always = {
        ("absent", "STARTED"),
        ("STARTED", "COMPLETED ok"),
        ("STARTED", "COMPLETED failed"),
        ("STARTED", "absent"),
        ("COMPLETED ok", "COMPLETED failed"),
    }
    expiring = {("COMPLETED ok", "absent"), ("COMPLETED failed", "absent"), ("COMPLETED failed", "STARTED")}
    assert always <= steps <= always | expiring
