"""A user starts a small fleet. The tests check who can read the files it leaves, and their contents."""

import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette

from history.bridge import drive
from history.opening import open_history
from tests.acceptance.in_process import InProcess
from tests.integration.dashboard.browser import Browser
from triggers.dashboard import Access, Role, Token, create_app
from triggers.dashboard.app import DONE, SHOWN
from triggers.security.recorder import SecurityLogging

#: The card number in a body, and the card number in an error.
IN_BODY, IN_ERROR = "4111111111111111", "5555555555554444"

SERVICE = f"""
from doubtless import CARD_NUMBERS, FatalError, trigger

@trigger("orders", name="pay", redact=CARD_NUMBERS)
def pay(order: dict[str, str]) -> None:
    raise FatalError("the bank knows no card {IN_ERROR}")
"""

LINE = json.dumps({"headers": {"uuid": "order-1"}, "body": {"id": "order-1", "card": IN_BODY}})

KEY = {"PAY_KEY": "11" * 32}

HISTORY = "sqlite:///history.db?encrypt=env:PAY_KEY"

#: These files must contain bodies in plain text: the messages, and events for others.
WITH_BODIES = {"messages.db", "events.db"}


@pytest.fixture
def careless() -> Iterator[None]:
    """A user with a umask that lets anybody read and write new files."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def fleet(doubtless: InProcess, careless: None) -> InProcess:
    """A folder in which messages were sent, queued, run, parked and viewed."""
    (doubtless.folder / "service.py").write_text(SERVICE)
    provider = "sqlite:///messages.db"
    queue = ("--queue", "queue.db", "--encrypt", "env:PAY_KEY")
    answers = [
        doubtless("send", "orders", "-", "--provider", provider, stdin=LINE),
        doubtless("send", "orders", "-", "--provider", "redis://127.0.0.1:1/0", *queue, stdin=LINE, **KEY),
        doubtless(
            *("run", "service", "--provider", provider, "--history", HISTORY, "--until-idle", "0.1"),
            *("--sink", "sqlite:///events.db"),
            **KEY,
        ),
        doubtless("parked", "list", "--history", HISTORY, **KEY),
        doubtless("why", "order-1", "--history", HISTORY, **KEY),
    ]
    assert [answer.code for answer in answers] == [0] * 5, answers
    (doubtless.folder / "said.txt").write_text("".join(answer.out + answer.err for answer in answers))
    return doubtless


@pytest.fixture
def site(fleet: InProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starlette]:
    """The dashboard over the fleet, with a token for each role, and a file for its security log."""
    monkeypatch.setenv("PAY_KEY", KEY["PAY_KEY"])
    url = f"sqlite:///{fleet.folder}/history.db?encrypt=env:PAY_KEY"
    access = Access(
        tokens=[Token(role.word, role, secret_of(role)) for role in Role],
        security_log=SecurityLogging(file=fleet.folder / "security.jsonl"),
    )
    store = open_history(url)
    app = create_app(url, access=access, store=store, background=False)
    yield app
    app.state.operations.close()
    drive(store.close())


@contextmanager
def visitor(site: Starlette, role: Role | None) -> Generator[Browser]:
    """Return a browser that is signed in with this role, or not signed in."""
    browser = Browser(site)
    if role is not None:
        assert browser.sign_in(secret_of(role)).status_code == 303
    yield browser
    browser.close()


def secret_of(role: Role) -> str:
    return f"{role.word}-secret-of-thirty-two-characters"


def written_by(fleet: InProcess) -> dict[Path, bytes]:
    """Return all files that doubtless has written, with their contents."""
    ours = {"service.py", "said.txt"}
    files = [one for one in fleet.folder.rglob("*") if one.is_file() and "__pycache__" not in one.parts]
    return {one.relative_to(fleet.folder): one.read_bytes() for one in files if one.name not in ours}


def test_nobody_else_may_read_what_it_leaves_behind(fleet: InProcess, site: Starlette) -> None:
    with visitor(site, Role.ADMIN) as admin:
        admin.page("/")

    files = written_by(fleet)

    names = {file.name for file in files}
    assert names >= {"history.db", "messages.db", "queue.db", "events.db", "security.jsonl"}
    assert [str(file) for file in files if (fleet.folder / file).stat().st_mode & 0o077] == []


def test_no_card_is_in_a_file_but_in_bodies_and_none_is_said(fleet: InProcess, site: Starlette) -> None:
    with visitor(site, Role.ADMIN) as admin:
        admin.page("/parked")

    files = written_by(fleet)
    said = (fleet.folder / "said.txt").read_text()

    assert [str(file) for file, data in files.items() if IN_ERROR.encode() in data] == []
    with_body = {str(file).removesuffix("-wal") for file, data in files.items() if IN_BODY.encode() in data}
    assert {"events.db"} <= with_body <= WITH_BODIES
    assert "redacted: card number" in said
    assert IN_ERROR not in said
    assert IN_BODY not in said


def test_no_route_answers_without_its_role(site: Starlette) -> None:
    with visitor(site, None) as stranger:
        assert {stranger.get(path).status_code for path in SHOWN} == {303}
        assert {stranger.post(path, {}).status_code for path in DONE} == {401}
    for mine in Role:
        with visitor(site, mine) as somebody:
            shown = {path for path in SHOWN if somebody.get(path).status_code != 403}
            assert shown == {path for path, (_, needed) in SHOWN.items() if mine >= needed}
            # Nobody may change anything without the token that is only in the session's forms.
            assert {somebody.post(path, {"csrf": "guessed"}).status_code for path in DONE} == {403}


def test_a_viewer_sees_no_card_on_any_page(site: Starlette) -> None:
    with visitor(site, Role.VIEWER) as viewer:
        pages = [viewer.get(path).text for path in SHOWN]

    assert [page for page in pages if IN_BODY in page or IN_ERROR in page] == []
    assert any("order-1" in page for page in pages)
