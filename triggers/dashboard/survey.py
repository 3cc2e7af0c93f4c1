"""Counts and groups of parked messages, made beside the pages: none waits for a hundred thousand labels.

Each history has a surveyor, so that none waits for another; the pages see all surveys as one.

A survey walks through the labels of all parked messages, never through the messages, and keeps the fields of
each that a list shows. It is repeated while somebody looks, with pauses several times as long as it takes;
for scrapes with much longer pauses.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import chain
from threading import Condition, Thread

from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.errors import DoubtlessError
from history.store import HistoryStats
from history.store.inspection import size_of
from history.store.parking import ParkedLabel
from history.support.rendering import text_of
from triggers.dashboard.groups import Counting, Group
from triggers.dashboard.pulse import Pulse, Source
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
class Misplaced:
    """Parked messages of a trigger in a history that is not the trigger's."""

    trigger: str
    count: int
    address: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The parked messages at one time, and the number of entries of each trigger.

    Every message is in one of ``groups``, which are by cause. If its host is known, it is also in one of
    ``hosts``. The largest groups are first. ``misplaced`` are messages that are not in these groups;
    ``counting`` are the addresses of histories that were not counted yet.
    """

    groups: Sequence[Group] = ()
    hosts: Sequence[Group] = ()
    sizes: Mapping[str, HistoryStats] | None = None
    made_at: float | None = None
    misplaced: Sequence[Misplaced] = ()
    counting: Sequence[str] = ()

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
    """Makes surveys while somebody looks: in a thread, or with ``background=False`` at each look.

    ``opened`` returns the store of a history, which stays open.
    """

    def __init__(
        self,
        opened: Callable[[], KeepsBeside],
        *,
        background: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opened, self._clock = opened, clock
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
            try:
                self._put(self._make(lambda: False), self._clock())
            except DoubtlessError as error:
                self._failed = error
                raise
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
    def counted_at(self) -> datetime | None:
        """When the last survey was made; None before the first."""
        made_at = self._latest.made_at
        return None if made_at is None else datetime.now(UTC) - timedelta(seconds=self._clock() - made_at)

    @property
    def fails(self) -> bool:
        """Whether the last attempt failed, so that what is shown is older than it should be."""
        return self._failed is not None

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
                if not self.fails:  # an outage is logged once, not at each try
                    text = text_of(error)
                    _log.warning("parked messages were not counted, which is tried again: %s", text)
                self._failed = error if isinstance(error, DoubtlessError) else None
                self._took = self._clock() - began
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
        store, counting, seen = self._opened(), Counting(self._rest), 0
        for label in walk(store.parking, Selection()):
            if ended():
                return Survey()
            seen += counting.add(label)
            if seen % STEP == 0:
                self._rest()
        sizes = {name: drive(size_of(store, name)) for name in drive(store.triggers())}
        return Survey(counting.by_cause(), counting.by_host(), sizes, self._clock())

    def _rest(self) -> None:
        """Let the pages have their turn."""
        if self._background:
            time.sleep(BREATH)


class Surveys:
    """The surveys of all histories as one; each message is counted in the history of its trigger."""

    def __init__(self, pulse: Pulse, *, background: bool = True) -> None:
        self._pulse = pulse
        self._all = [
            (source, Surveyor(partial(pulse.opened, source), background=background))
            for source in pulse.sources
        ]

    def latest(self) -> Survey:
        """Return the last surveys of the histories that have answered.

        Raises:
            DoubtlessError: no history has ever answered.
        """
        return self._joined(Surveyor.latest)

    def scraped(self) -> Survey:
        """Return the last surveys for a scrape, which never waits.

        Raises:
            DoubtlessError: the same as :meth:`latest`.
        """
        return self._joined(Surveyor.scraped)

    @property
    def fails(self) -> Sequence[Source]:
        """The histories whose last survey failed: what is shown of them is old, or nothing is."""
        return [source for source, surveyor in self._all if surveyor.fails and not source.is_twin]

    def counted_at(self, source: Source) -> datetime | None:
        """When the messages of a history were last counted; None if they never were."""
        return next((surveyor.counted_at for owner, surveyor in self._all if owner is source), None)

    def take_out(self, labels: Sequence[ParkedLabel]) -> None:
        """Leave messages out that are not parked any more."""
        lot_source_of = cache(self._pulse.lot_source_of)
        for source, surveyor in self._all:
            mine = [label for label in labels if lot_source_of(label.trigger_name) is source]
            if mine:
                surveyor.take_out(mine)

    def close(self) -> None:
        """End the threads; surveys in progress are abandoned."""
        for _, surveyor in self._all:
            surveyor.close()

    def _joined(self, look: Callable[[Surveyor], Survey]) -> Survey:
        looked: list[tuple[Source, Survey]] = []
        error: DoubtlessError | None = None
        for source, surveyor in self._all:
            try:
                survey = Survey() if source.is_twin else look(surveyor)
            except DoubtlessError as failure:
                error = error or failure
                continue
            source.parked = frozenset(group.trigger for group in survey.groups)
            looked.append((source, survey))
        answered = [pair for pair in looked if not pair[0].is_twin]
        if not answered and error is not None:
            raise error
        return _together(answered, self._pulse)


def _together(answered: Sequence[tuple[Source, Survey]], pulse: Pulse) -> Survey:
    """Return surveys of several histories as one; only the history of a trigger counts its messages."""
    source_of, lot_source_of = cache(pulse.source_of), cache(pulse.lot_source_of)

    def have(source: Source, trigger: str) -> bool:
        return lot_source_of(trigger) is source

    def in_order(of_sources: Iterable[tuple[Source, Sequence[Group]]]) -> Sequence[Group]:
        groups = (group for source, some in of_sources for group in some if have(source, group.trigger))
        return sorted(groups, key=lambda group: (-group.count, group.key))

    sizes = [(source, survey.sizes) for source, survey in answered if survey.sizes is not None]
    return Survey(
        in_order((source, survey.groups) for source, survey in answered),
        in_order((source, survey.hosts) for source, survey in answered),
        {
            name: size
            for source, counted in sizes
            for name, size in counted.items()
            if source_of(name) is source
        }
        if sizes
        else None,
        max((survey.made_at for _, survey in answered if survey.made_at is not None), default=None),
        [
            Misplaced(trigger, count, source.address)
            for source, survey in answered
            for trigger, count in survey.counts().items()
            if not have(source, trigger)
        ],
        [source.address for source, survey in answered if survey.made_at is None],
    )


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
