"""Configuration: which source wins, which values are refused and how, and what a trigger gets."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from triggers import ConfigurationError, Joined, Redelivery, Retry, trigger
from triggers.configuration import Configuration, FoundValue, override, read_configuration
from triggers.configuration.durations import written
from triggers.configuration.hiding import hidden
from triggers.configuration.hiding import shown as show_value
from triggers.configuration.model import Keys, RedeliveryKeys, RetryKeys, TriggerKeys
from triggers.configuration.overriding import settings_of
from triggers.configuration.reading import strange_variables

FILE = """
history = "sqlite:///file.db"
provider = "sqlite:///messages.db"

[triggers.book-order]
concurrency = 8
lease = "2m"
retry = { max_attempts = 3, interval = "500ms" }
max_delivery_count = 7
suspend_on_error = true
"""


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and an environment in which nothing of ours is set."""
    for name in [name for name in os.environ if name.startswith("DOUBTLESS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def configured(tmp_path: Path) -> Callable[[str], Configuration]:
    """Read a file and the environment."""

    def read(text: str) -> Configuration:
        (tmp_path / "doubtless.toml").write_text(text, encoding="utf-8")
        return read_configuration()

    return read


@trigger("orders", name="book-order", retry=Retry(backoff=2.0))
def book(order: dict[str, Any]) -> None: ...


@trigger("orders", name="ship-order", history=None)
def ship(order: dict[str, Any]) -> None: ...


Reading = Callable[[str], Configuration]


def test_the_environment_wins_over_the_file_key_by_key(
    configured: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOUBTLESS_HISTORY", "sqlite:///variable.db")
    monkeypatch.setenv("DOUBTLESS_TRIGGERS__BOOK_ORDER__LEASE", "90")
    monkeypatch.setenv("DOUBTLESS_TRIGGERS__BOOK_ORDER__RETRY__MAX_ATTEMPTS", "5")

    configuration = configured(FILE)

    assert configuration.find("history") == FoundValue("sqlite:///variable.db", "DOUBTLESS_HISTORY")
    assert configuration.find("provider") == FoundValue("sqlite:///messages.db", "doubtless.toml, provider")
    assert configuration.find("metrics") is None
    of_book = configuration.of_trigger("book-order")
    assert of_book["lease"] == FoundValue(timedelta(seconds=90), "DOUBTLESS_TRIGGERS__BOOK_ORDER__LEASE")
    assert of_book["retry.max_attempts"].value == 5
    assert of_book["retry.interval"].origin == "doubtless.toml, triggers.book-order.retry.interval"
    assert of_book["concurrency"].value == 8


def test_a_trigger_has_what_is_configured_and_its_function_stays_as_it_is(configured: Reading) -> None:
    (of_file,) = override([book], configured(FILE))

    settings = of_file.settings
    assert (settings.concurrency, settings.lease, settings.prefetch) == (8, timedelta(minutes=2), 10)
    assert settings.retry == Retry(max_attempts=3, interval=timedelta(milliseconds=500), backoff=2.0)
    assert (settings.policy.max_delivery_count, settings.policy.suspend_on_error) == (7, True)
    assert book.settings.concurrency == 1


def test_a_trigger_that_nobody_names_is_the_same_object(configured: Reading) -> None:
    assert override([book], configured("[triggers]\n")) == [book]
    assert override([book], read_configuration(os.devnull)) == [book]


def test_a_history_takes_the_place_of_the_one_in_the_code(configured: Reading) -> None:
    text = '[triggers.book-order]\nhistory = "sqlite:///other.db"\n'

    (other,) = override([book], configured(text))

    assert (other.history_source, other.opens_its_history) == ("sqlite:///other.db", True)
    assert book.needs_history


def test_defaults_are_for_triggers_that_do_not_say_it(
    configured: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    @trigger("orders", name="careful", concurrency=2, redelivery=None)
    def careful(order: dict[str, Any]) -> None: ...

    monkeypatch.setenv("DOUBTLESS_DEFAULTS__MAX_DELIVERY_COUNT", "9")
    text = f"""
[defaults]
concurrency = 16
max_delivery_count = 5
redelivery = {{ interval = "2s" }}
retry = {{ max_attempts = 2, interval = "1s" }}
raise_event_on_exception = false
{FILE[FILE.index("[triggers") :]}"""

    named, other = override([book, careful], configured(text))

    assert (named.settings.concurrency, other.settings.concurrency) == (8, 2)
    assert (named.settings.policy.max_delivery_count, other.settings.policy.max_delivery_count) == (7, 9)
    assert other.settings.redelivery is None
    assert named.settings.redelivery == Redelivery(interval=timedelta(seconds=2))
    assert other.settings.retry == Retry(max_attempts=2, interval=timedelta(seconds=1))
    assert named.settings.retry == Retry(max_attempts=3, interval=timedelta(milliseconds=500), backoff=2.0)
    assert not named.settings.raise_event_on_exception


def test_a_default_that_cannot_be_is_refused_with_the_trigger_that_it_does_not_fit(
    configured: Reading,
) -> None:
    @trigger("orders", name="whole", transacted=True)
    def whole(order: dict[str, Any]) -> None: ...

    with pytest.raises(ConfigurationError) as refused:
        override([book, whole], configured("[defaults.retry]\nmax_attempts = 3"))

    assert refused.value.setting == "doubtless.toml, defaults.retry.max_attempts"
    assert "whole" in str(refused.value)


def test_on_rollback_in_the_code_is_a_word_for_what_a_default_says(configured: Reading) -> None:
    @trigger("orders", name="whole", transacted=True, on_rollback="recover")
    def whole(order: dict[str, Any]) -> None: ...

    @trigger("orders", name="rolled", transacted=True)
    def rolled(order: dict[str, Any]) -> None: ...

    kept, suspended = override([whole, rolled], configured('[defaults]\non_retry_failure = "suspend"'))

    assert kept.settings.policy.on_retry_failure == "throw"
    assert suspended.settings.policy.on_retry_failure == "suspend"


def test_one_line_says_what_all_triggers_do_while_their_history_is_away(configured: Reading) -> None:
    @trigger("orders", name="own", on_history_error="suspend")
    def own(order: dict[str, Any]) -> None: ...

    @trigger(["orders", "payments"], name="joined", join="all")
    def joined(both: Joined) -> None: ...

    line = '[defaults]\non_history_error = "resolve"\n'
    every = override([book, own], configured(line))
    but = override([book, joined], configured(f'{line}[triggers.joined]\non_history_error = "suspend"'))

    assert [made.settings.policy.on_history_error for made in every] == ["resolve", "suspend"]
    assert [made.settings.policy.on_history_error for made in but] == ["resolve", "suspend"]
    with pytest.raises(ConfigurationError, match=r'or say it in \[triggers\."joined"\]'):
        override([book, joined], configured(line))


@pytest.mark.parametrize("value", ["true", '"sqlite:///journal.db"'])
def test_a_journal_is_for_one_trigger_or_for_all_that_have_none(configured: Reading, value: str) -> None:
    @trigger("orders", name="kept", journal="sqlite:///own.db")
    def kept(order: dict[str, Any]) -> None: ...

    wanted = True if value == "true" else value.strip('"')
    one = override([book, kept], configured(f"[triggers.book-order]\njournal = {value}\n"))
    every = override([book, ship, kept], configured(f"journal = {value}\n"))
    but = override([book], configured(f"journal = {value}\n[triggers.book-order]\njournal = false\n"))

    assert [made.settings.journal for made in one] == [wanted, "sqlite:///own.db"]
    without_history = False if value == "true" else wanted
    assert [made.settings.journal for made in every] == [wanted, without_history, "sqlite:///own.db"]
    assert [made.settings.journal for made in but] == [False]


@pytest.mark.parametrize(
    ("text", "journal"), [("true", True), ("false", False), ("redis://h/0", "redis://h/0")]
)
def test_variables_say_journal_too(
    configured: Reading, monkeypatch: pytest.MonkeyPatch, text: str, journal: object
) -> None:
    monkeypatch.setenv("DOUBTLESS_JOURNAL", text)
    (of_all,) = override([book], configured('journal = "sqlite:///file.db"'))
    monkeypatch.setenv("DOUBTLESS_JOURNAL", "true")
    monkeypatch.setenv("DOUBTLESS_TRIGGERS__BOOK_ORDER__JOURNAL", text)
    (of_one,) = override([book], read_configuration())

    assert of_all.settings.journal == of_one.settings.journal == journal


def test_other_modules_may_have_tables_where_that_is_said(configured: Reading) -> None:
    assert override([ship], configured(FILE), complete=False) == [ship]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('histroy = "x"', "histroy: there is no such key; did you mean history?"),
        ("colour = 1", "colour: there is no such key; use defaults, history, journal, log_format, "),
        ("_env_file = 'x'", "_env_file: there is no such key; use defaults, history, "),
        ("[trigger.book-order]", "trigger: there is no such key; did you mean triggers?"),
        ("history = 5", "history: must be a valid string; correct it"),
        ('history = ""', "history: is empty; give a value, or leave it out"),
        ('sinks = ["log:", 5]', "sinks.1: must be a valid string"),
        ("journal = 5", "journal: is neither a switch nor a URL; write true, false or the URL of a history"),
        ('[triggers.book-order]\njournal = ""', "book-order.journal: is neither a switch nor a URL; write"),
        ('log_format = "xml"', "log_format: must be 'text' or 'json'; correct it"),
        ("triggers = 5", "triggers: must be a table; write [triggers] above its keys"),
        ("[triggers]\nbook-order = 5", "triggers.book-order: must be a table; write [triggers.book-order]"),
        (
            "[triggers.bok-order]\nlease = '2m'",
            "triggers.bok-order: there is no such trigger here; did you mean book-order?",
        ),
        (
            "[triggers.book-order]\nconcurency = 2",
            "triggers.book-order.concurency: there is no such key; did you mean concurrency?",
        ),
        (
            "[triggers.book-order]\nresolver = 'a:b'",
            "triggers.book-order.resolver: is said in the code only; write resolver= in @trigger",
        ),
        (
            "[triggers.book-order.retry]\nattempts = 2",
            "triggers.book-order.retry.attempts: there is no such key; did you mean max_attempts?",
        ),
        (
            "[triggers.book-order]\nlease = '2 minutes'",
            "lease: is not a time; write 500ms, 30s, 15m, 2h",
        ),
        ("[triggers.book-order]\nlease = true", "lease: is not a time; write 500ms, 30s, 15m, 2h"),
        ("[triggers.book-order]\nlease = 1e300", "lease: is longer than a hundred years; write a shorter"),
        ("[triggers.book-order]\nconcurrency = true", "concurrency: is no number; write one"),
        (
            "[triggers.book-order]\nconcurrency = 0",
            "concurrency: must be 1 or more, not 0; use a whole number",
        ),
        (
            "[defaults]\nhistory = 'sqlite:///h.db'",
            "defaults.history: is not a default; write history at the top",
        ),
        ("[defaults]\njoin_timeout = '1d'", "defaults.join_timeout: is not a default; write join_timeout in"),
        ("[defaults]\nresolver = 'a:b'", "defaults.resolver: is said in the code only; write resolver= in"),
        (
            "[defaults]\non_rollback = 'recover'",
            'defaults.on_rollback: has another name here; write on_retry_failure = "suspend"',
        ),
        (
            "[triggers.book-order]\non_rollback = 'recover'",
            'book-order.on_rollback: has another name here; write on_retry_failure = "suspend"',
        ),
        (
            "[defaults]\non_history_error = 'wait'",
            "defaults.on_history_error: must be 'suspend' or 'resolve'",
        ),
        ("[defaults]\nconcurency = 2", "defaults.concurency: there is no such key; did you mean conc"),
        ("[defaults.redelivery]\nmax_attempts = 2", "max_attempts: there is no such key; "),
        ("[defaults]\nconcurrency = 0", "defaults.concurrency: must be 1 or more, not 0; use a whole number"),
        (
            "[triggers.book-order]\nlease = '8d'",
            "lease: history_time_to_live 7 days, 0:00:00 is less than the",
        ),
        (
            "[triggers.ship-order]\nhistory = 'redis://h'",
            "triggers.ship-order.history: trigger ship-order has no history, as its code says; leave it out",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_file_key_and_remedy(
    configured: Reading, text: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"^doubtless\.toml, ") as refused:
        override([book, ship], configured(text))

    assert problem in str(refused.value)
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("text", ["a = [", "a = 1\na = 2", "\0", "provider = redis://host"])
def test_what_is_no_toml_is_refused_with_the_place(configured: Reading, text: str) -> None:
    refusal = r"^doubtless.toml: is no TOML: .*; correct it; text stands in quotes$"
    with pytest.raises(ConfigurationError, match=refusal):
        configured(text)


def test_a_file_of_windows_is_read_with_its_byte_order_mark_and_line_ends(configured: Reading) -> None:
    found = configured('\ufeffprovider = "redis://host"\r\nmetrics = "127.0.0.1:9464"\r\n')

    values = [found.find(key) for key in ("provider", "metrics")]
    assert [value and value.value for value in values] == ["redis://host", "127.0.0.1:9464"]


def test_a_file_that_is_no_utf_8_is_refused_with_the_remedy(configured: Reading, tmp_path: Path) -> None:
    configured("")
    (tmp_path / "doubtless.toml").write_bytes('metrics = "x"'.encode("utf-16"))

    with pytest.raises(ConfigurationError, match=r"^doubtless.toml: is not UTF-8: .*; save it as UTF-8$"):
        read_configuration()


def test_what_is_wrong_is_not_quoted_for_it_may_be_a_password(configured: Reading) -> None:
    with pytest.raises(ConfigurationError) as refused:
        configured('provider = ["redis://:hunter2@h"]\n')

    assert "hunter2" not in f"{refused.value!r} {refused.value.__cause__}"
    assert refused.value.__suppress_context__


def test_a_variable_of_a_trigger_is_checked_by_the_names_that_variables_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOUBTLESS_TRIGGERS__BOOK_ORDER__CONCURENCY", "2")
    with pytest.raises(ConfigurationError, match="CONCURENCY: there is no such key; did you mean conc"):
        read_configuration()

    monkeypatch.delenv("DOUBTLESS_TRIGGERS__BOOK_ORDER__CONCURENCY")
    monkeypatch.setenv("DOUBTLESS_TRIGGERS__BOK_ORDER__CONCURRENCY", "2")
    with pytest.raises(ConfigurationError, match=r"^DOUBTLESS_TRIGGERS__BOK_ORDER: there is no such trigger"):
        override([book], read_configuration())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("DOUBTLESS_TRIGGERS", "must be a table; set DOUBTLESS_TRIGGERS__NAME__KEY"),
        ("DOUBTLESS_TRIGGERS__BOOK", "must be a table; set DOUBTLESS_TRIGGERS__BOOK__KEY"),
        ("DOUBTLESS_TRIGGERS__BOOK__RETRY", "must be a table; set DOUBTLESS_TRIGGERS__"),
    ],
)
def test_a_variable_that_would_be_a_whole_table_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    monkeypatch.setenv(name, "{hunter2")

    with pytest.raises(ConfigurationError) as refused:
        read_configuration()

    assert problem in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_variable_that_is_of_two_triggers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @trigger("orders", name="book.order")
    def twin(order: dict[str, Any]) -> None: ...

    monkeypatch.setenv("DOUBTLESS_TRIGGERS__BOOK_ORDER__CONCURRENCY", "2")
    with pytest.raises(ConfigurationError, match=r"BOOK_ORDER: is of book-order and book.order alike"):
        override([book, twin], read_configuration())


def test_a_link_to_a_file_that_is_not_there_is_no_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("doubtless.toml").symlink_to("mounted/doubtless.toml")

    with pytest.raises(ConfigurationError, match=r"^doubtless.toml: there is no file"):
        read_configuration()


def test_a_file_that_is_named_must_be_there_and_a_variable_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOUBTLESS_CONFIG", "mine.toml")
    with pytest.raises(ConfigurationError, match=r"^DOUBTLESS_CONFIG: there is no file mine\.toml; "):
        read_configuration()

    (tmp_path / "mine.toml").write_text('history = "sqlite:///mine.db"', encoding="utf-8")
    assert read_configuration().file == Path("mine.toml")


def test_a_folder_of_that_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "doubtless.toml").mkdir()

    with pytest.raises(ConfigurationError, match=r"^doubtless\.toml: Is a directory; give a readable file"):
        read_configuration()


def test_variables_that_look_like_a_slip_of_the_pen_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOUBTLESS_HISTROY", "DOUBTLESS_PORT", "DOUBTLESS_SERVICE_HOST", "DOUBTLESS_HISTORY"):
        monkeypatch.setenv(name, "x")

    assert list(strange_variables()) == [("DOUBTLESS_HISTROY", "DOUBTLESS_HISTORY")]


def test_each_key_of_a_trigger_is_an_option_of_its_decorator_or_of_its_retry() -> None:
    assert set(TriggerKeys.model_fields) <= set(inspect.signature(trigger).parameters)
    assert list(RetryKeys.model_fields) == list(inspect.signature(Retry).parameters)
    assert list(RedeliveryKeys.model_fields) == list(inspect.signature(Redelivery).parameters)
    tables = {f"retry.{name}" for name in RetryKeys.model_fields}
    tables |= {f"redelivery.{name}" for name in RedeliveryKeys.model_fields}
    assert set(settings_of(book)) == (set(TriggerKeys.model_fields) - {"retry", "redelivery"}) | tables


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs/how-to/configure-a-service.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w.]+)`", page, re.MULTILINE))

    assert listed == {*Keys.model_fields, *TriggerKeys.model_fields} - {"triggers", "defaults"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("env:ORDERS_HISTORY", "env:ORDERS_HISTORY"),
        ("file:/run/secrets/url", "file:/run/secrets/url"),
        ("log:", "log:"),
        ("dead-letter:orders.dead", "dead-letter:orders.dead"),
        ("sqlite:///books.db", "sqlite:///books.db"),
        ("redis://h:1/0?max_connections=5", "redis://h:1/0?max_connections=5"),
        ("redis://me:hunter2@h:1/0", "redis://***@h:1/0"),
        ("redis://h/0?password=hunter2&stream=s", "redis://h/0?password=***&stream=s"),
        ("redis://h/0?password=12345678", "redis://h/0?password=***"),
        ("redis://h/0?password=file:/run/x", "redis://h/0?password=file:/run/x"),
        ("redis://h/0?odd_name=hunter2", "redis://h/0?odd_name=***"),
        ("kafka://h?group=g&offsets=postgresql://me:hunter2@h/db", "kafka://***"),
        ("kafka://h?offsets=postgresql%3A%2F%2Fme%3Ahunter2%40h%2Fdb", "kafka://h?offsets=***"),
        ("https://hooks.example/hunter2?x=hunter2", "https://hooks.example/***"),
        ("redis://me:hunter/2@h/0", "redis://***"),
        ("env:me:hunter2@h", "env://***"),
        ("redis://[hunter2", "redis://***"),
        ("postgresql://me:hunter#2@h/db", "postgresql://***"),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_secret(url: str, shown: str) -> None:
    assert hidden(url) == shown


def test_no_key_shows_the_secret_of_a_url() -> None:
    for key in {*Keys.model_fields, *TriggerKeys.model_fields}:
        for value in ("redis://me:hunter2@h/0", ("redis://me:hunter2@h/0",)):
            assert "hunter2" not in str(show_value(key, value)), key


@pytest.mark.parametrize("text", ["500ms", "30s", "15m", "2h", "7d", "0s"])
def test_times_are_written_as_they_are_read(configured: Reading, text: str) -> None:
    found = configured(f"[triggers.x]\nlease = '{text}'").of_trigger("x")["lease"].value

    assert written(found) == text


def test_where_nothing_is_configured_the_library_that_reads_it_is_not_loaded(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom triggers.configuration import read_configuration as read\n"
        "assert not read().layers\nassert not {'pydantic', 'pydantic_settings'} & set(sys.modules)"
    )

    kept = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=kept, check=False)

    assert ended.returncode == 0
