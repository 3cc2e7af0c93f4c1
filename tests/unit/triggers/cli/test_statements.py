"""Statements of SQL Remote become settings of links; the report lists statements without a counterpart."""

from pathlib import Path

import pytest

from triggers.cli.setup.migration.statements import links_of, read_statements, report_of
from triggers.providers.sqlremote.settings import RemoteSettings

EXPORT = """
-- the consolidated database; with a comment
CREATE REMOTE TYPE FILE ADDRESS 'hq';
GRANT PUBLISH TO hq_user;
CREATE PUBLICATION "DBA".orders_pub (
  TABLE "DBA".customers (id, "name"),
  TABLE orders WHERE state = 'open, or; not' SUBSCRIBE BY rep_key
);
GRANT REMOTE TO field_1, field_2 TYPE FILE ADDRESS 'f1', 'f2' SEND EVERY '00:05:00'
go
grant remote to night type smtp address 'night@example.com' send at '22:00';
CREATE SUBSCRIPTION TO orders_pub ('1') FOR field_1;
CREATE SUBSCRIPTION TO orders_pub FOR field_2, night; /* START
too; */
START SUBSCRIPTION TO orders_pub FOR field_1;
CREATE SUBSCRIPTION TO orders_pub FOR nobody;
CREATE TABLE x (id INT);
"""


def loaded(text: str, folder: Path) -> RemoteSettings:
    file = folder / "links.toml"
    file.write_text(links_of(read_statements(text)), encoding="utf-8")
    return RemoteSettings.load(file)


def test_each_subscription_is_a_link_that_captures_the_tables_of_its_publication(tmp_path: Path) -> None:
    links = loaded(EXPORT, tmp_path).links

    assert list(links) == ["field_1", "field_2", "night"]
    assert {(one.publication, one.capture, one.to_sender) for one in links.values()} == {
        ("orders_pub", True, True)
    }
    assert [one.inbox for one in links.values()] == ["hq-field_1", "hq-field_2", "hq_user-night"]
    assert links["field_1"].tables == ("customers(id, name)", "orders subscribe by rep_key")
    assert [one.subscription for one in links.values()] == ["1", None, None]
    assert [one.outbox for one in links.values()] == ["f1", "f2", "night-example.com"]
    assert [one.send for one in links.values()] == ["every 00:05:00", "every 00:05:00", "at 22:00"]


def test_a_remote_database_has_one_link_to_the_database_above(tmp_path: Path) -> None:
    text = "GRANT CONSOLIDATE TO hq TYPE file ADDRESS 'it''s hq'; CREATE PUBLICATION p (TABLE t);"
    (link,) = loaded(text + "CREATE SUBSCRIPTION TO p FOR hq", tmp_path).links.values()

    assert (link.consolidated, link.to_sender, link.outbox) == (True, False, "it-s-hq")


def test_the_outbox_of_each_end_is_the_inbox_of_the_other(tmp_path: Path) -> None:
    above = loaded(
        """CREATE REMOTE TYPE file ADDRESS 'hq'; GRANT PUBLISH TO boss; CREATE PUBLICATION p (TABLE t);
        GRANT REMOTE TO a, b TYPE file ADDRESS 'box a', 'box b'; CREATE SUBSCRIPTION TO p FOR a, b""",
        tmp_path,
    ).links["a"]
    (below,) = loaded(
        """CREATE REMOTE TYPE file ADDRESS 'box a'; GRANT PUBLISH TO a; CREATE PUBLICATION p (TABLE t);
        GRANT CONSOLIDATE TO boss TYPE file ADDRESS 'hq'; CREATE SUBSCRIPTION TO p FOR boss""",
        tmp_path,
    ).links.values()

    assert (above.inbox, above.outbox) == (below.outbox, below.inbox) == ("hq-a", "box-a")


def test_a_column_to_subscribe_by_is_among_the_columns_of_its_table(tmp_path: Path) -> None:
    text = """GRANT REMOTE TO a, b TYPE file ADDRESS 'a', 'b';
        CREATE PUBLICATION p (TABLE t (id) SUBSCRIBE BY "rep key", TABLE u (id, r) SUBSCRIBE BY (r), TABLE v);
        CREATE SUBSCRIPTION TO p ('it''s') FOR a; CREATE SUBSCRIPTION TO p (7) FOR b"""
    links = loaded(text, tmp_path).links

    assert links["a"].tables == ("t(id, rep key) subscribe by rep key", "u(id, r) subscribe by r", "v")
    assert [one.subscription for one in links.values()] == ["it's", "7"]


@pytest.mark.parametrize(
    ("by", "value", "told"),
    [
        ("SUBSCRIBE BY (SELECT k FROM u WHERE u.id = t.id)", "('1')", "t: SUBSCRIBE BY (SELECT k"),
        ("SUBSCRIBE BY substr(k, 1)", "('1')", "t: SUBSCRIBE BY substr(k, 1)"),
        ("", "('1')", "subscription value '1'"),
        ("SUBSCRIBE BY k", "(CURRENT USER)", "subscription value CURRENT USER"),
    ],
)
def test_what_no_column_says_is_missing(by: str, value: str, told: str, tmp_path: Path) -> None:
    text = f"GRANT REMOTE TO a TYPE file ADDRESS 'a'; CREATE PUBLICATION p (TABLE t {by});"
    text += f"CREATE SUBSCRIPTION TO p {value} FOR a"
    (link,) = loaded(text, tmp_path).links.values()

    assert link.subscription is None
    (line,) = (line for line in report_of(read_statements(text)).splitlines() if told in line)
    assert "missing" in line


def test_several_subscriptions_of_a_user_are_several_links(tmp_path: Path) -> None:
    text = "GRANT REMOTE TO a TYPE file ADDRESS 'a'; CREATE PUBLICATION p (TABLE t);"
    text += "CREATE PUBLICATION q (TABLE u); CREATE SUBSCRIPTION TO p FOR a; CREATE SUBSCRIPTION TO q FOR a"
    links = loaded(text, tmp_path).links

    assert {name: one.tables for name, one in links.items()} == {"a-p": ("t",), "a-q": ("u",)}
    assert [(one.inbox, one.outbox) for one in links.values()] == [("here-a-p", "a-p"), ("here-a-q", "a-q")]


@pytest.mark.parametrize(
    "told",
    [
        *("WHERE state = 'open, or; not'", "SUBSCRIBE BY rep_key", "subscription value '1'"),
        *("START SUBSCRIPTION", "no GRANT REMOTE names nobody", "CREATE TABLE x", "night@example.com"),
    ],
)
def test_what_has_no_counterpart_is_in_the_report(told: str) -> None:
    assert told in report_of(read_statements(EXPORT))


@pytest.mark.parametrize("text", ["", ";;", "go", "CREATE PUBLICATION p (", "'", "\0", "GRANT REMOTE TO"])
def test_a_file_without_links_has_none(text: str) -> None:
    found = read_statements(text)

    assert (found.remotes, found.publications) == ({}, {})
    assert links_of(found).endswith('database"\n')
