"""Reading the wiring: TOML, errors that name the place, merging, checks."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from history.errors import ConfigurationError
from triggers.patchbay import read_patchbay
from triggers.patchbay.wiring.checks import limbo_url
from triggers.patchbay.wiring.toml_reader import line_of

Write = Callable[..., Path]

SMALL = """
[providers.main]
url = "sqlite:///shop.db"

[[sink]]
name = "booking"
component = "shop:book"
[[sink.input]]
from = ["orders"]
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str, name: str = "bay.toml") -> Path:
        file = tmp_path / name
        file.write_text(text)
        return file

    return written


def refused(*files: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_patchbay(*files)
    return str(caught.value)


def test_what_is_left_out_has_its_default(write: Write) -> None:
    file = read_patchbay(write(SMALL))

    (sink,) = file.sink
    (port,) = sink.input
    (place,) = port.sources
    assert (port.port, place.destination, place.type, place.provider) == ("DEFAULT", "orders", "queue", None)
    assert (file.patchbay.release_attempts, file.patchbay.delays) == (5, True)
    assert limbo_url(file) == "sqlite:///shop.db"


@pytest.mark.parametrize(
    ("told", "meant"),
    [("90", 90), ('"500ms"', 0.5), ('"60s"', 60), ('"10 min"', 600), ('"2h"', 7200), ('"1d"', 86400)],
    ids=["seconds", "ms", "s", "min", "h", "d"],
)
def test_durations_are_seconds_or_have_a_unit(write: Write, told: str, meant: float) -> None:
    file = read_patchbay(write(f"[patchbay]\nrelease_interval = {told}\n{SMALL}"))

    assert file.patchbay.release_interval == timedelta(seconds=meant)


@pytest.mark.parametrize(
    "told",
    ['"99999999999d"', '"40000d"', "inf", "nan", "-1", "true", '"-1s"', '""', "[]", "0", '"0s"', '"999ms"'],
)
def test_what_is_no_lease_is_refused_by_name(write: Write, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_patchbay(write(f"[patchbay]\nlease = {told}\n{SMALL}"))

    assert "line 2, patchbay.lease" in refused.value.setting


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "booking"', 'nome = "booking"', ["bay.toml, line 5, sink.0.name", "is missing"]),
        ('from = ["orders"]', 'frm = ["orders"]', ["sink.0.input.0.from", "is missing"]),
        ('from = ["orders"]', "from = []", ["line 9, sink.0.input.0.from", "at least 1 item"]),
        ('["orders"]', '[{ destination = "o", kind = "topic" }]', ["line 9", "kind", "is an unknown key"]),
        ('url = "sqlite', 'url = 7\nurls = "sqlite', ["line 3", "providers.main.ur"]),
        (
            '["orders"]',
            '[{ destination = "o", redelivery = { failure_port = "F", delay = "soon" } }]',
            ["line 9", "redelivery.delay", "is not a duration; write seconds"],
        ),
        (
            '["orders"]',
            '[{ destination = "o", redelivery = { failure_port = "F" } }]',
            ["sink.0", "failure_port F is not a redelivery_port of booking; add one"],
        ),
        (
            '["orders"]',
            '[{ destination = "o", redelivery = { failure_port = "F", max_attempts = 100 } }]',
            ["line 9", "max_attempts", "less than or equal to 99"],
        ),
        ('["orders"]', '[{ destination = "o", provider = "else" }]', ["no provider 'else', only: main"]),
        ('["orders"]', '["orders", "orders"]', ["reads this queue already", "make it a topic"]),
        ('["orders"]', '[{ destination = "o", selector = "a >" }]', ["selector"]),
        ('["orders"]', '[{ destination = "o", durable_subscriber = "s" }]', ["a queue has no subscribers"]),
        ("[[sink]]", "[[sink", ["is not valid TOML", "line"]),
    ],
    ids=[
        *("name", "from", "empty", "unknown-key", "url", "duration", "failure-port", "attempts"),
        *("provider", "two-readers", "selector", "subscriber", "syntax"),
    ],
)
def test_an_error_names_the_place_and_the_remedy(write: Write, old: str, new: str, words: list[str]) -> None:
    assert old in SMALL

    told = refused(write(SMALL.replace(old, new)))

    for word in words:
        assert word in told


def test_several_files_are_merged_in_order(write: Write) -> None:
    first = write(f'[patchbay]\nname = "one"\nlease = "9s"\n{SMALL}')
    second = write(
        '[patchbay]\nname = "two"\n[[source]]\nname = "shop"\ncomponent = "shop:sell"\n'
        '[[source.output]]\nto = ["orders"]\n',
        "more.toml",
    )

    file = read_patchbay(first, second)

    assert [one.name for one in file.components] == ["shop", "booking"]
    assert (file.patchbay.name, file.patchbay.lease) == ("two", timedelta(seconds=9))


def test_two_components_of_one_name_are_refused(write: Write) -> None:
    told = refused(write(SMALL), write(SMALL, "again.toml"))

    assert "again.toml, line 6, sink.0.name" in told
    assert "bay.toml, line 6" in told


def test_redelivery_needs_a_database(write: Write) -> None:
    wiring = SMALL.replace("sqlite:///shop.db", "redis://127.0.0.1").replace(
        '["orders"]', '[{ destination = "o", redelivery = { failure_port = "F" } }]'
    )

    told = refused(write(f'{wiring}[[sink.redelivery_port]]\nport = "F"\nto = ["dead"]\n'))

    assert "patchbay.limbo" in told
    assert "set limbo = 'sqlite:///file.db'" in told


def test_of_several_providers_one_must_be_the_default(write: Write) -> None:
    told = refused(write(f'[providers.other]\nurl = "memory://"\n{SMALL}'))

    assert "names no provider, and there are 2" in told


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "none.toml: cannot be read" in refused(tmp_path / "none.toml")


def test_the_lines_of_a_file_are_read_once_for_all_its_places() -> None:
    class Text(str):
        __slots__ = ()
        read = 0

        def splitlines(self, keepends: bool = False) -> list[str]:  # noqa: FBT001, FBT002  (as in Python)
            Text.read += 1
            return super().splitlines(keepends)

    text = Text("".join(f'[[source]]\nname = "/s{number}"\n' for number in range(100)))

    lines = [line_of(text, ["source", number, "name"]) for number in range(100)]

    assert lines == list(range(2, 202, 2))
    assert Text.read == 1
