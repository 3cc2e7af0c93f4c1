"""Background handlers: events arrive in order, none is dropped, and no handler can delay the end."""

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from history.bridge import drive
from history.shell import TaskShell, ThreadShell
from tests import ROOT
from tests.fixtures.threads import in_threads
from tests.fixtures.waiting import PATIENCE, eventually, patience
from tests.unit.helpers.given_up import event
from triggers import ConfigurationError, flush_events
from triggers.events import Handler, RetrievalFailureEvent, Subscription, on_retrieval_failure, publish

#: The time limit for things that must happen, in seconds.
SOON = timedelta(seconds=patience(20.0))

AT_ONCE = timedelta(0)


class Gate:
    """A handler that records its events, and returns when the test allows it."""

    def __init__(self, *, open: bool = False) -> None:  # noqa: A002  (what it is)
        self.heard: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.entered = threading.Event()
        self.open = threading.Event()
        if open:
            self.open.set()

    def __call__(self, told: RetrievalFailureEvent) -> None:
        self.heard.append(told.trigger_name)
        self.threads.add(threading.current_thread())
        self.entered.set()
        assert self.open.wait(SOON.total_seconds())


#: Subscribes a handler, in the background, until the test ends.
Subscribe = Callable[..., Subscription]


@pytest.fixture
def subscribe() -> Iterator[Subscribe]:
    with ExitStack() as closing:

        def subscribing(handler: Handler, pattern: str = "*", queue_size: int = 100) -> Subscription:
            made = on_retrieval_failure(pattern, synchronous=False, queue_size=queue_size)(handler)
            closing.callback(made.close, SOON)
            return made

        yield subscribing


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def tell(*triggers: str) -> None:
    for trigger in triggers:
        drive(publish(event(trigger), ThreadShell()))


class TestTelling:
    def test_it_hears_in_the_background_while_the_publisher_goes_on(
        self, subscribe: Subscribe, gate: Gate
    ) -> None:
        subscription = subscribe(gate)

        tell("a", "b")  # if this thread called the handler, this would never end
        gate.open.set()

        assert subscription.flush(SOON)
        assert gate.heard == ["a", "b"]
        assert threading.current_thread() not in gate.threads
        assert not subscription.synchronous

    def test_it_hears_everything_in_order_whoever_publishes(self, subscribe: Subscribe) -> None:
        gate = Gate(open=True)
        subscription = subscribe(gate, queue_size=3)

        in_threads(lambda name: tell(*(f"{name}{number:03}" for number in range(100))), "abc")

        assert subscription.flush(SOON)
        assert len(gate.heard) == 300
        for name in "abc":
            mine = [one for one in gate.heard if one.startswith(name)]
            assert mine == sorted(mine)
        assert len(gate.threads) == 1

    def test_one_that_hangs_holds_up_no_other(self, subscribe: Subscribe, gate: Gate) -> None:
        other = Gate(open=True)
        subscribe(gate)
        hearing = subscribe(other)

        tell("a", "b")

        assert hearing.flush(SOON)
        assert other.heard == ["a", "b"]

    def test_coroutine_functions_run_on_one_event_loop_of_their_own(self, subscribe: Subscribe) -> None:
        loops: list[asyncio.AbstractEventLoop] = []

        async def handler(told: RetrievalFailureEvent) -> None:
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())

        subscription = subscribe(handler)

        tell("a", "b")

        assert subscription.flush(SOON)
        assert len(loops) == 2
        assert loops[0] is loops[1]

    @pytest.mark.parametrize("failure", [LookupError, SystemExit, KeyboardInterrupt])
    def test_one_that_fails_is_logged_and_told_of_the_next(
        self, subscribe: Subscribe, caplog: pytest.LogCaptureFixture, failure: type[BaseException]
    ) -> None:
        heard: list[str] = []

        def handler(told: RetrievalFailureEvent) -> None:
            heard.append(told.trigger_name)
            raise failure("no mailbox")

        subscription = subscribe(handler)

        with caplog.at_level(logging.ERROR, "triggers.events"):
            tell("a", "b")
            assert subscription.flush(SOON)

        assert heard == ["a", "b"]
        assert [vars(record)["trigger"] for record in caplog.records] == ["a", "b"]
        assert "no mailbox" in caplog.text


class TestFullQueue:
    def test_a_publisher_waits_says_so_and_drops_nothing(
        self, subscribe: Subscribe, gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        subscription = subscribe(gate, queue_size=1)
        tell("a")
        assert gate.entered.wait(SOON.total_seconds())
        tell("b")

        publisher = threading.Thread(target=tell, args=["c", "d"])
        publisher.start()
        eventually(lambda: "the queue of Gate is full" in caplog.text, SOON.total_seconds())
        waiting = publisher.is_alive()
        gate.open.set()
        publisher.join()

        assert waiting
        assert subscription.flush(SOON)
        assert gate.heard == ["a", "b", "c", "d"]

    async def test_a_publisher_under_asyncio_holds_up_no_other_task(
        self, subscribe: Subscribe, gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        subscription = subscribe(gate, queue_size=1)
        await publish(event("a"), TaskShell())
        assert gate.entered.wait(SOON.total_seconds())
        await publish(event("b"), TaskShell())

        publishing = asyncio.create_task(publish(event("c"), TaskShell()))
        await asyncio.to_thread(eventually, lambda: "is full" in caplog.text, SOON.total_seconds())
        gate.open.set()
        await publishing

        assert subscription.flush(SOON)
        assert gate.heard == ["a", "b", "c"]

    def test_a_publisher_does_not_wait_for_one_that_hangs_and_names_the_event(
        self,
        subscribe: Subscribe,
        gate: Gate,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("triggers.events.mailbox.HANGING", AT_ONCE)
        subscription = subscribe(gate, queue_size=1)
        tell("a")
        assert gate.entered.wait(SOON.total_seconds())

        tell("b", "c")
        gate.open.set()

        assert subscription.flush(SOON)
        assert gate.heard == ["a", "b"]
        [record] = caplog.records
        assert vars(record)["trigger"] == "c"
        assert record.getMessage() == "Gate was not told of an event in time"

    def test_a_handler_that_publishes_more_than_its_queue_holds_does_not_wait_for_itself(
        self, subscribe: Subscribe
    ) -> None:
        heard: list[str] = []

        def handler(told: RetrievalFailureEvent) -> None:
            heard.append(told.trigger_name)
            if told.trigger_name == "a":
                tell("b", "c", "d")

        subscription = subscribe(handler, queue_size=1)

        tell("a")

        assert subscription.flush(SOON)
        assert heard == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("size", [0, -1, True, "many"])
    def test_a_queue_has_a_size_from_1(self, size: int) -> None:
        with pytest.raises(ConfigurationError, match=r"queue_size: must be 1 or more, not .*; use"):
            on_retrieval_failure(synchronous=False, queue_size=size)(Gate())


class TestEnding:
    def test_a_cancelled_one_is_told_of_what_it_was_handed_and_of_nothing_else(
        self, subscribe: Subscribe, gate: Gate
    ) -> None:
        subscription = subscribe(gate)
        tell("a", "b")

        subscription.cancel()
        subscription.cancel()
        tell("c")
        gate.open.set()

        assert subscription.flush(SOON)
        assert gate.heard == ["a", "b"]
        (thread,) = gate.threads
        thread.join(SOON.total_seconds())
        assert not thread.is_alive()

    def test_what_was_on_its_way_when_it_was_cancelled_is_told(self, subscribe: Subscribe) -> None:
        gate = Gate(open=True)
        subscription = subscribe(gate)
        subscription.close(SOON)

        drive(subscription.tell(event("late"), ThreadShell()))

        assert subscription.flush(SOON)
        assert gate.heard == ["late"]

    def test_close_waits_for_what_was_handed_over(self, subscribe: Subscribe) -> None:
        gate = Gate(open=True)
        subscription = subscribe(gate)
        tell(*"abcdef")

        assert subscription.close(SOON)

        assert gate.heard == list("abcdef")

    def test_one_that_hangs_is_left_behind_and_each_event_is_named(
        self, subscribe: Subscribe, gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        subscription = subscribe(gate)
        tell("a", "b", "c")
        assert gate.entered.wait(SOON.total_seconds())

        with caplog.at_level(logging.ERROR, "triggers.events"):
            closed = subscription.close(AT_ONCE)

        assert not closed
        assert [(vars(one)["trigger"], one.getMessage()) for one in caplog.records] == [
            ("a", "Gate has not come back from an event"),
            ("b", "Gate was not told of an event in time"),
            ("c", "Gate was not told of an event in time"),
        ]

    def test_flush_says_no_when_it_takes_longer(self, subscribe: Subscribe, gate: Gate) -> None:
        subscription = subscribe(gate)
        tell("a")

        assert not subscription.flush(AT_ONCE)
        assert not flush_events(AT_ONCE)

    def test_flush_events_waits_for_all(self, subscribe: Subscribe) -> None:
        gates = [Gate(open=True), Gate(open=True)]
        for gate in gates:
            subscribe(gate)
        tell(*"abc")

        assert flush_events(SOON)

        assert [gate.heard for gate in gates] == [list("abc"), list("abc")]

    def test_a_handler_cannot_wait_for_its_own_end(self, subscribe: Subscribe) -> None:
        answers: list[bool] = []

        def handler(told: RetrievalFailureEvent) -> None:
            answers.append(flush_events(SOON))

        subscription = subscribe(handler)

        tell("a")

        assert subscription.flush(SOON)
        assert answers == [False]


#: Subscribes handlers in the background, publishes, and ends.
PROGRAM = """
import logging, os, sys, threading, time
from datetime import timedelta
from history.bridge import drive
from triggers.events import mailbox, on_retrieval_failure, publish
from history.shell import ThreadShell
from tests.unit.helpers.given_up import event

logging.basicConfig(format="%(trigger)s: %(message)s")

def say(told):
    time.sleep(0.001)  # so that most events have not reached their handlers when the program ends
    print(told.trigger_name, flush=True)

def tell(*triggers):
    for trigger in triggers:
        drive(publish(event(trigger), ThreadShell()))
"""


def run(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM + program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )


class TestInterpreter:
    def test_everything_is_told_before_it_ends(self) -> None:
        ended = run("""
on_retrieval_failure(synchronous=False)(say)
tell(*map(str, range(100)))
""")

        assert ended.stdout.split() == [str(number) for number in range(100)]
        assert ended.stderr == ""

    def test_coroutine_functions_are_told_before_it_ends(self) -> None:
        ended = run("""
import asyncio
async def later(told):
    await asyncio.sleep(0.001)
    say(told)
on_retrieval_failure(synchronous=False)(later)
tell(*"abc")
""")

        assert (ended.stdout.split(), ended.stderr) == (["a", "b", "c"], "")

    def test_it_ends_although_a_handler_hangs_and_names_what_was_not_told(self) -> None:
        ended = run("""
def hang(told):
    threading.Event().wait()
mailbox.PATIENCE = timedelta(seconds=0.2)
on_retrieval_failure(synchronous=False)(hang)
on_retrieval_failure(synchronous=False)(say)
tell("a", "b")
""")

        assert ended.stdout.split() == ["a", "b"]
        assert ended.stderr.splitlines() == [
            "a: hang has not come back from an event",
            "b: hang was not told of an event in time",
        ]

    def test_what_is_published_while_it_ends_is_told_too(self) -> None:
        ended = run("""
import atexit
atexit.register(tell, "first")  # called after the queues have been drained
subscription = on_retrieval_failure(synchronous=False)(say)
tell("before")
subscription.cancel()
on_retrieval_failure(synchronous=False)(say)
""")

        assert (ended.stdout.split(), ended.stderr) == (["before", "first"], "")

    def test_a_forked_child_tells_of_its_own_events_and_not_of_its_parents(self) -> None:
        ended = run("""
import warnings
warnings.simplefilter("ignore")  # of a fork with threads
may_end = threading.Event()
def wait_and_say(told):
    if os.getpid() == parent:
        may_end.wait()
    print("parent" if os.getpid() == parent else "child", told.trigger_name, flush=True)
parent = os.getpid()
subscription = on_retrieval_failure(synchronous=False)(wait_and_say)
tell("a", "b")
child = os.fork()
if child == 0:
    tell("c")
    sys.exit(0 if subscription.flush() else 1)
_, status = os.waitpid(child, 0)
assert status == 0
may_end.set()
""")

        assert ended.stdout.splitlines() == ["child c", "parent a", "parent b"]
