"""Triggers that are suspended as in the rows of the table, on each provider, and the rows as parameters."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.store import Verb
from tests.fixtures.network import Network
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane, Running
from triggers import FatalError, Message, TransientError
from triggers.detection.suspension import TERMS, MessageFate, Suspension, Terms, Waker
from triggers.providers import capabilities_of, open_provider
from triggers.providers.backlog import Backlog

#: The tests watch for this time that nothing runs. It is many times the interval of the monitors.
WATCHED = 0.5
SOON = timedelta(seconds=0.05)


class Shop:
    """A trigger on one provider. Its service fails as the test says, and notes its runs in order."""

    def __init__(self, lane: Lane, url: str, history: str, store: KeepsBeside, *, ordered: bool) -> None:
        self._lane, self._url, self._history, self._store = lane, url, history, store
        self.ordered = ordered
        self.destination = f"orders-{uuid4().hex[:8]}"
        self.failures: list[Exception] = []
        self.runs: list[tuple[str, int]] = []

    def consumer(self, history: str | None = None, **settings: Any) -> Running:
        """Return a consumer of the trigger, which is not running yet."""
        trigger = self._lane.trigger(self.destination, self.work, ordered=self.ordered, **settings)
        return self._lane.run([trigger], self._url, history=history or self._history)

    def work(self, message: Message) -> None:
        """Be the service: note the run, and fail as the test says."""
        self.runs.append((message.uuid or "", message.delivery_count))
        if message.uuid == "a" and self.failures:
            raise self.failures.pop(0)

    def subscribe(self) -> None:
        """Make the provider keep messages that are sent before a consumer exists."""
        provider = open_provider(self._url)
        name = self.destination
        drive(drive(provider.open_receiver(name, subscription=name, name="first")).close())
        drive(provider.close())

    def send(self, *uuids: str) -> None:
        provider = open_provider(self._url)
        messages = [Message(uuid=uuid, body="", group_id="g") for uuid in uuids]
        drive(provider.send(self.destination, messages))
        drive(provider.close())

    def order(self, verb: Verb) -> None:
        drive(self._store.control.order(verb, [self.destination]))

    def consumers(self) -> int:
        """How many consumers have reported the trigger: a command to suspend concerns only these."""
        overview = drive(self._store.control.overview())
        return sum(beat.report.trigger == self.destination for beat in overview.beats)

    @property
    def is_pushed(self) -> bool:
        return self._url.startswith("rabbitmq:")

    def pushed_to(self) -> int:
        return self._backlog().consumers or 0

    def waiting(self) -> int:
        return self._backlog().waiting or 0

    def _backlog(self) -> Backlog:
        provider = open_provider(self._url)
        telling = capabilities_of(provider).telling_backlog
        assert telling is not None
        [backlog] = drive(telling.backlogs([(self.destination, self.destination)]))
        drive(provider.close())
        return backlog

    @property
    def ran(self) -> list[str]:
        return [uuid for uuid, _ in self.runs]

    @property
    def counts(self) -> list[int]:
        """The delivery counts of the runs of the failed message."""
        return [count for uuid, count in self.runs if uuid == "a"]

    def parked(self) -> list[str | None]:
        return [uuid for uuid, _ in self.parked_counts()]

    def parked_counts(self) -> list[tuple[str | None, int]]:
        found = drive(self._store.parking.list(trigger=self.destination))
        return [(one.uuid, one.message.delivery_count if one.message else 0) for one in found]


def stays(shop: Shop, *runs: str) -> None:
    """Watch for a while that no other messages run."""
    deadline = time.monotonic() + WATCHED
    while time.monotonic() < deadline:
        assert shop.ran == list(runs)
        time.sleep(0.05)


def kind_of(running: Running) -> Suspension | None:
    return running.gates[0].suspension


class Row:
    """One row of the table on one provider: how the trigger is suspended, and what resumes it."""

    def __init__(self, shop: Shop, terms: Terms, network: Network, history: str, *, transacted: bool) -> None:
        self.shop, self.terms, self._transacted = shop, terms, transacted
        self._network, self._history = network, network.url(history)
        self._available: list[bool] = [] if Waker.MONITOR in terms.wakers else [True]

    def consumer(self) -> Running:
        return self.shop.consumer(self._history, **self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the trigger. Wakers that must not resume it always say yes."""
        settings: dict[str, Any] = {"transacted": self._transacted, "monitor_interval": SOON}
        if self.terms.monitor is not False:
            settings["monitor"] = lambda: bool(self._available)
        if self.terms.kind is Suspension.FATAL:
            settings["suspend_on_error"] = True
        if self.terms.kind is Suspension.RESOURCE:
            how = (
                {"on_rollback": "suspend_and_recover"}
                if self._transacted
                else {"on_retry_failure": "suspend"}
            )
            settings |= how
        return settings

    def suspend(self, running: Sequence[Running]) -> None:
        """Suspend the trigger in these consumers. Other messages wait behind the cause."""
        shop, kind = self.shop, self.terms.kind
        if kind is Suspension.COMMAND:
            shop.order(Verb.SUSPEND)
            eventually(lambda: all(kind_of(one) is kind for one in running))
            stays(shop, "0")  # longer than a call that waits for messages, which would give them back
            eventually(lambda: not shop.is_pushed or shop.pushed_to() == 0)
            shop.send("a")
        elif kind is Suspension.FATAL:
            shop.failures = [FatalError("no such customer")]
            shop.send("a")
        else:
            if kind is Suspension.HISTORY:
                self._network.take_down()
            shop.failures = [TransientError("away")] if kind is Suspension.RESOURCE else []
            shop.send("a", "b", "c")
        eventually(lambda: all(kind_of(one) is kind for one in running))
        if kind in {Suspension.COMMAND, Suspension.FATAL}:
            shop.send("b", "c")
        if Waker.HISTORY in self.terms.wakers:
            self._network.take_down()

    @property
    def wakers(self) -> Sequence[Waker]:
        """The parties that must agree; in the other order if the trigger is transacted."""
        return self.terms.wakers[::-1] if self._transacted else self.terms.wakers

    def agree(self, waker: Waker) -> None:
        match waker:
            case Waker.HISTORY:
                self._network.bring_up()
            case Waker.MONITOR:
                self._available.append(True)
            case Waker.PERSON:
                self.shop.order(Verb.RESUME)

    @property
    def ran_before(self) -> list[str]:
        return ["0", "a"] if self.terms.kind in {Suspension.RESOURCE, Suspension.FATAL} else ["0"]

    @property
    def ran_after(self) -> list[str]:
        """The messages that have run at the end, in the order of the destination."""
        again = ["a"] if self.terms.fate in {MessageFate.AGAIN, MessageFate.NONE} else []
        return [*self.ran_before, *again, "b", "c"]

    def is_over(self) -> bool:
        return sorted(self.shop.ran) == self.ran_after


def every_row() -> Iterator[Any]:
    """Each row. A transient failure has two causes: one for transacted triggers, and one for the others."""
    for terms in TERMS:
        causes = (False, True) if terms.kind is Suspension.RESOURCE else (bool(terms.transacted),)
        for transacted in causes:
            name = f"{terms.kind.value}{'-monitor' * bool(terms.monitor)}{'-transacted' * transacted}"
            yield pytest.param(terms, transacted, id=name)
