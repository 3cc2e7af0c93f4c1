"""Every option and argument refuses hostile values. The error is one line that names it."""

import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest
import uvicorn

from history.bridge import drive
from history.opening import open_history
from tests.acceptance.cli.tree import Parameter, lay_out, parameters
from tests.acceptance.command_line import Answer
from tests.acceptance.in_process import InProcess

HUGE = "9" * 40

#: Texts that are not valid for a type.
TEXTS = ["", "a\0b", "\udcff\udc80", "\ud800"]
NUMBERS = ["", "x", "nan", "inf", "1e400", HUGE, f"-{HUGE}", "9223372036854775808", "9" * 5_000]
TIMES = ["", "x", "nan", "inf", "-inf", "1e400", "1e308", "1e18", "-1", HUGE]
CHOICES = ["", "x", "a\0b", "A" * 1_000]

DURATIONS = ["1e400d", "-1d", "nand", "infs", "1.5h", f"{HUGE}d", "999999999d", "0001-01-01", "10000-01-01"]

#: Texts that are also not valid for these options.
WORSE = {
    **dict.fromkeys(("--older", "--newer", "--keep"), DURATIONS),
    "--rate": ["1e400/s", "-1/s", "nan/s", "inf/s", "5", "5/w", f"{HUGE}/d"],
    "--port": ["-1", "65536"],
    "--metrics": [":", "::", "host:x", "host:-1", "127.0.0.1:70000", "x"],
    "--history": ["x", "https://[", "redis://h:99999/0", "ftp://h"],
    "--provider": ["x", "https://[", "redis://h:99999/0", "ftp://h"],
    "--sink": ["x", "https://["],
    "--processes": ["0", "-1", "1000000"],
    "--limit": ["0", "-1"],
    "--priority": ["-1", "10"],
    "--queue-limit": ["-2"],
    "--count": ["0", "1000000000000"],
}

#: Commands that report an invalid URL on a page or in a table, and still do their work.
TELLING = {("dashboard",), ("doctor",), ("config", "show")}

#: Parameters that name a file to read, and files that none of them accepts.
READ = {"file", "settings", "files", "--tokens", "--orders", "--config"}
NO_FILES = ["none", "none/none", "folder", "a" * 5_000, "/proc/self/mem"]
NO_TOML = ["binary", "deep"]

#: A user may mean these values. They are accepted, or refused without a raw error.
STRANGE = [" ", "\n", "\x1b[31m", "[", "%", "*", "-1", "../..", "\u202e", "'; --", "a" * 100_000]

#: The errors that doubtless did not expect contain these words.
RAW = "--verbose shows where"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    lay_out(made)
    doubtless = InProcess(made)
    doubtless("send", "orders", "lines.jsonl", "--provider", "sqlite:///messages.db")
    doubtless("sqlremote", "setup", "links.toml")
    drive(open_history(f"sqlite:///{made}/history.db").close())
    (made / "history.db").touch()
    (made / "tokens").write_text("somebody admin secret-of-many-characters\n")
    (made / "tokens").chmod(0o600)
    return made


@pytest.fixture
def doubtless(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    """The command line, in a folder with the files that words name. Servers and workers end immediately."""
    monkeypatch.setattr(uvicorn.Server, "run", _nothing)
    monkeypatch.setattr("triggers.demo.orders.make_orders", _nothing_to_send)
    monkeypatch.setattr("triggers.cli.run.supervise", _nothing)
    monkeypatch.setattr("triggers.cli.patchbay.supervise", _nothing)
    before = {one.name for one in folder.iterdir()}
    yield InProcess(folder)
    for one in folder.iterdir():
        if one.name not in before and one.is_file():
            one.unlink()


def _nothing(*_: object, **__: object) -> int:
    return 0


def _nothing_to_send(_: int) -> Iterator[bytes]:
    return iter([])


def call(doubtless: InProcess, parameter: Parameter, value: str) -> Answer:
    words = parameter.words(value)
    urls = {"DOUBTLESS_HISTORY": "sqlite:///history.db", "DOUBTLESS_PROVIDER": "sqlite:///messages.db"}
    return doubtless(*words, **urls)


def assert_refused(answer: Answer, parameter: Parameter, value: str) -> None:
    assert answer.code == 2, (value[:50], answer)
    named = value if value in NO_TOML else parameter.shown  # for a file, the error names the parameter
    assert named in answer.error.lower(), (value[:50], answer.err[-500:])
    assert RAW not in answer.err, (value[:50], answer.err[-500:])
    assert len(answer.err) < 10_000


@pytest.mark.parametrize("parameter", parameters(str), ids=str)
def test_a_text_that_cannot_be_is_refused(doubtless: InProcess, parameter: Parameter) -> None:
    values = CHOICES if issubclass(parameter.type, Enum) else [*TEXTS, *WORSE.get(parameter.shown, [])]
    if parameter.path in TELLING:
        values = [one for one in values if one not in WORSE.get(parameter.shown, [])]
    for value in values:
        assert_refused(call(doubtless, parameter, value), parameter, value)


@pytest.mark.parametrize("parameter", parameters(int, float), ids=str)
def test_a_number_that_cannot_be_is_refused(doubtless: InProcess, parameter: Parameter) -> None:
    for value in [*(NUMBERS if parameter.type is int else TIMES), *WORSE.get(parameter.shown, [])]:
        assert_refused(call(doubtless, parameter, value), parameter, value)


@pytest.mark.parametrize("parameter", parameters(Path), ids=str)
def test_a_file_that_cannot_be_is_refused(doubtless: InProcess, parameter: Parameter) -> None:
    values = ["a\0b"]
    if parameter.shown in READ:
        values += NO_FILES
    if parameter.shown in {"settings", "files"}:
        values += NO_TOML
    for value in values:
        assert_refused(call(doubtless, parameter, value), parameter, value)


@pytest.mark.parametrize(
    "parameter", [one for one in parameters(str) if not issubclass(one.type, Enum)], ids=str
)
def test_a_strange_text_ends_in_no_raw_error(doubtless: InProcess, parameter: Parameter) -> None:
    for value in STRANGE:
        answer = call(doubtless, parameter, value)

        assert answer.code in {0, 1, 2, 3}
        assert RAW not in answer.err, (value[:50], answer.err[-500:])


@pytest.mark.parametrize("value", ["host.invalid", "300.300.300.300", "a" * 300, "203.0.113.1"])
def test_an_address_that_is_none_of_this_machine_is_refused(doubtless: InProcess, value: str) -> None:
    history = "sqlite:///history.db"

    answer = doubtless("dashboard", "--tokens", "tokens", "--host", value, DOUBTLESS_HISTORY=history)

    assert answer.code == 2
    assert answer.error.startswith("error: --host: ")


@pytest.mark.parametrize(
    "path", [("status",), ("init", "new"), ("sqljms", "queues"), ("size", "--rate", "5/s")]
)
@pytest.mark.parametrize("value", [*NO_FILES, *NO_TOML, "", "a\0b"])
def test_a_configuration_that_cannot_be_read_is_refused_by_every_command(
    doubtless: InProcess, path: tuple[str, ...], value: str
) -> None:
    answer = doubtless(*path, f"--config={value}")

    assert answer.code == 2
    assert "--config" in answer.error
    assert RAW not in answer.err


def test_a_message_file_of_any_depth_is_sent_or_parked(doubtless: InProcess) -> None:
    lines = '{"body": ' + '{"a": ' * 10_000 + "1" + "}" * 10_001
    (doubtless.folder / "nested.jsonl").write_text(f"{lines}\n{'[' * 10_000}\n\x00\n")

    answer = doubtless("send", "orders", "nested.jsonl", "--provider", "sqlite:///messages.db")

    assert answer.code == 0
    assert "3 of them are not messages and were sent unchanged, as bytes" in answer.err


def test_who_closes_the_pipe_is_told_of_no_error(doubtless: InProcess) -> None:
    program = [sys.executable, "-m", "triggers.cli", "config", "show"]
    with subprocess.Popen(
        program,
        cwd=doubtless.folder,
        env=doubtless.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read().decode()

    assert "Traceback" not in told
    assert "BrokenPipe" not in told
