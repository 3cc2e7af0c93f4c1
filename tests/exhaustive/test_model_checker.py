"""Every interleaving of a few workers, crashes and redeliveries, over the production functions.

These properties hold in every state that can be reached:

- the service never runs again after a run that may have had an effect, unless a resolver said so;
- a message is acknowledged only if it had an effect or is parked;
- nobody changes a completed entry, or an entry with another fence than they know;
- when the faults stop, all work comes to an end, and every message had an effect or is parked.

A checker that finds nothing proves nothing, so it is also shown to catch functions that break a property.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache

import pytest

from history.entry import (
    Claim,
    Entry,
    EntryOutcome,
    EntryTerms,
    Fence,
    State,
    claim,
    current,
    renew,
    settle,
    started,
    take_over,
)
from tests.exhaustive.model.exploring import Explored, explore
from tests.exhaustive.model.moves import Model
from tests.exhaustive.model.world import TICK, Faults, Rules, Scope, ViolationError
from tests.fixtures.proof import Proved
from triggers.detection.aftermath import Aftermath, Ending, afterwards
from triggers.detection.table import Answer, Decision, Facts, Policy, Status, Word, decide

#: One worker explores each scope once, for all tests of it.
pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("model-checker")]

SUSPEND = Policy(on_retry_failure="suspend")
TRANSACTED = Policy(transacted=True)

SCOPES = {
    "plain": Scope(Faults(crashes=1, redeliveries=1, repeats=1, sends=1, failures=1)),
    "giving back": Scope(Faults(crashes=1, redeliveries=1, repeats=1, failures=1), policy=SUSPEND),
    "transacted": Scope(Faults(crashes=1, redeliveries=1, repeats=1, failures=1), policy=TRANSACTED),
    "leases": Scope(Faults(crashes=1, redeliveries=1, failures=1, ticks=2), lease=True, policy=SUSPEND),
    "a short time to live": Scope(
        Faults(redeliveries=1, ticks=5), lease=True, time_to_live=3 * TICK, keeps=True
    ),
    "a resolver": Scope(
        Faults(crashes=1, redeliveries=1, repeats=1), says=(Word.NEW, Word.IN_DOUBT, Word.DUPLICATE)
    ),
    "leases and a resolver": Scope(
        Faults(crashes=1, redeliveries=1, ticks=2), lease=True, says=(Word.NEW, Word.DUPLICATE)
    ),
    "three workers": Scope(Faults(crashes=1, redeliveries=2), workers=3),
    "two uuids": Scope(Faults(crashes=1, redeliveries=1), uuids=2),
    "no history": Scope(Faults(crashes=2, redeliveries=2, failures=1), history=False, policy=SUSPEND),
    "no history but a resolver": Scope(
        Faults(crashes=1, redeliveries=1, failures=1),
        history=False,
        says=(Word.NEW, Word.IN_DOUBT),
        policy=SUSPEND,
    ),
}


@cache
def explored_scope(name: str) -> Explored:
    return explore(SCOPES[name])


@pytest.mark.parametrize("name", SCOPES)
def test_every_property_holds_in_every_state(name: str, proved: Proved) -> None:
    explored = explored_scope(name)

    proved(states=explored.states, transitions=explored.transitions)
    assert explored.states > 100


#: Moves that each scope must contain: otherwise a property could hold only because nothing happens.
EVENTS = {
    "plain": {
        *("decide: row 7", "decide: row 8", "decide: row 10", "settle: True"),
        *("fail: fatal", "send again"),
    },
    "giving back": {"claim: reply lost", "fail: transient", "recover", "a late copy of a write arrives"},
    "transacted": {"decide: row 9", "fail: fatal", "recover"},
    "leases": {"decide: row 12", "recover after a delay", "renew", "decide: row 10"},
    "a short time to live": {"time passes", "renew", "decide: row 12", "decide: row 8", "decide: row 10"},
    "a resolver": {"decide: row 11", "take over", "take over: too late", "settle: False"},
    "leases and a resolver": {"decide: row 12", "decide: row 11", "take over", "settle: False", "renew"},
    "no history": {"decide: row 2", "decide: row 3", "crash while RUNNING", "crash while ANSWERING"},
    "no history but a resolver": {"decide: row 2", "decide: row 4"},
}


@pytest.mark.parametrize("name", EVENTS)
def test_what_a_scope_is_about_happens_in_it(name: str) -> None:
    assert EVENTS[name] <= explored_scope(name).names


class Mutants:
    """Functions that each break something which a reader may think harmless."""

    @staticmethod
    def settle_without_fence(
        entry: Entry | None, *, fence: Fence, outcome: EntryOutcome | None, now: datetime
    ) -> tuple[Entry | None, bool]:
        held = current(entry, now)
        return settle(entry, fence=fence if held is None else held.fence, outcome=outcome, now=now)

    @staticmethod
    def release_without_fence(
        entry: Entry | None, *, fence: Fence, outcome: EntryOutcome | None, now: datetime
    ) -> tuple[Entry | None, bool]:
        if outcome is None:
            return None, True
        return settle(entry, fence=fence, outcome=outcome, now=now)

    @staticmethod
    def settle_again(
        entry: Entry | None, *, fence: Fence, outcome: EntryOutcome | None, now: datetime
    ) -> tuple[Entry | None, bool]:
        if entry is not None and entry.fence == fence and entry.state is State.COMPLETED:
            return (None, True) if outcome is None else (replace(entry, outcome=outcome), True)
        return settle(entry, fence=fence, outcome=outcome, now=now)

    @staticmethod
    def claim_that_meets_itself(
        entry: Entry | None, owner: str, *, fence: Fence, now: datetime, terms: EntryTerms
    ) -> tuple[Entry, Claim]:
        held = current(entry, now)
        if held is not None:
            return held, Claim(held, held.fence)
        return claim(None, owner, fence=fence, now=now, terms=terms)

    @staticmethod
    def claim_over_a_dead_lease(
        entry: Entry | None, owner: str, *, fence: Fence, now: datetime, terms: EntryTerms
    ) -> tuple[Entry, Claim]:
        held = current(entry, now)
        if held is not None and held.state is State.STARTED and not held.lease_alive:
            held = None
        return claim(held, owner, fence=fence, now=now, terms=terms)

    @staticmethod
    def claim_that_prolongs(
        entry: Entry | None, owner: str, *, fence: Fence, now: datetime, terms: EntryTerms
    ) -> tuple[Entry, Claim]:
        held, answer = claim(entry, owner, fence=fence, now=now, terms=terms)
        if terms.lease is not None and held.lease_alive:
            held = replace(held, lease_until=now + 2 * terms.lease)
        return held, answer

    @staticmethod
    def take_over_without_fence(
        entry: Entry | None,
        owner: str,
        *,
        expected_fence: Fence,
        fence: Fence,
        now: datetime,
        terms: EntryTerms,
    ) -> tuple[Entry | None, Claim | None]:
        held = current(entry, now)
        expected = expected_fence if held is None else held.fence
        return take_over(entry, owner, expected_fence=expected, fence=fence, now=now, terms=terms)

    @staticmethod
    def take_over_in_any_state(
        entry: Entry | None,
        owner: str,
        *,
        expected_fence: Fence,
        fence: Fence,
        now: datetime,
        terms: EntryTerms,
    ) -> tuple[Entry | None, Claim | None]:
        held = current(entry, now)
        if held is None or held.fence != expected_fence:
            return held, None
        return started(owner, fence, now, terms), Claim(None, fence)

    @staticmethod
    def renew_without_fence(
        entry: Entry | None, *, fence: Fence, lease: timedelta, now: datetime
    ) -> tuple[Entry | None, bool]:
        return renew(entry, fence=fence if entry is None else entry.fence, lease=lease, now=now)

    @staticmethod
    def renew_only_the_lease(
        entry: Entry | None, *, fence: Fence, lease: timedelta, now: datetime
    ) -> tuple[Entry | None, bool]:
        renewed, done = renew(entry, fence=fence, lease=lease, now=now)
        if entry is None or renewed is None:
            return renewed, done
        return replace(renewed, expires_at=entry.expires_at), done

    @staticmethod
    def renew_up_to_the_lease(
        entry: Entry | None, *, fence: Fence, lease: timedelta, now: datetime
    ) -> tuple[Entry | None, bool]:
        renewed, done = renew(entry, fence=fence, lease=lease, now=now)
        if entry is None or renewed is None or renewed.lease_until is None:
            return renewed, done
        return replace(renewed, expires_at=max(entry.expires_at, renewed.lease_until - lease)), done

    @staticmethod
    def doubt_runs(facts: Facts, policy: Policy) -> Decision:
        decision = decide(facts, policy)
        return replace(decision, runs=True, park=False) if decision.status is Status.IN_DOUBT else decision

    @staticmethod
    def doubt_is_dropped(facts: Facts, policy: Policy) -> Decision:
        return replace(decide(facts, policy), park=False)

    @staticmethod
    def a_live_lease_is_done(facts: Facts, policy: Policy) -> Decision:
        return replace(decide(facts, policy), answer=Answer.ACKNOWLEDGE)

    @staticmethod
    def failures_are_forgotten(ending: Ending, policy: Policy, *, history: bool) -> Aftermath:
        return replace(afterwards(ending, policy, history=history), park=False)

    @staticmethod
    def successes_are_released(ending: Ending, policy: Policy, *, history: bool) -> Aftermath:
        return replace(afterwards(ending, policy, history=history), entry=None)

    @staticmethod
    def successes_are_given_back(ending: Ending, policy: Policy, *, history: bool) -> Aftermath:
        return replace(afterwards(ending, policy, history=history), answer=Answer.RECOVER)


@dataclass(frozen=True)
class Breach:
    """A mutant, where it shows, and which property it breaks."""

    rules: Rules
    scope: str
    breaks: str


AGAIN = "the service runs again, and nobody said that it should"
OVERWRITTEN = "a late worker changes its successor's entry"
CHANGED = "a completed entry changes"
DROPPED = "a message is acknowledged that had no effect and is not parked"

BREACHES = {
    "settle does not compare the fence": Breach(
        Rules(settle=Mutants.settle_without_fence), "leases and a resolver", OVERWRITTEN
    ),
    "release does not compare the fence": Breach(
        Rules(settle=Mutants.release_without_fence), "giving back", f"{OVERWRITTEN}|{CHANGED}"
    ),
    "a completed entry can be settled otherwise": Breach(
        Rules(settle=Mutants.settle_again, afterwards=Mutants.successes_are_released), "plain", AGAIN
    ),
    "a claim that is sent twice is not known again": Breach(
        Rules(claim=Mutants.claim_that_meets_itself), "plain", "stands in its own way"
    ),
    "a claim takes an entry whose lease is over": Breach(
        Rules(claim=Mutants.claim_over_a_dead_lease), "leases", AGAIN
    ),
    "a claim prolongs the lease that it meets": Breach(
        Rules(claim=Mutants.claim_that_prolongs), "leases", "the work does not come to an end"
    ),
    "taking over does not compare the fence": Breach(
        Rules(take_over=Mutants.take_over_without_fence), "a resolver", OVERWRITTEN
    ),
    "taking over does not look at the state": Breach(
        Rules(take_over=Mutants.take_over_in_any_state), "a resolver", CHANGED
    ),
    "renewing does not compare the fence": Breach(
        Rules(renew=Mutants.renew_without_fence), "leases and a resolver", OVERWRITTEN
    ),
    "renewing lets the entry expire": Breach(
        Rules(renew=Mutants.renew_only_the_lease), "a short time to live", AGAIN
    ),
    "renewing lets the entry expire before the lease": Breach(
        Rules(renew=Mutants.renew_up_to_the_lease), "a short time to live", AGAIN
    ),
    "what is in doubt runs": Breach(Rules(decide=Mutants.doubt_runs), "no history", AGAIN),
    "what is in doubt is acknowledged and not parked": Breach(
        Rules(decide=Mutants.doubt_is_dropped), "plain", DROPPED
    ),
    "what is in progress is acknowledged": Breach(
        Rules(decide=Mutants.a_live_lease_is_done), "leases", DROPPED
    ),
    "what failed is acknowledged and not parked": Breach(
        Rules(afterwards=Mutants.failures_are_forgotten), "plain", DROPPED
    ),
    "a success is released": Breach(Rules(afterwards=Mutants.successes_are_released), "plain", AGAIN),
}


@pytest.mark.parametrize("name", BREACHES)
def test_the_checker_finds_out_when(name: str) -> None:
    breach = BREACHES[name]

    with pytest.raises(ViolationError, match=breach.breaks):
        explore(SCOPES[breach.scope], breach.rules)


def test_a_success_that_is_given_back_is_a_duplicate_and_comes_to_an_end() -> None:
    explored = explore(SCOPES["three workers"], Rules(afterwards=Mutants.successes_are_given_back))

    assert "decide: row 8" in explored.names


def test_a_violation_tells_the_way_to_it() -> None:
    with pytest.raises(ViolationError) as caught:
        explore(SCOPES["no history"], BREACHES["what is in doubt runs"].rules)

    assert "receive" in str(caught.value)
    assert " > " in str(caught.value)


def test_nothing_can_go_wrong_where_nothing_goes_wrong() -> None:
    scope = Scope(Faults(), workers=1)

    explored = explore(scope)

    assert isinstance(explored, Explored)
    assert explored.names == {
        *("receive Job(uuid=0, again=False)", "claim: NOTHING", "decide: row 7", "run", "effect"),
        *("settle: True", "acknowledge"),
    }
    assert [move.name for move in Model(scope, Rules()).moves(Model(scope, Rules()).start())] == [
        "receive Job(uuid=0, again=False)"
    ]
