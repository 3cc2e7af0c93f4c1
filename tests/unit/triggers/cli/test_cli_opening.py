"""What the commands are given to open: modules, histories and providers; and what is wrong with them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from history import open_history
from history.bridge import drive
from history.errors import ConfigurationError
from triggers.cli.shared.loading import collect
from triggers.cli.shared.options import connected, opened


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module in the current folder, which is no other test's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path / "mine.py"
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("import mine.inner", "ModuleNotFoundError: No module named 'mine.inner'"),
        ("\n\nraise ValueError", "importing mine raised ValueError ("),
        ("raise ValueError('first\\nsecond')", "ValueError: first ("),
        ("def (", "SyntaxError: invalid syntax (mine.py, line 1)"),
        ("raise SystemExit(5)", "SystemExit: 5"),
        (
            "from triggers import trigger\n@trigger('orders', histroy='memory://')\ndef book() -> None: ...",
            "histroy: @trigger has no such option; use history (mine.py, line 2)",
        ),
        ("import os\n\nos.environ['NOT_SET']", "/mine.py, line 3)"),
        ("x = 1", "MODULE: mine has no triggers; decorate a function with @trigger"),
    ],
)
def test_a_module_that_fails_is_told_with_its_own_error(mine: Path, source: str, told: str) -> None:
    mine.write_text(source)

    with pytest.raises(ConfigurationError) as refused:
        collect("mine")

    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("no_such.module", "MODULE: there is no module no_such; start where it can be imported"),
        ("shop/orders.py", "MODULE: 'shop/orders.py' is not a dotted path; write it as shop.orders"),
        ("shop.py", "MODULE: 'shop.py' is not a dotted path; write it as shop"),
        ("shop:book", "MODULE: 'shop:book' is not a dotted path; write it as shop; --trigger"),
        ("shop.py:book", "MODULE: 'shop.py:book' is not a dotted path; write it as shop; --trigger"),
        ("shop/orders:book", "MODULE: 'shop/orders:book' is not a dotted path; write it as shop.orders; --"),
        ("/shop/orders.py", "MODULE: '/shop/orders.py' is not a dotted path; write it as package.module"),
        ("./shop.py", "MODULE: './shop.py' is not a dotted path; write it as shop"),
        (".shop", "MODULE: '.shop' is not a dotted path; write it as package.module"),
        ("", "MODULE: '' is not a dotted path; write it as package.module"),
    ],
)
def test_a_module_that_cannot_be_found_is_told_with_the_remedy(module: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        collect(module)

    assert told in str(refused.value)


def test_each_trigger_of_a_module_is_collected_once_in_order(mine: Path) -> None:
    mine.write_text(
        "from triggers import trigger\n"
        "@trigger('orders', name='b')\ndef first(body: bytes) -> None: ...\n"
        "@trigger('orders', name='a')\ndef second(body: bytes) -> None: ...\n"
        "again = first\n"
    )

    assert [trigger.name for trigger in collect("mine")] == ["b", "a"]
    assert [trigger.name for trigger in collect("mine", ["a"])] == ["a"]


def test_triggers_on_static_methods_are_collected(mine: Path) -> None:
    mine.write_text(
        "from triggers import trigger\n"
        "class Shop:\n"
        "    @staticmethod\n"
        "    @trigger('orders', name='inside')\n"
        "    def first(body: bytes) -> None: ...\n"
        "    @trigger('orders', name='outside')\n"
        "    @staticmethod\n"
        "    def second(body: bytes) -> None: ...\n"
        "again = Shop.first\n"
    )

    assert [trigger.name for trigger in collect("mine")] == ["inside", "outside"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (None, "--history: is missing: doubtless.toml names none, and this folder has no doubtless.sqlite3"),
        ("", "--history: is missing: doubtless.toml names none, and this folder has no doubtless.sqlite3"),
        ("ftp://x", "--history: unknown URL scheme 'ftp'; use redis://"),
        (
            "redis://127.0.0.1:port",
            "--history: Port could not be cast to integer value as 'port'; use redis://",
        ),
        ("redis://[::1", "cannot be read: Invalid IPv6 URL; correct it"),
        ("memory://", "--history: memory:// lives in one process only; give a server or a file"),
        ("sqlite://", "--history: sqlite:// lives in one process only; give a server or a file"),
        ("sqlite:///:memory:", "lives in one process only; give a server or a file"),
        ("sqlite://x.db", "--history: a SQLite URL names no host; use sqlite:///file.db, with three slashes"),
        ("sqlite://shop/x.db", "--history: a SQLite URL names no host; use sqlite:///file.db"),
        (
            "sqlite:///no/such.db",
            "--history: there is no file no/such.db; give the file that the triggers use",
        ),
    ],
)
def test_a_history_that_cannot_be_looked_into_is_told_with_the_option(url: str | None, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused, opened(url):
        pass

    assert told in str(refused.value)


@pytest.mark.parametrize(
    "name", ["shop.db", "a%20b.db", "a#b.db", "file:shop.db?uri=true", "file:shop.db?mode=ro&uri=true"]
)
def test_a_file_is_found_however_its_url_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    history = open_history(f"sqlite:///{name.replace('=ro', '=rwc')}")
    drive(history.check())
    drive(history.close())

    with opened(f"sqlite:///{name}") as store:
        assert drive(store.triggers()) == []


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("memory://", "--provider: memory:// lives in one process only"),
        ("sqlite://x.db", "--provider: a SQLite URL names no host; use sqlite:///file.db"),
        ("ftp://x", "--provider: unknown URL scheme 'ftp'; use redis://"),
        ("redis://[::1", "--provider: is not a URL: Invalid IPv6 URL; correct it"),
        ("redis://x?claim_idle=soon", "claim_idle: 'soon' in the URL cannot be used; give seconds"),
    ],
)
def test_a_provider_that_cannot_be_opened_is_told_with_the_option(url: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused, connected(url):
        pass

    assert told in str(refused.value)
