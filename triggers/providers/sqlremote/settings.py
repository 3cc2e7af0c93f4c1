"""The settings of the links of one database, as in a TOML file.

    database = "postgresql://user@host/database"      # where the application's tables are, and sysremoteuser

    [links.orders]
    publication = "orders"                            # what the peer gets; by default the link's name
    carrier = "file:///mnt/exchange"
    inbox = "berlin"                                  # my address on the carrier, and the peer's
    outbox = "munich"
    send = "every 00:05:00"                           # or "at 22:00" (UTC); on every run when left out
    poll = 60                                         # seconds from the end of a poll to the next
    keys = ["orders.key"]                             # files with the keys that sign; the first one signs

Durations are in seconds. Paths are relative to the file.
"""

import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from history.errors import ConfigurationError
from history.sql.links.history import ApplyErrorPolicy
from triggers.providers.sqlremote.capture.declared import Declared
from triggers.providers.sqlremote.carriers.carrier import check_address
from triggers.providers.sqlremote.protocol.inbox import SubscriberSettings
from triggers.providers.sqlremote.protocol.packet import DEFAULT_MESSAGE_SIZE
from triggers.providers.sqlremote.protocol.publisher import PublisherSettings
from triggers.providers.sqlremote.protocol.schedule import Schedule
from triggers.providers.sqlremote.protocol.sealing import Seal

#: A duration, at most a hundred years; in a file a number of seconds.
Seconds = Annotated[timedelta, Field(ge=timedelta(0), le=timedelta(days=36_525))]

#: A backup of last night, a weekend and a holiday.
DEFAULT_KEEP_LOG: Final = timedelta(days=7)


class LinkSettings(BaseModel):
    """One link, as one of its ends runs it.

    ``on_apply_error`` says what to do with a transaction that the service cannot apply: ``park`` parks it
    whole, ``skip`` counts it and continues, and ``halt`` stops the link in front of it. A trigger with its
    own history always parks it. ``direction`` limits a link to sending or receiving. ``tables`` are the ones
    that an extract copies, parents before their children, each with all its columns or, as ``customers(id,
    name)``, with some. With ``capture``, triggers publish every change of them, and changes of the peer are
    applied to them; with ``to_sender``, what was applied goes back to the peer as well. Of a table ``orders
    subscribe by rep`` the peer gets the rows whose ``rep`` is ``subscription``. ``keep_log`` is how long the
    log is kept although every peer has confirmed it. So a peer restored from a backup can get again what it
    lost. ``hooks`` names an object with the methods of
    :class:`~triggers.providers.sqlremote.agent.hooks.Hooks`.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    carrier: str
    inbox: str
    outbox: str
    publication: str = ""
    consolidated: bool = False
    send: str | None = None
    poll: Seconds = timedelta(minutes=1)
    patience: int = 1
    message_size: int = DEFAULT_MESSAGE_SIZE
    group: int = 20
    max_gap_age: Seconds = timedelta(hours=1)
    max_gap_messages: int = 200
    repeat_after: Seconds = timedelta(minutes=1)
    resend_urgency: Seconds = timedelta(0)
    probe_after: Seconds = timedelta(minutes=5)
    compression: int = Field(default=6, ge=0, le=9)
    keys: tuple[Path, ...] = ()
    on_apply_error: ApplyErrorPolicy = "park"
    direction: Literal["both", "send", "receive"] = "both"
    tables: tuple[str, ...] = ()
    subscription: str | None = Field(default=None, min_length=1)
    capture: bool = False
    to_sender: bool = False
    keep_log: Seconds = DEFAULT_KEEP_LOG
    hooks: str | None = None

    @property
    def captures(self) -> bool:
        """Whether triggers capture changes for the peer."""
        return self.capture and self.direction != "receive"

    def declared(self, tables: Sequence[str] = ()) -> Sequence[Declared]:
        """Return tables, by default those of the link, with the rows that its peer subscribes to.

        Raises:
            ConfigurationError: one of them names no table, or one that another has named.
        """
        declared = [Declared.parse(table, self.subscription) for table in tables or self.tables]
        names = [table.name for table in declared]
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigurationError("tables", f"{twice} is named twice", "name each table once")
        return declared

    @property
    def publishing(self) -> PublisherSettings:
        """The settings of the sending half."""
        return PublisherSettings(
            message_size=self.message_size,
            resend_urgency=self.resend_urgency,
            probe_after=self.probe_after,
        )

    @property
    def receiving(self) -> SubscriberSettings:
        """The settings of the receiving half."""
        return SubscriberSettings(
            message_size=self.message_size,
            patience=self.patience,
            poll=self.poll,
            max_gap_age=self.max_gap_age,
            max_gap_messages=self.max_gap_messages,
            repeat_after=self.repeat_after,
            group=self.group,
        )

    @property
    def schedule(self) -> Schedule:
        """When the gate opens."""
        return Schedule.parse(self.send)

    def seal(self) -> Seal:
        """Return the envelope, with the keys read from their files.

        Raises:
            ConfigurationError: a file cannot be read, or has a key that is too short.
        """
        return Seal(
            keys=[_read_key(file) for file in self.keys],
            compression=self.compression,
            message_size=self.message_size,
        )

    def check(self, link: str) -> Self:
        """Return the settings, complete and checked.

        Raises:
            ConfigurationError: one of them cannot work.
        """
        with _within(link):
            check_address(self.inbox, setting="inbox")
            check_address(self.outbox, setting="outbox")
            _ = self.publishing, self.receiving, self.schedule, self.declared()
        if self.inbox == self.outbox:
            raise ConfigurationError(
                f"links.{link}", "inbox and outbox are the same", "give each end its own"
            )
        if not link or ":" in link:
            raise ConfigurationError("links", f"{link!r} cannot name a link", "leave out the colon")
        if self.capture and not self.tables:
            raise ConfigurationError(
                f"links.{link}.capture", "no table is named", 'write tables = ["orders"], or leave it out'
            )
        self._check_subscription(link)
        return self if self.publication else self.model_copy(update={"publication": link})

    def _check_subscription(self, link: str) -> None:
        if self.subscription is None:
            return
        if not any(table.by for table in self.declared()):
            raise ConfigurationError(
                f"links.{link}.subscription",
                "no table says which column has the value",
                'write tables = ["orders subscribe by rep"], or leave subscription out',
            )
        if not self.capture:
            raise ConfigurationError(
                f"links.{link}.subscription", "only captured rows have subscribers", "write capture = true"
            )


class RemoteSettings(BaseModel):
    """The links of one database."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    database: str
    links: Mapping[str, LinkSettings]

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read a file.

        Raises:
            ConfigurationError: it is missing, or has an impossible value.
        """
        try:
            data = tomllib.loads(file.read_text("utf-8-sig"))
            settings = cls.model_validate(data)
        except FileNotFoundError as error:
            raise ConfigurationError("settings", f"there is no file {file}", "write one") from error
        except ValidationError as error:
            raise ConfigurationError("settings", f"{file}: {_problems(error)}", "correct it") from error
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigurationError("settings", f"{file} cannot be read: {error}", "correct it") from error
        return settings.beside(file.parent)

    def beside(self, folder: Path) -> Self:
        """Return the settings, checked, with paths relative to a folder.

        Raises:
            ConfigurationError: the file has no link, or one of them cannot work.
        """
        links = {
            name: link.check(name).model_copy(update={"keys": tuple(folder / key for key in link.keys)})
            for name, link in self.links.items()
        }
        if not links:
            raise ConfigurationError("links", "there is none", "write a [links.NAME]")
        _refuse_different_tables(links)
        _refuse_shared_addresses(links)
        above = sorted(name for name, link in links.items() if link.consolidated)
        if len(above) > 1:
            raise ConfigurationError(
                f"links.{above[1]}.consolidated",
                f"the peer of {above[0]} is the consolidated database already, and each end has one above it",
                "leave consolidated out of the other links",
            )
        return self.model_copy(update={"links": links})


@contextmanager
def _within(link: str) -> Generator[None]:
    """Let errors name the link of their setting."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"links.{link}.{error.setting}", error.problem, error.remedy) from error


def _refuse_different_tables(links: Mapping[str, LinkSettings]) -> None:
    """Refuse two links of one publication with different tables: triggers capture once for all its links."""
    first: dict[str, tuple[str, LinkSettings]] = {}
    for name, link in links.items():
        if link.captures:
            other, first_link = first.setdefault(link.publication, (name, link))
            if first_link.tables != link.tables:
                raise ConfigurationError(
                    f"links.{name}.tables",
                    f"they differ from those of {other}, which has the same publication",
                    "name the same tables, or another publication",
                )


def _refuse_shared_addresses(links: Mapping[str, LinkSettings]) -> None:
    """Refuse two links with one inbox or outbox: a link deletes the messages of the other one."""
    for field in ("inbox", "outbox"):
        first: dict[tuple[str, str], str] = {}
        for name, link in links.items():
            address: str = getattr(link, field)
            other = first.setdefault((link.carrier, address), name)
            if other != name:
                raise ConfigurationError(
                    f"links.{name}.{field}",
                    f"{address!r} is the {field} of {other} as well",
                    f"give each link its own {field}, such as {address}-{name}",
                )


def _read_key(file: Path) -> bytes:
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise ConfigurationError("keys", f"{file} cannot be read", "write the key there") from error


def _problems(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems[:5])
