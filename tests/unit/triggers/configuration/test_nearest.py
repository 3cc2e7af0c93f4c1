"""An error about an unknown name suggests the nearest known names."""

from time import perf_counter

from triggers.configuration.nearest import LISTED, instead_of, listed, nearest


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("BOOK-ORDR", ["ship", "book-order"]) == "did you mean book-order?"
    assert nearest("x", ["ship", "book"]) == "use book, ship"
    assert instead_of("shp", ["ship", "book"]) == "did you mean ship? known: book, ship"


def test_of_many_and_of_long_names_an_error_has_only_some() -> None:
    text = listed([f"trigger-{number:03}" for number in range(500)])

    assert text.endswith(f"and {500 - LISTED} more")
    assert text.count(",") == LISTED - 1
    assert listed(["a" * 1_000]) == "a" * 100 + "..."
    assert listed([]) == "none"


def test_a_name_of_a_hundred_thousand_characters_is_compared_with_none() -> None:
    began = perf_counter()

    assert nearest("ab" * 50_000, ["ba" * 50_000, "b"]).startswith("use ")

    assert perf_counter() - began < 1
