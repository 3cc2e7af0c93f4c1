"""Statements prepared for two databases from one text, or from one for each."""

import pytest

from history.sql.statements.dialects import Dialect, Statement, statement


def texts(prepared: Statement) -> tuple[str, str]:
    return str(prepared[Dialect.SQLITE]), str(prepared[Dialect.POSTGRESQL])


def test_a_common_text_serves_both_databases() -> None:
    assert texts(statement("SELECT 1")) == ("SELECT 1", "SELECT 1")


def test_a_database_may_have_a_text_of_its_own() -> None:
    assert texts(statement("SELECT 1", postgresql="SELECT 2")) == ("SELECT 1", "SELECT 2")
    assert texts(statement("SELECT 1", sqlite="")) == ("", "SELECT 1")


def test_a_word_may_mean_something_else_to_each_database() -> None:
    words = {"ids": {Dialect.SQLITE: "json_each(:ids)", Dialect.POSTGRESQL: "unnest(:ids)"}}

    prepared = statement("SELECT * FROM {ids}", words=words)

    assert texts(prepared) == ("SELECT * FROM json_each(:ids)", "SELECT * FROM unnest(:ids)")


def test_a_word_may_use_others_whatever_their_order() -> None:
    words = {"due": "date <= {at}", "at": "COALESCE(:at, {now})", "now": "clock()"}

    assert texts(statement("SELECT {due}", words=words))[0] == "SELECT date <= COALESCE(:at, clock())"


def test_a_word_takes_what_stands_behind_it() -> None:
    words = {"number": {Dialect.SQLITE: "CASE {} WHEN 0 THEN {} END", Dialect.POSTGRESQL: "{}"}}

    prepared = statement("SELECT {number e.size}", words=words)

    assert texts(prepared) == ("SELECT CASE e.size WHEN 0 THEN e.size END", "SELECT e.size")


def test_an_unknown_word_is_found_when_the_statement_is_prepared() -> None:
    with pytest.raises(KeyError, match="nwo"):
        statement("SELECT {nwo}")
