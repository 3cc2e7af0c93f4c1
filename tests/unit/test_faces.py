"""The public names of packages: they all exist, and the author of a store needs no others."""

import compileall
import importlib.util
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

import history.store
from history.entry import Settlement

PACKAGES = (
    *("doubtless", "history", "history.memory", "history.redis", "history.sql", "history.store", "resolvers"),
    *("triggers", "triggers.configuration", "triggers.patchbay", "triggers.providers", "triggers.selectors"),
    *(f"triggers.providers.{name}" for name in ("amqp", "contract", "jms", "kafka", "nats", "rabbitmq")),
    *(f"triggers.providers.{name}" for name in ("redis_streams", "sqljms", "sqlremote", "sqs")),
)

#: The public names of the package, which ``lazy`` knows.
NAMES: Sequence[str] = cast("Any", history.store).__all__

PROTOCOLS = ("Control", "HistoryStore", "Joining", "Parking", "Progress")


@pytest.mark.parametrize("package", PACKAGES)
def test_each_public_name_of_a_package_is_there(package: str) -> None:
    face = import_module(package)

    assert [name for name in face.__all__ if not hasattr(face, name)] == []
    assert len(set(face.__all__)) == len(face.__all__)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_store_gets_each_type_of_its_protocols_from_one_package(name: str) -> None:
    protocol: type = getattr(history.store, name)

    used = {kind for method in vars(protocol).values() for kind in _types_of(method)}
    ours = {kind.__name__ for kind in used if kind.__module__.startswith("history.store")}

    assert ours, "every protocol takes or returns something of ours"
    assert ours - set(NAMES) == set()


def test_the_types_of_a_protocol_are_found_in_what_it_takes_and_returns() -> None:
    assert Settlement in set(_types_of(history.store.HistoryStore.settle))


@pytest.mark.parametrize("package", ["doubtless", "history.store", "triggers"])
def test_what_is_no_public_name_is_no_attribute(package: str) -> None:
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'Nothing'"):
        _ = import_module(package).Nothing


@pytest.mark.parametrize("package", ["doubtless", "doubtless.testing", "history.store"])
def test_completion_shows_the_public_names_of_a_package(package: str) -> None:
    face = import_module(package)

    shown = [name for name in dir(face) if not name.startswith("__")]

    assert shown == [name for name in face.__all__ if hasattr(face, name)]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("needy", "__import__('history').MissingExtraError('x', extra='x', package='x')"),
        ("broken", "ImportError('the driver was built for another version')"),
        ("strange", "RuntimeError('the driver cannot start')"),
    ],
)
def test_completion_leaves_out_what_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: str
) -> None:
    (tmp_path / f"{name}_part.py").write_text(f"raise {error}")
    (tmp_path / f"{name}_face.py").write_text(
        FACE.replace("if TYPE_CHECKING:", f"if TYPE_CHECKING:\n    from {name}_part import x")
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    face = import_module(f"{name}_face")

    assert face.__all__ == ["Fraction", "x"]
    assert [name for name in dir(face) if not name.startswith("__")] == ["Fraction"]


FACE = """
from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from fractions import Fraction
else:
    __getattr__ = lazy(__name__)
"""


def test_pytest_may_load_a_face_as_it_loads_the_modules_of_an_installed_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    source = tmp_path / "rewritten_face.py"
    source.write_text(FACE)
    loader: Any = AssertionRewritingHook(pytestconfig)
    spec = importlib.util.spec_from_file_location("rewritten_face", source, loader=loader)
    assert spec is not None
    face = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "rewritten_face", face)
    loader.exec_module(face)

    assert not hasattr(loader, "get_source")
    assert face.__all__ == ["Fraction"]


def test_a_face_in_a_zip_file_is_read_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "faces.zip", "w") as archive:
        archive.writestr("zipped_face.py", FACE)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "faces.zip"), *sys.path])

    assert import_module("zipped_face").__all__ == ["Fraction"]


def test_a_face_without_its_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "compiled_face.py"
    source.write_text(FACE)
    compileall.compile_file(source, quiet=2, legacy=True)
    source.unlink()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    with pytest.raises(ImportError, match=r"ship doubtless with its \.py files"):
        _ = import_module("compiled_face").Fraction


def _types_of(value: object) -> Iterator[type]:
    """Yield the classes that a method or property names in its signature."""
    function = value.fget if isinstance(value, property) else value
    if callable(function) and not isinstance(function, type):
        public = {name: getattr(history.store, name) for name in NAMES}
        for hint in get_type_hints(function, localns=public).values():
            yield from _classes_in(hint)


def _classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for argument in get_args(hint):
        yield from _classes_in(argument)
