"""In each folder of examples, the commands of its page print the shown output, on real servers."""

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from history.beside.kept import KeepsBeside
from tests import ROOT
from tests.acceptance.docs.pages import READERS_REDIS, blocks, in_path, matches, run_in_bash, typed
from tests.fixtures.histories import with_store
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.spark import LONGEST, SPARK_PROCESSES, need_spark
from tests.fixtures.waiting import patience
from triggers.testing.redis_server import free_port

EXAMPLES = sorted(page.parent for page in ROOT.glob("examples/*/README.md"))

#: The page that shows the files of each example.
PAGES = {
    "django": "how-to/use-with-django.md",
    "fastapi": "how-to/use-with-fastapi.md",
    "flask": "how-to/use-with-flask.md",
    "spark": "spark-in-five-minutes.md",
}

#: The ports that examples listen at.
PORTS = ("8000", "5000")

#: The most lines that a page of an example has.
MOST_LINES = 20


#: Examples with Spark, which starts Java.
WITH_SPARK = ("end_to_end", "spark")


def tried(example: Path) -> ParameterSet:
    """Test an example only in ``make prove``, because it starts processes."""
    marks = [pytest.mark.prove]
    if example.name in WITH_SPARK:
        marks += [SPARK_PROCESSES, pytest.mark.timeout(LONGEST)]
    return pytest.param(example, id=example.name, marks=marks)


@pytest.fixture
def shown() -> Iterator[dict[str, str]]:
    """Addresses and ports in the examples, each with its replacement for this test run."""
    with KafkaServer() as kafka:
        yield {"localhost:9092": kafka.address, **{port: str(free_port()) for port in PORTS}}


def test_the_view_of_flask_answers_no_success_without_a_kept_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def decided_as_done(store: KeepsBeside) -> None:
        (claim,) = await store.claim("charge", ["ada k1"], "a dead worker")
        await store.complete("charge", "ada k1", claim.fence)

    monkeypatch.chdir(tmp_path)
    shop = runpy.run_path(str(ROOT / "examples/flask/shop.py"))
    with_store("sqlite:///shop.sqlite3", decided_as_done)

    headers = {"Idempotency-Key": "k1", "X-API-Key": "key-of-ada"}
    reply = shop["app"].test_client().post("/charges", json={"id": "N-1"}, headers=headers)
    shop["guard"].close()

    assert reply.status_code == HTTPStatus.CONFLICT
    assert not shop["charged"]


@pytest.mark.parametrize("example", [tried(example) for example in EXAMPLES])
def test_an_example_prints_what_its_page_shows(
    example: Path, shown: dict[str, str], redis_url: str, tmp_path: Path
) -> None:
    if example.name in WITH_SPARK:
        need_spark()
    folder = tmp_path / "example"
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns("__pycache__"))
    replaced = {READERS_REDIS: redis_url, **shown}
    for file in folder.rglob("*.*"):
        if file.is_file() and file.name != "README.md":
            file.write_text(_replaced(file.read_text(encoding="utf-8"), replaced), encoding="utf-8")
    # If one make runs another make, the inner one prints the folder that it enters.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment = {
        **inherited,
        "PATH": in_path(Path(sys.executable).parent),
        "PYTHONPATH": str(ROOT),
        "REDIS_URL": redis_url,
    }

    with ExitStack() as started:
        for block in blocks(folder / "README.md"):
            for command, expected in typed(block) if block.kind == "console" else ():
                run = _replaced(command, replaced)
                if run.endswith(" &"):
                    started.enter_context(_beside(run.removesuffix(" &"), folder, environment))
                    continue
                printed = run_in_bash(run, folder, environment, LONGEST)
                log = folder / "beside.log"
                said = log.read_text(encoding="utf-8") if log.exists() else ""
                assert matches(expected, printed), f"{command}\nprinted:\n{printed}\nbeside:\n{said}"


def _replaced(text: str, replaced: dict[str, str]) -> str:
    for one, other in replaced.items():
        text = text.replace(one, other)
    return text


@contextmanager
def _beside(command: str, folder: Path, environment: dict[str, str]) -> Generator[None]:
    """Run a command until the block ends, in its own session, so that its children also end."""
    with (folder / "beside.log").open("a") as log:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience(15))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_the_files_of_its_example(name: str) -> None:
    shown = {block.file: "\n".join(block.lines) + "\n" for block in blocks(ROOT / "docs" / PAGES[name])}
    files = [file for file in (ROOT / "examples" / name).rglob("*.py") if file.name != "send.py"]

    assert files
    for file in files:
        assert shown[str(file.relative_to(ROOT / "examples" / name))] == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_page_of_an_example_is_short(example: Path) -> None:
    assert len((example / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert f"({example.name}/README.md)" in (ROOT / "examples" / "README.md").read_text(encoding="utf-8")


def test_the_end_to_end_example_starts_the_same_programs_with_docker_and_without() -> None:
    folder = ROOT / "examples" / "end_to_end"
    composed = (folder / "compose.yaml").read_text(encoding="utf-8")

    commands = re.findall(r"command: ([^\n}]+)", composed)

    started = (folder / "run.sh").read_text(encoding="utf-8")
    programs = [re.split(" --host| --append", command)[0] for command in commands]
    assert len(programs) == 6
    assert [program for program in programs if program not in started] == []
