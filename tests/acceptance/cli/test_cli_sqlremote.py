"""A user types ``doubtless sqlremote``: set up, send, receive, look, stop, start, reset."""

import json
import signal
import sqlite3
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from history.bridge import drive
from tests.acceptance.in_process import InProcess
from tests.fixtures.monitoring import ask
from tests.fixtures.waiting import eventually
from triggers.providers.sqlremote.links import Links
from triggers.providers.sqlremote.publication.publication import Publication
from triggers.testing.redis_server import free_port

SETTINGS = """
database = "sqlite:///{name}.db"
[links.orders]
carrier = "file://{folder}/exchange"
inbox = "{name}"
outbox = "{peer}"
"""

MODULE = """
from sqlalchemy import Connection, text
from triggers import trigger

@trigger("link:orders", name="apply", transacted=True)
def apply(operations: list[int], connection: Connection) -> None:
    for operation in operations:
        connection.execute(text("INSERT INTO got VALUES (:n)"), {"n": operation})
"""


@pytest.mark.parametrize("command", [["send"], ["run", "applying", "--batch"]], ids=" ".join)
def test_a_carrier_that_is_away_holds_up_no_other_link(tmp_path: Path, command: list[str]) -> None:
    doubtless = InProcess(tmp_path)
    (tmp_path / "applying.py").write_text(MODULE)
    away = SETTINGS.format(name="x", peer="z", folder="/dev/null").replace("links.orders", "links.away")
    second = SETTINGS.format(name="x", peer="y", folder=tmp_path).partition("[")[2]
    (tmp_path / "x.toml").write_text(f"{away}[{second}")
    heard = tmp_path / "exchange" / "y"

    done = doubtless("sqlremote", command[0], "x.toml", *command[1:])

    assert (done.code, bool(list(heard.iterdir()))) == (3, True)
    assert done.err.startswith("away did not run")


def test_hooks_are_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doubtless = InProcess(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    (tmp_path / "hooks_here.py").write_text(
        "from triggers.providers.sqlremote import Hooks\n"
        "class Heard(Hooks):\n    def begin(self, link): print('begins', link)\n"
    )
    settings = SETTINGS.format(name="x", peer="y", folder=tmp_path) + "hooks = 'hooks_here:Heard'\n"
    (tmp_path / "x.toml").write_text(settings)

    sent = doubtless("sqlremote", "send", "x.toml")

    assert (sent.code, sent.err) == (0, "")
    assert "begins orders" in sent.out


def test_status_shows_links_although_the_carrier_is_away(tmp_path: Path) -> None:
    doubtless = InProcess(tmp_path)
    away = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    text_of = SETTINGS.format(name="x", peer="y", folder=tmp_path)
    (tmp_path / "x.toml").write_text(text_of.replace(f"file://{tmp_path}/exchange", away))
    doubtless("sqlremote", "setup", "x.toml")

    shown = doubtless("sqlremote", "status", "x.toml", "--json")

    assert (shown.code, [(row["inbox"], row["gap"]) for row in shown.json]) == (0, [(None, None)])


@pytest.mark.timeout(300)
def test_a_link_is_set_up_run_stopped_and_reset(tmp_path: Path) -> None:
    doubtless = InProcess(tmp_path)
    (tmp_path / "applying.py").write_text(MODULE)
    for name, peer in ("xy", "yx"):
        (tmp_path / f"{name}.toml").write_text(SETTINGS.format(name=name, peer=peer, folder=tmp_path))
    assert doubtless("sqlremote", "setup", "x.toml").code == 0  # the other commands also do this
    x, y = (create_engine(f"sqlite:///{tmp_path}/{name}.db") for name in "xy")
    with y.begin() as connection:
        connection.execute(text("CREATE TABLE got (n INTEGER)"))
    with x.begin() as connection:
        Publication("orders").append(connection, 1, 2)

    (sent,) = doubtless("sqlremote", "send", "x.toml", "--json").json
    (received,) = doubtless("sqlremote", "receive", "y.toml", "applying", "--json").json
    (confirmed,) = doubtless("sqlremote", "run", "x.toml", "--batch", "--json").json

    assert (sent["log_sent"], sent["unconfirmed"]) == (1, 1)
    assert (received["log_received"], received["inbox"]) == (1, 0)
    assert (confirmed["confirm_sent"], confirmed["unconfirmed"]) == (1, 0)
    with y.connect() as connection:
        assert connection.execute(text("SELECT n FROM got ORDER BY n")).scalars().all() == [1, 2]

    stopped = doubtless("sqlremote", "stop", "y.toml", "orders", "--reason", "moving house")
    told = doubtless("sqlremote", "status", "y.toml")

    assert (stopped.code, told.code) == (0, 1)
    assert "orders stands still: moving house" in told.err

    begin = doubtless("sqlremote", "reset", "x.toml", "orders", "--yes", "--json").json["begin"]
    taken = doubtless("sqlremote", "reset", "y.toml", "orders", "--peer", begin, "--yes")

    assert "orders goes on behind 1" in taken.out

    with x.begin() as connection:
        connection.execute(text("CREATE TABLE got (n INTEGER)"))
        connection.execute(text("INSERT INTO got VALUES (7)"))
    unnamed = doubtless("sqlremote", "extract", "x.toml", "orders", "--to", "got.extract", "--yes")
    extracted = doubtless("sqlremote", "extract", "x.toml", "orders", "-t", "got", "-o", "got.extract", "-y")
    loaded = doubtless("sqlremote", "load", "y.toml", "orders", "got.extract", "--yes")

    assert "no table of link orders is named" in unnamed.error
    assert "doubtless sqlremote load SETTINGS orders got.extract" in extracted.out
    assert "1 rows are loaded" in loaded.out
    with y.connect() as connection:
        assert connection.execute(text("SELECT n FROM got")).scalars().all() == [7]
    for engine in (x, y):
        engine.dispose()


@pytest.mark.parametrize("module", [[], ["applying"]])
def test_links_answer_monitoring_and_log_as_is_configured(tmp_path: Path, module: list[str]) -> None:
    doubtless = InProcess(tmp_path)
    (tmp_path / "applying.py").write_text(MODULE)
    (tmp_path / "y.toml").write_text(SETTINGS.format(name="y", peer="x", folder=tmp_path))
    (tmp_path / "exchange").write_text("a file, so that the carrier is away, and the log says so")
    port = free_port()
    (tmp_path / "doubtless.toml").write_text(f'metrics = "127.0.0.1:{port}"\nlog_format = "json"\n')

    with doubtless.start("sqlremote", "run", "y.toml", *module, "--name", "munich") as process:
        try:
            eventually(lambda: ask(port, "/livez")[0] == 200)
            metrics = ask(port, "/metrics")[1]
            assert process.stderr is not None
            logged = json.loads(process.stderr.readline())
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()

    assert ('doubtless_trigger_state{state="running",trigger="apply"} 1.0' in metrics) == bool(module)
    assert (logged["process"], logged["consumer"]) == (process.pid, "munich")


@pytest.mark.parametrize(
    "position", ["a b:3", "é:3", "x" * 49 + ":3", ":3", "x:", "x:٣", "x:-3", "x:9223372036854775808"]
)
def test_a_position_that_no_end_has_printed_changes_nothing(tmp_path: Path, position: str) -> None:
    doubtless = InProcess(tmp_path)
    (tmp_path / "x.toml").write_text(SETTINGS.format(name="x", peer="y", folder=tmp_path))
    doubtless("sqlremote", "setup", "x.toml")
    before = doubtless("sqlremote", "status", "x.toml", "--json").json

    refused = doubtless("sqlremote", "reset", "x.toml", "orders", "--peer", position, "--yes")

    assert refused.code == 2
    assert "--peer:" in refused.error
    assert "is no EPOCH:OFFSET" in refused.error
    assert doubtless("sqlremote", "status", "x.toml", "--json").json == before


def test_a_link_that_another_process_runs_is_not_called_a_server_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    doubtless = InProcess(tmp_path)
    (tmp_path / "x.toml").write_text(SETTINGS.format(name="x", peer="y", folder=tmp_path))
    doubtless("sqlremote", "setup", "x.toml")
    links = Links.from_file(tmp_path / "x.toml")
    agent = links.agent("orders", applies=False)
    drive(agent.step())

    refused = doubtless("sqlremote", "send", "x.toml")

    drive(agent.close())
    drive(links.close())
    assert refused.code == 3
    assert f"taking it: {agent.end.token} runs it; wait until that process ends, or stop it" in refused.error


def test_a_link_that_nobody_knows_is_named(tmp_path: Path) -> None:
    doubtless = InProcess(tmp_path)
    (tmp_path / "x.toml").write_text(SETTINGS.format(name="x", peer="y", folder=tmp_path))

    unknown = doubtless("sqlremote", "start", "x.toml", "payments")

    assert unknown.code == 2
    assert "use one of: orders" in unknown.error


def test_a_link_that_left_the_settings_keeps_the_log_until_it_is_revoked(tmp_path: Path) -> None:
    doubtless = InProcess(tmp_path)
    (tmp_path / "applying.py").write_text(MODULE)
    whole = SETTINGS.format(name="x", peer="y", folder=tmp_path)
    third = f'[links.third]\ncarrier = "file://{tmp_path}/exchange"\ninbox = "x3"\noutbox = "z"\n'
    (tmp_path / "x.toml").write_text(f'{whole}keep_log = 0\n{third}publication = "orders"\nkeep_log = 0\n')
    (tmp_path / "y.toml").write_text(SETTINGS.format(name="y", peer="x", folder=tmp_path))
    assert doubtless("sqlremote", "setup", "x.toml").code == 0
    x, y = (create_engine(f"sqlite:///{tmp_path}/{name}.db") for name in "xy")
    with y.begin() as connection:
        connection.execute(text("CREATE TABLE got (n INTEGER)"))
    with x.begin() as connection:
        Publication("orders").append(connection, 1, 2)

    def exchange() -> int:
        """Let the peer of "orders" confirm all operations. Return how many operations the log still keeps."""
        assert doubtless("sqlremote", "run", "x.toml", "--batch", "--link", "orders").code == 0
        assert doubtless("sqlremote", "run", "y.toml", "applying", "--batch").code == 0
        assert doubtless("sqlremote", "run", "x.toml", "--batch", "--link", "orders").code == 0
        with x.connect() as connection:
            return int(connection.execute(text("SELECT count(*) FROM doubtless_link_log")).scalar_one())

    refused = doubtless("sqlremote", "revoke", "x.toml", "third", "--yes")
    (tmp_path / "x.toml").write_text(f"{whole}keep_log = 0\n")
    status = doubtless("sqlremote", "status", "x.toml", "--json")
    misspelt = doubtless("sqlremote", "revoke", "x.toml", "thrid", "--yes")
    kept = exchange()
    answer = doubtless("sqlremote", "revoke", "x.toml", "third", "--yes", "--json")

    assert (refused.code, misspelt.code) == (2, 2)
    assert "third" in misspelt.error
    assert {row["link"]: row["state"] for row in status.json} == {
        "orders": "idle",
        "third": "not in settings",
    }
    assert kept == 2, "the third peer may still come for it"
    assert (answer.code, answer.json["unconfirmed"]) == (0, 1)
    assert exchange() == 0
    assert [row["link"] for row in doubtless("sqlremote", "status", "x.toml", "--json").json] == ["orders"]
    for engine in (x, y):
        engine.dispose()


def test_status_names_a_publication_that_no_link_sends(tmp_path: Path) -> None:
    doubtless = InProcess(tmp_path)
    (tmp_path / "x.toml").write_text(SETTINGS.format(name="x", peer="y", folder=tmp_path))
    assert doubtless("sqlremote", "setup", "x.toml").code == 0
    engine = create_engine(f"sqlite:///{tmp_path}/x.db")
    with engine.begin() as connection:
        Publication("orders").append(connection, 1)
    before = doubtless("sqlremote", "status", "x.toml")
    for number in range(2):
        with engine.begin() as connection:
            Publication("ordrs").append(connection, number, number)
    after = doubtless("sqlremote", "status", "x.toml")
    engine.dispose()

    assert (before.code, before.err) == (0, "")
    assert (after.code, len(after.err.splitlines())) == (0, 1)
    assert "publication ordrs, of which the log has 2 transactions" in after.err


CAPTURED = SETTINGS + 'tables = ["orders(id, n)"]\ncapture = true\n'


def test_captured_tables_need_no_module_and_are_compared(tmp_path: Path) -> None:
    doubtless = InProcess(tmp_path)
    for name, peer in ("xy", "yx"):
        (tmp_path / f"{name}.toml").write_text(CAPTURED.format(name=name, peer=peer, folder=tmp_path))
        engine = create_engine(f"sqlite:///{tmp_path}/{name}.db")
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER, own TEXT)"))
            if name == "y":
                connection.execute(text("INSERT INTO orders (id) VALUES (7)"))  # before SQL triggers exist
        engine.dispose()
        assert doubtless("sqlremote", "setup", f"{name}.toml").code == 0
    other = sqlite3.connect(tmp_path / "x.db")
    with other:
        other.execute("INSERT INTO orders VALUES (1, 12, 'berlin')")
    other.close()

    (waiting,) = doubtless("sqlremote", "status", "x.toml", "--json").json
    doubtless("sqlremote", "run", "x.toml", "--batch")
    (received,) = doubtless("sqlremote", "receive", "y.toml", "--json").json
    compared = doubtless("sqlremote", "compare", "x.toml", "orders", "--with", "y.toml", "--json")
    written = doubtless("sqlremote", "compare", "y.toml", "orders", "--to", "y.sums", "--json")
    from_file = doubtless("sqlremote", "compare", "x.toml", "orders", "--with", "y.sums")

    assert (waiting["captured"], waiting["log_end"], received["log_received"]) == (1, 0, 1)
    assert (compared.code, compared.json[0]["missing_here"], compared.json[0]["different"]) == (
        1,
        ["[7]"],
        [],
    )
    assert (written.code, written.json[0]["rows"]) == (0, 2)
    assert (from_file.code, "orders, missing here: [7]" in from_file.err) == (1, True)


OFFICE = """
subscription = "ann"
tables = ["shops subscribe by rep"]
capture = true
to_sender = true
"""

REMOTE = """
tables = ["shops"]
capture = true
"""


def test_a_link_carries_extracts_and_compares_the_rows_of_its_subscription(tmp_path: Path) -> None:
    doubtless = InProcess(tmp_path)
    engines = {name: create_engine(f"sqlite:///{tmp_path}/{name}.db") for name in "xy"}
    for name, peer, more in (("x", "y", OFFICE), ("y", "x", REMOTE)):
        text_of = SETTINGS.format(name=name, peer=peer, folder=tmp_path) + more
        (tmp_path / f"{name}.toml").write_text(text_of)
        with engines[name].begin() as connection:
            connection.execute(text("CREATE TABLE shops (id INTEGER PRIMARY KEY, rep TEXT)"))
    with engines["x"].begin() as connection:
        connection.execute(text("INSERT INTO shops VALUES (1, 'ann'), (2, 'bob')"))
    for name in "xy":
        assert doubtless("sqlremote", "setup", f"{name}.toml").code == 0

    extracted = doubtless("sqlremote", "extract", "x.toml", "orders", "--to", "down", "--yes", "--json")
    loaded = doubtless("sqlremote", "load", "y.toml", "orders", "down", "--yes", "--json")
    with engines["x"].begin() as connection:
        connection.execute(text("INSERT INTO shops VALUES (3, 'ann'), (4, 'bob')"))
        connection.execute(text("UPDATE shops SET rep = 'ann' WHERE id = 2"))
    before = doubtless("sqlremote", "compare", "x.toml", "orders", "--with", "y.toml", "--json")
    for name in "xyx":
        assert doubtless("sqlremote", "run", f"{name}.toml", "--batch").code == 0
    after = doubtless("sqlremote", "compare", "x.toml", "orders", "--with", "y.toml", "--json")

    assert (extracted.code, loaded.json["rows"]) == (0, 1)
    assert before.json[0]["missing_there"] == ["[2]", "[3]"]
    assert (after.code, after.json[0]["rows"], after.json[0]["other_rows"]) == (0, 3, 3)

    office = tmp_path / "x.toml"
    office.write_text(office.read_text().replace('"ann"', '"bob"'))
    changed = doubtless("sqlremote", "setup", "x.toml")
    status = doubtless("sqlremote", "status", "x.toml")
    start, reset = (
        doubtless("sqlremote", *command, "x.toml", "orders", *more)
        for command, more in ((["start"], []), (["reset"], ["--confirmed", "0", "--yes"]))
    )

    wanted = "doubtless sqlremote extract SETTINGS orders --to FILE here"
    assert [one.code for one in (changed, status, start, reset)] == [1, 1, 2, 2]
    assert [wanted in one.err for one in (changed, status, start, reset)] == [True] * 4
    stopped = [doubtless("sqlremote", "stop", "x.toml", "orders").code for _ in range(2)]
    (still,) = doubtless("sqlremote", "status", "x.toml", "--json").json
    codes = [doubtless("sqlremote", "start", "x.toml", "orders").code for _ in range(2)]
    (receives,) = doubtless("sqlremote", "status", "x.toml", "--json").json
    assert (stopped, codes) == ([0, 0], [0, 2])
    assert still["stopped"] == f"somebody stopped it; {receives['stopped']}"
    assert receives["stopped"].startswith("SUBSCRIPTION_CHANGED")
    assert doubtless("sqlremote", "extract", "x.toml", "orders", "--to", "new", "--yes").code == 0
    assert doubtless("sqlremote", "setup", "x.toml").code == 0
