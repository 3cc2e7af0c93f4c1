"""The settings of the NATS provider, and the names that it makes."""

import re
from dataclasses import dataclass
from typing import Any, Literal, Self

from history.errors import ConfigurationError
from triggers.providers.brokers.trust import NATS, FirstCount, weighed
from triggers.providers.brokers.url import BrokerUrl, whole_number

Start = Literal["all", "new"]

_EXAMPLE = "nats://user:password@host:4222"

#: The settings in a URL that are whole numbers, and the least value of each.
_LEAST = {"ack_wait": 2, "replicas": 1, "max_age": 1}

_KNOWN = {"durable", "start", "create", "creds", "first_count", *_LEAST}

#: No limit: the server delivers until the message is settled.
UNLIMITED = -1

#: The longest name of a stream or a consumer, in bytes.
_LONGEST = 255

#: Characters that a stream's or consumer's name may not have; ``%`` is among them, because it escapes.
_FORBIDDEN = re.compile(r"[^!-~]|[%.*>/\\]")

#: A subject may not match this: no spaces, no empty tokens, no leading ``$``.
_NO_SUBJECT = re.compile(r"[\s\x00-\x1f\x7f]|^\.|\.\.|\.$|^$|^\$")


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsSettings:
    """The settings, which the URL's query holds.

    - ``durable``: the durable consumer of all triggers of this provider, such as an existing one; left out, a
      trigger's consumer is ``DESTINATION:SUBSCRIPTION``. An existing consumer is used as it is.
    - ``start``: where a durable consumer begins that is made here: ``all`` (the default), with all that the
      stream still has, or ``new``, with what is sent from now on.
    - ``ack_wait``: after how many seconds without a renewal a message goes to another consumer; 30 by
      default. A running consumer renews it three times in that time.
    - ``create``: ``false`` if others make the streams and consumers; a missing one is then refused.
    - ``replicas`` of the streams that are made here; 1 by default.
    - ``max_age``: for how many seconds the streams that are made here keep a message; by default for ever, so
      set it, or limit the stream by hand.
    - ``creds``: a file of credentials (JWT and seed), as ``nsc`` writes it.
    - ``first_count``: see :class:`~triggers.providers.brokers.trust.FirstCount`.
    - ``heartbeat``: how often the connection is checked, in seconds; after two failed checks it is lost.
    """

    durable: str | None = None
    start: Start = "all"
    ack_wait: int = 30
    create: bool = True
    replicas: int = 1
    max_age: int | None = None
    creds: str | None = None
    first_count: FirstCount = FirstCount.WEIGHED

    @classmethod
    def from_url(cls, url: str) -> tuple[Self, BrokerUrl]:
        """Read a URL.

        Raises:
            ConfigurationError: it is not valid, or a setting has no such value.
        """
        read = BrokerUrl.read(url, example=_EXAMPLE, ports=(4222, 4222), known=_KNOWN)
        settings: dict[str, Any] = dict(read.options)
        settings |= {
            name: whole_number(name, settings[name], least=least)
            for name, least in _LEAST.items()
            if name in settings
        }
        _check_choices(settings)
        settings["create"] = settings.get("create", "true") == "true"
        if "first_count" in settings:
            settings["first_count"] = FirstCount.read(settings["first_count"])
        if read.path:
            raise ConfigurationError(
                "provider", f"has the path {read.path!r} in its URL", "name the subject in the trigger"
            )
        if read.external:
            raise ConfigurationError("sasl", "is not known to NATS", "leave it out; certfile is enough")
        return cls(**settings), read

    def count_of(self, count: int) -> int:
        """Return the delivery count of a message, from the server's number."""
        return weighed(count, redelivered=count > 1, profile=NATS, first_count=self.first_count)

    def durable_of(self, destination: str, subscription: str) -> str:
        """Name the durable consumer of a subscription.

        Raises:
            ConfigurationError: the name would be too long.
        """
        return self.durable or plain(f"{destination}:{subscription}")


def _check_choices(settings: dict[str, Any]) -> None:
    for name, choices in (("start", ("all", "new")), ("create", ("true", "false"))):
        if settings.get(name, choices[0]) not in choices:
            raise ConfigurationError(name, f"{settings[name]!r} is unknown", f"give {' or '.join(choices)}")
    durable = settings.get("durable")
    if durable is not None and (not durable or durable != plain(durable)):
        raise ConfigurationError("durable", f"{durable!r} is not a name of a consumer", "correct it")


def check_subject(destination: str, *, sending: bool) -> str:
    """Return a destination that is a subject.

    Raises:
        ConfigurationError: it is not a subject, or it has wildcards and is used for sending.
    """
    if _NO_SUBJECT.search(destination):
        raise ConfigurationError(
            "destination",
            f"{destination!r} is not a subject of NATS",
            "use words with single dots between them, and no spaces",
        )
    if sending and has_wildcards(destination):
        raise ConfigurationError(
            "destination", f"{destination!r} has wildcards: nothing can be sent to it", "name one subject"
        )
    return destination


def plain(name: str) -> str:
    """Return a name that a stream or a consumer may have; different names stay different.

    Raises:
        ConfigurationError: it is too long.
    """
    quoted = _FORBIDDEN.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)
    if len(quoted) > _LONGEST:
        raise ConfigurationError(
            "destination", f"its name {quoted[:40]}... is longer than {_LONGEST} bytes", "use a shorter one"
        )
    return quoted


def later_of(destination: str) -> str:
    """Name the subjects where messages of a subject wait until they are due, one subject for each."""
    return f"LATER.{destination}.*"


def has_wildcards(subject: str) -> bool:
    """Whether a subject matches several."""
    return re.search(r"(^|\.)[*>](\.|$)", subject) is not None


def dead_letters_of(destination: str) -> str:
    """Name the subject of the dead letters of a subject."""
    return f"DLQ.{destination}"
