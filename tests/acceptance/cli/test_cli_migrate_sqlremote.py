"""``doubtless migrate sqlremote``: statements of both ends become links that are set up and replicate."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.acceptance.in_process import InProcess

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
    """Write what the command cannot know: the database, and the folder that both ends reach."""
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
