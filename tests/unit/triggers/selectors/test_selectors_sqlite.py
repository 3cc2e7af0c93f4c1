"""A second opinion: SQLite gives the same result for all conditions that both understand.

Left out is what differs by design: comparing values of different kinds, dividing by zero, integers beyond 53
bits, and bare properties as conditions.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history.message import Message
from tests.unit.triggers.selectors.conditions import combined
from triggers.selectors import Reading, Selector
from triggers.selectors.parsing.nodes import (
    ArithmeticChain,
    Between,
    ComparedValues,
    Constant,
    Identifier,
    In,
    IsNull,
    Like,
    Node,
    Signed,
)
from triggers.selectors.selector import write

pytestmark = pytest.mark.slow

NUMBERS, TEXTS = ["m", "n", "o"], ["s", "t", "u"]

_number = st.one_of(st.integers(-8, 8), st.integers(-8, 8).map(lambda n: n / 2))
_text = st.text(alphabet="ab%_'", max_size=4)
_divisor = _number.filter(bool).map(Constant)


def _number_nodes() -> st.SearchStrategy[Any]:
    def reckoned(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        sums = st.lists(st.tuples(st.sampled_from("+-"), inner), min_size=1, max_size=3)
        products = st.lists(
            st.one_of(st.tuples(st.just("*"), inner), st.tuples(st.just("/"), _divisor)),
            min_size=1,
            max_size=3,
        )
        return st.one_of(
            st.builds(ArithmeticChain, inner, sums.map(tuple)),
            st.builds(ArithmeticChain, inner, products.map(tuple)),
            st.builds(Signed, st.sampled_from("+-"), inner),
        )

    leaves = st.one_of(_number.map(Constant), st.sampled_from(NUMBERS).map(Identifier))
    return st.recursive(leaves, reckoned, max_leaves=5)


def _nodes() -> st.SearchStrategy[Any]:
    numbers = _number_nodes()
    names = st.sampled_from(TEXTS).map(Identifier)
    texts = st.one_of(_text.map(Constant), names)
    tests = st.one_of(
        st.builds(ComparedValues, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), numbers, numbers),
        st.builds(ComparedValues, st.sampled_from(["=", "<>"]), texts, texts),
        st.builds(Between, numbers, numbers, numbers, st.booleans()),
        st.builds(In, names, st.lists(_text, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(Like, names, _text, st.none(), st.booleans()),
        st.builds(Like, names, st.sampled_from(["b%", "bb_", "%b_", "a"]), st.just("b"), st.booleans()),
        st.builds(IsNull, st.sampled_from(NUMBERS + TEXTS).map(Identifier), st.booleans()),
        st.booleans().map(Constant),
    )
    return st.recursive(tests, lambda inner: combined(inner, inner), max_leaves=10)


_properties = st.fixed_dictionaries(
    dict.fromkeys(NUMBERS, st.one_of(st.none(), _number)) | dict.fromkeys(TEXTS, st.one_of(st.none(), _text))
)


@pytest.fixture(scope="module")
def sqlite() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = ON")
    yield connection
    connection.close()


@given(tree=_nodes(), properties=_properties)
@settings(max_examples=300, deadline=None)
def test_sqlite_says_the_same(sqlite: sqlite3.Connection, tree: Node, properties: dict[str, Any]) -> None:
    text = write(tree)
    columns = ", ".join(f":{name} AS {name}" for name in properties)

    ((expected,),) = sqlite.execute(f"SELECT {text} FROM (SELECT {columns})", properties)  # noqa: S608

    found = Selector.parse(text).evaluate(Reading(Message(body="", properties=properties)))
    assert found == expected, text
    assert (found is None) is (expected is None), text
