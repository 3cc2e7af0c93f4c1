"""The audit trail keeps the outcome of each decision. Pages and commands show it long after the job ended."""

from threading import Event
from typing import Any

import pytest

from history.bridge import drive
from history.store import DecisionKind, OperatorDecision, ParkedLabel
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import Site
from triggers import trigger
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.jobs import jobs
from triggers.dashboard.jobs.job import DecisionJob
from triggers.dashboard.jobs.jobs import Jobs
from triggers.detection.table import Policy
from triggers.operations.decisions import decision_rows
from triggers.operations.stories import Judging, stories
from triggers.pipeline.parking.decisions import decide


def trail(site: Site) -> list[tuple[str, dict[str, str]]]:
    """Return the decisions, newest first, with the outcome of each message."""
    return [
        (row["decision"], {one["uuid"]: one["outcome"] for one in row["messages"]})
        for row in decision_rows(site.store.parking, "book")
    ]


def test_a_run_is_in_the_trail_with_how_it_ended(site: Site, operator: Browser) -> None:
    good, bad = site.park("order-1"), site.park("order-2", {"id": "fails"})
    for parked in (good, bad):
        operator.decide(decision="run", trigger="book", id=parked.id, reason="it did not happen")

    page = text_of(operator.page("/decisions"))

    (_, failed), (_, ran) = trail(site)
    assert ran == {"order-1": "it ran, and completed"}
    assert failed["order-2"].startswith("failed: ")
    assert "no such customer" in failed["order-2"]
    for said in ("order-1", "order-2", "it ran, and completed", "no such customer"):
        assert said in page


def test_the_story_and_the_command_say_what_was_decided_and_what_came_of_it(
    site: Site, operator: Browser
) -> None:
    parked = site.park("order-1")
    operator.decide(decision="run", trigger="book", id=parked.id, reason="it did not happen")

    page = text_of(operator.page("/story?uuid=order-1"))
    (row,) = stories(site.store, "order-1", lambda _: Judging(Policy(), asks=False))

    (decided,) = row["decisions"]
    assert (decided["decision"], decided["by"]) == ("run", "a operator")
    assert decided["outcome"] == "it ran, and completed"
    assert "a operator decided: run" in page
    assert "it ran, and completed" in page


def test_what_was_asked_and_never_ended_says_so(site: Site, operator: Browser) -> None:
    parked = site.park("order-1")
    decision = OperatorDecision(kind=DecisionKind.RUN, by="ann", reason="then the dashboard died")
    drive(decide([ParkedLabel.of(parked)], decision, lot=site.store.parking, store=None))

    assert trail(site) == [("run", {"order-1": "asked, no outcome known"})]
    for path in ("/decisions", "/story?uuid=order-1", f"/message?trigger=book&id={parked.id}"):
        assert "asked, no outcome known" in text_of(operator.page(path))


def test_what_is_refused_is_in_the_trail(site: Site, operator: Browser) -> None:
    parked = site.park("order-1")
    (entry,) = drive(site.store.lookup("book", ["order-1"]))
    assert entry is not None
    drive(site.store.take_over("book", "order-1", "host-2:1:ab", None, entry.fence))

    operator.decide(decision="done", trigger="book", id=parked.id, reason="it is in the ledger")

    ((word, came),) = trail(site)
    assert word == "done"
    assert came["order-1"].startswith("refused: it was started again")


def test_decisions_that_were_carried_out_in_turns_are_one_row_each(site: Site) -> None:
    decisions = [OperatorDecision(kind=DecisionKind.DISCARD, by=name) for name in ("ann", "bob")]
    for number in range(6):
        label = ParkedLabel.of(site.park(f"order-{number}"))
        token = f"{decisions[number % 2].token}/{number}"
        step = decisions[number % 2].model_copy(update={"token": token})
        drive(decide([label], step, lot=site.store.parking, store=None))

    assert [len(came) for _, came in trail(site)] == [3, 3]


@pytest.mark.parametrize("other", ["book", "ship"])
def test_a_small_decision_does_not_wait_for_the_end_of_a_large_one(
    site: Site, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setattr("triggers.dashboard.jobs.jobs.TURN", 0.0)
    begun, go_on, done = Event(), Event(), list[str]()

    @trigger("orders", name="book")
    def book(order: dict[str, Any]) -> None:
        begun.set()
        if len(done) > 0:  # the second run of the large decision waits for the small one
            assert go_on.wait(PATIENCE)
        done.append(order["id"])

    site.serve([book])
    carried_out = site.app.state.operations.jobs
    large = [ParkedLabel.of(site.park(f"order-{number}")) for number in range(4)]
    small = [ParkedLabel.of(site.park("small", trigger_name=other))]

    first = carried_out.start(OperatorDecision(kind=DecisionKind.RUN, by="ann"), large)
    second = carried_out.start(OperatorDecision(kind=DecisionKind.DISCARD, by="bob"), small)
    begun.wait(PATIENCE)
    if other == "book":
        go_on.set()
    try:
        assert second.finished.wait(PATIENCE)
        before = len(done)
    finally:
        go_on.set()
    assert first.finished.wait(PATIENCE)
    assert before < len(large)
    assert (first.closed, second.closed) == (4, 1)


def test_services_that_hang_hold_up_the_runs_of_their_triggers_only(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "SLOW", 0.0)
    monkeypatch.setattr(jobs, "ENDING", 0.0)
    goes_on, begun, done = Event(), list[str](), list[str]()

    def named(name: str) -> AnyTrigger:
        @trigger("orders", name=name)
        def book(order: dict[str, Any]) -> None:
            begun.append(name)
            if name != "quick":
                goes_on.wait()  # for longer than the others run
            done.append(order["id"])

        return book

    names = [f"slow-{number}" for number in range(jobs.WORKERS)]
    site.serve([named(name) for name in (*names, "quick")])
    carried_out: Jobs = site.app.state.operations.jobs

    def decided(kind: DecisionKind, name: str, uuid: str) -> DecisionJob:
        label = ParkedLabel.of(site.park(uuid, trigger_name=name))
        return carried_out.start(OperatorDecision(kind=kind, by="ann"), [label])

    hanging = [decided(DecisionKind.RUN, name, f"order-{name}") for name in names]
    assert eventually(lambda: len(begun) == len(names))
    others = [
        decided(DecisionKind.RUN, "quick", "order-quick"),
        decided(DecisionKind.DISCARD, names[0], "order-5"),
    ]
    try:
        assert all(job.finished.wait(PATIENCE) for job in others)
        assert done == ["order-quick"]
        carried_out.close()  # does not wait for services that hang
    finally:
        goes_on.set()
    assert all(job.finished.wait(PATIENCE) for job in hanging)
