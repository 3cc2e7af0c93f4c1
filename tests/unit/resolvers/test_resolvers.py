"""How a resolver is called, and how its answer is used."""

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from history import ConfigurationError, Message, Uuid
from history.bridge import SuspendedError, drive
from resolvers import Evidence, NonsenseAnswerError, Resolution, Resolved, Resolver, asking, chain
from tests.unit.resolvers.resolver_shapes import EVIDENCE_SHAPES, MISFITS, SHAPES, with_evidence

MESSAGE = Message(body={"card": "4711"}, uuid=Uuid("m1"))
EVIDENCE = Evidence(owner="w1", started_at=datetime(2024, 5, 1, tzinfo=UTC), fence=7, delivery_count=2)


def ask(resolver: Resolver) -> Resolved:
    return drive(asking(resolver).ask("u1", "book", MESSAGE, EVIDENCE))


class Saying:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0

    def __call__(self, uuid: str, trigger_name: str, message: Message) -> Any:
        del uuid, trigger_name, message
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("shape", SHAPES)
def test_a_resolver_of_any_shape_gets_the_three(shape: str) -> None:
    assert ask(SHAPES[shape]) == Resolved(Resolution.NEW, "u1 book m1")


@pytest.mark.parametrize("shape", EVIDENCE_SHAPES)
def test_evidence_goes_where_the_signature_asks_for_it(shape: str) -> None:
    assert ask(EVIDENCE_SHAPES[shape]) == Resolved(Resolution.NEW, "u1 book m1 7")


@pytest.mark.parametrize("shape", MISFITS)
def test_a_signature_that_cannot_take_them_is_refused_by_name(shape: str) -> None:
    misfit = MISFITS[shape]

    with pytest.raises(ConfigurationError, match=rf"\.{misfit.__qualname__}: .*; define it as \(uuid, trig"):
        asking(cast("Resolver", misfit))


def test_what_is_not_callable_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'shop:find' is not callable; .*load_resolver"):
        asking(cast("Resolver", "shop:find"))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Resolution.DUPLICATE, Resolved(Resolution.DUPLICATE)),
        ("NEW", Resolved(Resolution.NEW)),
        ("DUPLICATE", Resolved(Resolution.DUPLICATE)),
        ("IN_DOUBT", Resolved(Resolution.IN_DOUBT)),
        (Resolved(Resolution.IN_DOUBT, "no ledger"), Resolved(Resolution.IN_DOUBT, "no ledger")),
        (Resolved(cast("Resolution", "NEW")), Resolved(Resolution.NEW)),
    ],
)
def test_an_answer_becomes_resolved(answer: object, expected: Resolved) -> None:
    resolved = ask(Saying(answer))

    assert resolved == expected
    assert type(resolved.resolution) is Resolution


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "None"),
        (True, "True"),
        (0, "0"),
        ("", "''"),
        ("new", "'new'"),
        ("IN DOUBT", "'IN DOUBT'"),
        (b"NEW", "a bytes"),
        (("NEW", "reason"), "a tuple"),
        ({"status": "NEW"}, "a dict"),
        (Resolved(cast("Resolution", None)), r"Resolved\(None, None\)"),
        (Resolved(Resolution.NEW, cast("str", 3)), r"Resolved\(<Resolution.NEW: 'NEW'>, 3\)"),
    ],
)
def test_any_other_answer_is_nonsense_and_named(answer: object, told: str) -> None:
    with pytest.raises(NonsenseAnswerError, match=rf"\.Saying answered {told}; return Resolution"):
        ask(Saying(answer))


@pytest.mark.parametrize("answer", [MESSAGE, "x" * 10_000], ids=["the message", "a long one"])
def test_the_error_for_a_wrong_answer_is_short_and_does_not_repeat_the_message(answer: object) -> None:
    with pytest.raises(NonsenseAnswerError) as raised:
        ask(Saying(answer))

    assert "4711" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_the_resolvers_own_exception_passes_untouched() -> None:
    error = KeyError("bookings")

    with pytest.raises(KeyError) as raised:
        ask(Saying(error))

    assert raised.value is error
    assert raised.value.__cause__ is None


def test_a_type_error_inside_a_resolver_is_not_taken_for_a_wrong_signature() -> None:
    fails = Saying(TypeError("fails() missing 1 required positional argument"))

    with pytest.raises(TypeError, match="missing 1"):
        ask(fails)

    assert fails.asked == 1


def test_the_name_of_an_instance_is_its_type_not_its_repr() -> None:
    class Asking(Saying):
        def __repr__(self) -> str:
            return "Asking(password='secret')"

    assert asking(Asking("NEW")).name.endswith(".Asking")


class Suspends:
    def __await__(self) -> Any:
        yield


def test_a_resolver_that_waits_is_refused_in_blocking_code() -> None:
    async def waits(uuid: str, trigger_name: str, message: Message) -> Resolution:
        await Suspends()
        return Resolution.NEW

    with pytest.raises(SuspendedError, match="ask: waits for an event loop"):
        ask(waits)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["NEW", "DUPLICATE"], Resolved(Resolution.NEW)),
        (["DUPLICATE", "NEW"], Resolved(Resolution.DUPLICATE)),
        (["IN_DOUBT", "IN_DOUBT", "DUPLICATE"], Resolved(Resolution.DUPLICATE)),
        (["IN_DOUBT", "IN_DOUBT"], Resolved(Resolution.IN_DOUBT)),
        (
            [Resolved(Resolution.IN_DOUBT, "no row"), "IN_DOUBT", Resolved(Resolution.IN_DOUBT, "HTTP 401")],
            Resolved(Resolution.IN_DOUBT, "no row; HTTP 401"),
        ),
        (
            [Resolved(Resolution.IN_DOUBT, "no row"), Resolved(Resolution.NEW, "HTTP 404")],
            Resolved(Resolution.NEW, "HTTP 404"),
        ),
    ],
)
def test_the_first_opinion_of_a_chain_wins(answers: list[object], expected: Resolved) -> None:
    assert ask(chain(*map(Saying, answers))) == expected


@pytest.mark.parametrize("first", ["DUPLICATE", ConnectionError()], ids=["opinion", "exception"])
def test_a_chain_does_not_ask_after_the_first_opinion_or_exception(first: object) -> None:
    last = Saying("NEW")

    with pytest.raises(ConnectionError) if first != "DUPLICATE" else nullcontext():
        ask(chain(Saying(first), last))

    assert last.asked == 0


def test_a_member_that_forgets_to_return_breaks_the_chain_by_name() -> None:
    with pytest.raises(NonsenseAnswerError, match=r"\.Saying answered None"):
        ask(chain(Saying(None), Saying("NEW")))


def test_a_chain_hands_evidence_on_even_through_another_chain() -> None:
    answer = ask(chain(Saying("IN_DOUBT"), chain(with_evidence)))

    assert answer == Resolved(Resolution.NEW, "u1 book m1 7")


async def test_a_chain_mixes_blocking_and_asynchronous_members() -> None:
    async def unsure(uuid: str, trigger_name: str, message: Message) -> Resolution:
        return Resolution.IN_DOUBT

    assert await chain(unsure, Saying("NEW"))("u1", "book", MESSAGE) == Resolved(Resolution.NEW)


def test_an_empty_chain_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        chain()


def test_a_chain_refuses_a_member_that_cannot_be_asked() -> None:
    with pytest.raises(ConfigurationError, match="too_few"):
        chain(cast("Resolver", MISFITS["too few"]))
