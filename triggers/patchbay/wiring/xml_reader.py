"""Read the original's ``dynamoMessagingSystem.xml`` into the shape of our TOML file.

Read are queues, topics, ports, selectors, durable subscribers, redelivery and the message registry. What has
no counterpart (JNDI names, credentials, ``no-local``) is told in :attr:`Converted.notes`. The document type
may be declared; entities may not, neither inside nor outside the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from history.errors import ConfigurationError
from triggers.patchbay.wiring.model import DEFAULT_PORT

#: The provider that the original has without being told.
SQL_PROVIDER, LOCAL_PROVIDER = "sqldms", "localdms"

#: Where these are here, until somebody says better.
_URLS = {SQL_PROVIDER: "sqlite:///patchbay.db", LOCAL_PROVIDER: "memory://"}

_DEFAULT_PREFIX = "patchbay"


@dataclass(slots=True)
class Element:
    """An element: its name, the text in it, and the elements in it."""

    name: str
    text: str = ""
    children: list["Element"] = field(default_factory=list["Element"])

    def all(self, name: str) -> Iterator["Element"]:
        """Return the children of a name."""
        return (child for child in self.children if child.name == name)

    def get(self, name: str) -> str | None:
        """Return the text of the first child of a name; None where there is none, or nothing in it."""
        return next((child.text.strip() for child in self.all(name)), None) or None


@dataclass(frozen=True, slots=True)
class Converted:
    """What an XML file says, as a TOML file would, and what could not be taken over."""

    raw: dict[str, Any]
    notes: list[str]


def from_xml(text: str, name: str = "the file") -> Converted:
    """Read a ``dynamo-message-system``.

    Raises:
        ConfigurationError: it is no such file, or declares entities.
    """
    root = parse(text, name)
    if root.name != "dynamo-message-system":
        raise ConfigurationError(name, f"begins with <{root.name}>", "give a <dynamo-message-system>")
    return _Reading(name).read(root)


def guess_note(provider: str) -> str:
    """Return what is said of a provider whose place the file does not tell."""
    return f"provider {provider}: its url is a guess; say where it is"


def parse(text: str, name: str) -> Element:
    """Parse XML without entities of its own; nothing outside it is read.

    Raises:
        ConfigurationError: it is not well formed, or declares entities.
    """
    top = Element("")
    stack = [top]

    def begin(tag: str, _attributes: dict[str, str]) -> None:
        stack[-1].children.append(Element(tag))
        stack.append(stack[-1].children[-1])

    def end(_tag: str) -> None:
        stack.pop()

    def data(found: str) -> None:
        stack[-1].text += found

    def refuse(*_: object) -> None:
        # A few of them, nested, would fill the memory; others would read files.
        raise ConfigurationError(name, "declares an entity", "write out what it stands for")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = data, refuse
    try:
        parser.Parse(text, True)  # noqa: FBT003  (expat's own signature)
    except expat.ExpatError as error:
        raise ConfigurationError(name, f"is not well-formed XML: {error}", "correct that line") from error
    return top.children[0]


class _Reading:
    """One file on its way into the other shape."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._notes: list[str] = []
        self._providers: dict[str, dict[str, str]] = {}
        self._default: str | None = None

    def read(self, root: Element) -> Converted:
        raw: dict[str, Any] = {}
        for bay in root.all("patchbay"):
            for provider in bay.all("provider"):
                self._provider(provider)
            raw["source"] = [self._source(child) for child in bay.all("message-source")]
            raw["sink"] = [self._sink(child) for child in bay.all("message-sink")]
            raw["filter"] = [self._filter(child) for child in bay.all("message-filter")]
        for registry in root.all("message-registry"):
            raw["message"] = list(_registry(registry))
        settings = {} if self._default is None else {"default_provider": self._default}
        head: dict[str, Any] = {"patchbay": settings} | {"providers": self._providers}
        return Converted({key: value for key, value in (head | raw).items() if value}, self._notes)

    def _provider(self, element: Element) -> None:
        name = element.get("provider-name") or SQL_PROVIDER
        self._know(name)
        left = [child.name for child in element.children if child.name != "provider-name"]
        if left:
            self._notes.append(f"provider {name}: {', '.join(left)} left out; its url says where it is")

    def _know(self, name: str) -> None:
        if name not in self._providers:
            self._providers[name] = {"url": _URLS.get(name, f"sqlite:///{name}.db")}
            self._notes.append(guess_note(name))

    def _component(self, element: Element) -> dict[str, Any]:
        path = element.get("nucleus-name")
        if path is None:
            raise ConfigurationError(self._name, f"a <{element.name}> has no <nucleus-name>", "add it")
        *modules, name = [_identifier(part) for part in path.strip("/").split("/")]
        return {"name": path, "component": f"{'.'.join(modules) or 'components'}:{name}"}

    def _source(self, element: Element) -> dict[str, Any]:
        return self._component(element) | {"output": list(self._outputs(element, "output-port"))}

    def _sink(self, element: Element) -> dict[str, Any]:
        ports = [
            {
                "port": port.get("port-name") or DEFAULT_PORT,
                "from": [self._input(inner) for inner in port.all("input-destination")],
            }
            for port in element.all("input-port")
        ]
        sink = self._component(element) | {"input": ports}
        failures = list(self._outputs(element, "redelivery-port"))
        return sink | ({"redelivery_port": failures} if failures else {})

    def _filter(self, element: Element) -> dict[str, Any]:
        return self._sink(element) | {"output": list(self._outputs(element, "output-port"))}

    def _outputs(self, element: Element, kind: str) -> Iterator[dict[str, Any]]:
        for port in element.all(kind):
            found = [self._destination(inner) for inner in port.all("output-destination")]
            yield {"port": port.get("port-name") or DEFAULT_PORT, "to": found}

    def _destination(self, element: Element) -> dict[str, Any]:
        """Return a destination; ``sqldms:/x`` names its provider, ``patchbay:/x`` means the default one."""
        text = element.get("destination-name")
        if text is None:
            raise ConfigurationError(self._name, f"a <{element.name}> has no <destination-name>", "add it")
        prefix, colon, rest = text.partition(":")
        provider = element.get("provider-name")
        if colon and prefix != _DEFAULT_PREFIX:
            provider = provider or prefix
        if provider is None:
            provider = self._default = self._default or next(iter(self._providers), SQL_PROVIDER)
        self._know(provider)
        kind = (element.get("destination-type") or "Queue").lower()
        name = (rest if colon else text).strip("/")
        return {"destination": name, "provider": provider, "type": kind}

    def _input(self, element: Element) -> dict[str, Any]:
        found = self._destination(element)
        if (selector := element.get("message-selector")) is not None:
            found["selector"] = selector
        if (subscriber := element.get("durable-subscriber-name")) is not None:
            found["durable_subscriber"] = subscriber
        if (element.get("no-local") or "false").lower() == "true":
            self._notes.append(f"{found['destination']}: no-local left out; there is no such thing here")
        for redelivery in element.all("redelivery"):
            found["redelivery"] = self._redelivery(redelivery)
        return found

    def _redelivery(self, element: Element) -> dict[str, Any]:
        port = element.get("failure-output-port")
        if port is None:
            raise ConfigurationError(
                self._name, "a <redelivery> has no <failure-output-port>", "add it, and a <redelivery-port>"
            )
        terms: dict[str, Any] = {"failure_port": port}
        if (attempts := element.get("max-attempts")) is not None:
            terms["max_attempts"] = self._number(attempts, "max-attempts")
        if (delay := element.get("delay")) is not None:
            terms["delay"] = f"{self._number(delay, 'delay')}ms"
        return terms

    def _number(self, text: str, what: str) -> int:
        if not text.isdecimal():
            raise ConfigurationError(self._name, f"<{what}> is {text!r:.40}", "write a whole number")
        return int(text)


def _registry(element: Element) -> Iterator[dict[str, Any]]:
    for family in element.all("message-family"):
        for child in family.all("message-type"):
            entry = {
                "type": child.get("jms-type"),
                "family": family.get("message-family-name"),
                "body": child.get("message-class"),
                "description": child.get("description"),
            }
            yield {key: value for key, value in entry.items() if value is not None}
        yield from _registry(family)


def _identifier(part: str) -> str:
    """Return a part of a path as a name in Python."""
    clean = "".join(character if character.isalnum() else "_" for character in part)
    return clean if clean.isidentifier() else f"_{clean}"
