"""A user starts and stops ``doubtless dashboard``."""

import json
import signal
from pathlib import Path

import httpx
import pytest

from tests.acceptance.in_process import InProcess
from tests.fixtures.waiting import PATIENCE, patiently


def test_it_prints_an_address_that_signs_in_and_ends_with_a_signal(
    doubtless: InProcess, redis_url: str
) -> None:
    process = doubtless.start("dashboard", "shop", "--port", "0", "--json", "--history", redis_url)
    assert process.stdout is not None
    try:
        printed = "".join(process.stdout.readline() for _ in range(3))
        address, _, token = json.loads(printed)["url"].partition("#")
        with httpx.Client(timeout=PATIENCE) as browser:
            signed_in = browser.post(address, data={"token": token})
            page = browser.get(httpx.URL(address).join("/"))
            # A watching browser does not keep the dashboard from ending.
            with browser.stream("GET", httpx.URL(address).join("/live/overview")) as live:
                event = next(live.iter_lines())
                process.send_signal(signal.SIGINT)
                code = patiently(process.wait)
    finally:
        process.kill()
        process.communicate()

    assert (signed_in.status_code, page.status_code, code) == (303, 200, 130)
    assert event.startswith("data: ")


@pytest.mark.parametrize("named", ["Desk.example.com", "desk.example.com:8443", "https://desk.example.com/"])
def test_a_host_name_is_allowed_however_a_person_writes_it(
    doubtless: InProcess, redis_url: str, named: str
) -> None:
    process = doubtless.start("dashboard", "--port", "0", "--allowed-host", named, "--history", redis_url)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[-1].partition("sign-in")[0]
        answers = [
            httpx.get(f"{address}livez", headers={"host": host}, timeout=PATIENCE).status_code
            for host in ("desk.example.com", "desk.example.com:8443", "other.example.com")
        ]
    finally:
        process.kill()
        process.communicate()

    assert answers == [200, 200, 400]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing_here", "--allowed-host", "https://"], "--allowed-host: https:// names no host"),
        (["--host", "0.0.0.0"], "--tokens: it is missing, and 0.0.0.0 is reached from elsewhere"),  # noqa: S104
        (["--bodies", "everybody"], "--bodies: 'everybody' is no role"),
        (["--tokens", "none.txt"], "--tokens: none.txt cannot be read"),
        (["--tokens", "open.txt"], "--tokens: all users may read open.txt (mode 644)"),
        (
            ["--tokens", "short.txt"],
            "--tokens: the secret in line 1 of short.txt has fewer than",
        ),
        (["--tokens", "wrong.txt"], "--tokens: line 2 of wrong.txt is no token"),
        (["--tokens", "turned.txt"], "--tokens: line 1 of turned.txt is no token"),
        (["--tokens", "empty.txt"], "--tokens: there is no token in empty.txt"),
        (
            ["--proxy-role-header", "X-Role"],
            "--proxy-user-header: is missing, and --proxy-role-header does nothing without it; say in which",
        ),
        (["--proxy-address", "10.0.0.1"], "--proxy-user-header: is missing, and --proxy-address does"),
        (["nothing_here"], "MODULE: there is no module nothing_here"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    doubtless: InProcess, redis_url: str, words: list[str], says: str
) -> None:
    files = {
        "open.txt": "ann admin 12345678901234567890",
        "short.txt": "ann admin 123",
        "wrong.txt": "# tokens\nann admin",
        "turned.txt": "ann 12345678901234567890 admin",
        "empty.txt": "\n# none\n",
    }
    for name, text in files.items():
        file: Path = doubtless.folder / name
        file.write_text(text)
        file.chmod(0o644 if name == "open.txt" else 0o600)

    answer = doubtless("dashboard", *words, "--port", "0", "--history", redis_url)

    assert answer.code == 2
    assert answer.error.startswith(f"error: {says}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--history: is missing: doubtless.toml names none, and this folder has no doubtless.sqlite3"),
        (["--history", "sqlite:///gone.db"], "--history: there is no file gone.db"),
    ],
)
def test_no_address_is_printed_where_there_is_no_history(
    doubtless: InProcess, words: list[str], says: str
) -> None:
    answer = doubtless("dashboard", "--port", "0", *words)

    assert (answer.code, answer.out) == (2, "")
    assert answer.error.startswith(f"error: {says}")


def test_a_port_that_is_taken_is_said(doubtless: InProcess, redis_url: str) -> None:
    taken = redis_url.rpartition(":")[2].partition("/")[0]

    answer = doubtless("dashboard", "--port", taken, "--history", redis_url)

    assert answer.code == 2
    assert answer.error.startswith(f"error: --port: 127.0.0.1, {taken}: ")
