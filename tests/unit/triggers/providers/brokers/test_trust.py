"""The trust in each broker's delivery count, and its table in the documentation."""

import pytest

from history.errors import ConfigurationError
from tests import ROOT
from triggers.providers.brokers.trust import (
    PROFILES,
    Effect,
    FirstCount,
    Happening,
    TrustProfile,
    weighed,
)

DOCUMENT = ROOT / "docs" / "delivery-counts.md"


def test_the_table_in_the_documentation_is_rendered_from_the_profiles() -> None:
    _, _, rest = DOCUMENT.read_text(encoding="utf-8").partition("<!-- profiles: begin -->\n")
    shown, _, _ = rest.partition("<!-- profiles: end -->")

    assert shown == table_of_profiles(), "put table_of_profiles() between the markers"


def table_of_profiles() -> str:
    head = ["broker", "wire", "queue", *Happening, "the count is", "a count of 1"]
    lines = [head, ["---"] * len(head), *map(cells_of, PROFILES)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def cells_of(profile: TrustProfile) -> list[str]:
    first = "is a first delivery" if profile.first_is_first else "becomes -1" if profile.keeps_count else "-"
    effects = [str(profile.effects[happening]) for happening in Happening]
    return [profile.broker, profile.wire, profile.queue, *effects, worth_of(profile), first]


def worth_of(profile: TrustProfile) -> str:
    effects = set(profile.effects.values())
    if not profile.keeps_count:
        return "absent"
    if Effect.UNKNOWN in effects:
        return "unknown"
    if profile.effects[Happening.BROKER_KILLED] is Effect.FORGOTTEN:
        return "lost when the broker crashes"
    return "exact" if effects == {Effect.COUNTED} else "lower bound"


@pytest.mark.parametrize("profile", PROFILES, ids=lambda one: f"{one.broker} {one.wire} {one.queue}")
def test_a_profile_says_something_of_everything_that_happens(profile: TrustProfile) -> None:
    assert list(profile.effects) == list(Happening)


@pytest.mark.parametrize("count", [-1, 1, 2, 7])
@pytest.mark.parametrize("redelivered", [False, True], ids=["first", "redelivered"])
@pytest.mark.parametrize("profile", PROFILES, ids=lambda one: f"{one.broker} {one.wire} {one.queue}")
def test_only_a_1_that_proves_nothing_becomes_undefined(
    profile: TrustProfile, count: int, *, redelivered: bool
) -> None:
    proved = profile.first_is_first and not redelivered

    found = weighed(count, redelivered=redelivered, profile=profile)

    assert found == (-1 if count == 1 and not proved else count)
    assert weighed(count, redelivered=redelivered, profile=profile, first_count=FirstCount.AS_TOLD) == count


def test_the_setting_is_read_or_refused() -> None:
    assert FirstCount.read("as_told") is FirstCount.AS_TOLD
    with pytest.raises(ConfigurationError, match=r"first_count.*weighed or as_told"):
        FirstCount.read("always")
