"""Read ATG's ``dynamoMessagingSystem.xml`` into the form of our TOML file.

It reads queues, topics, ports, selectors, durable subscribers, redelivery and the message registry. Parts
without a counterpart (JNDI names, credentials, ``no-local``) are listed in :attr:`Converted.notes`, with file
and line. The document type may be declared; entities may not, neither inside nor outside the file.

As in ATG, ``sqldms`` and ``local`` exist without a declaration, and a destination without a provider belongs
to ``sqldms``, whatever else is declared. A topic's subscription is durable only if it has a
``<durable-subscriber-name>``.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from history.errors import ConfigurationError
from triggers.patchbay.wiring.model import DEFAULT_PORT
from triggers.patchbay.wiring.xml_elements import Element, parse, refuse_unknown, where

#: The providers that ATG has without a declaration.
SQL_PROVIDER, LOCAL_PROVIDER = "sqldms", "localdms"

#: The name of the second as a provider; its destinations begin with the other name.
_LOCAL = "local"

#: Where these are here, by default.
_URLS = {SQL_PROVIDER: "sqlite:///patchbay.db", LOCAL_PROVIDER: "local://"}

_DEFAULT_PREFIX = "patchbay"

#: The kinds of destinations, as ATG writes them.
_KINDS = {"Topic": "topic", "Queue": "queue"}

#: The parts of the registry that are converted.
_IN_REGISTRY = frozenset(
    {"message-family", "message-family-name", "message-type", "jms-type", "message-class", "description"}
)

#: The kinds of components, and the kinds of ports with what a port leads to.
_COMPONENTS = ("source", "sink", "filter")
_PORTS = {"input": "from", "output": "to", "redelivery_port": "to"}


@dataclass(frozen=True, slots=True)
class Converted:
    """The content of an XML file in the form of a TOML file, and the parts that could not be converted.

    ``named`` are the built-in providers that it names; ``lines`` are the lines of components.
    """

    raw: dict[str, Any]
    notes: list[str]
    named: frozenset[str] = frozenset()
    lines: dict[str, str] = field(default_factory=dict[str, str])

    def guesses(self, default: str | None) -> dict[str, str]:
        """Return the places of the built-in providers that it needs, which no XML file contains.

        ``default`` is the default provider, if a TOML file sets it.
        """
        meant = {default} if default is not None and "patchbay" in self.raw else set[str]()
        return {name: url for name, url in _URLS.items() if name in self.named | meant}


def from_xml(text: str, name: str = "the file") -> Converted:
    """Read a ``dynamo-message-system``; components may lack ports, which another file has.

    Raises:
        ConfigurationError: it is not such a file, declares entities, or holds an element that is unknown.
    """
    root = parse(text, name)
    if root.name != "dynamo-message-system":
        raise ConfigurationError(name, f"begins with <{root.name}>", "give a <dynamo-message-system>")
    refuse_unknown(name, root)
    return _Reading(name).read(root)


def provider_of(name: str) -> str:
    """Return a provider's name in our files: ``local`` is the provider of ``localdms:/`` names."""
    return LOCAL_PROVIDER if name == _LOCAL else name


def guess_notes(guesses: Mapping[str, str], names: Container[str]) -> Sequence[str]:
    """Return the notes about providers with a presumed place; local JMS needs none."""
    return [
        f"provider {name}: its url {url} is a guess; say where it is: [providers.{name}] url = ..."
        for name, url in guesses.items()
        if name not in names and name != LOCAL_PROVIDER
    ]


class _Reading:
    """The conversion of one file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._notes: list[str] = []
        self._named: set[str] = set()
        self._lines: dict[str, str] = {}
        self._uses_default = False

    def read(self, root: Element) -> Converted:
        raw: dict[str, Any] = {"source": [], "sink": [], "filter": []}
        for bay in root.all("patchbay"):
            for provider in bay.all("provider"):
                self._provider(provider)
            raw["source"] += [self._source(child) for child in bay.all("message-source")]
            raw["sink"] += [self._sink(child) for child in bay.all("message-sink")]
            raw["filter"] += [self._filter(child) for child in bay.all("message-filter")]
        for local in root.all("local-jms"):
            self._note(local, "<local-jms> left out: a destination is made when it is used")
        for registry in root.all("message-registry"):
            self._left_of_registry(registry, set())
        messages = [entry for registry in root.all("message-registry") for entry in _registry(registry)]
        head: dict[str, Any] = {"patchbay": {"default_provider": SQL_PROVIDER}} if self._uses_default else {}
        message = {"message": messages} if messages else {}
        return Converted(head | raw | message, self._notes, frozenset(self._named), self._lines)

    def _note(self, element: Element, text: str) -> None:
        self._notes.append(f"{where(self._name, element)}: {text}")

    def _left_of_registry(self, element: Element, said: set[str]) -> None:
        """Report which elements of the registry are not converted, each once."""
        for child in element.children:
            if child.name not in {*_IN_REGISTRY, *said}:
                said.add(child.name)
                self._note(child, f"<{child.name}> of the message registry left out")
            self._left_of_registry(child, said)

    def _refusal(self, element: Element, problem: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(where(self._name, element), problem, remedy)

    def _required(self, element: Element, child: str, remedy: str = "add it") -> str:
        text = element.get(child)
        if text is None:
            raise self._refusal(element, f"a <{element.name}> has no <{child}>", remedy)
        return text

    def _provider(self, element: Element) -> None:
        name = provider_of(self._required(element, "provider-name"))
        left = [child.name for child in element.children if child.name != "provider-name"]
        if left:
            self._note(element, f"provider {name}: {', '.join(left)} left out; its url says where it is")
        if name not in _URLS:
            self._note(element, f"provider {name}: add [providers.{name}] with its url, in a TOML file")

    def _component(self, element: Element) -> dict[str, Any]:
        path = self._required(element, "nucleus-name")
        *modules, name = [_identifier(part) for part in path.strip("/").split("/")]
        self._lines.setdefault(path, where(self._name, element))
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

    def _outputs(self, element: Element, section: str) -> Iterator[dict[str, Any]]:
        for port in element.all(section):
            destinations = [self._destination(inner) for inner in port.all("output-destination")]
            yield {"port": port.get("port-name") or DEFAULT_PORT, "to": destinations}

    def _destination(self, element: Element) -> dict[str, Any]:
        """Return a destination; without a provider it belongs to the default, which a TOML file may set."""
        provider, name = self._place(element)
        destination_type = element.get("destination-type")
        if destination_type is None:
            self._note(element, f"{name}: a queue, for it has no <destination-type>")
            destination_type = "Queue"
        if destination_type.capitalize() not in _KINDS:
            raise self._refusal(
                element, f"<destination-type> is {destination_type!r:.40}", "write Topic or Queue"
            )
        destination: dict[str, Any] = {"destination": name, "type": _KINDS[destination_type.capitalize()]}
        if provider is None:
            self._uses_default = True
            return destination
        self._named.add(provider)
        return destination | {"provider": provider}

    def _place(self, element: Element) -> tuple[str | None, str]:
        """Return provider and name: ``sqldms:/x`` names its provider, ``patchbay:/x`` means the default one.

        The name of a provider that is not built in is JNDI's, and stays unchanged.
        """
        text = self._required(element, "destination-name")
        provider_name = element.get("provider-name")
        provider = None if provider_name is None else provider_of(provider_name)
        prefix, colon, rest = text.partition(":")
        owner = provider_of(prefix)
        if colon and prefix == _DEFAULT_PREFIX:
            return provider, rest.strip("/")
        if colon and provider in {None, owner}:
            return owner, rest.strip("/")
        if provider is not None and provider not in _URLS:
            return provider, text
        if not colon:
            return provider, text.strip("/")
        raise self._refusal(
            element,
            f"{text!r:.80} is not of the provider {provider_name}, which it names",
            "correct one of them",
        )

    def _input(self, element: Element) -> dict[str, Any]:
        destination = self._destination(element)
        if (selector := element.get("message-selector")) is not None:
            destination["selector"] = selector
        subscriber = element.get("durable-subscriber-name")
        if subscriber is not None and destination["type"] == "queue":
            self._note(
                element,
                f"{destination['destination']}: <durable-subscriber-name> left out, for it is a queue",
            )
        elif subscriber is not None:
            destination["durable_subscriber"] = subscriber
        elif destination["type"] == "topic":
            destination["durable"] = False
        if (element.get("no-local") or "false").lower() == "true":
            problem = "no-local left out; exclude your own messages with <message-selector>"
            self._note(element, f"{destination['destination']}: {problem}")
        for redelivery in element.all("redelivery"):
            destination["redelivery"] = self._redelivery(redelivery)
        return destination

    def _redelivery(self, element: Element) -> dict[str, Any]:
        port = self._required(element, "failure-output-port", "add it, and a <redelivery-port>")
        terms: dict[str, Any] = {"failure_port": port}
        if (attempts := element.get("max-attempts")) is not None:
            terms["max_attempts"] = self._number(element, attempts, "max-attempts")
        if (delay := element.get("delay")) is not None:
            terms["delay"] = f"{self._number(element, delay, 'delay')}ms"
        return terms

    def _number(self, element: Element, text: str, what: str) -> int:
        if not (text.isascii() and text.isdecimal()):
            raise self._refusal(element, f"<{what}> is {text!r:.40}", "write a whole number")
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


def combined(files: Sequence[Converted]) -> Sequence[Converted]:
    """Return the files with each component whole, in the first file that names it.

    ATG joins the files on its configuration path: the ports of a component that several of them name, and the
    destinations of a port. A part that is still incomplete then is left out and reported.
    """
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    return [_completed(file) for file in [_gathered(file, seen) for file in files]]


def _gathered(file: Converted, seen: dict[tuple[str, str], dict[str, Any]]) -> Converted:
    """Keep the components that no earlier file names; add this file's parts of others there."""
    raw = dict(file.raw)
    for component_type in _COMPONENTS:
        kept: list[dict[str, Any]] = []
        for component in raw.pop(component_type, ()):
            key = (component_type, component["name"])
            if key not in seen:
                seen[key] = {"name": component["name"], "component": component["component"]}
                kept.append(seen[key])
            _add(seen[key], component)
        raw[component_type] = kept
    return Converted(raw, file.notes, file.named, file.lines)


def _add(whole: dict[str, Any], more: dict[str, Any]) -> None:
    for ports, leads in _PORTS.items():
        for port in more.get(ports, ()):
            components = whole.setdefault(ports, [])
            same = next((other for other in components if other["port"] == port["port"]), None)
            if same is None:
                components.append(same := {"port": port["port"], leads: []})
            # A destination in two files counts once: otherwise a second copy would be sent.
            same[leads] += [entry for entry in port[leads] if entry not in same[leads]]


def _completed(file: Converted) -> Converted:
    """Leave out ports that lead nowhere, and components without ports."""
    raw, notes = dict(file.raw), list(file.notes)
    components: dict[str, list[dict[str, Any]]] = {section: [] for section in _COMPONENTS}
    for section in _COMPONENTS:
        for component in raw.pop(section):
            at = file.lines.get(component["name"], "")
            notes += _drop_empty_ports(component, at)
            become = _kind_of(section, component)
            if become is None:
                notes.append(
                    f"{at}: component {component['name']} left out: it has no port that leads anywhere"
                )
                continue
            if become != section:
                notes.append(f"{at}: filter {component['name']} taken as a {become}: it has no other ports")
            components[become].append(component)
    kept = {section: parts for section, parts in components.items() if parts}
    message = {"message": raw.pop("message")} if "message" in raw else {}
    return Converted(raw | kept | message, notes, file.named, file.lines)


def _drop_empty_ports(component: dict[str, Any], at: str) -> Sequence[str]:
    notes: list[str] = []
    for ports, leads in _PORTS.items():
        for port in component.pop(ports, ()):
            if port[leads]:
                component.setdefault(ports, []).append(port)
            else:
                notes.append(
                    f"{at}: port {port['port']} of {component['name']} left out: it has no destination"
                )
    return notes


def _kind_of(section: str, component: dict[str, Any]) -> str | None:
    """Return the kind of a component by its ports; None if it has no relevant ports."""
    has_input, has_output = "input" in component, "output" in component
    match section:
        case "source":
            return "source" if has_output else None
        case "sink":
            return "sink" if has_input else None
        case _ if has_input:
            return "filter" if has_output else "sink"
        case _:
            return "source" if has_output else None
