"""Orders that reach running consumers, and what consumers say of themselves: states and statistics.

A consumer beats about once a second. One beat is one round trip: it writes what the consumer says of each of
its triggers, adds what it counted since its last one to the statistics, and brings the orders that stand.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Protocol

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from history.store.parking import encodable

#: Text that any store can keep.
Encodable = Annotated[str, AfterValidator(encodable)]

#: A consumer that has been silent for longer counts as gone.
GONE_AFTER = timedelta(seconds=15)

#: Under this name, besides those of :class:`Counts`, stores count the consumers that reported a trigger. It
#: is no statistic: it is not cleared, and says that there was one.
REPORTED = "consumers"

#: What a consumer said is deleted when it has been silent for longer. One that was silent for half of it
#: beats under a new token, so that its counts are never compared with what is deleted.
FORGOTTEN_AFTER = timedelta(minutes=10)


class Verb(StrEnum):
    """What an order demands of a trigger.

    HOLD is what a consumer tells the others after a failure that suspends the trigger until a person resumes
    it (``suspend_on_error``).
    """

    SUSPEND = "suspend"
    HOLD = "hold"
    RESUME = "resume"
    DISABLE = "disable"
    ENABLE = "enable"

    @property
    def lasts(self) -> bool:
        """Whether it stands until a trigger is enabled or disabled; of the others, the last one stands."""
        return self in {Verb.DISABLE, Verb.ENABLE}

    @property
    def binds_later(self) -> bool:
        """Whether consumers that start later obey it, too."""
        return self.lasts or self is Verb.HOLD


class TriggerState(StrEnum):
    """Whether a consumer receives for a trigger.

    SUSPENDED: connected, but nothing is received; a restart ends it, unless a fatal failure began it.
    DISABLED: not even connected, until it is enabled.
    """

    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    DISABLED = "DISABLED"


class Order(BaseModel):
    """An order to the consumers of a trigger.

    Of the orders that last, and of those that do not, the last one stands. ``number`` grows with every order,
    and ``given_at`` is the store's time.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    trigger: str
    verb: Verb
    number: int
    given_at: AwareDatetime
    reason: Encodable | None = None


class Counts(BaseModel):
    """How often what happened, and for how long the service ran.

    ``new``, ``duplicate`` and ``in_doubt`` count verdicts, ``rejected`` and ``unreadable`` what had none.
    ``failed`` are those of which the service's last run failed, ``recovered`` those given back to the
    provider. ``runs`` counts every run of the service, ``retried`` the second and later ones of a delivery.
    ``refused`` are acknowledgements that the provider did not take.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    new: int = 0
    duplicate: int = 0
    in_doubt: int = 0
    rejected: int = 0
    unreadable: int = 0
    failed: int = 0
    recovered: int = 0
    runs: int = 0
    retried: int = 0
    refused: int = 0
    microseconds: int = 0

    @property
    def seconds(self) -> float:
        """The time in the service."""
        return self.microseconds / 1_000_000

    @property
    def mean_milliseconds(self) -> float | None:
        """The mean time of one run; None before the first."""
        return self.microseconds / 1_000 / self.runs if self.runs else None

    def __add__(self, others: "Counts") -> "Counts":
        more = others.model_dump()
        return Counts(**{name: count + more[name] for name, count in self.model_dump().items()})

    def __sub__(self, others: "Counts") -> "Counts":
        before = others.model_dump()
        return Counts(**{name: count - before[name] for name, count in self.model_dump().items()})

    def some(self) -> dict[str, int]:
        """Return what was counted at all, by name."""
        return {name: count for name, count in self.model_dump().items() if count}


class Report(BaseModel):
    """What a consumer says of one of its triggers.

    ``elapsed`` is for how many seconds it has been in this state, ``by_command`` whether an order or a call
    brought it there, ``obeyed`` the number of the last order that it followed or could leave, ``busy`` how
    many deliveries, or batches of them, are being worked on. ``counts`` are those since the consumer's start.
    ``away`` is what the provider failed with while it does not answer, ``away_for`` for how many seconds it
    has not. ``leaving`` says that this is its last word.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    consumer: Encodable
    trigger: str
    state: TriggerState = TriggerState.RUNNING
    reason: Encodable | None = None
    by_command: bool = False
    elapsed: float = Field(default=0.0, ge=0.0)
    obeyed: int = 0
    busy: int = 0
    counts: Counts = Counts()
    away: Encodable | None = None
    away_for: float = Field(default=0.0, ge=0.0)
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """What a beat brings back: the store's time and the orders that stand for the triggers reported."""

    now: datetime
    orders: Sequence[Order]


@dataclass(frozen=True, slots=True)
class Beat:
    """The last word of one consumer on one trigger, and when the store had it."""

    report: Report
    beat_at: datetime

    @property
    def since(self) -> datetime:
        """When the trigger came into its state, by the store's clock."""
        return self.beat_at - timedelta(seconds=self.report.elapsed)

    @property
    def away_since(self) -> datetime | None:
        """Since when the provider has not answered, by the store's clock; None while it does."""
        return None if self.report.away is None else self.beat_at - timedelta(seconds=self.report.away_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything known: the living consumers, the orders that stand, and the statistics by trigger.

    ``reported`` names the triggers that a consumer has ever spoken of, whether it lives or not.
    """

    now: datetime
    beats: Sequence[Beat]
    orders: Sequence[Order]
    statistics: Mapping[str, Counts]
    reported: Collection[str] = frozenset()

    def triggers(self) -> list[str]:
        """Name the triggers that something is known of, sorted."""
        named = {beat.report.trigger for beat in self.beats} | {order.trigger for order in self.orders}
        return sorted(named | self.statistics.keys())

    def disabled(self, trigger: str) -> Order | None:
        """Return the order by which a trigger is disabled; None when it is not."""
        return self._standing(trigger, Verb.DISABLE)

    def held(self, trigger: str) -> Order | None:
        """Return the order that holds a trigger until a person resumes it; None when it is not held."""
        hold, enabled = self._standing(trigger, Verb.HOLD), self._standing(trigger, Verb.ENABLE)
        return None if hold and enabled and enabled.number > hold.number else hold

    def _standing(self, trigger: str, verb: Verb) -> Order | None:
        found = [order for order in self.orders if order.trigger == trigger and order.verb is verb]
        return found[0] if found else None

    def had_consumer(self, trigger: str) -> bool:
        """Whether a consumer has ever run a trigger; guards and Spark use theirs without one."""
        return trigger in self.reported or trigger in self.statistics


class Control(Protocol):
    """Hands orders to consumers and keeps what they report; lives beside the history, as ``store.parking``.

    Every method raises :class:`~history.errors.HistoryUnavailableError` when the server does not answer.
    """

    @property
    def address(self) -> str:
        """Where it is: equal for all clients of the same server, without a password."""
        ...

    async def beat(self, token: str, reports: Sequence[Report]) -> Heard:
        """Replace what the consumer said, add what it counted since, return its orders, in one round trip.

        ``token`` is the consumer's alone and never used again. Counts are absolute, so a beat that arrives
        twice is counted once.
        """
        ...

    async def order(self, verb: Verb, triggers: Sequence[str], *, reason: str | None = None) -> int:
        """Give an order to triggers, known or not; return its number."""
        ...

    async def overview(self, *, silence: timedelta = GONE_AFTER) -> Overview:
        """Return everything known; consumers that were silent for longer than ``silence`` are left out."""
        ...

    async def clear(self, *, trigger: str | None = None) -> None:
        """Let the statistics of one trigger or of all begin again at zero."""
        ...

    async def sweep(self, *, silence: timedelta = FORGOTTEN_AFTER) -> int:
        """Delete what consumers said that have been silent for longer; return how many there were.

        The statistics keep what these consumers counted.
        """
        ...
