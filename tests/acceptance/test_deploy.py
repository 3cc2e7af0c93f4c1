"""These tests start the services of the unit and the image in ``deploy/``. The docs show both files."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import ROOT
from tests.fixtures.waiting import PATIENCE, eventually
from triggers.testing.redis_server import free_port

UNIT, IMAGE = ROOT / "deploy" / "doubtless.service", ROOT / "deploy" / "Dockerfile"
DOUBTLESS = Path(sys.executable).parent / "doubtless"


def unit() -> configparser.SectionProxy:
    """Return the part of the unit that configures the service."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read(UNIT, encoding="utf-8")
    return parser["Service"]


def instructions() -> dict[str, str]:
    """Return the last instruction of each kind in the image, in one line each."""
    lines = re.sub(r"\\\n\s*", "", IMAGE.read_text(encoding="utf-8")).splitlines()
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    subprocess.run([DOUBTLESS, "init", tmp_path / "shop"], check=True, capture_output=True)
    return tmp_path / "shop"


class Container(NamedTuple):
    """The image with a service, as files below a folder. The volume may belong to another container."""

    folder: Path

    @classmethod
    def of(cls, shop: Path, root: Path) -> "Container":
        """Copy the files that the image copies. Make an empty volume if it does not exist."""
        container, image = cls(root), instructions()
        *names, target = image["COPY"].split()
        container.path(target).mkdir(parents=True)
        for name in names:
            shutil.copy(shop / name, container.path(target))
        container.volume.mkdir(parents=True, exist_ok=True)
        return container

    def path(self, inside: str) -> Path:
        """Return the path on this machine for a path of the container."""
        return self.folder / inside.lstrip("/")

    @property
    def volume(self) -> Path:
        return self.path(instructions()["VOLUME"])

    def environment(self) -> dict[str, str]:
        pairs = (pair.split("=", 1) for pair in shlex.split(instructions()["ENV"]))
        ours = {name: str(self.path(value)) for name, value in pairs}
        return {**os.environ, **ours, "PYTHONPATH": f"{ours['PYTHONPATH']}{os.pathsep}{ROOT}"}

    def __call__(self, *words: str, stdin: str = "") -> str:
        """Run a command in the container to its end, and return its output."""
        ended = subprocess.run(
            [DOUBTLESS, *words],
            cwd=self.path(instructions()["WORKDIR"]),
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def replaced(self, shop: Path) -> "Container":
        """Remove the container, and start a new one with its volume."""
        kept = shutil.move(self.volume, self.folder.with_name("volume"))
        shutil.rmtree(self.folder)
        self.volume.parent.mkdir(parents=True)
        shutil.move(kept, self.volume)
        return Container.of(shop, self.folder)


def start_and_end(words: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Start the command of a unit or an image, and end it in the same way."""
    log = folder / "log"
    with log.open("wb") as told:
        process = subprocess.Popen(
            [DOUBTLESS, *words[1:]], cwd=folder, env=environment, stdout=told, stderr=told
        )
        try:
            eventually(lambda: b"running book-order" in log.read_bytes())
            process.send_signal(signal.SIGTERM)
            # A process that has just started does not handle the signal yet, and holds no messages.
            assert process.wait(PATIENCE) in (0, -signal.SIGTERM), log.read_text()
        finally:
            process.kill()
            process.wait()


@pytest.mark.crash
@pytest.mark.prove
def test_the_unit_starts_a_service_and_ends_it(shop: Path) -> None:
    words = shlex.split(unit()["execstart"])

    start_and_end(words, shop)

    assert Path(words[0]).name == "doubtless"


@pytest.mark.crash
@pytest.mark.prove
def test_the_image_starts_a_service_and_ends_it(shop: Path, tmp_path: Path) -> None:
    words: list[str] = json.loads(instructions()["ENTRYPOINT"])
    container = Container.of(shop, tmp_path / "container")

    start_and_end(
        [word.replace("9464", str(free_port())) for word in words], container.volume, container.environment()
    )


def test_a_container_that_replaces_another_one_knows_what_that_has_run(shop: Path, tmp_path: Path) -> None:
    first = Container.of(shop, tmp_path / "container")
    first("send", "orders", "-", stdin=(shop / "orders.jsonl").read_text())
    second = first.replaced(shop)
    ran = json.loads(second("run", "orders", "--until-idle", "0.1", "--json"))
    third = second.replaced(shop)
    said = third("why", "order-1")

    assert (ran[0]["ok"], ran[0]["duplicate"]) == (2, 1)
    assert "history: COMPLETED ok" in said


def test_a_wrong_configuration_is_not_started_again(shop: Path) -> None:
    (shop / "doubtless.toml").write_text("provder = 'redis://'")

    ended = subprocess.run([DOUBTLESS, "run", "orders"], cwd=shop, capture_output=True, check=False)

    assert str(ended.returncode) == unit()["RestartPreventExitStatus"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8").replace("/srv/shop/.venv/bin/doubtless", str(DOUBTLESS))
    (tmp_path / "shop.service").write_text(text.replace("User=shop", f"User={os.geteuid()}"))

    said = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "shop.service"], capture_output=True, text=True, check=False
    )

    assert "shop.service" not in said.stderr, said.stderr


def test_the_image_installs_extras_that_there_are_and_runs_for_a_user_of_its_own() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (asked,) = re.findall(r"doubtless\[([a-z,]+)\]", instructions()["RUN"])

    assert set(asked.split(",")) <= set(extras)
    user, volume = instructions()["USER"], instructions()["VOLUME"]
    assert user != "root"
    assert instructions()["RUN"].endswith(f"--owner {user} --group {user} {volume}")
    assert instructions()["STOPSIGNAL"] == f"SIG{unit()['KillSignal'].removeprefix('SIG')}"


@pytest.mark.parametrize(("file", "kind"), [(UNIT, "ini"), (IMAGE, "dockerfile")], ids=["unit", "image"])
def test_the_docs_show_what_is_in_deploy(file: Path, kind: str) -> None:
    page = (ROOT / "docs" / "how-to" / "deploy-a-service.md").read_text(encoding="utf-8")

    assert f"```{kind}\n{file.read_text(encoding='utf-8')}```" in page
