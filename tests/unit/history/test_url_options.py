"""An unknown option in a URL is refused, so that nobody runs without an option that they set."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from history import ConfigurationError, open_history
from history.bridge import drive
from history.sql.database.engine import open_engine, parsed_url
from history.sql.database.probe import server_of
from triggers.providers.opening import open_provider
from triggers.providers.sqljms.admin.admin import Admin
from triggers.providers.sqljms.limbo.limbo import Limbo
from triggers.sinks.opening import open_sink

SQLITE, REDIS = "sqlite:///file.db", "redis://127.0.0.1:1/0"


@pytest.mark.parametrize(
    ("opening", "url", "name", "remedy"),
    [
        (open_history, f"{SQLITE}?timeuot=5", "timeuot", "did you mean timeout?"),
        (open_history, f"{SQLITE}?timeout=5&circiut=off", "circiut", "did you mean circuit?"),
        (open_history, f"{SQLITE}?mode=ro", "mode", "uri, or leave it out"),
        (open_history, f"{SQLITE}?uri=true&mode=ro", "mode", "uri, or leave it out"),
        (open_history, "sqlite:///file:f.db?uri=true&moed=ro", "moed", "did you mean mode or modeof?"),
        (open_history, "memory://?lease=1", "lease", "such a URL has no options"),
        (open_history, "memory://name?lease=", "lease", "such a URL has no options"),
        (open_provider, f"{SQLITE}?poll_intreval=1", "poll_intreval", "did you mean poll_interval?"),
        (open_provider, f"{SQLITE}?lease=5&batch=9", "batch", "timeout, uri, or leave it out"),
        (open_provider, "memory://?lease=1", "lease", "such a URL has no options"),
        (Admin.from_url, f"{SQLITE}?leese=1", "leese", "did you mean lease?"),
        (Limbo.from_url, f"{SQLITE}?leese=1", "leese", "did you mean lease?"),
        (open_sink, f"{SQLITE}?tabel=t", "tabel", "did you mean table?"),
        (open_sink, "log:?level=debug", "level", "such a URL has no options"),
        (
            open_history,
            f"{REDIS}?claim_idel=1",
            "claim_idel",
            "circuit, durability, encrypt, or leave it out",
        ),
        (open_history, f"{REDIS}?durabilty=replicas:1", "durabilty", "did you mean durability?"),
        (open_history, f"{REDIS}?socket_timout=1", "socket_timout", "did you mean socket_timeout?"),
        (open_provider, f"{REDIS}?claim_idel=1", "claim_idel", "did you mean claim_idle?"),
        (open_provider, f"{REDIS}?lease=30", "lease", "leave it out"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest(
    opening: Callable[[str], object], url: str, name: str, remedy: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"its URL has an unknown option '{name}'") as refused:
        opening(url)

    assert refused.value.remedy.endswith(remedy)


@pytest.mark.parametrize(
    "query", ["timeout=5", "cached_statements=9&circuit=on", "mode=rwc&cache=private&uri=true"]
)
def test_those_of_the_driver_are_taken(tmp_path: Path, query: str) -> None:
    file = f"file:{tmp_path}/h.db" if "uri" in query else f"{tmp_path}/h.db"
    history = open_history(f"sqlite:///{file}?{query}")

    (claim,) = drive(history.claim("book-order", ["u1"], "worker-1"))

    assert claim.found is None
    drive(history.close())


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan", "inf"])
def test_a_timeout_that_is_no_time_is_refused(seconds: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_history(f"{SQLITE}?timeout={seconds}")

    assert refused.value.setting == "timeout"


@pytest.mark.parametrize(("seconds", "milliseconds"), [("0.5", 500), ("1e12", 2_147_483_000)])
def test_sqlite_waits_as_long_as_the_url_says_or_as_it_can(
    tmp_path: Path, seconds: str, milliseconds: int
) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/h.db?timeout={seconds}", asyncio=False)

    assert isinstance(engine, Engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == milliseconds
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("postgresql://db:5433/shop", "db:5433"),
        ("postgresql:///shop", "localhost:5432"),
        ("postgresql:///shop?host=/var/run/postgresql", "/var/run/postgresql"),
        ("postgresql://db1:5433,db2/shop", "db1:5433,db2:5432"),
    ],
)
def test_a_server_is_named_as_its_url_names_it(url: str, server: str) -> None:
    assert server_of(parsed_url(url)) == server
