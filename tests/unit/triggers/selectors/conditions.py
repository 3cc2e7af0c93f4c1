"""Random conditions for the tests of the selector language, and a message to test them on."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from history.message import Message
from triggers.selectors.parsing.nodes import (
    And,
    ArithmeticChain,
    Between,
    ComparedValues,
    ComparisonSign,
    Constant,
    Identifier,
    In,
    IsNull,
    Like,
    Node,
    Not,
    Or,
    Path,
    Signed,
    ValueKind,
)
from triggers.selectors.parsing.values import kind_of

#: For tests on a machine that may be busy.
unhurried = settings(deadline=None)

#: Properties of every kind; a message may have them or not.
NAMES = ["region", "amount", "flag", "note", "missing", "$odd_1", "été", "Not_a", "JMS_vendor"]

_LONG = st.integers(-(2**63), 2**63 - 1)
_REAL = st.floats(allow_nan=False, allow_infinity=False)
_NUMBERS = st.one_of(_LONG, _REAL, st.integers(-3, 3))

identifiers = st.sampled_from(NAMES).map(Identifier)
_keys = st.lists(
    st.one_of(st.sampled_from(["a", "order", "in", "odd key", "it's", ""]), st.integers(0, 3)), max_size=3
)
paths = st.one_of(
    _keys.map(lambda keys: Path("body", tuple(keys))),
    st.sampled_from(["region", "a.b", "it's"]).map(lambda key: Path("properties", (key,))),
)


def compared(sign: ComparisonSign, left: Node, right: Node) -> ComparedValues:
    """Compare two values, or the first with itself where = and <> are refused between the two."""
    kinds = {kind_of(left), kind_of(right)}
    return ComparedValues(sign, left, right if len(kinds) == 1 or ValueKind.ANY in kinds else left)


def conditions(places: st.SearchStrategy[Any] = identifiers) -> st.SearchStrategy[Node]:
    """Return any tree that the parser can make."""
    numbers = st.recursive(st.one_of(_NUMBERS.map(Constant), places), _reckonings, max_leaves=4)
    values = st.one_of(numbers, st.text().map(Constant), st.booleans().map(Constant))
    return st.recursive(
        st.one_of(places, _tests(places, numbers, values)),
        lambda inner: combined(inner, values),
        max_leaves=8,
    )


def _reckonings(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def chains(signs: str) -> st.SearchStrategy[Any]:
        rest = st.lists(st.tuples(st.sampled_from(signs), inner), min_size=1, max_size=3).map(tuple)
        return st.builds(ArithmeticChain, inner, rest)

    return st.one_of(chains("+-"), chains("*/"), st.builds(Signed, st.sampled_from("+-"), inner))


def _tests(
    places: st.SearchStrategy[Any], numbers: st.SearchStrategy[Any], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    texts = st.lists(st.text(max_size=3), min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(compared, st.sampled_from(["=", "<>"]), values, values),
        st.builds(ComparedValues, st.sampled_from(["<", "<=", ">", ">="]), numbers, numbers),
        st.builds(Between, numbers, numbers, numbers, st.booleans()),
        st.builds(In, places, texts, st.booleans()),
        st.builds(Like, places, st.text(alphabet="ab%_'.*", max_size=6), st.none(), st.booleans()),
        st.builds(Like, places, st.sampled_from(["!%", "a!_b%", "!!", ""]), st.just("!"), st.booleans()),
        st.builds(IsNull, places, st.booleans()),
    )


def combined(inner: st.SearchStrategy[Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        some.map(And),
        some.map(Or),
        inner.map(Not),
        st.builds(compared, st.sampled_from(["=", "<>"]), inner, values),
    )


_properties = st.dictionaries(
    st.sampled_from(NAMES), st.one_of(st.none(), st.booleans(), _NUMBERS, st.text(max_size=5))
)
_bodies: list[Any] = [
    b'{"a": [1, {"order": "x"}], "in": null}',
    "no json",
    {"a": 1.5, "order": True},
    [1],
    b"7",
]

messages = st.builds(Message, body=st.sampled_from(_bodies), properties=_properties)
