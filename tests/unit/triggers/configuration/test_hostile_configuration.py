"""Hostile values for every key of doubtless.toml and every variable: refused with the name of the key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from triggers import ConfigurationError, trigger
from triggers.configuration import override, read_configuration
from triggers.configuration.model import DefaultKeys, Keys, RedeliveryKeys, RetryKeys, TriggerKeys

#: TOML values that every key refuses.
NEVER = [
    *("nan", "inf", "-inf", "1e300", "-1", "9" * 40, "9223372036854775808", "0001-01-01"),
    *("{}", '"a\\u0000b"'),
]

#: Values that make the file unreadable, for every key.
UNREADABLE = ["9" * 5_000, "10000-01-01", "[" * 5_000 + "]" * 5_000, '"\\ud800"', '"']

#: Values that environment variables refuse: for keys with text, and for keys with a number or a time.
NO_TEXTS = ["https://[", "\udcff\udc80"]
NO_NUMBERS = ["nan", "inf", "1e300", "-1", "9" * 40, "9" * 5_000, "1e400d", "999999999d", "-1d", "x"]


def keys() -> Iterator[tuple[str, ...]]:
    """Yield all keys, with the tables that they are in."""
    yield from ((key,) for key in Keys.model_fields if key not in {"triggers", "defaults"})
    tables: dict[str, type[Any]] = {"retry": RetryKeys, "redelivery": RedeliveryKeys}
    places: list[tuple[tuple[str, ...], type[Any]]] = [
        (("triggers", "book"), TriggerKeys),
        (("defaults",), DefaultKeys),
    ]
    for above, keys_there in places:
        yield from ((*above, key) for key in keys_there.model_fields if key not in tables)
        for table, model in tables.items():
            yield from ((*above, table, key) for key in model.model_fields)


@trigger("orders", name="book", history="memory://")
def book(body: bytes) -> None: ...


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused() -> ConfigurationError:
    """Return the error that the current configuration raises."""
    with pytest.raises(ConfigurationError) as caught:
        override([book], read_configuration())
    return caught.value


@pytest.mark.parametrize("path", list(keys()), ids=".".join)
def test_what_no_key_can_be_is_refused_with_its_name(path: tuple[str, ...]) -> None:
    *above, key = path
    head = f"[{'.'.join(above)}]\n" if above else ""
    for value in NEVER:
        Path("doubtless.toml").write_text(f"{head}{key} = {value}\n", encoding="utf-8")

        assert refused().setting.removesuffix(".0") == f"doubtless.toml, {'.'.join(path)}", value


@pytest.mark.parametrize("value", UNREADABLE, ids=lambda value: value[:12])
def test_what_no_file_can_say_is_refused_with_its_name(value: str) -> None:
    Path("doubtless.toml").write_text(f"history = {value}\n", encoding="utf-8")

    assert refused().setting == "doubtless.toml"


@pytest.mark.parametrize("path", list(keys()), ids=".".join)
def test_what_no_variable_can_be_is_refused_with_its_name(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"DOUBTLESS_{'__'.join(path).upper()}"
    texts = {"provider", "history", "sinks", "journal", "parking"}
    for value in NO_TEXTS if path[-1] in texts else NO_NUMBERS:
        if path[-1] in {"metrics", "local_parking_file"}:
            continue  # almost any text is one
        monkeypatch.setenv(name, value)

        assert refused().setting == name, value


@pytest.mark.parametrize("value", ['{"a":' * 10_000 + "1" + "}" * 10_000, "[" * 10_000, "{", "x", "[]"])
@pytest.mark.parametrize("name", ["TRIGGERS", "TRIGGERS__BOOK", "TRIGGERS__BOOK__RETRY", "DEFAULTS"])
def test_a_table_in_a_variable_that_is_none_is_refused_with_its_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"DOUBTLESS_{name}", value)

    assert refused().setting.startswith(f"DOUBTLESS_{name.partition('__')[0]}")


@pytest.mark.parametrize("key", ["metrics", "local_parking_file"])
def test_a_text_that_cannot_be_is_refused(key: str) -> None:
    for value in ('""', '"a\\u0000b"'):
        head = "" if key == "metrics" else "[triggers.book]\n"
        Path("doubtless.toml").write_text(f"{head}{key} = {value}\n", encoding="utf-8")

        assert key in refused().setting


@pytest.mark.parametrize("value", ["9223372036854775807", "36525"])
def test_the_largest_values_are_taken(value: str) -> None:
    key = "max_body_size" if len(value) > 9 else "redelivery_horizon"
    text = value if key == "max_body_size" else f'"{value}d"'
    Path("doubtless.toml").write_text(f"[triggers.book]\n{key} = {text}\n", encoding="utf-8")

    (changed,) = override([book], read_configuration())

    assert changed.name == "book"
