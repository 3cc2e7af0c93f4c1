"""Every name of doubtless that README, docs and examples import or mention is public and exists."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import ROOT
from tests.acceptance.docs.pages import pages

SOURCES = [*pages(), *sorted((ROOT / "examples").rglob("*.py"))]

#: Packages with public names in ``__all__``, and modules without ``__all__`` that are public as a whole.
PUBLIC = (
    "doubtless",
    "doubtless.*",
    "history",
    *(
        f"history.{name}"
        for name in ("beside", "bridge", "contract", "entry", "errors", "memory", "message", "redis")
    ),
    *("history.sql", "history.store"),
    "resolvers",
    "resolvers.*",
    "triggers",
    *(
        f"triggers.{name}"
        for name in ("configuration", "consumer", "patchbay", "providers", "sinks", "spark")
    ),
    *("triggers.demo.booking", "triggers.demo.orders"),
    *(f"triggers.providers.{name}" for name in ("amqp", "contract", "jms", "kafka", "memory", "provider")),
    "triggers.providers.rabbitmq",
    *("triggers.providers.redis_streams", "triggers.providers.sqljms", "triggers.providers.sqlremote"),
    "triggers.providers.brokers.*",  # for authors of providers
    *(f"triggers.spark.{name}" for name in ("atomic_sink", "document_history", "sources")),
    "triggers.guards*",
    "triggers.testing*",
)

#: Loggers that look like modules of doubtless.
OTHERS = {"triggers.retrieval_failures", "triggers.security", "triggers.verdicts"}

_IMPORTED = re.compile(
    r"^ *from ((?:doubtless|history|resolvers|triggers)[\w.]*) import (\([^)]*\)|[^#\n]+)", re.MULTILINE
)
_MENTIONED = re.compile(r"`((?:history|resolvers|triggers)(?:\.\w+)+)(?:\([^`]*\))?`")


def names_in(text: str) -> Iterator[str]:
    """Yield the dotted paths that a page or a program imports, or mentions as code."""
    for module, names in _IMPORTED.findall(text):
        for name in re.findall(r"\w+", re.sub(r"#.*|\bas \w+", "", names)):
            yield f"{module}.{name}"
    yield from _MENTIONED.findall(text)


def why_not_public(path: str) -> str | None:
    """Return the problem of a dotted path. Return None if it leads to a public name."""
    module, rest = split(path)
    if not any(fnmatch(module, pattern) for pattern in PUBLIC):
        return f"{path}: {module} is not public"
    if not rest:
        return None
    face = import_module(module)
    if not hasattr(face, rest[0]):
        return f"{path}: {module} has no {rest[0]}"
    if rest[0] not in getattr(face, "__all__", rest):
        return f"{path}: {rest[0]} is not in the __all__ of {module}"
    return None


def split(path: str) -> tuple[str, list[str]]:
    """Return the module of a dotted path, and its attributes. A name in ``__all__`` is not a module."""
    parts = path.split(".")
    for count in range(1, len(parts)):
        module, name = ".".join(parts[:count]), parts[count]
        of_face = name in getattr(import_module(module), "__all__", ())
        if of_face or not (ROOT / Path(*parts[:count])).is_dir() or find_spec(f"{module}.{name}") is None:
            return module, parts[count:]
    return path, []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_what_a_page_names_is_public(source: Path) -> None:
    named = set(names_in(source.read_text(encoding="utf-8"))) - OTHERS

    assert [problem for name in sorted(named) if (problem := why_not_public(name)) is not None] == []


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("triggers.trigger", None),
        ("triggers.providers.jms", None),
        ("history.message.Message", None),
        ("triggers.Konsumer", "triggers.Konsumer: triggers has no Konsumer"),
        ("triggers.sinks.Nothing", "triggers.sinks.Nothing: triggers.sinks has no Nothing"),
        ("triggers.sinks.sink.LogSink", "triggers.sinks.sink.LogSink: triggers.sinks.sink is not public"),
        ("history.opening.open_history", "history.opening.open_history: history.opening is not public"),
        ("history.lazy", "history.lazy: lazy is not in the __all__ of history"),
        (
            "triggers.pipeline.pipeline",
            "triggers.pipeline.pipeline: triggers.pipeline.pipeline is not public",
        ),
    ],
)
def test_what_is_not_public_is_noticed(path: str, problem: str | None) -> None:
    assert why_not_public(path) == problem


def test_imports_and_mentions_are_found() -> None:
    code = "from triggers import (\n    Message,\n    trigger,  # this\n)\n"
    page = f"{code} see `history.open_history(url)`, `x.y`"

    assert list(names_in(page)) == ["triggers.Message", "triggers.trigger", "history.open_history"]
