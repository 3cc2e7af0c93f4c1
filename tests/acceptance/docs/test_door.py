"""A reader finds the page of their system from README and from the site, and its first code runs."""

import pytest

from tests import ROOT
from tests.acceptance.docs.pages import blocks

#: The page of each reader, below docs.
DOORS = {
    "Celery": "how-to/guard-celery-tasks.md",
    "FastAPI": "how-to/use-with-fastapi.md",
    "Kafka": "how-to/run-on-kafka.md",
    "Spark": "spark-in-five-minutes.md",
    "webMethods": "coming-from/webmethods.md",
}


@pytest.mark.parametrize("reader", DOORS)
def test_readme_leads_to_the_page_of_a_reader_before_its_first_code(reader: str) -> None:
    before, _, _ = (ROOT / "README.md").read_text(encoding="utf-8").partition("```")

    assert f"[{reader}](docs/{DOORS[reader]})" in before


@pytest.mark.parametrize("page", DOORS.values())
def test_the_list_of_all_pages_leads_to_the_page_of_a_reader(page: str) -> None:
    assert f"]({page})" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", DOORS.values())
def test_the_page_of_a_reader_begins_with_code_that_runs(page: str) -> None:
    first = next(blocks(ROOT / "docs" / page))

    assert first.kind in {"python", "python file", "python consumer"}
