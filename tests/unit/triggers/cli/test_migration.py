"""Definitions of Integration Server: how filters are translated, and what a hostile package cannot do."""

import ast
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from history.errors import ConfigurationError
from triggers.cli.setup.migration.commands import files_of
from triggers.cli.setup.migration.filters import selector_of
from triggers.cli.setup.migration.jms_triggers import find_triggers
from triggers.cli.setup.migration.mapping import Fit, mapped
from triggers.cli.setup.migration.statements import PublishedTo, read_statements


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ('%properties/region% == "EU"', "region = 'EU'"),
        ('%JMSMessage/header/JMSType% == "cancel"', "JMSType = 'cancel'"),
        ("%body/order/amount% > 100 && %properties/a% != 1", "body.order.amount > 100 AND a <> 1"),
        ("%properties/region% == $null", "region IS NULL"),
        ("%properties/region% != $null", "region IS NOT NULL"),
        (
            '(%properties/a% = 1 or %properties/b% = "it\'s") and not (%body/x% <= -2.5)',
            "(a = 1 OR b = 'it''s') AND NOT (body.x <= -2.5)",
        ),
        ("", None),
        ('%headers/JMSType% != "order"', "JMSType <> 'order'"),
        ("%/properties/a% == 1", "a = 1"),
        ('%variable% == "b"', None),
        ('%JMSType% == "order"', None),
        ("isNull(%properties/x%)", None),
        ("%properties/a% == %properties/b%", None),
        ('%properties/a% > "5"', None),
        ("%properties/or% == 1", None),
        ("%header/priority% == 4", None),
        ("%properties/a/b% == 1", None),
        ('%properties/a% == "1" &&', None),
        ('%properties/a% L_EQUALS "1"', None),
    ],
)
def test_a_filter_is_translated_or_left_to_a_person(there: str, here: str | None) -> None:
    assert selector_of(there) == here


def package(folder: Path, *, name: str = "shop:on", service: str = "shop:book", **values: str) -> Path:
    more = "".join(f'<value name="{key}">{escape(value)}</value>' for key, value in values.items())
    file = folder / "ns" / "on" / "node.ndf"
    file.parent.mkdir(parents=True)
    file.write_text(
        f"""<Values version="2.0"><value name="node_nsName">{escape(name)}</value>
        <value name="trigger_type">jms-trigger</value><record name="trigger">{more}
        <array name="routingRules"><record>
        <value name="serviceName">{escape(service)}</value></record></array>
        <array name="destinations"><record><value name="destination">q</value></record></array>
        </record></Values>"""
    )
    return folder


def files(folder: Path) -> dict[str, str]:
    found = find_triggers(folder)
    return dict(files_of(mapped(found), found))


@pytest.mark.parametrize("odd", ['a"""\nimport os #', "a\\", "a\nb", "class", "1st", "ä:ö", '"', "{x}"])
def test_a_name_is_text_in_the_module_and_never_code(tmp_path: Path, odd: str) -> None:
    made = files(
        package(tmp_path, name=f"shop:{odd}", service=f"shop:{odd}", aliasName=odd, resolver=f"x:{odd}")
    )

    for name, text in made.items():
        if name.endswith(".py"):
            statements = ast.parse(text).body
            assert {type(one) for one in statements} <= {
                ast.Expr,
                ast.Import,
                ast.ImportFrom,
                ast.FunctionDef,
            }
            imported = {one.names[0].name for one in statements if isinstance(one, ast.Import)}
            assert imported <= {"jms_services"}


@pytest.mark.parametrize(
    "text",
    [
        "<Values>",
        '<!DOCTYPE v [<!ENTITY a "b">]><Values/>',
        "",
        '<Values><value name="trigger_type">x</value></Values>',
    ],
)
def test_a_file_that_is_not_a_jms_trigger_is_left_out_and_the_others_are_not(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "node.ndf").write_text(text)

    found = find_triggers(package(tmp_path))

    assert [one.name for one in found.triggers] == ["shop:on"]
    assert [file for file, _ in found.left_out] == ["bad/node.ndf"]


def test_a_folder_without_triggers_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigurationError) as refused:
            find_triggers(folder)
        assert refused.value.setting == "DIR"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<Values>", "is not well-formed XML"),
        (b'<?xml version="1.0" encoding="UTF-8"?><Values>\xe9</Values>', "is not UTF-8"),
    ],
)
def test_a_folder_whose_only_trigger_cannot_be_read_says_why(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    file = tmp_path / "Shop" / "ns" / "orders" / "node.ndf"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)

    with pytest.raises(ConfigurationError, match=f"Shop/ns/orders/node.ndf: {reason}"):
        find_triggers(tmp_path)


def test_nothing_that_differs_is_kept_silent(tmp_path: Path) -> None:
    odd = {"inDoubtDetection": "false", "enabled": "false", "jmsTriggerType": "1", "executeUser": "jobs"}
    found = find_triggers(package(tmp_path, acknowledgeMode="1", connectionCount="4", **odd))

    (made,) = mapped(found)

    notes = {(note.kind, note.there) for note in made.notes}
    assert made.options["acknowledge_mode"] == '"auto"'
    assert {
        (Fit.CHECK, "disabled"),
        (Fit.MISSING, "a SOAP over JMS trigger"),
        (Fit.MISSING, "execution user jobs"),
        (Fit.SAME, "connection count 4"),
        (Fit.CHECK, "acknowledgement mode auto"),
        (Fit.CHECK, "connection alias default"),
    } <= notes


def test_the_report_says_what_to_write_for_names_in_jndi(tmp_path: Path) -> None:
    (made,) = mapped(find_triggers(package(tmp_path)))

    [destinations] = [note for note in made.notes if note.there.startswith("destinations ")]
    assert destinations.kind is Fit.CHECK
    assert "jndi:NAME" in destinations.here


def test_one_service_has_one_name_and_two_services_have_two(tmp_path: Path) -> None:
    for number, service in enumerate(("a.x:book", "b.x:book", "a.x:book")):
        package(tmp_path / str(number), name=f"shop:on{number}", service=service)

    services = files(tmp_path)["jms_services.py"]

    assert [one.name for one in ast.parse(services).body if isinstance(one, ast.FunctionDef)] == [
        "_missing",
        "book",
        "b_x_book",
    ]


def test_signs_in_quoted_names_end_and_separate_nothing() -> None:
    statements = read_statements(
        """CREATE PUBLICATION "it's; mine" (TABLE "o'rders, new" ("id", "a;b,c"), TABLE customers);
        -- it's a comment
        GRANT REMOTE TO "field; o'neil, jr" TYPE file ADDRESS 'it''s; here';
        CREATE SUBSCRIPTION TO "it's; mine" FOR "field; o'neil, jr";
        """
    )

    assert statements.publications["it's; mine"].tables == ["o'rders, new(id, a;b,c)", "customers"]
    assert statements.remotes["field; o'neil, jr"].address == "it's; here"
    assert statements.remotes["field; o'neil, jr"].publications == [PublishedTo("it's; mine")]
    assert statements.left_out == []
