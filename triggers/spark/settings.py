"""The settings of ``foreach_batch``: plain values that travel to the executors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Literal, Self, cast

from history.errors import ConfigurationError
from history.opening import refuse_unknown_scheme
from history.support.urls import guarded, is_of_one_process
from resolvers.bulk import AskedInBulk, BulkResolver, asking_in_bulk
from resolvers.resolution import Resolver
from triggers.service.checking import (
    check_choice,
    check_duration,
    check_plain,
    check_text,
    check_utf8,
    check_whole,
)
from triggers.service.failures import Retry
from triggers.service.options import CommonOptions
from triggers.service.settings import TRIGGER_DEFAULTS, Settings
from triggers.spark.batch_info import BatchInfo, BatchReport

#: The treatment of rows that an earlier run of the same batch had handed to the user's function.
ReplayPolicy = Literal["in_doubt", "execute"]

#: The treatment of a batch after its function failed fatally.
FatalPolicy = Literal["raise", "reject"]

#: The treatment of a query after its checkpoint was reset.
ResetPolicy = Literal["warn", "raise"]

#: Where Spark keeps the rows of a batch while it is processed; "none" keeps none.
StorageChoice = Literal["memory_and_disk", "disk_only", "off_heap", "none"]

#: The value of ``fingerprint=`` that compares the body.
BODY = "body"

#: The default for how long the history may be unavailable before a batch fails.
DEFAULT_PATIENCE = timedelta(minutes=1)

#: The default for the most rows of one transaction.
DEFAULT_ROWS_PER_TRANSACTION = 10_000


class StreamOptions(CommonOptions, total=False):
    """The options that ``foreach_batch`` and ``atomic_sink`` have in common."""

    message_id: str | None
    delivery_count: str | None
    body: str | None
    fingerprint: str | Sequence[str] | None
    query: str | None
    reprocess: str | None
    on_fatal: FatalPolicy
    on_reset: ResetPolicy
    patience: timedelta
    partitions: int | None
    on_batch: Callable[[BatchReport], Any] | None


class BatchOptions(StreamOptions, total=False):
    """The options of ``foreach_batch``, except the required ones."""

    resolver: BulkResolver | str | None
    on_replay: ReplayPolicy | BulkResolver
    committed: Callable[[BatchInfo], bool] | None
    lease: timedelta | None
    retry: Retry | None
    parking: str | None
    parked_to: Callable[[Any, int], None] | None
    claims: int | None
    storage: StorageChoice


class SinkOptions(StreamOptions, total=False):
    """The options of ``atomic_sink``, except the required ones. Nobody sees its claims: no lease."""

    resolver: Resolver | str | None
    rows_per_transaction: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The meaning of a stream's columns; each except the first may be None, without such a column."""

    uuid: str
    message_id: str | None = None
    delivery_count: str | None = None
    body: str | None = None
    #: Which columns are compared, or :data:`BODY`; None compares nothing.
    fingerprint: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for setting, value in self._named():
            if value is not None or setting == "uuid":
                check_text(setting, value, "name a column of the stream")

    def _named(self) -> Sequence[tuple[str, str | None]]:
        """Return each column that a setting names, after the name of the setting."""
        compared = self.fingerprint if isinstance(self.fingerprint, tuple) else ()
        roles = ("uuid", "message_id", "delivery_count", "body")
        return [
            *((role, getattr(self, role)) for role in roles),
            *(("fingerprint", name) for name in compared),
        ]

    def check(self, there: list[str]) -> None:
        """Refuse a stream that lacks a column.

        Raises:
            ConfigurationError: naming the first missing column.
        """
        for setting, named in self._named():
            if named is not None and named not in there:
                raise ConfigurationError(
                    setting,
                    f"the stream has no column {named!r}; it has {', '.join(there) or 'none'}",
                    _remedy_for_missing(named, there),
                )
        if self.fingerprint == BODY and BODY in there and self.body != BODY:
            what = "the whole row" if self.body is None else f"the column {self.body!r}"
            raise ConfigurationError(
                "fingerprint",
                f"'body' compares {what}, which is the body here, and the stream has a column 'body', too",
                "say body='body', or fingerprint=['body'] for that column alone",
            )


def _remedy_for_missing(named: str, there: Sequence[str]) -> str:
    spelled = [name for name in there if name.lower() == named.lower()]
    if spelled:  # which withColumn would replace
        return f"name it as the stream does: {spelled[0]!r}"
    struct, dot, field = named.partition(".")
    if dot and struct in there:
        last = field.rpartition(".")[2]
        return f"give its field a column: withColumn({last!r}, F.col({named!r})), and name {last!r}"
    return f"add it with withColumn({named!r}, ...), or name another one"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """The settings of one ``foreach_batch``. ``trigger`` holds the settings that every trigger has."""

    trigger: Settings
    columns: Columns
    history: str = field(repr=False)  # this URL may have a password, like the URL of the parking lot
    resolver: AskedInBulk | None = None
    on_replay: ReplayPolicy | AskedInBulk = "in_doubt"
    committed: Callable[[BatchInfo], bool] | None = None
    on_fatal: FatalPolicy = "raise"
    on_reset: ResetPolicy = "warn"
    patience: timedelta = DEFAULT_PATIENCE
    parking: str | None = field(default=None, repr=False)
    parked_to: Callable[[Any, int], None] | None = None
    query: str | None = None
    reprocess: str | None = None
    partitions: int | None = None
    claims: int | None = None
    storage: StorageChoice = "memory_and_disk"
    on_batch: Callable[[BatchReport], Any] | None = None

    @classmethod
    def of(
        cls, destination: str, options: BatchOptions | SinkOptions, service: Any, *, uuid: str, history: str
    ) -> Self:
        """Return the settings for a user's options; an option that is left out has its default here.

        ``resolver`` is left to the caller: ``foreach_batch`` calls it in bulk, ``atomic_sink`` does not.
        ``service`` gives the default name.

        Raises:
            ConfigurationError: naming what is wrong and the remedy.
        """
        chosen: Mapping[str, Any] = cast("Any", options)
        settings = {name: chosen[name] for name in chosen if name in _OWN_OPTIONS}
        if "on_replay" in settings:
            settings["on_replay"] = _replay_policy(settings["on_replay"])
        _check_replay(settings)
        columns = {name: chosen[name] for name in chosen if name in _COLUMN_OPTIONS}
        shared = {name: chosen[name] for name in chosen if name in _TRIGGER_OPTIONS}
        return cls(
            trigger=_generation(Settings.of([destination], shared, service), settings.get("reprocess")),
            columns=Columns(uuid=uuid, **columns, fingerprint=_compared(chosen.get("fingerprint"))),
            history=history,
            **settings,
        )

    def __post_init__(self) -> None:
        if not isinstance(self.on_replay, AskedInBulk):
            check_choice("on_replay", self.on_replay, ReplayPolicy)
        if self.committed is not None:
            check_plain(
                "committed", self.committed, "a BatchInfo", remedy="give a function of (batch: BatchInfo)"
            )
        check_choice("on_fatal", self.on_fatal, FatalPolicy)
        check_choice("on_reset", self.on_reset, ResetPolicy)
        check_url("history", self.history)
        check_duration("patience", self.patience)
        if self.parked_to is not None:
            remedy = "give a function of (rows, batch_id)"
            check_plain("parked_to", self.parked_to, "rows", "the number of a batch", remedy=remedy)
        if self.query is not None:
            check_text("query", self.query, "give the query's name")
            check_utf8("query", self.query)
        if self.parking is not None:
            check_url("parking", self.parking)
        check_choice("storage", self.storage, StorageChoice)
        if self.on_batch is not None:
            check_plain("on_batch", self.on_batch, "a BatchReport", remedy="give a function of a BatchReport")
        for setting, number in (("partitions", self.partitions), ("claims", self.claims)):
            if number is not None:
                check_whole(setting, number, 1)

    @property
    def name(self) -> str:
        """The namespace in the history."""
        return self.trigger.name

    @property
    def shipped(self) -> "BatchSettings":
        """The part that travels to the executors: nothing that only the driver can use."""
        replays = self.on_replay.shipped if isinstance(self.on_replay, AskedInBulk) else self.on_replay
        resolver = None if self.resolver is None else self.resolver.shipped
        driver: dict[str, Any] = {"parked_to": None, "on_batch": None, "committed": None}
        return replace(self, resolver=resolver, on_replay=replays, **driver)

    @property
    def replay_resolver(self) -> AskedInBulk | None:
        """The resolver for rows that an earlier run of the batch may have processed."""
        return self.on_replay if isinstance(self.on_replay, AskedInBulk) else self.resolver


#: The groups of options: for columns, for every trigger, and for a batch.
_COLUMN_OPTIONS = frozenset({"message_id", "delivery_count", "body"})
_COLUMNS_OPTIONS = _COLUMN_OPTIONS | {"fingerprint"}
_TRIGGER_OPTIONS = frozenset({*CommonOptions.__annotations__, "lease", "retry"})
_OWN_OPTIONS = frozenset(BatchOptions.__annotations__) - _COLUMNS_OPTIONS - _TRIGGER_OPTIONS - {"resolver"}


def _defaults_of(options: type) -> Mapping[str, Any]:
    columns = {field.name: field.default for field in fields(Columns)}
    batch = {field.name: field.default for field in fields(BatchSettings)}
    defaults = {**TRIGGER_DEFAULTS, **columns, **batch, "rows_per_transaction": DEFAULT_ROWS_PER_TRANSACTION}
    return {name: defaults[name] for name in options.__annotations__}


#: The options of ``foreach_batch`` and of ``atomic_sink``, with their defaults.
BATCH_DEFAULTS, SINK_DEFAULTS = _defaults_of(BatchOptions), _defaults_of(SinkOptions)


def _compared(option: Any) -> str | tuple[str, ...] | None:
    """Return the columns that a user wants compared."""
    if option is None:
        return None
    if option == BODY:
        return BODY
    if isinstance(option, str):
        return (option,)
    if isinstance(option, Sequence) and option:
        return tuple(cast("Sequence[str]", option))
    raise ConfigurationError(
        "fingerprint", f"{option!r:.60} names no column", "write 'body', a column, or a list of columns"
    )


def _replay_policy(option: Any) -> ReplayPolicy | AskedInBulk:
    if isinstance(option, str) and ":" not in option:
        return cast("ReplayPolicy", option)
    asked = asking_in_bulk(option) if isinstance(option, str) or callable(option) else None
    if asked is None:
        raise ConfigurationError(
            "on_replay", f"{option!r:.60} is unknown", "use 'in_doubt', 'execute' or a resolver"
        )
    return asked


def _generation(trigger: Settings, reprocess: Any) -> Settings:
    """Return the settings under the name of a generation, if rows are to be processed again."""
    if reprocess is None:
        return trigger
    check_text("reprocess", reprocess, "say why, such as '2026-11 refill', or leave it out")
    return replace(trigger, name=f"{trigger.name}/{reprocess}")


def _check_replay(settings: Mapping[str, Any]) -> None:
    """Refuse two options that both decide about rows that come again."""
    if settings.get("committed") is not None and settings.get("on_replay", "in_doubt") != "in_doubt":
        raise ConfigurationError(
            "on_replay",
            "committed= decides whether the sink has the whole batch when the batch comes again",
            "leave on_replay out, or committed",
        )


def check_url(setting: str, value: Any) -> None:
    """Refuse a value that the executors cannot open by themselves.

    Raises:
        ConfigurationError: it is not a URL, or it is the memory of a process.
    """
    if value == "":
        raise ConfigurationError(setting, "is empty", "give a URL, such as redis://...")
    if not isinstance(value, str):
        raise ConfigurationError(
            setting, f"a {type(value).__qualname__} cannot travel to the executors", "give its URL"
        )
    with guarded(value, setting):
        in_memory = is_of_one_process(value)
    if in_memory:
        raise ConfigurationError(
            setting, "each executor would have a memory of its own", "use redis://... or postgresql://..."
        )
    refuse_unknown_scheme(setting, value)
