"""The carrier that loses: it does what it is told to, and nothing else."""

from collections.abc import Iterable

import pytest

from tests.unit.helpers.lossy import Fate, LossyCarrier, seeded_fates


def carrier(*fates: Fate) -> LossyCarrier:
    following: Iterable[Fate] = iter(fates)
    return LossyCarrier(lambda: next(iter(following)), delay=2)


def inbox(lossy: LossyCarrier) -> list[bytes]:
    return [lossy.get("y", name) for name in lossy.list("y")]


ARRIVALS = {
    Fate.ARRIVES: [b"before", b"message"],
    Fate.IS_LOST: [b"before"],
    Fate.IS_DOUBLED: [b"before", b"message", b"message"],
    Fate.IS_LATE: [b"before"],
    Fate.IS_DOUBLED_LATE: [b"before", b"message"],
    Fate.OVERTAKES: [b"message", b"before"],
    Fate.IS_GARBLED: [b"before", b"mesrage"],
    Fate.IS_CUT_OFF: [b"before", b"mess"],
}


@pytest.mark.parametrize("fate", Fate, ids=lambda fate: fate.name)
def test_a_message_meets_its_fate(fate: Fate) -> None:
    lossy = carrier(Fate.ARRIVES, fate)

    lossy.put("y", b"before")
    lossy.put("y", b"message")

    assert inbox(lossy) == ARRIVALS[fate]


@pytest.mark.parametrize("fate", [Fate.IS_LATE, Fate.IS_DOUBLED_LATE], ids=lambda fate: fate.name)
def test_what_is_late_arrives_after_some_readings(fate: Fate) -> None:
    lossy = carrier(fate)
    lossy.put("y", b"message")

    before = len(inbox(lossy))

    assert len(inbox(lossy)) == before + 1
    assert len(inbox(lossy)) == before + 1


def test_a_message_stays_until_it_is_deleted() -> None:
    lossy = LossyCarrier()
    lossy.put("y", b"message")
    (name,) = lossy.list("y")

    assert list(lossy.list("y")) == [name]
    lossy.delete("y", [name])
    lossy.delete("y", [name])

    assert list(lossy.list("y")) == []
    with pytest.raises(KeyError):
        lossy.get("y", name)


def test_each_end_has_its_own_inbox() -> None:
    lossy = LossyCarrier()
    lossy.put("y", b"message")

    assert list(lossy.list("x")) == []


def test_a_seed_tells_the_same_fates_again() -> None:
    one, other = seeded_fates(7, fault_rate=0.5), seeded_fates(7, fault_rate=0.5)

    fates = [one() for _ in range(200)]

    assert fates == [other() for _ in range(200)]
    assert set(fates) == set(Fate)
