"""Saved filters of parked messages: a name, and what an address of the dashboard has. One record for each.

They do not belong to a trigger, so one call reads them all.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from history.entry import digest
from history.errors import ConfigurationError
from history.store.records import NO_TRIGGER, Delete, Kind, Put, Record, Records, all_records
from history.store.texts import EncodableText
from history.support.spoilt import readable

#: The key is the digest of the name.
FILTERS = Kind("filter", listed=True)

#: How long a name and a value may be, and how many filters a history keeps.
LONGEST_NAME, LONGEST_VALUE, MOST = 60, 500, 200


class StoredFilter(BaseModel):
    """A filter that somebody has saved under a name. ``at`` is None before it is stored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    name: EncodableText
    values: Mapping[str, EncodableText]
    by: EncodableText
    at: datetime | None = Field(default=None, exclude=True)

    @classmethod
    def checked(cls, name: str | None, values: Mapping[str, str], *, by: str) -> Self:
        """Return a filter.

        Raises:
            ConfigurationError: it filters nothing, or a text is missing or too long.
        """
        name = name_of(name)
        if not values:
            raise ConfigurationError("filter", "it lets every message through", "search first, then save")
        if any(len(value) > LONGEST_VALUE for value in values.values()):
            raise ConfigurationError(
                "filter", f"a value has more than {LONGEST_VALUE} characters", "make it shorter"
            )
        return cls(name=name, values=values, by=by)


class Filters:
    """Saved filters in the records of a store; as safe as these, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def save(self, saved: StoredFilter) -> None:
        """Save a filter; it replaces the filter of the same name.

        Raises:
            ConfigurationError: there are too many.
        """
        names = {filter_.name for filter_ in await self.read()}
        if saved.name not in names and len(names) >= MOST:
            raise ConfigurationError("name", f"{MOST} filters are saved already", "remove one of them")
        record = Record(digest(saved.name), saved.model_dump_json().encode())
        await self._records.apply(NO_TRIGGER, [Put(FILTERS, record)])

    async def remove(self, name: str) -> None:
        """Remove the filter of a name, if there is one."""
        await self._records.apply(NO_TRIGGER, [Delete(FILTERS, digest(name))])

    async def read(self) -> Sequence[StoredFilter]:
        """Return all filters, by their names."""
        stored = await all_records(self._records, NO_TRIGGER, FILTERS)
        named = ((f"({record.value[:60]!r})", record) for record in stored)
        return sorted(readable("a saved filter", named, _filter), key=lambda filter_: filter_.name.casefold())


def name_of(text: str | None) -> str:
    """Return the name of a filter.

    Raises:
        ConfigurationError: it is missing or too long.
    """
    name = (text or "").strip()
    if not name:
        raise ConfigurationError("name", "is missing", "give the filter a name")
    if len(name) > LONGEST_NAME:
        raise ConfigurationError("name", f"has more than {LONGEST_NAME} characters", "make it shorter")
    return name


def _filter(record: Record) -> StoredFilter:
    return StoredFilter.model_validate_json(record.value).model_copy(update={"at": record.at})
