"""The elements of ATG's XML: which may contain which, and the line of each.

An element that is missing in the vendor's document type is refused if the wiring depends on it: if it were
silently left out, a misspelt ``<durable-subscriber-name>`` would lose messages. Nothing depends on the
registry and on ``<local-jms>``.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final
from xml.parsers import expat

from history.errors import ConfigurationError

#: The elements of a destination in either direction, each once.
_DESTINATION: Final = ("provider-name", "destination-name", "destination-type")

#: The allowed children of an element; a ``*`` means that they may be repeated. Others have only text.
CHILDREN: Final = {
    "dynamo-message-system": ("patchbay*", "local-jms*", "message-registry*"),
    "patchbay": ("provider*", "message-source*", "message-sink*", "message-filter*"),
    "provider": (
        "provider-name",
        "topic-connection-factory-name",
        "queue-connection-factory-name",
        "xa-topic-connection-factory-name",
        "xa-queue-connection-factory-name",
        "supports-transactions",
        "supports-xa-transactions",
        "username",
        "password",
        "client-id",
        "initial-context-factory",
    ),
    "message-source": ("nucleus-name", "output-port*"),
    "message-sink": ("nucleus-name", "input-port*", "redelivery-port*"),
    "message-filter": ("nucleus-name", "input-port*", "output-port*", "redelivery-port*"),
    "input-port": ("port-name", "input-destination*"),
    "output-port": ("port-name", "output-destination*"),
    "redelivery-port": ("port-name", "output-destination*"),
    "output-destination": _DESTINATION,
    "input-destination": (
        *_DESTINATION,
        "message-selector",
        "no-local",
        "durable-subscriber-name",
        "redelivery",
    ),
    "redelivery": ("max-attempts", "delay", "failure-output-port"),
}

#: Elements with a content that is not checked here.
OPEN: Final = frozenset({"local-jms", "message-registry"})

#: How ATG combines files: only this way, which is its default, is supported here.
_COMBINE, _APPEND = "xml-combine", "append"

_DECLARED: Final = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")


def decoded(raw: bytes, name: str) -> str:
    """Return the text of an XML file: in the encoding that it declares, else in UTF-8.

    Raises:
        ConfigurationError: it is in another encoding.
    """
    declared = _DECLARED.match(raw)
    encoding = "utf-8-sig" if declared is None else declared[1].decode("ascii")
    if raw.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    elif raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        return raw.decode(encoding)
    except (LookupError, ValueError) as error:
        problem = f"is not {encoding.removesuffix('-sig').upper()}: {error}"
        raise ConfigurationError(name, problem, "save it as UTF-8, and let it declare that") from error


@dataclass(slots=True)
class Element:
    """An element: its name, text, children, attributes, and its line, from 1."""

    name: str
    line: int = 0
    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    children: list["Element"] = field(default_factory=list["Element"])

    def all(self, name: str) -> Iterator["Element"]:
        """Return the children of a name."""
        return (child for child in self.children if child.name == name)

    def get(self, name: str) -> str | None:
        """Return the text of the first child of a name; None if it is missing or empty."""
        return next((child.text.strip() for child in self.all(name)), None) or None


def where(file: str, element: Element) -> str:
    """Return the place of an element."""
    return f"{file}, line {element.line}"


def parse(text: str, name: str) -> Element:
    """Parse XML without entity declarations; nothing outside it is read.

    Raises:
        ConfigurationError: it is not well formed, or declares entities.
    """
    top = Element("")
    stack = [top]
    texts: list[list[str]] = [[]]  # the pieces of the text of each element in the stack
    parser = expat.ParserCreate()

    def begin(tag: str, attributes: dict[str, str]) -> None:
        stack[-1].children.append(Element(tag, parser.CurrentLineNumber, attributes=attributes))
        stack.append(stack[-1].children[-1])
        texts.append([])

    def end(_tag: str) -> None:
        stack.pop().text = "".join(texts.pop())

    def data(characters: str) -> None:
        texts[-1].append(characters)

    def refuse(*_: object) -> None:
        # A few nested entities would fill the memory; others would read files.
        raise ConfigurationError(name, "declares an entity", "write out what it stands for")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = data, refuse
    try:
        parser.Parse(text, True)  # noqa: FBT003  (expat's own signature)
    except expat.ExpatError as error:
        raise ConfigurationError(name, f"is not well-formed XML: {error}", "correct that line") from error
    return top.children[0]


def refuse_unknown(file: str, element: Element) -> None:
    """Refuse an element, or one in it, that ATG does not have, or that occurs twice.

    Raises:
        ConfigurationError: naming file and line.
    """
    combine = element.attributes.get(_COMBINE, _APPEND)
    if combine != _APPEND:
        raise ConfigurationError(
            where(file, element),
            f'<{element.name} {_COMBINE}="{combine:.40}"> is not supported: files are only added up',
            "write what it comes to, into one file",
        )
    if element.name in OPEN:
        return
    allowed = CHILDREN.get(element.name, ())
    seen: set[str] = set()
    for child in element.children:
        if f"{child.name}*" not in allowed and child.name not in allowed:
            raise ConfigurationError(
                where(file, child), f"<{child.name}> is unknown in <{element.name}>", _remedy(child, allowed)
            )
        if child.name in seen and f"{child.name}*" not in allowed:
            raise ConfigurationError(
                where(file, child), f"<{child.name}> stands twice in its <{element.name}>", "keep one of them"
            )
        seen.add(child.name)
        refuse_unknown(file, child)


def _remedy(child: Element, allowed: tuple[str, ...]) -> str:
    near = get_close_matches(child.name, [name.removesuffix("*") for name in allowed], n=1)
    return f"write <{near[0]}>, or remove it" if near else "correct the name, or remove it"
