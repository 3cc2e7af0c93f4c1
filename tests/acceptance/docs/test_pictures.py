"""docs/dashboard-pictures.md shows every picture of the dashboard."""

from tests.acceptance.pictures.gallery import FOLDER, PAGE, SCHEMES, TITLES, WIDTHS, file_of, gallery


def test_each_page_is_shown_in_each_window_light_and_dark() -> None:
    wanted = {file_of(name, width, scheme) for name in TITLES for width in WIDTHS for scheme in SCHEMES}

    assert PAGE.read_text(encoding="utf-8") == gallery()
    assert {file.name for file in FOLDER.iterdir()} == wanted


def test_the_pictures_are_small_together() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 3_000_000
