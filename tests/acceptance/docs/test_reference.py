"""The docs list exactly the settings, options, commands, keys, tables and permissions that exist."""

import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
import typer.main

from history import Message, open_history
from history.bridge import drive
from history.sql.tables.history import METADATA
from history.store import BatchOwner
from tests import ROOT
from tests.acceptance.docs.pages import blocks
from tests.fixtures.servers.redis import connected
from triggers import Consumer, Redelivery, on_retrieval_failure, trigger
from triggers.cli import app
from triggers.pipeline.pipeline import Step
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.sqljms.limbo.tables import LIMBO_BODY
from triggers.service.options import ConsumersDefault
from triggers.sinks import RedisStreamSink
from triggers.testing.redis_server import RedisServer


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text: str) -> Iterator[list[str]]:
    """Return the cells of every row of every table."""
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_every_option_of_trigger_is_listed_with_its_default() -> None:
    listed = {name.strip("`"): default for name, default, *_ in rows(page("docs/how-to/choose-settings.md"))}

    for name, parameter in inspect.signature(trigger).parameters.items():
        assert listed[name].replace("`", "") == shown(parameter.default)


def shown(default: object) -> str:
    match default:
        case inspect.Parameter.empty:
            return "required"
        case ConsumersDefault():
            return "the consumer's"
        case tuple():
            kinds = cast("tuple[type[Exception], ...]", default)
            return f"({', '.join(kind.__name__ for kind in kinds)})"
        case str():
            return f'"{default}"'
        case Redelivery():
            return "Redelivery()"
        case _:
            return repr(default).removeprefix("datetime.")


def test_the_three_levels_are_told_in_the_same_words_everywhere() -> None:
    levels = [row for row in rows(page("docs/guarantees.md")) if row[0].startswith("**")]

    assert [row[0] for row in levels] == ["**atomic**", "**fenced**", "**in doubt**"]
    assert [row for row in rows(page("README.md")) if row[0].startswith("**")] == levels


@pytest.mark.parametrize("name", ["docs/outcomes.md", "docs/detection.md"])
def test_the_steps_of_the_pipeline_have_one_numbering(name: str) -> None:
    words = "|".join(step.name.lower() for step in Step)
    cells = [row[0] for row in rows(page(name)) if re.search(rf"\b[1-8] ({words})\b", row[0])]
    steps = [(int(number), word) for cell in cells for number, word in re.findall(r"\b([1-8]) (\w+)", cell)]

    assert steps == [(step.value, step.name.lower()) for step in Step]


def test_every_command_and_option_is_documented() -> None:
    told = page("docs/cli.md")

    for command, parameter in parameters(typer.main.get_command(app), "doubtless"):
        assert command.removeprefix("doubtless ") in told
        for option in parameter:
            assert f"`{option}`" in told, f"{option} of {command}"


def parameters(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Return each command with the names of its options. As Any, because typer's classes are private."""
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    yield name, [option for one in options for option in one.opts]
    for child, nested in getattr(command, "commands", {}).items():
        yield from parameters(nested, f"{name} {child}")


def test_every_table_and_column_is_documented() -> None:
    three = [row for row in rows(page("docs/stored-data.md")) if len(row) == 3]
    listed = {name[1]: row[1] for row in three if (name := re.match(r"`(\w+)`", row[0]))}

    for table in METADATA.tables.values():
        assert re.findall(r"`(\w+)`", listed[table.name]) == [column.name for column in table.columns]
    for table in LIMBO_BODY.metadata.tables.values():  # our own entries come last there
        assert set(re.findall(r"`(\w+)`", listed[table.name])) == {column.name for column in table.columns}


def test_every_key_that_is_written_to_redis_is_documented(redis_url: str) -> None:
    use_everything(redis_url)
    of_redis = page("docs/stored-data.md").partition("## SQL")[0]
    listed = [row[:2] for row in rows(of_redis) if row[0].startswith("`")]
    patterns = {pattern_of(key): kind for key, kind in listed}

    with connected(redis_url) as client:
        kinds = {key.decode(): client.type(key).decode() for key in client.scan_iter()}

    assert len(kinds) > 8
    for key, kind in kinds.items():
        told = [patterns[pattern] for pattern in patterns if re.fullmatch(pattern, key)]
        assert told[:1] == [{"zset": "sorted set"}.get(kind, kind)], key


def pattern_of(key: str) -> str:
    return re.sub(r"<\w+>", r"[^{}:]+", re.sub(r"([{}])", r"\\\1", key.strip("`")))


def use_everything(url: str) -> None:
    """Complete, fail, recover, leave STARTED, park and report messages, with a running consumer."""

    @trigger("orders", name="book-order")
    def book(body: bytes) -> None:
        if body == b"fails":
            raise ValueError("no such customer")

    provider = RedisStreams.from_url(url)
    messages = [Message(body=body, uuid=body.decode()) for body in (b"works", b"fails", b"late", b"dead")]
    receiver = drive(provider.open_receiver("orders", subscription="book-order", name="w"))
    drive(provider.send("orders", messages))
    store = open_history(url)
    drive(store.claim("book-order", ["started"], "a worker that died"))
    drive(store.claim("book-order", ["of a batch"], BatchOwner("query/1")))
    sink = RedisStreamSink(url)
    telling = on_retrieval_failure("book-order")(sink)
    book.use_default_history(store)
    received = drive(receiver.receive(10))
    drive(book.pipeline().deliver(receiver, received[:2]))
    drive(receiver.dead_letter(received[3:], "nobody wants it"))
    drive(receiver.recover(received[2:3], timedelta(minutes=1)))
    telling.cancel()
    sink.close()
    drive(provider.close())
    drive(store.close())


@pytest.fixture
def restricted(private_redis: RedisServer) -> str:
    """The URL of a user with exactly the permissions that the docs list."""
    permissions = next(
        block for block in blocks(ROOT / "docs/how-to/run-on-redis.md") if block.kind == "text acl"
    )
    with connected(private_redis.url) as client:
        client.execute_command(*permissions.lines[0].split())
    return private_redis.url.replace("redis://", "redis://doubtless:secret@")


def test_the_permissions_that_the_docs_give_are_enough(
    restricted: str, caplog: pytest.LogCaptureFixture
) -> None:
    @trigger("orders", name="book-order")
    def book(body: bytes) -> None:
        if body == b"fails":
            raise ValueError("no such customer")

    provider = RedisStreams.from_url(restricted)
    messages = [Message(body=body, uuid=body.decode()) for body in (b"works", b"works", b"fails")]
    drive(provider.send("orders", messages))
    consumer = Consumer([book], provider, history=restricted)
    consumer.run(until_idle=0.2)
    drive(provider.close())

    assert consumer.counts == {"book-order": {"ok": 1, "duplicate": 1, "failed": 1}}
    assert "could not ask Redis for its settings" not in caplog.text


def test_the_changelog_keeps_to_its_form() -> None:
    text = page("CHANGELOG.md")

    assert re.search(r"^## \[Unreleased\]|^## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", text, flags=re.MULTILINE)
    assert "### Stored data" in text
