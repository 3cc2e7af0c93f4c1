"""Saved filters; a store without records passes."""

import pytest

from history.beside import filters
from history.beside.filters import StoredFilter
from history.beside.kept import KeepsBeside
from history.errors import ConfigurationError
from tests.fixtures.beside import kept_in


def _saved(name: str, **values: str) -> StoredFilter:
    return StoredFilter.checked(name, values or {"older": "2h"}, by="ana")


class FilterContract:
    """Every client reads all saved filters, by their names."""

    async def test_filters_are_read_by_another_client_until_they_are_removed(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        mine, yours = kept_in(store).filters, kept_in(another).filters
        for saved in (
            _saved("größer \ud800"),
            _saved(" B ", text="x"),
            _saved("a", error="Time", trigger="book"),
        ):
            await mine.save(saved)
        await yours.save(_saved("B", text="y"))

        read = await yours.read()
        await yours.remove("a")
        await yours.remove("a")

        assert [(one.name, one.values, one.by) for one in read[:2]] == [
            ("a", {"error": "Time", "trigger": "book"}, "ana"),
            ("B", {"text": "y"}, "ana"),
        ]
        assert all(one.at is not None for one in read)
        assert [one.name for one in await mine.read()] == [one.name for one in read[1:]]

    async def test_there_are_only_so_many(self, store: KeepsBeside, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = kept_in(store).filters
        monkeypatch.setattr(filters, "MOST", 2)
        await kept.save(_saved("a"))
        await kept.save(_saved("b"))

        with pytest.raises(ConfigurationError) as refused:
            await kept.save(_saved("c"))
        await kept.save(_saved("b", text="x"))

        assert refused.value.setting == "name"
        assert [one.name for one in await kept.read()] == ["a", "b"]

    @pytest.mark.parametrize(
        ("name", "values", "option"),
        [
            (" ", {"text": "x"}, "name"),
            ("n" * 61, {"text": "x"}, "name"),
            ("n", {}, "filter"),
            ("n", {"text": "x" * 501}, "filter"),
        ],
    )
    def test_a_filter_that_says_nothing_or_too_much_is_refused(
        self, name: str, values: dict[str, str], option: str
    ) -> None:
        with pytest.raises(ConfigurationError) as refused:
            StoredFilter.checked(name, values, by="ana")

        assert refused.value.setting == option
