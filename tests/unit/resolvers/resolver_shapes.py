"""Resolvers of every valid shape, and of some invalid shapes.

The valid ones are typed as :data:`~resolvers.Resolver`, so that the type checkers see that they fit. Each
tells in its reason what it was given.
"""

import functools
from collections.abc import Callable
from typing import Any

from history.message import Message
from resolvers import Evidence, Resolution, Resolved, Resolver


def told(*given: object) -> Resolved:
    shown = [given_.uuid if isinstance(given_, Message) else given_ for given_ in given]
    return Resolved(Resolution.NEW, " ".join(map(str, shown)))


def named(uuid: str, trigger_name: str, message: Message) -> Resolved:
    return told(uuid, trigger_name, message)


def in_another_order(message: Message, trigger_name: str, uuid: str) -> Resolved:
    return told(uuid, trigger_name, message)


def keyword_only(*, uuid: str, trigger_name: str, message: Message) -> Resolved:
    return told(uuid, trigger_name, message)


def other_names(id_: str, name: str, document: Message) -> Resolved:
    return told(id_, name, document)


def partly_other_names(uuid: str, name: str, message: Message) -> Resolved:
    return told(uuid, name, message)


def positional_only(uuid: str, trigger_name: str, message: Message, /) -> Resolved:
    return told(uuid, trigger_name, message)


def rest(*everything: object) -> Resolved:
    return told(*everything)


def optional_fourth(uuid: str, trigger_name: str, message: Message, table: str = "bookings") -> Resolved:
    return told(uuid, trigger_name, message)


def bound(table: str, uuid: str, trigger_name: str, message: Message) -> Resolved:
    return told(uuid, trigger_name, message)


async def asynchronous(uuid: str, trigger_name: str, message: Message) -> Resolved:
    return told(uuid, trigger_name, message)


class Bookings:
    def find(self, uuid: str, trigger_name: str, message: Message) -> Resolved:
        return told(uuid, trigger_name, message)

    def __call__(self, uuid: str, trigger_name: str, message: Message) -> Resolved:
        return self.find(uuid, trigger_name, message)


SHAPES: dict[str, Resolver] = {
    "named": named,
    "in another order": in_another_order,
    "keyword only": keyword_only,
    "other names": other_names,
    "partly other names": partly_other_names,
    "positional only": positional_only,
    "rest": rest,
    "optional fourth": optional_fourth,
    "partial": functools.partial(bound, "bookings"),
    "asynchronous": asynchronous,
    "method": Bookings().find,
    "instance": Bookings(),
}


def with_evidence(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolved:
    return told(uuid, trigger_name, message, evidence.fence)


def evidence_by_keyword(uuid: str, trigger_name: str, message: Message, *, evidence: Evidence) -> Resolved:
    return told(uuid, trigger_name, message, evidence.fence)


def optional_evidence(
    uuid: str, trigger_name: str, message: Message, evidence: Evidence | None = None
) -> Resolved:
    return told(uuid, trigger_name, message, evidence and evidence.fence)


def other_names_and_evidence(id_: str, name: str, document: Message, evidence: Evidence) -> Resolved:
    return told(id_, name, document, evidence.fence)


def one_and_the_rest(uuid: str, **more: Any) -> Resolved:
    return told(uuid, more["trigger_name"], more["message"], more["evidence"].fence)


def all_the_rest(**more: Any) -> Resolved:
    return told(more["uuid"], more["trigger_name"], more["message"], more["evidence"].fence)


def other_names_and_the_rest(id_: str, name: str, document: Message, **more: Any) -> Resolved:
    return told(id_, name, document, more["evidence"].fence)


EVIDENCE_SHAPES: dict[str, Resolver] = {
    "with evidence": with_evidence,
    "evidence by keyword": evidence_by_keyword,
    "optional evidence": optional_evidence,
    "other names and evidence": other_names_and_evidence,
    "one and the rest": one_and_the_rest,
    "all the rest": all_the_rest,
    "other names and the rest": other_names_and_the_rest,
}


def nothing() -> Resolution:
    return Resolution.NEW


def too_few(uuid: str, trigger_name: str) -> Resolution:
    return Resolution.NEW


def too_many(uuid: str, trigger_name: str, message: Message, table: str) -> Resolution:
    return Resolution.NEW


def out_of_order(message: Message, uuid: str, name: str) -> Resolution:
    return Resolution.NEW


def positional_evidence(uuid: str, trigger_name: str, message: Message, evidence: Evidence, /) -> Resolution:
    return Resolution.NEW


MISFITS: dict[str, Callable[..., object]] = {
    "nothing": nothing,
    "too few": too_few,
    "too many": too_many,
    "out of order": out_of_order,
    "positional evidence": positional_evidence,
    "a method without its instance": Bookings.find,
    "no signature": min,
}
