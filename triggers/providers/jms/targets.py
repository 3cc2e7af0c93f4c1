"""Names of JMS destinations: ``orders`` or ``queue:orders``, ``topic:prices``, ``jndi:jms/Orders``."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, quote, unquote

from history.errors import ConfigurationError

TargetKind = Literal["queue", "topic", "temporary", "jndi"]

_KINDS: tuple[TargetKind, ...] = ("queue", "topic", "temporary", "jndi")


@dataclass(frozen=True, slots=True)
class Target:
    """A destination, and how to receive from it.

    ``address`` is the name for the JMS provider: ``name``, and after a ``?`` the words that are not ours.
    ``java_object`` is the provider's object, if it was looked up in JNDI.
    """

    kind: TargetKind
    name: str
    address: str
    selector: str | None = None
    durable: bool = True
    shared: bool = False
    client_id: str | None = None
    subscriber: str | None = None
    java_object: Any = None

    @classmethod
    def parse(cls, destination: str) -> Self:
        """Read ``[queue:|topic:|jndi:]NAME``, and after a ``?`` ``selector=``, ``shared=true`` and so on.

        Other words after the ``?`` belong to the JMS provider, such as ``consumer.priority=10`` of ActiveMQ.

        Raises:
            ConfigurationError: it has no name, or a setting cannot be used.
        """
        head, _, query = destination.partition("?")
        target_kind, name = _kind_of(head)
        if not name:
            raise ConfigurationError("destination", f"{destination!r} has no name", "give a queue's name")
        ours: dict[str, str] = {}
        rest: list[str] = []
        for word, value in parse_qsl(query, keep_blank_values=True):
            if word in {"selector", "durable", "shared", "client_id", "subscriber"}:
                ours[word] = value
            else:
                rest.append(f"{quote(word)}={quote(value)}")
        durable, shared = ours.get("durable", "true"), ours.get("shared", "false")
        are_booleans = {durable, shared} <= {"true", "false"}
        if not are_booleans or (target_kind not in {"topic", "jndi"} and ours.keys() - {"selector"}):
            raise _only_for_topics(destination)
        if shared == "true" and "client_id" in ours:
            raise ConfigurationError(
                "client_id", "would let only one connection share the subscription", "leave it out"
            )
        return cls(
            target_kind,
            unquote(name),
            "?".join([unquote(name), "&".join(rest)]) if rest else unquote(name),
            selector=ours.get("selector"),
            durable=durable == "true",
            shared=shared == "true",
            client_id=ours.get("client_id"),
            subscriber=ours.get("subscriber"),
        )

    def located(self, target_kind: TargetKind, name: str, java_object: Any) -> "Target":
        """Return this name in JNDI as the queue or topic that was found under it.

        Raises:
            ConfigurationError: it has options that this destination cannot have.
        """
        if self.address != self.name:
            raise ConfigurationError(
                "destination",
                f"{self.public_name} has options of the provider, which a name in JNDI cannot have",
                "set them where the name is defined",
            )
        if target_kind != "topic" and (self.shared or not self.durable or self.client_id or self.subscriber):
            raise _only_for_topics(self.public_name)
        return replace(self, kind=target_kind, name=name, address=name, java_object=java_object)

    @property
    def public_name(self) -> str:
        """The name as messages and their senders know it."""
        return public_name_of(self.kind, self.name)

    @property
    def is_shared(self) -> bool:
        """Whether several may receive from it and each message goes to one of them."""
        return self.shared or self.kind != "topic"

    @property
    def dead_letters(self) -> str:
        """The queue of its dead letters."""
        return f"DLQ.{self.name}"


def _only_for_topics(destination: str) -> ConfigurationError:
    problem = f"{destination!r} has options that only a topic can have"
    return ConfigurationError("destination", problem, "write durable=true or false, after topic:NAME")


def public_name_of(target_kind: TargetKind, name: str) -> str:
    """Return the name of a destination outside JMS; a queue has its bare name."""
    escaped = name.replace("%", "%25").replace("?", "%3F")
    return escaped if target_kind == "queue" and _kind_of(name)[1] == name else f"{target_kind}:{escaped}"


def _kind_of(text: str) -> tuple[TargetKind, str]:
    for target_kind in _KINDS:
        if text.startswith(f"{target_kind}:"):
            return target_kind, text.removeprefix(f"{target_kind}:")
    return "queue", text
