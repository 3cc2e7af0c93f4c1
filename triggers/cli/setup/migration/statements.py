"""Statements of SQL Remote, as an export of a database has them, and the links that replace them.

Source: the reference pages of CREATE PUBLICATION, CREATE SUBSCRIPTION, CREATE REMOTE TYPE, GRANT PUBLISH,
GRANT REMOTE and GRANT CONSOLIDATE of SQL Anywhere. No export of a real database was seen.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from triggers.cli.setup.migration.mapping import Fit, Note
from triggers.cli.setup.migration.reporting import left_out_table, notes_table

_FLAGS: Final = re.IGNORECASE | re.DOTALL

_NAME: Final = r'(?:"[^"]+"|\[[^\]]+\]|[\w$#@]+)'
_TEXT: Final = r"'((?:[^']|'')*)'"

#: A text or a quoted name, in which no sign ends or separates anything.
_QUOTED: Final = r"""('(?:[^']|'')*'|"[^"]*")"""

_NO_CODE: Final = re.compile(rf"{_QUOTED}|--[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)
_END: Final = re.compile(rf"{_QUOTED}|;|^\s*go\s*$", re.IGNORECASE | re.MULTILINE)
_SEPARATOR: Final = re.compile(rf"{_QUOTED}|[(),]")

_PUBLICATION: Final = re.compile(rf"CREATE\s+PUBLICATION\s+({_NAME}(?:\.{_NAME})?)\s*\((.*)\)\s*", _FLAGS)
_TABLE: Final = re.compile(
    rf"TABLE\s+({_NAME}(?:\.{_NAME})?)\s*(?:\(([^()]*)\))?\s*(WHERE\b.*?)?\s*(SUBSCRIBE\s+BY\b.*)?",
    _FLAGS,
)
_BY: Final = re.compile(rf"SUBSCRIBE\s+BY\s+(?:({_NAME})|\(\s*({_NAME})\s*\))", re.IGNORECASE)
_SUBSCRIPTION: Final = re.compile(
    rf"CREATE\s+SUBSCRIPTION\s+TO\s+({_NAME}(?:\.{_NAME})?)\s*(?:\(\s*(.+?)\s*\))?\s*FOR\s+(.+)",
    _FLAGS,
)
_GRANT: Final = re.compile(
    rf"GRANT\s+(REMOTE|CONSOLIDATE)\s+TO\s+(.+?)\s+TYPE\s+({_NAME})\s+ADDRESS\s+(.+?)"
    rf"(?:\s+SEND\s+(EVERY|AT)\s+{_TEXT})?",
    _FLAGS,
)
_PUBLISH: Final = re.compile(rf"GRANT\s+PUBLISH\s+TO\s+({_NAME})", re.IGNORECASE)
_TYPE: Final = re.compile(
    rf"(?:CREATE|ALTER)\s+REMOTE\s+(?:MESSAGE\s+)?TYPE\s+({_NAME})\s+ADDRESS\s+{_TEXT}", re.IGNORECASE
)
_STARTS: Final = re.compile(r"(START|STOP|SYNCHRONIZE)\s+SUBSCRIPTION\b|REMOTE\s+RESET\b", re.IGNORECASE)


@dataclass(slots=True)
class PublicationStatements:
    """The tables of a publication, each as ``tables=`` of a link names it."""

    tables: list[str] = field(default_factory=list[str])
    notes: list[Note] = field(default_factory=list[Note])

    @property
    def has_subscribers(self) -> bool:
        """Whether a table says by its column who gets a row."""
        return any(" subscribe by " in table for table in self.tables)


@dataclass(frozen=True, slots=True)
class PublishedTo:
    """A publication that a user gets; all its rows, or those with the value."""

    publication: str
    value: str | None = None


@dataclass(slots=True)
class Remote:
    """The other end: a user with REMOTE or CONSOLIDATE, and the publications that it gets."""

    address: str
    consolidated: bool
    kind: str
    send: str | None
    publications: list[PublishedTo] = field(default_factory=list[PublishedTo])
    notes: list[Note] = field(default_factory=list[Note])


@dataclass(frozen=True, slots=True)
class MigratedLink:
    """One link, for one subscription of a user.

    In SQL Remote, all remote databases send to one inbox of the consolidated database. Each link needs an
    inbox of its own: that address, and the name of the remote user.
    """

    name: str
    user: str
    remote: Remote
    subscription: PublishedTo
    inbox: str
    outbox: str


@dataclass(slots=True)
class Statements:
    """What a file says; ``left_out`` has the statements that say nothing about links."""

    publications: dict[str, PublicationStatements] = field(default_factory=dict[str, PublicationStatements])
    remotes: dict[str, Remote] = field(default_factory=dict[str, Remote])
    addresses: dict[str, str] = field(default_factory=dict[str, str])
    publisher: str | None = None
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def read_statements(text: str) -> Statements:
    """Read the statements of a file, in any order of theirs; none is executed."""
    statements = Statements()
    subscriptions: list[re.Match[str]] = []
    for statement in _split(text):
        if made := _PUBLICATION.fullmatch(statement):
            statements.publications[_last(made[1])] = _publication(made[2])
        elif made := _SUBSCRIPTION.fullmatch(statement):
            subscriptions.append(made)
        elif made := _GRANT.fullmatch(statement):
            _grant(statements, made)
        elif made := _TYPE.fullmatch(statement):
            statements.addresses[_last(made[1]).lower()] = _text(made[2])
        elif made := _PUBLISH.fullmatch(statement):
            statements.publisher = _last(made[1])
        elif _STARTS.match(statement):
            statements.left_out.append(
                (statement, "doubtless sqlremote setup, or extract and load, starts a link")
            )
        else:
            statements.left_out.append((statement, "it says nothing about links"))
    for made in subscriptions:
        _subscribe(statements, made)
    return statements


def _split(text: str) -> Iterator[str]:
    code = _NO_CODE.sub(lambda match: match[1] or " ", text)
    begun = 0
    for end in [*(match for match in _END.finditer(code) if match[1] is None), None]:
        statement = code[begun : end.start() if end else len(code)].strip()
        begun = end.end() if end else begun
        if statement:
            yield statement


def _publication(inside: str) -> PublicationStatements:
    made = PublicationStatements()
    for part in _parts(inside):
        table = _TABLE.fullmatch(part)
        if table is None:
            made.notes.append(Note(Fit.MISSING, part, "name the table in tables="))
            continue
        name, columns = _last(table[1]), _names(table[2] or "")
        made.tables.append(f"{name}({', '.join(columns)})" if columns else name)
        if table[3]:
            made.notes.append(
                Note(Fit.MISSING, f"{name}: {_line(table[3])}", "all rows of the table are sent")
            )
        if table[4]:
            made.tables[-1] = _subscribe_by(made, name, columns, _line(table[4]))
    return made


def _subscribe_by(made: PublicationStatements, name: str, columns: Sequence[str], condition: str) -> str:
    """Return the table, with the column to subscribe by; an expression has no counterpart."""
    declared = f"{name}({', '.join(columns)})" if columns else name
    by = _BY.fullmatch(condition)
    if by is None:
        made.notes.append(Note(Fit.MISSING, f"{name}: {condition}", "every link gets all rows of the table"))
        return declared
    column = _last(by[1] or by[2])
    if columns and column not in columns:
        declared = f"{name}({', '.join([*columns, column])})"
        made.notes.append(Note(Fit.CHECK, f"{name}: {condition}", f"{column} is sent as well"))
    declared = f"{declared} subscribe by {column}"
    made.notes.append(Note(Fit.SAME, f"{name}: {condition}", f"tables = [{declared!r}]"))
    return declared


def _parts(inside: str) -> Iterator[str]:
    """Yield the tables of a publication: what commas outside of parentheses, texts and names separate."""
    depth, begun = 0, 0
    for sign in _SEPARATOR.finditer(inside):
        depth += (sign[0] == "(") - (sign[0] == ")")
        if sign[0] == "," and depth == 0:
            yield inside[begun : sign.start()].strip()
            begun = sign.end()
    yield inside[begun:].strip()


def _grant(statements: Statements, made: re.Match[str]) -> None:
    send = None if made[5] is None else f"{made[5].lower()} {_text(made[6])}"
    for user, address in zip(_names(made[2]), re.findall(_TEXT, made[4]), strict=False):
        statements.remotes[user] = Remote(
            _text(address), made[1].upper() == "CONSOLIDATE", _last(made[3]).lower(), send
        )


def _subscribe(statements: Statements, made: re.Match[str]) -> None:
    for user in _names(made[3]):
        remote = statements.remotes.get(user)
        if remote is None:
            statements.left_out.append((_line(made[0]), f"no GRANT REMOTE names {user}"))
            continue
        publication = _last(made[1])
        has_subscribers = statements.publications.get(publication, PublicationStatements()).has_subscribers
        value = _value(made[2]) if made[2] and has_subscribers else None
        remote.publications.append(PublishedTo(publication, value))
        if value is not None:
            remote.notes.append(Note(Fit.SAME, f"subscription value {made[2]}", f"subscription = {value!r}"))
        elif made[2]:
            remote.notes.append(Note(Fit.MISSING, f"subscription value {made[2]}", "the link gets all rows"))
        elif has_subscribers and not remote.consolidated:
            remote.notes.append(Note(Fit.CHECK, "no subscription value", "the link gets all rows"))


def _value(literal_text: str) -> str | None:
    """Return the value that a literal has, as text; None for an expression, and for no text."""
    literal = re.fullmatch(rf"{_TEXT}|(-?\d+)", literal_text)
    return None if literal is None else literal[2] or _text(literal[1]) or None


def links_of(statements: Statements) -> str:
    """Return the settings file of the links."""
    lines = [
        "# The links of one database; see docs/how-to/replicate-over-a-link.md.",
        "# Write its URL, and a folder that both ends reach, or another carrier.",
        'database = "postgresql://user@host/database"',
        "",
    ]
    for link in _links(statements):
        remote, publication = link.remote, link.subscription.publication
        tables = statements.publications.get(publication, PublicationStatements()).tables
        settings: Mapping[str, object] = {
            "publication": publication or link.name,
            "carrier": "file:///mnt/exchange",
            "inbox": link.inbox,
            "outbox": link.outbox,
            **({"consolidated": True} if remote.consolidated else {}),
            **({"send": remote.send} if remote.send else {}),
            **({"tables": tables, "capture": True} if tables else {}),
            **({} if link.subscription.value is None else {"subscription": link.subscription.value}),
            **({"to_sender": True} if tables and not remote.consolidated else {}),
        }
        lines.append(f"[links.{json.dumps(link.name, ensure_ascii=False)}]")
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
        lines.append("")
    return "\n".join(lines)


def _links(statements: Statements) -> Iterator[MigratedLink]:
    """Yield the links: one for each subscription of each remote user."""
    publisher = statements.publisher
    for user, remote in statements.remotes.items():
        here = statements.addresses.get(remote.kind) or publisher or "here"
        there = remote.address or user
        if not remote.consolidated:
            here += f"-{user}"
        elif publisher is not None:
            there += f"-{publisher}"
        for subscription in remote.publications or [PublishedTo("")]:
            part = f"-{subscription.publication}" if len(remote.publications) > 1 else ""
            inbox, outbox = _address(here + part), _address(there + part)
            yield MigratedLink(user + part, user, remote, subscription, inbox, outbox)


def report_of(statements: Statements) -> str:
    """Return the report in Markdown."""
    lines = ["# Links of SQL Remote", "", f"{sum(1 for _ in _links(statements))} links are made.", ""]
    for link in _links(statements):
        remote = link.remote
        is_same = link.outbox == remote.address
        notes = [
            Note(
                Fit.SAME if is_same else Fit.CHECK,
                f"TYPE {remote.kind} ADDRESS '{remote.address}'",
                f"outbox = {link.outbox!r}" + ("" if is_same else ": the inbox of the other end"),
            ),
            Note(Fit.CHECK, f"message system {remote.kind}", "choose the carrier"),
            *([Note(Fit.SAME, f"SEND {remote.send}", f"send = {remote.send!r}")] if remote.send else []),
            *remote.notes,
            *statements.publications.get(link.subscription.publication, PublicationStatements()).notes,
        ]
        if not remote.consolidated:
            what = f"inbox = {link.inbox!r}: the outbox of the other end"
            notes.append(Note(Fit.CHECK, "one inbox for all remote databases", what))
        if len(remote.publications) > 1:
            what = "one link for each, with its own addresses"
            notes.append(Note(Fit.CHECK, f"{link.user} has several subscriptions", what))
        lines += [f"## {link.name}", "", *notes_table(notes)]
    lines += left_out_table("statement", ((_line(text), why) for text, why in statements.left_out))
    return "\n".join(lines)


def _line(text: str) -> str:
    return " ".join(text.split())


def _last(name: str) -> str:
    """Return a name without its owner and its quotes."""
    parts: list[str] = re.findall(_NAME, name)
    return parts[-1].strip('"[]')


def _address(text: str) -> str:
    """Return an address as a carrier takes it: letters, digits and some signs."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def _names(text: str) -> Sequence[str]:
    return [_last(name) for name in _parts(text) if name]


def _text(inside: str) -> str:
    return inside.replace("''", "'")
