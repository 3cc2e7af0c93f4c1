"""The first day of a user: help, version, completion, and typing errors."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.acceptance.in_process import InProcess
from tests.fixtures.needed import missing
from tests.fixtures.ports import closed_port
from tests.fixtures.waiting import patiently


def test_the_installed_command_says_its_version() -> None:
    program = Path(sys.executable).with_name("doubtless")

    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)

    assert told.stdout == f"doubtless {version('doubtless')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["why", "u1"],
        ["guarantees", "shop"],
        ["status"],
        ["statistics"],
        ["disable", "book", "--reason", "moving"],
        ["history", "stats"],
        ["parked", "list"],
        ["sqljms", "queues", "--provider", "sqlite:///messages.db"],
        ["sqlremote", "status", "links.toml"],
        ["patchbay", "check", "bay.toml"],
    ],
    ids=" ".join,
)
def test_a_command_answers_the_same_in_a_process_of_its_own(doubtless: InProcess, words: list[str]) -> None:
    here = doubtless(*words, DOUBTLESS_HISTORY="sqlite:///history.db")
    (doubtless.folder / "history.db").unlink(missing_ok=True)
    there = doubtless.process(*words, DOUBTLESS_HISTORY="sqlite:///history.db")

    assert here == there


def test_without_a_command_the_help_is_shown_and_the_exit_code_is_2(doubtless: InProcess) -> None:
    answer = doubtless()

    assert (answer.code, answer.err) == (2, "")
    for command in ("demo", "run", "send", "why", "history", "parked"):
        assert f"\n  {command} " in answer.out


def test_every_command_lists_the_options_that_all_share(doubtless: InProcess) -> None:
    answer = doubtless("parked", "run", "--help")

    assert answer.code == 0
    for option in ("--history", "--local", "--yes", "--json", "--verbose"):
        assert option in answer.out


def test_a_narrow_help_shows_urls_variables_and_summaries_whole(doubtless: InProcess) -> None:
    of_run, of_all = doubtless("run", "--help", COLUMNS="80"), doubtless("--help", COLUMNS="80")

    for whole in ("redis+sentinel://a,b,c/service/0", "DOUBTLESS_PROVIDER", "--no-log-verdicts"):
        assert whole in of_run.out
    assert "and what happens at its next delivery." in " ".join(of_all.out.split())
    assert "..." not in of_all.out.partition("Commands:")[2]
    assert "\u2026" not in of_run.out + of_all.out


@pytest.mark.parametrize("words", [[], ["run"], ["parked", "run"], ["sqljms", "queues"]], ids=str)
def test_a_flag_takes_no_value_in_the_help(doubtless: InProcess, words: list[str]) -> None:
    answer = doubtless(*words, "--help")

    assert answer.code == 0
    assert "bool" not in answer.out.lower()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nope"], "No such command 'nope'; see doubtless --help"),
        (["send"], "Missing argument 'destination'; see doubtless send --help"),
        (
            ["history", "stats"],
            "--history: is missing: doubtless.toml names none, and this folder has no doubtless.sqlite3",
        ),
        (
            ["sqljms", "queues"],
            "--provider: is missing: doubtless.toml names none, and this folder has no doubtless.sqlite3",
        ),
        (["why", "u1", "--history", "http://x"], "--history: unknown URL scheme 'http'; use redis://"),
        (["why", "", "--history", "redis://x"], "UUID: is empty; give a value"),
        (
            ["why", "u" * 16_385, "--history", "redis://x"],
            "UUID: is 16,385 characters long; give at most 16,384",
        ),
        (["parked", "list", "--local"], "--local: this machine has parked nothing"),
        (["send", "", "-", "--provider", "redis://x"], "DESTINATION: is empty"),
        (["run", "shop", "--provider", "redis://x"], "trigger book: no history is named"),
        (["run", "shop", "--provider", "memory://"], "--provider: memory:// lives in one process only"),
        (
            ["run", "shop", "--provider", "redis://x", "--history", "redsi://x"],
            "--history: unknown URL scheme 'redsi'",
        ),
        (["run", "shop.py", "--provider", "redis://x"], "MODULE: 'shop.py' is not a dotted path"),
        (["run", "shop", "-t", "b", "--provider", "redis://x"], "--trigger: 'b' is not in shop; known: "),
    ],
)
def test_wrong_usage_is_told_in_one_line_that_names_the_option(
    doubtless: InProcess, words: list[str], told: str
) -> None:
    answer = doubtless(*words)

    assert (answer.code, answer.out) == (2, "")
    assert told in answer.error


@pytest.mark.parametrize(
    "words", [["history", "stats", "--history"], ["why", "u1", "--history"], ["send", "q", "-", "--provider"]]
)
def test_a_server_that_is_not_there_is_exit_code_3(doubtless: InProcess, words: list[str]) -> None:
    answer = doubtless(*words, f"redis://:secret@127.0.0.1:{closed_port()}/0", stdin='{"body": 1}')

    assert answer.code == 3
    assert "unavailable" in answer.error
    assert "refused; start the server, or correct its URL" in answer.error
    assert "secret" not in answer.error


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("run shop --until-idle 0.2", 0),
        ("history show", 1),
        ("history stats --history sqlite:///none.db", 2),
        ("history stats --history redis://127.0.0.1:$CLOSED_PORT", 3),
    ],
)
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_does_not_change_the_exit_code(
    doubtless: InProcess, words: str, code: int, closed: str
) -> None:
    (doubtless.folder / "doubtless.sqlite3").touch()

    ended = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m triggers.cli {words} {closed}"],
        cwd=doubtless.folder,
        env={**doubtless.environment, "CLOSED_PORT": f"{closed_port()}"},
        capture_output=True,
        check=False,
    )

    assert (ended.returncode, b"Traceback" in ended.stderr) == (code, False)


def test_a_module_that_fails_is_told_with_its_own_error_and_the_place(doubtless: InProcess) -> None:
    (doubtless.folder / "mine.py").write_text("\n\nraise RuntimeError('boom [red]x[/red]')")

    answer = doubtless("run", "mine", "--provider", "redis://x")

    place = f"{doubtless.folder / 'mine.py'}, line 3"
    assert answer.code == 2
    assert f"importing mine raised RuntimeError: boom [red]x[/red] ({place}); fix it" in answer.error


def test_verbose_shows_the_traceback_as_well(doubtless: InProcess) -> None:
    (doubtless.folder / "mine.py").write_text("raise ValueError('[bold]three[/]')")

    with doubtless.start("run", "mine", "--provider", "redis://x", "--verbose") as process:
        _, told = process.communicate()

    assert process.returncode == 2
    assert "Traceback (most recent call last)" in told
    assert "ValueError: [bold]three[/]\n" in told
    assert told.splitlines()[-1].startswith("error: MODULE: importing mine raised ValueError")


def test_who_has_read_enough_of_a_help_is_told_of_no_error() -> None:
    read, write = os.pipe()
    os.close(read)  # like the end of `doubtless why --help | head -1`
    words = [sys.executable, "-m", "triggers.cli", "why", "--help"]

    ended = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True, check=False)

    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, "")


#: A script for each shell that completes the given words as if the user pressed Tab.
PRESSED = {
    "bash": """
        eval "$(doubtless --show-completion)"
        words=("$@") last=$(($# - 1))
        COMP_WORDS=("${words[@]}") COMP_CWORD=$last
        read -r -a bound <<<"$(complete -p doubtless)"
        "${bound[-2]}" doubtless "${words[last]}" "${words[last - 1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        compdef() { bound=$1 }
        _arguments() { print -r -- ${(Q)${(z)${@#\\*: :\\(\\(}%\\)\\)}} }
        _files() { }
        eval "$(doubtless --show-completion)"
        words=("$@") CURRENT=$#
        $bound
    """,
    "fish": """
        doubtless --show-completion | source
        complete --do-complete "$argv"
    """,
}


def press_tab(shell: str, folder: Path, *words: str) -> list[str]:
    """Return the completions that ``shell`` offers for these words. The last word is not finished."""
    if shutil.which(shell) is None:
        missing(shell, f"apt-get install {shell}")
    programs = Path(sys.executable).parent
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    program = [shell, "-c", PRESSED[shell], *([] if shell == "fish" else [shell]), *words]
    with subprocess.Popen(
        program,
        cwd=folder,
        env={**os.environ, "PATH": path, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        out, _ = patiently(lambda seconds: process.communicate(timeout=seconds))
    return [word for line in out.splitlines() for word in line.split(":")[0].split()[:1]]


@pytest.mark.parametrize("shell", PRESSED)
def test_tab_completes_a_command_and_one_below_it(shell: str, tmp_path: Path) -> None:
    assert press_tab(shell, tmp_path, "doubtless", "par") == ["parked"]
    assert press_tab(shell, tmp_path, "doubtless", "parked", "li") == ["list"]


@pytest.mark.parametrize("shell", PRESSED)
def test_tab_completes_an_option_of_a_command(shell: str, tmp_path: Path) -> None:
    assert press_tab(shell, tmp_path, "doubtless", "parked", "list", "--hist") == ["--history"]
