"""The default name of a trigger is "module.function"; if others could have it too, you must set a name."""

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from triggers import ConfigurationError, Message, trigger

pytestmark = pytest.mark.slow

SCRIPT = """
from history.errors import ConfigurationError
from triggers import trigger
from triggers.spark.atomic_sink import atomic_sink
from triggers.spark.decorator import foreach_batch


def load(body, batch_id=0): ...


ways = {
    "trigger": lambda **named: trigger("orders", history="memory://", **named)(load),
    "foreach_batch": lambda **named: foreach_batch("o", uuid="id", history="redis://h", **named)(load),
    "atomic_sink": lambda **named: atomic_sink("o", uuid="id", history="sqlite:///f", write=load, **named),
}
for called, way in ways.items():
    try:
        print(called, way().settings.name)
    except ConfigurationError as error:
        print(called, error)
    print(called, way(name="load-orders").settings.name)
"""


def service(message: Message) -> None:
    raise AssertionError("must not run")


def test_it_is_that_of_the_module_and_the_function() -> None:
    assert (
        trigger("orders", history=None)(service).name == "tests.unit.triggers.declaration.test_names.service"
    )


@pytest.mark.parametrize(
    ("file", "words"),
    [("shop.py", ["shop.py"]), ("shop/load.py", ["-m", "shop.load"]), ("shop/__main__.py", ["-m", "shop"])],
    ids=["script", "module", "package"],
)
def test_what_runs_as_main_has_to_be_named(tmp_path: Path, file: str, words: list[str]) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(SCRIPT)

    ended = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    told = ended.stdout.splitlines()
    assert len(told) == 6
    for called, refused, named in zip(ROW, told[::2], told[1::2], strict=True):
        assert refused.startswith(f"{called} name: this runs as __main__, as every script and every notebook")
        assert 'say name="load"' in refused
        assert '("__main__.load" if that is what the history knows)' in refused
        assert f"{Path(file).name}, line " in refused
        assert named == f"{called} load-orders"


ROW = ("trigger", "foreach_batch", "atomic_sink")


class Callable:
    def __call__(self, _message: Message) -> None:
        raise AssertionError("must not run")


nameless_services: list[Any] = [Callable(), functools.partial(service), lambda: None]


@pytest.mark.parametrize("nameless", nameless_services, ids=["object", "partial", "lambda"])
def test_what_shares_its_name_with_others_has_to_be_named(nameless: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^name: .* has none that would be its own; say name="):
        trigger("orders", history=None)(nameless)


def test_what_was_called_by_the_old_default_keeps_its_history() -> None:
    assert trigger("orders", name="__main__.load", history=None)(service).name == "__main__.load"
