"""Commands to running consumers (:class:`Order`), and their reports: states and statistics.

A consumer beats about once a second. One beat is one call of the store. It writes the consumer's report on
each of its triggers, adds the new counts to the statistics, and returns the commands that are in force.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from history.store.texts import EncodableText

#: A consumer that has been silent for longer counts as gone.
GONE_AFTER = timedelta(seconds=15)

#: After which silence a consumer counts as lost: it beats each second, and says when it leaves.
LOST_AFTER = timedelta(seconds=6)

#: For how long a lost consumer is shown, if no other consumer deletes its last report before.
LOST_FOR = timedelta(days=1)

#: A consumer's reports are deleted when it has been silent for longer. After half of this time it beats under
#: a new token, so that its counts are never compared with deleted counts.
FORGOTTEN_AFTER = timedelta(minutes=10)


class Verb(StrEnum):
    """The action that a command demands.

    A consumer sends HOLD to the others after a failure that suspends the trigger until a person resumes it
    (``suspend_on_error``).
    """

    SUSPEND = "suspend"
    HOLD = "hold"
    RESUME = "resume"
    DISABLE = "disable"
    ENABLE = "enable"

    @property
    def lasts(self) -> bool:
        """Whether only enabling or disabling replaces it; the other commands replace each other."""
        return self in {Verb.DISABLE, Verb.ENABLE}

    @property
    def binds_later(self) -> bool:
        """Whether consumers that start later also obey it."""
        return self.lasts or self is Verb.HOLD


class TriggerState(StrEnum):
    """Whether a consumer receives for a trigger.

    SUSPENDED: it is connected but receives nothing; a restart ends this, unless a fatal failure began it.
    DISABLED: it is not even connected, until somebody enables it.
    """

    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    DISABLED = "DISABLED"


class Order(BaseModel):
    """A command to the consumers of a trigger.

    Two are in force: the last command that lasts, and the last other command. ``number`` grows with every
    command, and ``given_at`` is the store's time.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    trigger: str
    verb: Verb
    number: int
    given_at: AwareDatetime
    reason: EncodableText | None = None


class Counts(BaseModel):
    """How often each event happened, and for how long the service ran.

    ``new``, ``duplicate`` and ``in_doubt`` count verdicts; ``rejected`` and ``unreadable`` count messages
    without a verdict. ``failed``: the service's last run failed. ``recovered``: given back to the provider.
    ``runs`` counts every run of the service, ``retried`` the second and later runs of a delivery.
    ``refused`` counts acknowledgements that the provider did not accept.
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
        """Return the counts that are not zero, by name."""
        return {name: count for name, count in self.model_dump().items() if count}


class TroubleKind(StrEnum):
    """What goes wrong in a consumer that runs."""

    FAILING = "messages fail"
    HANGING = "a call does not end"
    NOT_PARKED = "cannot park"
    PARKED_LOCALLY = "parked in a local file"


class Trouble(BaseModel):
    """Something that goes wrong in a consumer now.

    ``elapsed``: seconds since it began. ``count``: how many messages it concerns so far.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    kind: TroubleKind
    cause: EncodableText
    elapsed: float = Field(ge=0.0)
    count: int = 1


class Report(BaseModel):
    """A consumer's report on one of its triggers.

    ``elapsed``: seconds in this state; ``by_command``: a command or a call brought it there. ``obeyed``: the
    number of the last command that it followed, or did not have to follow. ``busy``: how many deliveries, or
    batches of them, are being processed. ``counts`` are those since the consumer's start. While the provider
    does not answer, ``away`` is its error, and ``away_for`` the number of seconds so far. ``troubles``: what
    else goes wrong now. ``leaving``: this is the consumer's last report.

    ``consumes`` is False for a guard and for Spark: they only report counts, and obey no command.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    consumer: EncodableText
    trigger: str
    state: TriggerState = TriggerState.RUNNING
    reason: EncodableText | None = None
    by_command: bool = False
    elapsed: float = Field(default=0.0, ge=0.0)
    obeyed: int = 0
    busy: int = 0
    counts: Counts = Counts()
    away: EncodableText | None = None
    away_for: float = Field(default=0.0, ge=0.0)
    troubles: tuple[Trouble, ...] = ()
    leaving: bool = False
    consumes: bool = True


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to a beat: the store's time, and the commands in force for the reported triggers."""

    now: datetime
    orders: Sequence[Order]


@dataclass(frozen=True, slots=True)
class Beat:
    """The last report of one consumer on one trigger, and when the store received it."""

    report: Report
    beat_at: datetime

    @property
    def since(self) -> datetime:
        """When the trigger came into its state, by the store's clock."""
        return self.beat_at - timedelta(seconds=self.report.elapsed)

    @property
    def away_since(self) -> datetime | None:
        """Since when the provider has not answered, by the store's clock; None while it answers."""
        return None if self.report.away is None else self.beat_at - timedelta(seconds=self.report.away_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything known: the running consumers, the commands in force, and the statistics by trigger.

    ``reported`` names the triggers that a consumer has ever reported on, whether it still runs or not. Guards
    and Spark report only counts, so their triggers are not among them. ``lost`` are the last reports of
    consumers that went without a goodbye.
    """

    now: datetime
    beats: Sequence[Beat]
    orders: Sequence[Order]
    statistics: Mapping[str, Counts]
    reported: Collection[str] = frozenset()
    lost: Sequence[Beat] = ()

    def triggers(self) -> list[str]:
        """Name the known triggers, sorted."""
        named = {beat.report.trigger for beat in (*self.beats, *self.lost)}
        named |= {order.trigger for order in self.orders}
        return sorted(named | self.statistics.keys())

    def running(self, trigger: str) -> list[Beat]:
        """Return the reports of a trigger's consumers, without the lost ones."""
        lost = {(beat.report.consumer, beat.beat_at) for beat in self.lost if beat.report.trigger == trigger}
        return [
            beat
            for beat in self.beats
            if beat.report.trigger == trigger and (beat.report.consumer, beat.beat_at) not in lost
        ]

    def disabled(self, trigger: str) -> Order | None:
        """Return the command that disables a trigger; None if it is not disabled."""
        return _standing(self.orders, trigger, Verb.DISABLE)

    def held(self, trigger: str) -> Order | None:
        """Return the command that holds a trigger until a person resumes it; None if it is not held."""
        return standing_hold(self.orders, trigger)

    def had_consumer(self, trigger: str) -> bool:
        """Whether a consumer has ever run a trigger; guards and Spark use triggers without a consumer."""
        return trigger in self.reported


def standing_hold(orders: Sequence[Order], trigger: str) -> Order | None:
    """Return the command among these that holds a trigger; None if it is not held, or was enabled since."""
    hold, enabled = _standing(orders, trigger, Verb.HOLD), _standing(orders, trigger, Verb.ENABLE)
    return None if hold and enabled and enabled.number > hold.number else hold


def _standing(orders: Sequence[Order], trigger: str, verb: Verb) -> Order | None:
    return next((order for order in orders if order.trigger == trigger and order.verb is verb), None)
