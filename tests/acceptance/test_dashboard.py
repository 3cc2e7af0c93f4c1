"""People use the dashboard in a real browser, by mouse and by keyboard."""

import shutil
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from history.beside.charts import ChartStep
from history.beside.journal import JournalLine
from history.beside.kept import KeepsBeside
from history.beside.progress import begin, change
from history.bridge import drive
from history.store import Counts, Report, TriggerState
from history.store.parking import Evidence, Parked, ParkedKind, parked_id
from history.store.progress import BatchState, Beginning
from tests.acceptance.in_process import InProcess
from tests.fixtures.beside import kept_in
from tests.fixtures.needed import missing
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import Message, open_provider

pytestmark = pytest.mark.prove

#: A stranger has sent this text.
HOSTILE = "<script>document.title = 'hacked'</script><img src=x onerror=\"document.title='hacked'\">"

#: More pages, which no other test names.
MORE = (
    *("parked?by=host", "failures", "providers", "spark", "query?trigger=book&query=orders-to-lake"),
    "security",
)

#: At most so many demos run until one leaves a message In Doubt.
DEMOS = 5

#: Lines of a demo that matter here, without their last word.
DEMO_SAYS = ("In Doubt, parked", "the dashboard is at")

NOT_KNOWN = "IN DOUBT: an earlier run did not finish; parked (row 10)"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium-headless-shell")
    if program is None:
        missing("Chromium", "apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=PATIENCE * 1000
        )
        expect.set_options(timeout=PATIENCE * 1000)  # the time limit for all expectations
        yield browser
        browser.close()


@pytest.fixture
def address(doubtless: InProcess, redis_url: str, store: KeepsBeside) -> Iterator[str]:
    """The sign-in address of a dashboard over a shop that needs decisions."""
    fill(store)
    send(redis_url)
    with beating(store):
        yield from served(doubtless, redis_url)


def served(doubtless: InProcess, redis_url: str) -> Iterator[str]:
    """Serve the dashboard, and yield the sign-in address."""
    process = doubtless.start(
        "dashboard", "shop", "--port", "0", "--history", redis_url, "--provider", redis_url
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    """A window that has signed in. At the end it had no errors, and loaded nothing from another address."""
    context = chromium.new_context(viewport={"width": 1240, "height": 800})
    context.set_default_timeout(PATIENCE * 1000)
    window = context.new_page()
    wrong: list[str] = []
    window.on("pageerror", lambda error: wrong.append(str(error)))
    window.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    asked: set[str] = set()
    window.on("request", lambda request: asked.add("/".join(request.url.split("/")[:3])))
    window.goto(address)
    expect(window.get_by_role("heading", name="Overview")).to_be_visible()
    yield window
    context.close()
    assert wrong == []
    assert asked == {"/".join(address.split("/")[:3])}


def fill(store: KeepsBeside) -> None:
    """Write the data that a crash and a few mistakes leave."""
    now = datetime.now(UTC)
    for number in range(12):
        park(store, f"order-{number + 1}", now - timedelta(minutes=90 - number))
    for number in range(3):
        park(
            store,
            f"order-{number + 40}",
            now - timedelta(minutes=20 - number),
            kind=ParkedKind.REJECTED,
            reason="FAILED: a fatal error; parked (row 7)",
            error_class="shop.NoSuchCustomerError",
            error_message="no such customer",
        )
    park(store, HOSTILE, now - timedelta(minutes=5), trigger_name="ship", reason=HOSTILE)
    journal = kept_in(store).journal
    drive(journal.append("book", [JournalLine(uuid="order-3", verdict="duplicate", reason="it ran before")]))
    drive(journal.append("ship", [JournalLine(uuid=HOSTILE, verdict="given up", reason=HOSTILE)]))
    for batch in range(3):
        run_batch(store, batch, now - timedelta(minutes=3 - batch))


def run_batch(store: KeepsBeside, number: int, at: datetime) -> None:
    """Write the record of a batch of a Spark query."""
    beginning = Beginning(query="orders-to-lake", batch=number, lineage="5b1e", run=f"run-{number}")
    record = drive(begin(store.progress, "book", beginning, at))
    counts = {"rows": 1200, "new": 1100 + number, "duplicate": 100 - number, "in_doubt": 0, "rejected": 0}
    for state in (BatchState.RUNNING, BatchState.COMPLETED):
        record = drive(change(store.progress, "book", record, state, at + timedelta(seconds=2), counts))


def send(url: str) -> None:
    """Let three orders wait at the provider."""
    provider = open_provider(url)
    drive(provider.send("orders", [Message(body={"id": f"order-{number}"}) for number in range(3)]))
    drive(provider.close())


@contextmanager
def beating(store: KeepsBeside) -> Generator[None]:
    """Let a consumer report a few times a second, like a running consumer, until the end of the block."""
    ended = Event()

    def beat() -> None:
        beats = 0
        while not ended.wait(0.25):
            beats += 1
            drive(store.control.beat("token-1", reports(beats)))

    drive(store.control.beat("token-1", reports(0)))
    thread = Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def reports(beats: int) -> list[Report]:
    """Return the consumer's reports: one trigger works, and another is suspended."""
    new = 4210 + 61 * beats + beats % 7 * 9
    counts = Counts(new=new, duplicate=38 + 2 * beats, in_doubt=12, rejected=3, runs=new)
    away = "the carrier is away"
    return [
        Report(consumer="worker-1", trigger="book", counts=counts, busy=2),
        Report(consumer="worker-1", trigger="ship", state=TriggerState.SUSPENDED, reason=away),
    ]


def add_steps(store: KeepsBeside) -> None:
    """Add steps of consumers to the charts, with a pause and a time of failures."""
    charts, now = kept_in(store).charts, datetime.now(UTC)
    new = failed = 0
    for ago in range(90, -1, -1):
        new, failed = new + 2400 + ago % 7 * 60, failed + (600 if 20 < ago < 28 else 2)
        step = ChartStep(
            now - timedelta(minutes=ago),
            Counts(
                new=new, duplicate=new // 30, failed=failed, runs=new, microseconds=new * (31_000 - ago * 9)
            ),
            12 + ago // 9,
        )

        async def make(step: ChartStep = step) -> ChartStep:
            return step

        if not 40 < ago < 47:
            drive(charts.add("book", step.at, make))


def park(store: KeepsBeside, uuid: str, parked_at: datetime, **more: object) -> None:
    name = str(more.get("trigger_name", "book"))
    owner = "worker-1:4242:1f3a"
    claim = drive(store.claim(name, [uuid], f"{owner}{uuid}"))[0]
    message = Message(
        body={"id": uuid, "amount": 19.9}, uuid=uuid, timestamp=parked_at - timedelta(minutes=2)
    )
    known: dict[str, object] = {
        "id": parked_id(name, message),
        "trigger_name": name,
        "kind": ParkedKind.IN_DOUBT,
        "reason": NOT_KNOWN,
        "uuid": uuid,
        "destination": "orders",
        "message": message,
        "evidence": Evidence(
            delivery_count=2, owner=owner, started_at=parked_at - timedelta(seconds=31), fence=claim.fence
        ),
        "parked_at": parked_at,
    }
    drive(store.parking.park([Parked.model_validate(known | more)]))


def violations_of(page: Page) -> list[dict[str, Any]]:
    """Return the accessibility violations of a page, found by axe-core."""
    axe: Any = Axe()
    violations: list[dict[str, Any]] = axe.run(page).response["violations"]
    return violations


def press(page: Page, *keys: str) -> None:
    """Press keys, one after another. Wait first, because a page that is still loading ignores keys."""
    page.wait_for_load_state("domcontentloaded")
    for key in keys:
        page.keyboard.press(key)


def test_somebody_runs_a_message_in_doubt_with_the_keyboard_and_it_is_in_the_audit_trail(
    page: Page, doubtless: InProcess
) -> None:
    expect(page.get_by_text("the carrier is away").first).to_be_visible()
    expect(page.locator("#line")).to_have_text("live")
    expect(page.locator("tbody tr").first.locator("td").nth(2)).not_to_have_text("-")

    press(page, "g")
    expect(page.get_by_role("heading", name="Parked messages")).to_be_visible()
    expect(page.get_by_role("link", name="book")).to_have_count(2)
    press(page, "j", "Enter")
    expect(page.get_by_text("12 messages: an earlier run")).to_be_visible()
    press(page, "j", "j", "k", "Enter")
    expect(page.get_by_role("heading", name="Did book happen for order-1?")).to_be_visible()
    press(page, "r")
    page.keyboard.type("it is not in the bank's list")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 of 1 closed")).to_be_visible()

    assert (doubtless.folder / "done.txt").read_text() == "order-1\n"
    page.get_by_role("navigation").get_by_role("link", name="Decisions").click()
    expect(page.get_by_role("cell", name="it is not in the bank's list")).to_be_visible()
    expect(page.get_by_role("cell", name="administrator")).to_be_visible()


def test_a_key_is_heard_as_soon_as_there_is_something_to_see(page: Page) -> None:
    _open_first_message(page)
    held = Held(page, "**/static/desk.js")
    page.reload(wait_until="commit")
    expect(page.get_by_role("heading", name="Did book happen for order-1?")).to_be_visible()

    # The letters "s" and "d" in the typed text are also keys of other decisions.
    page.keyboard.press("r")
    page.keyboard.type("seen at the bank, declined")
    reason = page.locator("input[data-key=r]")

    expect(reason).to_have_value("seen at the bank, declined")
    held.let_go()


@pytest.mark.parametrize("until", ["declined", "s"])
def test_keys_that_come_before_the_page_is_whole_are_not_taken_for_others(page: Page, until: str) -> None:
    """Parsing stops at a late script; the last keys come after it, and before the page's own scripts."""
    _open_first_message(page)
    address = page.url
    page.route(lambda url: url == address, _with_a_late_script)
    late, held = Held(page, "**/static/late.js"), Held(page, "**/static/desk.js")
    page.reload(wait_until="commit")
    expect(page.get_by_role("heading", name="Did book happen for order-1?")).to_be_visible()

    page.keyboard.press("r")
    early, _, rest = "seen at the bank, declined".partition(until)
    page.keyboard.type(early + until)
    late.give_nothing()
    page.wait_for_function("document.readyState === 'interactive'")
    page.keyboard.type(rest)

    expect(page.locator("input[data-key=r]")).to_have_value("seen at the bank, declined")
    held.let_go()


def _open_first_message(page: Page) -> None:
    page.goto(page.url + "parked")
    page.get_by_role("link", name="book").first.click()
    page.locator("[data-row] a").first.click()
    expect(page.get_by_role("heading", name="Did book happen for order-1?")).to_be_visible()


def _with_a_late_script(route: Route) -> None:
    """Answer with the page, which has a script after its heading."""
    answer = route.fetch()
    before, end, after = answer.text().partition("</h1>")
    route.fulfill(response=answer, body=f'{before}{end}<script src="/static/late.js"></script>{after}')


class Held:
    """Holds a file back until it is released. Meanwhile the page works without it."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._routes: list[Route] = []
        page.route(pattern, self._hold)

    def _hold(self, route: Route) -> None:
        self._routes.append(route)

    def let_go(self) -> None:
        for route in self._routes:
            route.continue_()

    def give_nothing(self) -> None:
        for route in self._routes:
            route.fulfill(body="", content_type="text/javascript")


@pytest.fixture
def demo(doubtless: InProcess) -> Iterator[str]:
    """The address of a dashboard over the messages that a demo has left In Doubt. The demo must end well.

    On a busy machine the worker may finish before it is killed. Then nothing is In Doubt, and the demo runs
    again.
    """
    for _ in range(DEMOS):
        with demonstrated(doubtless) as (address, in_doubt):
            if in_doubt:
                yield address
                return
    pytest.fail(f"of {DEMOS} demos none had anything in flight when its worker was killed")


@contextmanager
def demonstrated(doubtless: InProcess) -> Generator[tuple[str, int]]:
    """Run a demo. Return the address of its dashboard, and the number of messages In Doubt."""
    process = doubtless.start("demo", "--on", "redis", "--count", "300", "--no-spark", "--dashboard")
    assert process.stdout is not None
    try:
        lines: dict[str, str] = {}
        while "the dashboard is at" not in lines:
            line = process.stdout.readline()
            assert line, process.communicate()
            lines |= {said: line.split()[-1] for said in DEMO_SAYS if said in line}
        yield lines["the dashboard is at"], int(lines["In Doubt, parked"])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_a_newcomer_runs_what_the_demo_left_in_doubt(chromium: Browser, demo: str) -> None:
    window = chromium.new_page()
    window.set_default_timeout(PATIENCE * 1000)
    pages = window.get_by_role("navigation", name="Pages")
    window.goto(demo)
    pages.get_by_role("link", name="Parked messages").click()
    window.get_by_role("row", name="in doubt").get_by_role("link").click()
    expect(window.get_by_role("heading", name="demo-booking in doubt")).to_be_visible()
    # One message of the demo is not an order and has no uuid. A worker may have been killed while it ran.
    window.locator("[data-row] a").filter(has_not_text="ID:").first.click()
    expect(window.get_by_role("heading", name="Did demo-booking happen for")).to_be_visible()
    press(window, "r")
    window.keyboard.type("I have looked")
    window.keyboard.press("Enter")
    expect(window.get_by_text("1 of 1 closed")).to_be_visible()
    pages.get_by_role("link", name="Decisions").click()
    expect(window.get_by_role("cell", name="I have looked")).to_be_visible()
    window.close()


def test_somebody_settles_what_is_ticked_after_a_preview(page: Page, store: KeepsBeside) -> None:
    page.goto(page.url + "parked")
    page.get_by_role("link", name="book").first.click()
    page.get_by_role("checkbox", name="tick order-2").check()
    press(page, "j", "x")
    expect(page.get_by_role("checkbox", name="tick order-3")).to_be_checked()
    page.get_by_label("decision").select_option("done")
    page.get_by_role("button", name="those that are ticked").click()
    expect(page.get_by_role("heading", name="Settle as done: 2 messages?")).to_be_visible()
    before = drive(store.parking.count())
    page.get_by_label("Why?").fill("both are in the ledger")
    page.get_by_role("button", name="Settle as done 2").click()
    expect(page.get_by_text("2 of 2 closed")).to_be_visible()

    assert before - drive(store.parking.count()) == 2


def test_somebody_decides_once_about_all_that_a_host_held(page: Page, store: KeepsBeside) -> None:
    page.goto(page.url + "parked")
    page.get_by_role("link", name="by host of the worker").click()
    page.get_by_label("decision about worker-1").select_option("discard")
    page.get_by_role("button", name="all 16").click()
    expect(page.get_by_role("row", name="3 book rejected")).to_be_visible()
    page.get_by_label("Why?").fill("worker-1 burnt, and all was sent again")
    page.get_by_role("button", name="Discard 16").click()
    expect(page.get_by_role("row", name="book 15 of 15 closed")).to_be_visible()

    assert drive(store.parking.count()) == 0


def test_what_waits_what_failed_and_what_spark_did_is_one_click_away(page: Page) -> None:
    pages = page.get_by_role("navigation", name="Pages")
    pages.get_by_role("link", name="Providers").click()
    expect(page.get_by_role("row", name="orders book book 3")).to_be_visible()
    pages.get_by_role("link", name="Spark").click()
    page.get_by_role("link", name="orders-to-lake").click()
    expect(page.get_by_role("row")).to_have_count(4)
    pages.get_by_role("link", name="Failures").click()
    expect(page.get_by_role("cell", name="no such customer")).to_be_visible()
    page.get_by_role("link", name="order-3", exact=True).click()
    expect(page.get_by_text("it ran before")).to_be_visible()


def test_hostile_names_do_nothing_in_a_browser(page: Page) -> None:
    page.goto(page.url + "parked")
    page.get_by_role("link", name="ship").click()
    page.locator("[data-row] a").first.click()
    expect(page.get_by_text("Body")).to_be_visible()

    assert "hacked" not in page.title().replace(HOSTILE, "")
    assert page.locator("img").count() == 0


def test_an_order_reaches_the_consumers(page: Page, store: KeepsBeside) -> None:
    page.get_by_role("link", name="book").first.click()
    page.get_by_label("Why?").fill("the bank is away")
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_role("heading", name="Disable book")).to_be_visible()

    orders = drive(store.control.overview()).orders
    assert [(order.trigger, order.verb.value, order.reason) for order in orders] == [
        ("book", "disable", "the bank is away (administrator)")
    ]


def test_what_is_live_changes_by_itself(page: Page, store: KeepsBeside) -> None:
    expect(page.locator("#line")).to_have_text("live")

    new = Report(consumer="worker-2", trigger="invoice", counts=Counts(new=1))
    drive(store.control.beat("token-2", [new]))

    expect(page.get_by_role("link", name="invoice")).to_be_visible()


#: The last point of the first trigger's curve. It moves with each reading.
CURVE = "document.querySelector('[data-live] polyline').getAttribute('points')"


def wait_for_news(page: Page) -> None:
    """Wait until the live part of the page has changed once."""
    before = page.evaluate(CURVE)
    page.wait_for_function(f"before => {CURVE} !== before", arg=before)


def test_what_is_live_leaves_the_keyboard_where_it_is(page: Page, store: KeepsBeside) -> None:
    focused = "document.activeElement.getAttribute('href')"
    # This also holds before the first update, on the page as it was first sent.
    link = """document.querySelector("[data-live] a[href='/parked?trigger=book']")"""
    page.add_init_script(f"addEventListener('DOMContentLoaded', () => {link}.focus())")
    page.reload()

    wait_for_news(page)
    drive(store.control.beat("token-2", [Report(consumer="worker-2", trigger="a-new-one")]))
    expect(page.get_by_role("link", name="a-new-one")).to_be_visible()

    assert page.evaluate(focused) == "/parked?trigger=book"


def test_what_is_live_stands_still_while_text_is_selected(page: Page) -> None:
    chosen = "getSelection().toString()"
    wait_for_news(page)
    page.locator("[data-live] caption").last.select_text()

    expect(page.locator("#line")).to_have_text("live, and still while text is selected")
    curve, text = page.evaluate(CURVE), page.evaluate(chosen)
    page.wait_for_timeout(1500)
    assert text == page.evaluate(chosen) == "Messages a second, over the last ten seconds"
    assert page.evaluate(CURVE) == curve
    page.evaluate("getSelection().removeAllRanges()")
    wait_for_news(page)
    expect(page.locator("#line")).to_have_text("live")


def test_a_page_says_that_its_session_has_ended_elsewhere(page: Page) -> None:
    expect(page.locator("#line")).to_have_text("live")

    another = page.context.new_page()
    another.goto(page.url)
    another.get_by_role("button", name="Sign out").click()

    expect(page.get_by_text("Your session has ended")).to_be_visible()


def test_a_page_that_connects_again_after_its_session_says_so(chromium: Browser, address: str) -> None:
    window = chromium.new_page()
    window.set_default_timeout(PATIENCE * 1000)
    window.goto(address)
    expect(window.get_by_role("heading", name="Overview")).to_be_visible()

    window.route("**/live/overview", lambda route: route.fulfill(status=401))
    window.reload()

    expect(window.get_by_text("Your session has ended")).to_be_visible()
    window.close()


def test_a_page_that_waits_fills_itself_in_and_keeps_no_session(chromium: Browser, address: str) -> None:
    window = chromium.new_page()
    window.set_default_timeout(PATIENCE * 1000)
    window.goto(address)
    expect(window.get_by_role("heading", name="Overview")).to_be_visible()
    is_over: list[bool] = []

    def answer(route: Route) -> None:
        sent = route.fetch()
        if "doubtless-again" not in route.request.headers:
            body = sent.text().replace("</h1>", "</h1><p data-again=0>not yet</p>", 1)
            route.fulfill(response=sent, body=body)
        else:
            route.fulfill(response=sent, status=401 if is_over else 200)

    window.route("**/decisions", answer)
    window.get_by_role("link", name="Decisions").click()
    expect(window.get_by_role("heading", name="Decisions")).to_be_visible()
    expect(window.get_by_text("not yet")).to_have_count(0)
    is_over.append(True)
    window.reload()

    expect(window.get_by_text("Your session has ended")).to_be_visible()
    window.close()


def test_a_session_that_ends_takes_the_page_with_it(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    page.go_back()

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_the_dark(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 390, "height": 844})

    start = page.url
    for path in ("", "parked", "triggers", "decisions", "story?uuid=order-1", "trigger?name=book", *MORE):
        page.goto(start + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.goto(start + "parked")
    page.locator("[data-row] a").first.click()
    page.locator("[data-row] a").first.click()
    expect(page.get_by_role("heading", name="Did book happen for order-1?")).to_be_visible()

    assert eventually(lambda: page.evaluate("document.documentElement.scrollWidth")) <= 390


def test_no_table_is_cut_on_a_tablet(page: Page) -> None:
    page.set_viewport_size({"width": 1024, "height": 768})
    start = page.url
    cut: list[str] = []
    for path in ("", "parked", "triggers", "decisions", "trigger?name=book", *MORE):
        page.goto(start + path)
        wide = page.locator(".wide:not(details .wide)")
        tables = wide.evaluate_all("(all) => all.filter((one) => one.scrollWidth > one.clientWidth)")
        cut += [path for _ in tables]

    assert cut == []


def test_the_security_log_is_asked_in_one_line_and_names_its_cells_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(page.url + "security")

    fields = page.locator("form.bar").locator("input, select, button")
    boxes = [box for one in fields.all() if (box := one.bounding_box()) is not None]
    page.set_viewport_size({"width": 390, "height": 844})
    cells = page.locator("[data-row]").first.locator("td")
    heads = cells.evaluate_all("(all) => all.map((one) => getComputedStyle(one, '::before').content)")
    texts = cells.all_inner_texts()

    assert len(boxes) == 5
    assert max(box["y"] for box in boxes) < min(box["y"] + box["height"] for box in boxes)
    assert heads.count("none") == 1  # the column of its time
    assert "" not in texts


def test_on_a_phone_where_tables_have_no_heads_each_number_says_what_it_is(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    start = page.url
    numbers = 0
    nameless: list[str] = []
    for path in ("", "parked", "triggers", "trigger?name=book", *MORE):
        page.goto(start + path)
        heads = page.eval_on_selector_all(
            ".stacked td.number", "(cells) => cells.map((cell) => getComputedStyle(cell, '::before').content)"
        )
        numbers += len(heads)
        nameless += [path for head in heads if head == "none"]

    assert numbers > 20
    assert nameless == []


@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), (1024, "dark"), (390, "dark")])
def test_axe_reports_nothing(
    page: Page, store: KeepsBeside, width: int, scheme: Literal["light", "dark"]
) -> None:
    add_steps(store)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    start = page.url
    found: list[str] = []
    for path in ("", "parked", "triggers", "decisions", "story?uuid=order-1", "trigger?name=book", *MORE):
        page.goto(start + path)
        for one in page.locator("details").all():
            one.evaluate("(details) => { details.open = true }")
        found += [f"/{path}: {one['id']}: {one['nodes'][0]['html']}" for one in violations_of(page)]

    page.evaluate("document.body.append(document.createElement('button'))")
    assert found == []
    assert "button-name" in {one["id"] for one in violations_of(page)}


def test_charts_are_pictures_with_their_numbers_and_stay_open(page: Page, store: KeepsBeside) -> None:
    rates = page.get_by_role("img", name="Messages a second, the last hour, all triggers")
    add_steps(store)

    def is_shown() -> bool:
        page.reload()  # the dashboard may keep older steps in its cache for a while
        return rates.count() == 1

    assert eventually(is_shown)
    expect(rates).to_be_visible()
    expect(page.get_by_role("img", name="Parked messages, the last day, all triggers")).to_be_visible()
    page.get_by_text("Numbers of the last hour").click()
    table = page.get_by_role("table", name="The last hour, by minute")
    expect(table).to_be_visible()
    assert page.locator("figure polyline").count() > 8
    assert page.locator("figure .gap").count() >= 4
    page.evaluate("look()")
    expect(page.locator("#line")).to_have_text("live")
    expect(table).to_be_visible()


def test_every_field_and_button_has_a_name_for_a_screen_reader(page: Page) -> None:
    start = page.url
    nameless: list[str] = []
    for path in ("", "parked", "triggers", "decisions", "story", "trigger?name=book", *MORE):
        page.goto(start + path)
        nameless += page.evaluate(
            """[...document.querySelectorAll("input:not([type=hidden]), select, button, a")]
               .filter((one) => !(one.labels || []).length && !one.ariaLabel && !one.textContent.trim())
               .map((one) => location.pathname + " " + one.outerHTML)"""
        )

    assert nameless == []
