"""Counts and groups of parked messages, made beside the pages: none waits for a hundred thousand labels.

A survey walks through the labels of all parked messages, never through the messages, and keeps the fields of
each that a list shows. It is repeated while somebody looks, with pauses several times as long as it takes;
for scrapes with much longer pauses.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from threading import Condition, Thread

from history.bridge import drive
from history.errors import DoubtlessError
from history.store import HistoryStats, HistoryStore
from history.store.inspection import size_of
from history.store.parking import ParkedLabel
from history.support.rendering import text_of
from triggers.dashboard.groups import Counting, Group
from triggers.operations.choosing import Selection, walk

_log = logging.getLogger(__name__)

#: How long a page waits for the first survey, in seconds.
PATIENCE = 0.15

#: After how many labels a survey lets the pages have their turn, and for how long, in seconds.
STEP, BREATH = 100, 0.005

#: The shortest pause between surveys, in seconds; and how many times as long as a survey it is at least.
PAUSE, TIMES = 3.0, 4.0

#: How long after the last look surveys go on, in seconds.
INTEREST = 60.0

#: The shortest age at which a scrape requests another survey, in seconds; and how many times as long as the
#: last survey took it is at least.
SCRAPED, TIMES_SCRAPED = 60.0, 50.0


@dataclass(frozen=True, slots=True)
class Survey:
    """The parked messages at one time, and the number of entries of each trigger.

    Every message is in one of ``groups``, which are by cause. If its host is known, it is also in one of
    ``hosts``. The largest groups are first.
    """

    groups: Sequence[Group] = ()
    hosts: Sequence[Group] = ()
    sizes: Mapping[str, HistoryStats] | None = None
    made_at: float | None = None

    @property
    def count(self) -> int:
        """How many messages are parked."""
        return sum(group.count for group in self.groups)

    @property
    def oldest(self) -> datetime | None:
        """When the oldest of them was parked."""
        return min((group.oldest for group in self.groups), default=None)

    def group(self, key: str | None) -> Group | None:
        """Return a group by its key."""
        return next((group for group in chain(self.groups, self.hosts) if group.key == key), None)

    def counts(self) -> dict[str, int]:
        """Return how many messages of each trigger are parked."""
        counts: dict[str, int] = {}
        for group in self.groups:
            counts[group.trigger] = counts.get(group.trigger, 0) + group.count
        return counts


class Surveyor:
    """Makes surveys while somebody looks: in a thread, or with ``background=False`` at each look."""

    def __init__(
        self,
        store: HistoryStore,
        *,
        background: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._clock = store, clock
        self._background = background
        self._latest = Survey()
        self._looked_at = clock() - INTEREST
        self._gone: set[tuple[str, str]] = set()
        self._condition = Condition()
        self._thread: Thread | None = None
        self._closed = self._waited = self._wanted = self._making = False
        self._took = 0.0
        self._failed: DoubtlessError | None = None

    def latest(self) -> Survey:
        """Return the last survey; if it is missing or old, the first caller waits a moment.

        Raises:
            DoubtlessError: the history did not answer, and no earlier survey exists.
        """
        if not self._background:
            self._put(self._make(lambda: False), self._clock())
            return self._latest
        with self._condition:
            self._looked_at = self._clock()
            self._begin()
            before = self._latest.made_at
            if not self._waited and (before is None or self._clock() - before > INTEREST):
                self._waited = True
                self._condition.wait_for(lambda: self._latest.made_at != before, PATIENCE)
            if self._latest.made_at is None and self._failed is not None:
                raise self._failed
            return self._latest

    def scraped(self) -> Survey:
        """Return the last survey for a scrape, which never waits and sometimes requests another."""
        if not self._background:
            return self.latest()
        with self._condition:
            made_at = self._latest.made_at
            due = None if made_at is None else made_at + max(SCRAPED, TIMES_SCRAPED * self._took)
            if not self._making and (due is None or self._clock() >= due):
                self._wanted = True
                self._begin()
            return self._latest

    def _begin(self) -> None:
        """Start the thread, or have it check whether there is something to do."""
        if self._thread is None and not self._closed:
            self._thread = Thread(target=self._run, name="survey", daemon=True)
            self._thread.start()
        self._condition.notify_all()

    @property
    def fails(self) -> bool:
        """Whether the last attempt failed, so that what is shown is older than it should be."""
        return self._failed is not None

    @property
    def sizes(self) -> Mapping[str, HistoryStats]:
        """How much each trigger remembered at the last survey, as far as it is known."""
        return self._latest.sizes or {}

    def take_out(self, labels: Sequence[ParkedLabel]) -> None:
        """Hide decided messages until the next survey finds them gone."""
        with self._condition:
            gone = {(label.trigger_name, label.id) for label in labels}
            self._gone |= gone
            self._latest = _without(self._latest, gone)

    def close(self) -> None:
        """End the thread; a survey in progress is abandoned."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed:
            began = self._clock()
            with self._condition:
                self._gone.clear()
                self._wanted, self._making = False, True
            try:
                self._put(self._make(lambda: self._closed), began)
            except Exception as error:  # noqa: BLE001  (any error of a store: the next one may succeed)
                self._failed = error if isinstance(error, DoubtlessError) else None
                self._took = self._clock() - began
                _log.warning("parked messages were not counted, which is tried again: %s", text_of(error))
            with self._condition:
                self._making = False
                self._condition.wait_for(lambda: self._closed, max(PAUSE, TIMES * self._took))
                self._condition.wait_for(lambda: self._closed or self._is_asked_for())

    def _is_asked_for(self) -> bool:
        """Whether somebody looks, or a scrape wants another survey."""
        return self._wanted or self._clock() - self._looked_at < INTEREST

    def _put(self, survey: Survey, began: float) -> None:
        with self._condition:
            if not self._closed:
                self._latest = _without(survey, self._gone) if self._background else survey
                self._failed, self._waited, self._took = None, False, (survey.made_at or began) - began
            self._condition.notify_all()

    def _make(self, ended: Callable[[], bool]) -> Survey:
        counting, seen = Counting(self._rest), 0
        for label in walk(self._store.parking, Selection()):
            if ended():
                return Survey()
            seen += counting.add(label)
            if seen % STEP == 0:
                self._rest()
        sizes = {name: drive(size_of(self._store, name)) for name in drive(self._store.triggers())}
        return Survey(counting.by_cause(), counting.by_host(), sizes, self._clock())

    def _rest(self) -> None:
        """Let the pages have their turn."""
        if self._background:
            time.sleep(BREATH)


def _without(survey: Survey, gone: Collection[tuple[str, str]]) -> Survey:
    if not gone:
        return survey
    return replace(survey, groups=_left(survey.groups, gone), hosts=_left(survey.hosts, gone))


def _left(groups: Sequence[Group], gone: Collection[tuple[str, str]]) -> list[Group]:
    left = map(partial(_left_of, gone=gone), groups)
    return [group for group in left if group is not None]


def _left_of(group: Group, gone: Collection[tuple[str, str]]) -> Group | None:
    ids = {id_ for trigger, id_ in gone if trigger == group.trigger}
    return group.without(ids) if ids else group
