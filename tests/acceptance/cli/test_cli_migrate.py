"""``doubtless migrate webmethods``: a made-up package of forty JMS triggers becomes a module that runs."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from xml.sax.saxutils import escape, quoteattr

import pytest

from history.bridge import drive
from tests.acceptance.in_process import InProcess
from triggers import Message, open_provider

COUNT = 40

#: Values by their names.
Values = Mapping[str, Any]

#: Each service calls this function.
_NOTE = """

def _note(uuids: list[str | None]) -> None:
    import inspect
    from pathlib import Path

    name = inspect.stack()[1].function
    with Path(__file__).with_name("ran.txt").open("a") as ran:
        ran.writelines(f"{name} {uuid}\\n" for uuid in uuids)
"""

#: Rarer properties, each of one trigger.
RARE: Mapping[int, dict[str, Any]] = {
    31: {"acknowledgeMode": "1"},
    32: {"acknowledgeMode": "3"},
    33: {"joinType": "0"},
    34: {"concurrent": "true", "maxConcurrentThreads": "2", "connectionCount": "2"},
    35: {"enabled": False, "executeUser": "Administrator"},
    37: {"messageSelector": "kind IS NOT NULL"},
    38: {"joinType": "2", "joinTimeout": "60000"},
}

#: The options of the decorators. Together the triggers use all of them.
OPTIONS = (
    *(f'join="{join}"' for join in ("all", "any", "one")),
    *(f'acknowledge_mode="{mode}"' for mode in ("auto", "dups_ok")),
    *(
        f"{name}="
        for name in ("concurrency", "prefetch", "batch", "retry", "resolver", "monitor", "selector")
    ),
    'on_retry_failure="suspend"',
    'on_rollback="suspend_and_recover"',
    "transacted=True",
    "suspend_on_error=True",
)

#: The properties that differ between the other triggers. Each trigger gets one of these sets in turn.
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"concurrent": "true", "maxConcurrentThreads": "5", "prefetchSize": "20"},
    {"redeliveryOptions": {"max": "3", "delayInterval": "10000", "onRedeliveryFailure": "0"}},
    {"redeliveryOptions": {"max": "0", "delayInterval": "0", "onRedeliveryFailure": "1"}},
    {"serialSuspendOnError": "true"},
    {"batchSize": "10"},
    {"inDoubtDetection": "false"},
    {"resolutionService": "shop.services:wasDone", "resourceMonitoringService": "shop.services:isUp"},
    {"aliasName": "Transacted", "redeliveryOptions": {"max": "2", "onRedeliveryFailure": "1"}},
    {"joinType": "1"},
)


def written(values: Values, indent: str = "  ") -> str:
    """Return values in the format of Integration Server."""
    lines: list[str] = []
    for name, value in values.items():
        called = f"name={quoteattr(name)}"
        match value:
            case dict():
                inner = written(cast("Values", value), f"{indent}  ")
                lines.append(f'<record {called} javaclass="com.wm.util.Values">\n{inner}{indent}</record>')
            case list():
                some = cast("list[Values]", value)
                records = "".join(f"<record>\n{written(one, indent)}</record>\n" for one in some)
                lines.append(f'<array {called} type="record" depth="1">\n{records}</array>')
            case None:
                lines.append(f"<null {called}/>")
            case bool():
                lines.append(f"<Boolean {called}>{str(value).lower()}</Boolean>")
            case _:
                lines.append(f"<value {called}>{escape(str(value))}</value>")
    return "".join(f"{indent}{line}\n" for line in lines)


def node(number: int, **more: Any) -> dict[str, Any]:
    """Return the values of a trigger's ``node.ndf``, with the names of a real file."""
    selector = more.pop("messageSelector", None)
    destinations = [{"destination": f"q{number}", "messageSelector": selector, "destinationType": "0"}]
    if "joinType" in more:
        destinations.append({"destination": f"q{number}b", "messageSelector": None, "destinationType": "0"})
    rules = [{"ruleName": "last", "serviceName": f"shop.services:book{number}", "filter": ""}]
    if number % 4 == 0:
        rules.insert(
            0,
            {
                "ruleName": "cancel",
                "serviceName": f"shop.services:cancel{number}",
                "filter": '%properties/kind% == "cancel"',
            },
        )
    trigger = {
        "serialSuspendOnError": "false",
        "concurrent": "false",
        "redeliveryOptions": {"max": "0", "delayInterval": "10000", "onRedeliveryFailure": "0"},
        "joinTimeout": "86400000",
        "inDoubtDetection": "true",
        "resolveWithHistory": "true",
        "resolutionHistoryTTL": "14400000",
        "aliasName": "Plain",
        "jmsTriggerType": "0",
        "enabled": True,
        "prefetchSize": "10",
        "batchSize": "1",
        "acknowledgeMode": "2",
        "joinType": "3",
        **more,
        "routingRules": rules,
        "destinations": destinations,
    }
    return {
        "node_type": "webMethods/trigger",
        "node_nsName": f"shop.triggers:on{number}",
        "trigger_type": "jms-trigger",
        "trigger": trigger,
    }


def put(folder: Path, values: Mapping[str, Any], name: str = "node.ndf") -> None:
    folder.mkdir(parents=True)
    (folder / name).write_text(f'<?xml version="1.0"?>\n<Values version="2.0">\n{written(values)}</Values>\n')


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Forty triggers of all kinds. The package also has a service, a messaging trigger and a broken file."""
    folder = tmp_path / "packages"
    for number in range(COUNT):
        put(
            folder / f"Shop/ns/shop/triggers/on{number}",
            node(number, **RARE.get(number, KINDS[number % len(KINDS)])),
        )
    put(folder / "Shop/ns/shop/services/book", {"node_type": "service", "svc_type": "flow"})
    put(folder / "Shop/ns/shop/old", {"node_type": "webMethods/trigger", "trigger_type": "broker-trigger"})
    put(folder / "config", {"Transacted": {"aliasName": "Transacted", "transactionType": "1"}}, "jms.cnf")
    (folder / "Shop/ns/broken").mkdir()
    (folder / "Shop/ns/broken/node.ndf").write_text("<Values>")
    return folder


def test_a_package_of_forty_triggers_runs_a_thousand_messages(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubtless, database = InProcess(tmp_path), f"sqlite:///{tmp_path}/shop.db"

    answer = doubtless("migrate", "webmethods", str(package), "--to", "out", "--json")
    again = doubtless("migrate", "webmethods", str(package), "--to", "out")

    out = tmp_path / "out"
    (row,) = answer.json
    assert (answer.code, row["triggers"], row["left out"], again.code) == (0, COUNT, 2, 2)
    modules = sorted(file.stem for file in out.glob("triggers_of_*.py"))
    assert modules == ["triggers_of_plain", "triggers_of_transacted"]
    written_there = "".join((out / f"{module}.py").read_text() for module in modules)
    assert [option for option in OPTIONS if option not in written_there] == []
    report = (out / "report.md").read_text()
    assert all(f"## shop.triggers:on{number}\n" in report for number in range(COUNT))
    assert "broken/node.ndf" in report

    write_services(out / "jms_services.py")
    here = InProcess(out)
    environment = {"JMS_PROVIDER": database, "DOCUMENT_HISTORY": database}
    for module in modules:
        assert here("guarantees", module, **environment).code == 0
    sent = [(f"q{number % COUNT}", f"m-{number}") for number in range(1000)]
    provider = open_provider(database)
    others = [(f"{queue}b", f"{uuid}-b") for queue, uuid in sent if queue == "q33"]
    for queue, uuid in [*sent, *sent[::10], *others]:
        drive(provider.send(queue, [Message(body=uuid, uuid=uuid, properties=kind_of(uuid))]))
    drive(provider.close())
    for module in modules:
        assert here("run", module, "--until-idle", "5", **environment).code == 0

    ran = Counter((out / "ran.txt").read_text().splitlines())
    assert ran == Counter(f"{service_of(queue, uuid)} {uuid}" for queue, uuid in sent)
    assert here("parked", "list", "--json", "--history", database).json == []


def kind_of(uuid: str) -> dict[str, str]:
    return {"kind": "cancel" if uuid.endswith("4") else "order", "activation": uuid.removesuffix("-b")}


def service_of(queue: str, uuid: str) -> str:
    """Return the service that Integration Server would run. A trigger with a batch has one service."""
    number = int(queue[1:])
    has_rules = number % 4 == 0
    return f"cancel{number}" if has_rules and kind_of(uuid)["kind"] == "cancel" else f"book{number}"


def write_services(file: Path) -> None:
    """Write the services. Each service notes its name and the message."""
    text = file.read_text()
    for parameter, uuids in (
        ("messages: list[Message]", "[message.uuid for message in messages]"),
        ("message: Message", "[message.uuid]"),
        ("joined: Joined", "[joined.activation]"),
    ):
        text = text.replace(f"({parameter}) -> None:", f"({parameter}) -> None:\n    return _note({uuids})\n")
    file.write_text(text + _NOTE)
