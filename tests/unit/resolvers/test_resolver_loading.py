"""From a text to a resolver."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from history import ConfigurationError, Message
from resolvers import Resolution, Resolver, load_resolver

SHOP = """
from resolvers import Resolution

TABLE = "bookings"

def already_booked(uuid, trigger_name, message):
    return Resolution.DUPLICATE

class Ledger:
    class Entries:
        @staticmethod
        def has(uuid, trigger_name, message):
            return Resolution.NEW
"""


def needless(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.NEW


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path, with the package ``corner_shop``."""
    package = tmp_path / "corner_shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "booking.py").write_text(SHOP)
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    yield tmp_path
    for name in [each for each in sys.modules if each.partition(".")[0] == "corner_shop"]:
        del sys.modules[name]


def offer(folder: Path, distribution: str, entry_points: str) -> None:
    """Install a distribution that offers resolvers, as an installer leaves it."""
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[doubtless.resolvers]\n{entry_points}\n")


def refused(spec: object) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as raised:
        load_resolver(cast("str", spec))
    return raised.value


def name_of(resolver: Resolver | None) -> str:
    return str(getattr(resolver, "__qualname__", resolver))


def test_a_callable_is_itself_and_none_is_no_resolver() -> None:
    assert load_resolver(needless) is needless
    assert load_resolver(None) is None


@pytest.mark.parametrize("function", ["already_booked", "Ledger.Entries.has"])
def test_a_text_with_a_colon_names_a_function_of_a_module_which_may_be_nested(function: str) -> None:
    assert name_of(load_resolver(f"corner_shop.booking:{function}")) == function


@pytest.mark.parametrize(
    "spec", [":", "a:", ":b", "a:b:c", "a..b:c", "a:b.", "a b:c", "a/b:c", "a:b()", " a:b", ".a:b"]
)
def test_a_malformed_text_is_refused_as_a_whole(spec: str) -> None:
    assert "malformed" in str(refused(spec))
    assert repr(spec) in str(refused(spec))


@pytest.mark.parametrize(
    ("spec", "absent"),
    [
        ("no_such_shop:find", "no_such_shop"),
        ("no_such_shop.booking:find", "no_such_shop"),
        ("corner_shop.cooking:find", "corner_shop.cooking"),
        ("corner_shop.booking.deeper:find", "corner_shop.booking.deeper"),
    ],
)
def test_the_module_that_is_absent_is_named(spec: str, absent: str) -> None:
    assert f"there is no module '{absent}'" in str(refused(spec))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_driver", "ModuleNotFoundError: No module named 'no_such_driver'"),
        ("from corner_shop.booking import nothing", "ImportError: cannot import name 'nothing'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def", "SyntaxError"),
    ],
)
def test_an_error_from_inside_the_module_is_told_from_an_absent_module(
    shop: Path, source: str, told: str
) -> None:
    (shop / "corner_shop" / "broken.py").write_text(source)

    error = refused("corner_shop.broken:find")

    assert f"'corner_shop.broken' exists, but importing it raised {told}" in str(error)
    assert error.__cause__ is not None


def test_a_missing_attribute_is_named_with_its_holder_and_the_one_that_was_meant() -> None:
    error = str(refused("corner_shop.booking:allready_booked"))
    nested = str(refused("corner_shop.booking:Ledger.Accounts"))

    assert "corner_shop.booking has no 'allready_booked'" in error
    assert "did you mean 'already_booked'?" in error
    assert "corner_shop.booking.Ledger has no 'Accounts'" in nested


def test_what_cannot_be_called_is_refused_with_its_type() -> None:
    assert "'corner_shop.booking:TABLE' is a str, which cannot be called" in str(
        refused("corner_shop.booking:TABLE")
    )
    assert "is a int" in str(refused(42))


def test_an_entry_point_is_loaded_by_its_name_also_where_it_is_offered_twice(shop: Path) -> None:
    for distribution in ("corner", "corner_fork"):
        offer(shop, distribution, "booked = corner_shop.booking:already_booked")

        assert name_of(load_resolver("booked")) == "already_booked"


def test_two_entry_points_of_one_name_are_refused_with_both_distributions(shop: Path) -> None:
    offer(shop, "corner", "booked = corner_shop.booking:already_booked")
    offer(shop, "other", "booked = corner_shop.booking:Ledger.Entries.has")

    error = str(refused("booked"))

    assert "corner (corner_shop.booking:already_booked)" in error
    assert "other (corner_shop.booking:Ledger.Entries.has)" in error


def test_an_unknown_entry_point_names_the_one_that_was_meant_or_what_is_installed(shop: Path) -> None:
    offer(shop, "corner", "booked = corner_shop.booking:already_booked")

    assert "no entry point 'boked' in doubtless.resolvers; did you mean 'booked'?" in str(refused("boked"))
    assert "booked" in str(refused("zzz")).partition("installed are: ")[2]


def test_a_forgotten_colon_is_pointed_out() -> None:
    assert "'corner_shop.booking:already_booked'" in str(refused("corner_shop.booking.already_booked"))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("corner_shop.booking", "names a module"),
        ("no_such_shop:find", "there is no module 'no_such_shop'"),
        ("corner_shop.booking:find", "corner_shop.booking has no 'find'"),
        ("corner_shop.booking:TABLE", "is a str"),
    ],
)
def test_a_broken_entry_point_says_what_it_points_at(shop: Path, value: str, told: str) -> None:
    offer(shop, "corner", f"booked = {value}")

    error = str(refused("booked"))

    assert told in error
    assert f"booked = {value}" in error
