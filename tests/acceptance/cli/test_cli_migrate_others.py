"""``doubtless migrate atg`` and ``sqlremote`` write files that are accepted without changes, and run."""

import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.acceptance.in_process import InProcess
from tests.unit.triggers.patchbay.test_xml import XML

#: Another file of the configuration path: a second sink of the same topic, and an MQSeries sink.
MORE = """<dynamo-message-system><patchbay>
<message-sink><nucleus-name>/mail/OrderFulfiller</nucleus-name>
  <input-port><input-destination><destination-name>Fulfillment/SubmitOrder</destination-name>
    <destination-type>Topic</destination-type><durable-subscriber-name>Mail</durable-subscriber-name>
  </input-destination></input-port>
</message-sink>
<message-sink><nucleus-name>/mail/Bounce</nucleus-name>
  <input-port><input-destination><provider-name>MQSeries</provider-name>
    <destination-name>jms/bounces</destination-name><destination-type>Queue</destination-type>
  </input-destination></input-port>
</message-sink></patchbay></dynamo-message-system>
"""


#: The components with work: the source sends one order, and the sinks note the messages they get.
WRITTEN = """
def _note(component: str, message: Message) -> None:
    import json
    from pathlib import Path

    with Path(__file__).with_name("ran.jsonl").open("a") as ran:
        ran.write(json.dumps([component, message.uuid]) + "\\n")
"""


@pytest.fixture
def migrated(tmp_path: Path) -> Path:
    """The folder that the command writes from two files."""
    (tmp_path / "bay.xml").write_text(XML)
    (tmp_path / "more.xml").write_text(MORE)
    answer = InProcess(tmp_path)("migrate", "atg", "bay.xml", "more.xml", "--into", "out", "--json")
    assert (answer.code, answer.json[0]["components"]) == (0, 5)
    return tmp_path / "out"


def test_the_wiring_is_accepted_as_it_is_and_a_message_passes_through_the_written_components(
    migrated: Path,
) -> None:
    here = InProcess(migrated)

    wired = here("patchbay", "check", "patchbay.toml", "--json").json["wires"]
    write_components(migrated / "jms_components.py")
    ran = here("patchbay", "run", "patchbay.toml", "--until-idle", "2", "--json")

    assert [wire["component"] for wire in wired if wire["direction"] == "in"] == [
        "/shop/OrderFulfiller",
        "/mail/OrderFulfiller",
        "/mail/Bounce",
        "/shop/2Price",
    ]
    assert ran.code == 0
    seen = [json.loads(line) for line in (migrated / "ran.jsonl").read_text().splitlines()]
    assert sorted(seen) == [["/mail/OrderFulfiller", "o-1"], ["/shop/OrderFulfiller", "o-1"]]


def test_the_report_lists_what_patchbay_check_lists_and_marks_what_is_missing(migrated: Path) -> None:
    wiring = InProcess(migrated)("patchbay", "check", "patchbay.toml", "--json").json

    report = (migrated / "report.md").read_text()

    assert wiring["limbo"]
    assert wiring["notes"] == []
    assert "| missing | bay.xml, line 23 | Fulfillment/SubmitOrder: no-local left out" in report
    assert "| missing | bay.xml, line 6 | provider sqldms: supports-transactions left out" in report
    assert "| check | provider MQSeries | its url sqlite:///MQSeries.db is a guess" in report
    assert "| safer | redelivery: 3 attempts, then FulfillmentError |" in report
    assert "| same | durable-subscriber-name Mail |" in report


def test_a_wiring_that_cannot_work_is_refused_before_a_file_is_written(tmp_path: Path) -> None:
    port = "<port-name>FulfillmentError</port-name>"
    (tmp_path / "bay.xml").write_text(XML.replace(port, "<port-name>Other</port-name>"))

    answer = InProcess(tmp_path)("migrate", "atg", "bay.xml", "--to", "out")

    assert answer.code == 2
    assert "failure_port FulfillmentError is not a redelivery_port of /shop/OrderFulfiller" in answer.error
    assert not (tmp_path / "out").exists()


def test_a_password_in_the_url_of_a_provider_is_in_the_private_wiring_only(tmp_path: Path) -> None:
    (tmp_path / "bay.xml").write_text(XML)
    url = "postgresql://shop:s3cret@db/shop"

    InProcess(tmp_path)("migrate", "atg", "bay.xml", "--provider", f"sqldms={url}", "--to", "out")

    holding = [file.name for file in (tmp_path / "out").iterdir() if "s3cret" in file.read_text()]
    assert holding == ["patchbay.toml"]
    assert (tmp_path / "out" / "patchbay.toml").stat().st_mode & 0o077 == 0


def write_components(file: Path) -> None:
    """Write the components that get a message, and the source."""
    text = file.read_text().replace(
        'raise _missing("/shop/SubmitOrder")',
        'context.send("DEFAULT", "{}", uuid="o-1", type="order", properties={"total": 5})',
    )
    for sink in ("/shop/OrderFulfiller", "/mail/OrderFulfiller"):
        text = text.replace(f'raise _missing("{sink}")', f'_note("{sink}", message)')
    file.write_text(text + WRITTEN)


def declaring(encoding: str) -> str:
    """Return the file with a letter outside ASCII, and with this declaration."""
    content = XML.partition("?>")[2].replace("Fulfillment/", "Aufträge/")
    return f'<?xml version="1.0" encoding="{encoding}"?>{content}'


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [("UTF-8", "utf-8"), ("ISO-8859-1", "latin-1"), ("UTF-16", "utf-16"), ("UTF-8", "utf-8-sig")],
)
def test_a_file_is_read_in_the_encoding_that_it_declares(
    tmp_path: Path, declared: str, encoding: str
) -> None:
    text = declaring(declared)
    (tmp_path / "bay.xml").write_bytes(text.encode(encoding))

    answer = InProcess(tmp_path)("migrate", "atg", "bay.xml", "--to", "out")

    assert answer.code == 0
    assert "Aufträge/SubmitOrder" in (tmp_path / "out" / "patchbay.toml").read_text("utf-8")


@pytest.mark.parametrize("declared", ["UTF-8", "US-ASCII", "hex", "klingon"])
def test_a_file_in_another_encoding_than_it_declares_is_refused_with_the_remedy(
    tmp_path: Path, declared: str
) -> None:
    text = declaring(declared)
    (tmp_path / "bay.xml").write_bytes(text.encode("latin-1"))

    answer = InProcess(tmp_path)("migrate", "atg", "bay.xml", "--to", "out")

    assert answer.code == 2
    assert f"bay.xml: is not {declared.upper()}: " in answer.error
    assert "save it as UTF-8" in answer.error
    assert not (tmp_path / "out").exists()


#: The statements of the two databases.
STATEMENTS = {
    "hq": """
        CREATE REMOTE TYPE FILE ADDRESS 'hq';
        GRANT PUBLISH TO hq_user;
        CREATE PUBLICATION orders_pub (TABLE "DBA".orders (id, rep) SUBSCRIBE BY rep);
        GRANT REMOTE TO field TYPE FILE ADDRESS 'field' SEND EVERY '00:00:01';
        CREATE SUBSCRIPTION TO orders_pub ('7') FOR field;
    """,
    "field": """
        CREATE REMOTE TYPE FILE ADDRESS 'field';
        GRANT PUBLISH TO field_user;
        CREATE PUBLICATION orders_pub (TABLE orders (id, rep));
        GRANT CONSOLIDATE TO hq TYPE FILE ADDRESS 'hq';
        CREATE SUBSCRIPTION TO orders_pub FOR hq;
    """,
}


def test_the_links_of_both_ends_are_set_up_and_carry_a_row(tmp_path: Path) -> None:
    doubtless = InProcess(tmp_path)
    engines = {name: create_engine(f"sqlite:///{tmp_path}/{name}.db") for name in STATEMENTS}
    for name, statements in STATEMENTS.items():
        with engines[name].begin() as connection:
            connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY, rep TEXT)"))
        (tmp_path / f"{name}.sql").write_text(statements)
        (migrated,) = doubtless("migrate", "sqlremote", f"{name}.sql", "--to", name, "--json").json
        assert migrated == {"publications": 1, "remotes": 1, "left out": 0}
        place(tmp_path, name)
        assert doubtless("sqlremote", "setup", f"{name}/links.toml").code == 0
    with engines["hq"].begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (1, '7'), (2, '8')"))

    sent = doubtless("sqlremote", "run", "hq/links.toml", "--batch")
    received = doubtless("sqlremote", "run", "field/links.toml", "--batch")

    assert (sent.code, received.code) == (0, 0)
    with engines["field"].connect() as connection:
        assert connection.execute(text("SELECT id, rep FROM orders")).all() == [(1, "7")]
    assert doubtless("migrate", "sqlremote", "hq.sql", "--to", "hq").code == 2


def place(folder: Path, name: str) -> None:
    """Write the settings that the command cannot know: the database, and the shared folder of both ends."""
    file = folder / name / "links.toml"
    settings = file.read_text()
    for presumed, real in (
        ("postgresql://user@host/database", f"sqlite:///{name}.db"),
        ("file:///mnt/exchange", f"file://{folder}/exchange"),
    ):
        assert presumed in settings
        settings = settings.replace(presumed, real)
    file.write_text(settings)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "holds no statement of SQL Remote"),
        (b"-- a comment;\nCREATE TABLE orders (id INTEGER);", "holds no statement of SQL Remote"),
        (STATEMENTS["hq"].replace("orders_pub", "auftr\u00e4ge").encode("latin-1"), "is not UTF-8"),
    ],
)
def test_a_file_without_links_or_in_another_encoding_is_refused_and_nothing_is_written(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "hq.sql").write_bytes(content)

    answer = InProcess(tmp_path)("migrate", "sqlremote", "hq.sql", "--to", "out")

    assert (answer.code, answer.out) == (2, "")
    assert answer.error.startswith("error: FILE: hq.sql")
    assert problem in answer.error
    assert not (tmp_path / "out").exists()
