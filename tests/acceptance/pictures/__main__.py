"""Make pictures of every page: at three widths, light and dark.

``python -m tests.acceptance.pictures [FOLDER] [--only NAME ...]``: by default for the documentation. It needs
Chromium and a Redis.
"""

import argparse
import shutil
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from history.opening import open_history
from tests.acceptance.pictures.day import beating, fill
from tests.acceptance.pictures.gallery import FOLDER, PAGE, SCHEMES, WIDTHS, Scheme, file_of, gallery
from tests.acceptance.pictures.services import SERVICES
from triggers.dashboard import Access, Role, Token, create_app
from triggers.testing.redis_server import RedisServer, free_port

#: The heights of the windows, and the maximal height of a picture, in pixels.
HEIGHTS, HIGHEST = {1600: 1000, 1024: 768, 390: 844}, 2400

#: How many colours a picture has.
COLOURS = 64

#: Seconds before the first picture, while somebody watches: rates need ten.
CURVES = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only the pages with these names")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as name,
        served(Path(name)) as (address, tokens),
        chromium() as browser,
    ):
        pages = decided(browser, address, tokens)
        watch(browser, address, tokens["ann"])
        for scheme in SCHEMES:
            for width in WIDTHS:
                page = signed_in(browser, address, tokens["ann"], width=width, scheme=scheme)
                for page_name, path in pages.items():
                    if not given.only or page_name in given.only:
                        page.goto(address + path)
                        save(page, given.folder / file_of(page_name, width, scheme))
                page.context.close()
    if given.folder == FOLDER:
        PAGE.write_text(gallery(), encoding="utf-8")


@contextmanager
def served(folder: Path) -> Generator[tuple[str, Mapping[str, str]]]:
    """Serve the dashboard of a shop. Yield its address, and the token of each person."""
    tokens = [
        Token.drawn("ann", Role.ADMIN),
        Token.drawn("bob", Role.OPERATOR),
        Token.drawn("eve", Role.VIEWER),
    ]
    with RedisServer(folder, appendfsync="everysec") as redis:
        store = open_history(redis.url)
        fill(store, redis.url)
        app = create_app(
            redis.url, access=Access(tokens=tokens), triggers=SERVICES, providers=[redis.url], store=store
        )
        port = free_port()
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
        thread = threading.Thread(target=server.run)
        with beating(store):
            thread.start()
            try:
                yield f"http://127.0.0.1:{port}/", {one.name: one.secret for one in tokens}
            finally:
                server.should_exit = True
                thread.join()


@contextmanager
def chromium() -> Generator[Browser]:
    """Start Debian's Chromium."""
    program = shutil.which("chromium-headless-shell")
    if program is None:
        raise SystemExit("Chromium is missing: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def signed_in(
    browser: Browser,
    address: str,
    token: str,
    *,
    width: int = 1600,
    scheme: Scheme = "light",
) -> Page:
    """Return a window of somebody who has signed in."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHTS[width]}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(f"{address}sign-in#{token}")
    page.wait_for_url(address)
    return page


def decided(browser: Browser, address: str, tokens: Mapping[str, str]) -> Mapping[str, str]:
    """Let people make some decisions. Return the address of each page by its name."""
    bob = signed_in(browser, address, tokens["bob"])
    bob.goto(address + "parked?trigger=ship-parcel")
    bob.get_by_role("row", name="rejected").get_by_role("link", name="ship-parcel").click()
    bob.get_by_label("decision").select_option("discard")
    for box in bob.get_by_role("checkbox").all()[1:5]:
        box.check()
    bob.get_by_role("button", name="those that are ticked").click()
    bob.get_by_label("Why?").fill("test accounts, and no customers")
    bob.get_by_role("button", name="Discard 4").click()
    bob.get_by_text("4 of 4 closed").wait_for()
    job = bob.url.removeprefix(address)
    bob.goto(address + "parked?trigger=charge-card")
    bob.get_by_role("row", name="in doubt").get_by_role("link", name="charge-card").click()
    doubtful = bob.url.removeprefix(address)
    bob.locator("[data-row] a").first.click()
    message = bob.url.removeprefix(address)
    ann = signed_in(browser, address, tokens["ann"])
    ann.goto(address + doubtful)
    ann.locator("[data-row] a").nth(2).click()
    ann.locator("input[data-key=s]").fill("the bank's list of today has it")
    ann.keyboard.press("Enter")
    ann.get_by_text("1 of 1 closed").wait_for()
    key = doubtful.partition("key=")[2].partition("&")[0]
    return {
        "overview": "",
        "desk": "parked",
        "desk-by-host": "parked?by=host",
        "group": doubtful,
        "message": message,
        "preview": f"decide?key={key}&decision=run&all=yes",
        "progress": job,
        "decisions": "decisions",
        "failures": "failures",
        "triggers": "triggers",
        "trigger": "trigger?name=charge-card",
        "providers": "providers",
        "spark": "spark",
        "query": "query?trigger=lake&query=orders-to-lake",
        "security": "security",
        "why": "story?uuid=order-81003",
    }


def watch(browser: Browser, address: str, token: str) -> None:
    """Watch Overview for a while, because its rates and curves cover only the time that somebody watches."""
    page = signed_in(browser, address, token)
    page.wait_for_timeout(1000 * CURVES)
    page.context.close()


def save(page: Page, file: Path) -> None:
    """Make a picture of the whole page, with few colours."""
    end = page.evaluate("document.querySelector('footer').getBoundingClientRect().bottom")
    width = page.evaluate("innerWidth")
    clip = FloatRect(x=0, y=0, width=width, height=min(HIGHEST, end))
    image = Image.open(BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")
    few = image.quantize(COLOURS, dither=Image.Dither.NONE).convert("RGB")
    few.save(file, lossless=True, quality=100, method=4)


if __name__ == "__main__":
    main()
