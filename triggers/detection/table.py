"""The decision table of duplicate detection: pure, complete, and the source for its documentation.

:data:`ROWS` is the table; :func:`decide` finds the first row that fits. :mod:`triggers.detection.aftermath`
defines what the service's end means for the entry and the provider. This module has no clock, no I/O and no
logging. Sources: the webMethods trigger's three steps (delivery count, document history, resolver) and its
notes on transacted triggers. The project's design settles what these sources leave open.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Literal

from history.identity import UNDEFINED_COUNT
from resolvers.resolution import Resolution
from triggers.detection.causes import Cause
from triggers.detection.facts import Count as Count  # noqa: PLC0414  (so checkers see it exported)
from triggers.detection.facts import Found as Found  # noqa: PLC0414  (as above)
from triggers.detection.facts import HistoryUse as HistoryUse  # noqa: PLC0414  (as above)
from triggers.detection.facts import Known as Known  # noqa: PLC0414  (as above)
from triggers.detection.facts import Word as Word  # noqa: PLC0414  (as above)
from triggers.detection.suspension import Suspension


class Status(StrEnum):
    """The verdict on a message."""

    __module__ = "triggers"

    NEW = "NEW"
    DUPLICATE = "DUPLICATE"
    IN_DOUBT = "IN_DOUBT"


class Answer(StrEnum):
    """The answer to the provider."""

    ACKNOWLEDGE = "acknowledge"
    RECOVER = "recover"
    RECOVER_LATER = "recover after a delay"


InDoubtPolicy = Literal["park", "execute", "acknowledge"]
FailurePolicy = Literal["throw", "suspend"]
HistoryErrorPolicy = Literal["suspend", "resolve"]
RollbackPolicy = Literal["recover", "suspend_and_recover"]
ForgottenPolicy = Literal["new", "in_doubt"]
ResolvedDuplicatePolicy = Literal["complete", "leave"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of a trigger that the table depends on."""

    max_delivery_count: int = 100
    detect_duplicates: bool = True
    transacted: bool = False
    in_doubt: InDoubtPolicy = "park"
    on_retry_failure: FailurePolicy = "throw"
    on_history_error: HistoryErrorPolicy = "suspend"
    suspend_on_error: bool = False
    forgotten: ForgottenPolicy = "new"

    def __hash__(self) -> int:
        """Return a number of two fields: there are few policies, and every message looks one up."""
        return self.max_delivery_count * 2 + self.transacted


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about one delivery. ``ask`` means: ask the resolver, then decide again.

    ``index`` is the place of the deciding row in :data:`ROWS`; ``row`` is its number. ``cause`` is the cause
    of the event, if there is an event.
    """

    row: int
    index: int
    status: Status | None
    runs: bool = False
    answer: Answer = Answer.ACKNOWLEDGE
    park: bool = False
    cause: Cause | None = None
    suspension: Suspension | None = None
    rejected: bool = False
    ask: bool = False

    def __hash__(self) -> int:
        """Return the place of its row: few decisions share it, and every message looks one up."""
        return self.index

    @property
    def event(self) -> bool:
        """Whether the retrieval failure event is raised."""
        return self.cause is not None

    @property
    def suspend(self) -> bool:
        """Whether the trigger is suspended."""
        return self.suspension is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row of the table: which deliveries it is for, and what happens to them.

    None in a condition means any. ``as_resolver`` rows take their status from the resolver's answer and run
    the service only for NEW. Rows that raise the event have its ``cause``; rows that suspend the trigger have
    the kind of ``suspension``.
    """

    number: int
    counts: frozenset[Count] | None = None
    identified: bool | None = None
    history: frozenset[HistoryUse] | None = None
    found: frozenset[Found] | None = None
    words: frozenset[Word] | None = None
    policy: tuple[tuple[str, object], ...] = ()
    status: Status | None = None
    as_resolver: bool = False
    runs: bool = False
    answer: Answer = Answer.ACKNOWLEDGE
    park: bool = False
    cause: Cause | None = None
    suspension: Suspension | None = None
    rejected: bool = False

    @property
    def event(self) -> bool:
        """Whether the retrieval failure event is raised."""
        return self.cause is not None

    @property
    def suspend(self) -> bool:
        """Whether the trigger is suspended."""
        return self.suspension is not None

    def fits(self, facts: "Facts", policy: Policy) -> bool:
        """Whether this row is for these facts."""
        return (
            (self.counts is None or facts.count in self.counts)
            and (self.identified is None or facts.identified is self.identified)
            and (self.history is None or facts.history in self.history)
            and (self.found is None or facts.found in self.found)
            and (self.words is None or facts.word in self.words)
            and all(getattr(policy, name) == value for name, value in self.policy)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts about one delivery when it is judged."""

    count: Count
    identified: bool = True
    history: HistoryUse
    found: Found = Found.NOTHING
    word: Word = Word.NONE


_OVER = frozenset({Count.OVER})
_FIRST = frozenset({Count.FIRST})
_AGAIN = frozenset({Count.AGAIN})
_UNDEFINED = frozenset({Count.UNDEFINED})
_OFF = frozenset({HistoryUse.OFF})
_ON = frozenset({HistoryUse.ON})
_UNREACHABLE = frozenset({HistoryUse.UNREACHABLE})
_USED = frozenset({HistoryUse.ON, HistoryUse.UNREACHABLE})
_NO_WORD = frozenset({Word.NONE})
_ASKED = frozenset({Word.NOT_ASKED, Word.NEW, Word.DUPLICATE, Word.IN_DOUBT})
_TRANSIENT = frozenset({Word.TRANSIENT})
_BROKEN = frozenset({Word.BROKEN})
_STARTED = frozenset({Found.STARTED})
_FORGOTTEN = frozenset({Found.FORGOTTEN})
_RESOLVE = (("on_history_error", "resolve"),)

#: The table; its rows are tried in this order. Row 0 is for detection that is switched off.
ROWS: tuple[TableRow, ...] = (
    TableRow(number=1, counts=_OVER, rejected=True, park=True, cause=Cause.MAX_DELIVERY_COUNT),
    TableRow(number=0, policy=(("detect_duplicates", False),), status=Status.NEW, runs=True),
    TableRow(number=19, identified=False, history=_USED, rejected=True, park=True, cause=Cause.NO_IDENTITY),
    TableRow(number=2, counts=_FIRST, history=_OFF, status=Status.NEW, runs=True),
    # A message that was rolled back comes and runs again, until it was delivered too often: see the second
    # table.
    TableRow(
        number=22,
        counts=_AGAIN,
        history=_OFF,
        words=_NO_WORD,
        policy=(("transacted", True),),
        status=Status.NEW,
        runs=True,
    ),
    TableRow(number=3, counts=_AGAIN, history=_OFF, words=_NO_WORD, status=Status.IN_DOUBT, park=True),
    TableRow(number=4, counts=_AGAIN, history=_OFF, words=_ASKED, as_resolver=True),
    TableRow(number=5, counts=_UNDEFINED, history=_OFF, words=_NO_WORD, status=Status.NEW, runs=True),
    TableRow(number=6, counts=_UNDEFINED, history=_OFF, words=_ASKED, as_resolver=True),
    # Comes before the rows for entries: the entry belongs to the body that came first.
    TableRow(
        number=23,
        history=_ON,
        found=frozenset({Found.OTHER_BODY}),
        rejected=True,
        park=True,
        cause=Cause.OTHER_BODY,
    ),
    TableRow(number=7, history=_ON, found=frozenset({Found.NOTHING}), status=Status.NEW, runs=True),
    TableRow(number=8, history=_ON, found=frozenset({Found.COMPLETED_OK}), status=Status.DUPLICATE),
    TableRow(
        number=9,
        history=_ON,
        found=frozenset({Found.COMPLETED_FAILED}),
        policy=(("transacted", True),),
        rejected=True,
        park=True,
        cause=Cause.FAILED_BEFORE,
    ),
    # A plain trigger's failed message was acknowledged and parked with its event already.
    TableRow(
        number=24,
        history=_ON,
        found=frozenset({Found.COMPLETED_FAILED}),
        policy=(("transacted", False),),
        status=Status.DUPLICATE,
    ),
    TableRow(number=10, history=_ON, found=_STARTED, words=_NO_WORD, status=Status.IN_DOUBT, park=True),
    TableRow(number=11, history=_ON, found=_STARTED, words=_ASKED, as_resolver=True),
    TableRow(number=12, history=_ON, found=frozenset({Found.IN_PROGRESS}), answer=Answer.RECOVER_LATER),
    TableRow(
        number=13,
        history=_UNREACHABLE,
        policy=(("on_history_error", "suspend"),),
        answer=Answer.RECOVER,
        suspension=Suspension.HISTORY,
    ),
    TableRow(
        number=14,
        history=_UNREACHABLE,
        words=_NO_WORD,
        policy=_RESOLVE,
        status=Status.IN_DOUBT,
        park=True,
        cause=Cause.HISTORY_UNAVAILABLE,
    ),
    TableRow(number=15, history=_UNREACHABLE, words=_ASKED, policy=_RESOLVE, as_resolver=True),
    TableRow(
        number=16,
        words=_TRANSIENT,
        policy=(("on_retry_failure", "suspend"),),
        answer=Answer.RECOVER,
        suspension=Suspension.RESOURCE,
    ),
    TableRow(
        number=17,
        words=_TRANSIENT,
        policy=(("on_retry_failure", "throw"),),
        status=Status.IN_DOUBT,
        park=True,
        cause=Cause.RESOLVER_UNAVAILABLE,
    ),
    TableRow(number=18, words=_BROKEN, status=Status.IN_DOUBT, park=True, cause=Cause.RESOLVER_FAILED),
    TableRow(number=20, history=_ON, found=_FORGOTTEN, words=_NO_WORD, status=Status.IN_DOUBT, park=True),
    TableRow(number=21, history=_ON, found=_FORGOTTEN, words=_ASKED, as_resolver=True),
)

#: The number of the row for a message that is running elsewhere.
IN_PROGRESS = next(row.number for row in ROWS if row.answer is Answer.RECOVER_LATER)

#: The resolver's answer as the table's word for it.
RESOLUTION_WORDS = {
    Resolution.NEW: Word.NEW,
    Resolution.DUPLICATE: Word.DUPLICATE,
    Resolution.IN_DOUBT: Word.IN_DOUBT,
}

_WORD_STATUS = {Word.NEW: Status.NEW, Word.DUPLICATE: Status.DUPLICATE, Word.IN_DOUBT: Status.IN_DOUBT}


def classify_count(delivery_count: int, max_delivery_count: int) -> Count:
    """Classify a delivery count. An undefined count is never over the limit."""
    if delivery_count == UNDEFINED_COUNT:
        return Count.UNDEFINED
    if delivery_count > max_delivery_count:
        return Count.OVER
    return Count.FIRST if delivery_count == 1 else Count.AGAIN


@cache
def decide(facts: Facts, policy: Policy) -> Decision:
    """Return the decision about a delivery: the first row of :data:`ROWS` that fits, under ``in_doubt``."""
    index, row = next((index, row) for index, row in enumerate(ROWS) if row.fits(facts, policy))
    if row.as_resolver and facts.word is Word.NOT_ASKED:
        return Decision(row=row.number, index=index, status=None, ask=True)
    status = _WORD_STATUS[facts.word] if row.as_resolver else row.status
    in_doubt = status is Status.IN_DOUBT
    return Decision(
        row=row.number,
        index=index,
        status=status,
        runs=row.runs
        or (row.as_resolver and status is Status.NEW)
        or (in_doubt and policy.in_doubt == "execute"),
        answer=row.answer,
        park=policy.in_doubt == "park" if in_doubt else row.park,
        cause=row.cause,
        suspension=row.suspension,
        rejected=row.rejected,
    )
