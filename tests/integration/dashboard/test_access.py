"""The dashboard checks who may sign in, what they may do, and for how long."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from history import ConfigurationError, Verb
from history.bridge import drive
from tests.integration.dashboard.conftest import TOKENS, Clock, Site
from triggers.dashboard import Access, ProxyHeader, Role, visit
from triggers.dashboard.access.sessions import MOST, Sessions
from triggers.dashboard.access.settings import TokenFile
from triggers.dashboard.access.throttle import FREE, LONGEST, Throttle
from triggers.dashboard.app import DONE, SHOWN
from triggers.dashboard.security import HEADERS

CHANGES: Mapping[str, Mapping[str, str]] = {
    "/decide": {"decision": "discard", "trigger": "book", "reason": "because"},
    "/cancel": {"key": "none"},
    "/continue": {"key": "none"},
    "/comment": {"trigger": "book", "text": "looked"},
    "/filter": {"name": "old", "older": "2h"},
    "/forget-filter": {"name": "old"},
    "/letters": {"provider": "memory://", "from": "orders.dlq", "trigger": "book"},
    "/resolve": {"trigger": "book"},
    "/order": {"order": "disable", "name": "book", "reason": "because"},
    "/sign-out": {},
}


def test_every_change_is_tried_here() -> None:
    assert CHANGES.keys() == DONE.keys()


@pytest.mark.parametrize("path", [*SHOWN, "/live/overview"])
def test_no_page_says_anything_to_who_has_not_signed_in(site: Site, path: str) -> None:
    site.park("order-1")

    answer = site.browser().get(path)

    assert answer.status_code in {303, 401}
    assert "order-1" not in answer.text
    assert "book" not in answer.text


@pytest.mark.parametrize("path", CHANGES)
def test_nothing_changes_without_a_session(site: Site, path: str) -> None:
    parked = site.park("order-1")

    assert site.browser().post(path, {**CHANGES[path], "id": parked.id}).status_code == 401
    assert site.ids() == [parked.id]
    assert drive(site.store.control.overview()).orders == []


@pytest.mark.parametrize(
    "csrf", [{}, {"csrf": ""}, {"csrf": "x" * 43}, {"csrf": "\ud800".encode("utf-8", "replace").decode()}]
)
@pytest.mark.parametrize("path", CHANGES)
def test_nothing_changes_by_a_form_that_is_not_ours(site: Site, path: str, csrf: Mapping[str, str]) -> None:
    parked, browser = site.park("order-1"), site.signed_in(Role.ADMIN)

    assert browser.post(path, {**CHANGES[path], "id": parked.id, **csrf}).status_code == 403
    assert site.ids() == [parked.id]
    assert drive(site.store.control.overview()).orders == []
    assert browser.get("/parked").status_code == 200


def test_nothing_changes_by_a_form_that_the_browser_says_comes_from_elsewhere(site: Site) -> None:
    parked, browser = site.park("order-1"), site.signed_in(Role.ADMIN)
    form = {**CHANGES["/decide"], "id": parked.id, "csrf": browser.csrf()}

    answer = browser.post("/decide", form, headers={"sec-fetch-site": "cross-site"})

    assert (answer.status_code, site.ids()) == (403, [parked.id])


def test_a_viewer_sees_what_is_parked_but_neither_bodies_nor_buttons(site: Site) -> None:
    parked, viewer = site.park("order-1", {"id": "secret-of-the-body"}), site.signed_in(Role.VIEWER)

    html = viewer.page(f"/message?trigger=book&id={parked.id}")

    assert "Did book happen for order-1?" in html
    assert "secret-of-the-body" not in html
    assert "JMSXDeliveryCount" not in html
    assert 'action="/decide"' not in html


@pytest.mark.parametrize("path", [path for path in CHANGES if path != "/sign-out"])
def test_a_viewer_changes_nothing(site: Site, path: str) -> None:
    parked, viewer = site.park("order-1"), site.signed_in(Role.VIEWER)

    answer = viewer.send(path, **CHANGES[path], id=parked.id)

    assert (answer.status_code, site.ids()) == (403, [parked.id])
    assert drive(site.store.control.overview()).orders == []


def test_an_operator_may_suspend_and_only_an_administrator_disable(site: Site) -> None:
    site.park("order-1")
    drive(site.store.claim("book", ["known"], "somebody"))
    form = {"name": "book", "reason": "the bank is away"}

    suspended = site.signed_in(Role.OPERATOR).send("/order", order="suspend", **form)
    refused = site.signed_in(Role.OPERATOR).send("/order", order="disable", **form)
    disabled = site.signed_in(Role.ADMIN).send("/order", order="disable", **form)

    assert [one.status_code for one in (suspended, refused, disabled)] == [200, 403, 200]
    orders = {order.verb: order.reason for order in drive(site.store.control.overview()).orders}
    assert orders[Verb.DISABLE] == "the bank is away (a admin)"


def test_a_wrong_token_says_nothing_but_that(site: Site) -> None:
    browser = site.browser()

    answers = [browser.sign_in(secret) for secret in ("", "x", TOKENS[Role.ADMIN].secret + "x")]

    assert [one.status_code for one in answers] == [403] * 3
    assert browser.get("/").status_code == 303


def test_after_some_wrong_tokens_an_address_waits_and_others_do_not(site: Site) -> None:
    right = TOKENS[Role.ADMIN].secret
    browser = site.browser(address="10.0.0.9")
    wrong = [browser.sign_in("x") for _ in range(FREE + 1)]

    late, other = browser.sign_in(right), site.browser(address="10.0.0.8").sign_in(right)

    assert [one.status_code for one in wrong] == [403] * (FREE + 1)
    assert (late.status_code, int(late.headers["retry-after"])) == (429, 1)
    assert other.status_code == 303


def test_wrong_tokens_of_programs_make_their_address_wait_and_no_person(site: Site) -> None:
    right = f"Bearer {TOKENS[Role.VIEWER].secret}"
    program = site.browser(address="10.0.0.9")
    wrong = [program.get("/metrics", authorization="Bearer x").status_code for _ in range(FREE + 1)]

    late = program.get("/metrics", authorization=right)
    other = site.browser(address="10.0.0.8").get("/metrics", authorization=right)
    signed_in = program.sign_in(TOKENS[Role.VIEWER].secret)

    assert wrong == [401] * (FREE + 1)
    assert (late.status_code, late.headers["retry-after"]) == (429, "1")
    assert (other.status_code, signed_in.status_code) == (200, 303)
    assert program.get("/metrics").status_code == 200


def test_a_right_token_of_a_program_ends_the_count(site: Site) -> None:
    right = f"Bearer {TOKENS[Role.VIEWER].secret}"
    program = site.browser(address="10.0.0.9")

    told = [
        program.get("/metrics", authorization=one).status_code
        for one in (*["Bearer x"] * FREE, right, *["Bearer x"] * FREE, right)
    ]

    assert told == [*[401] * FREE, 200, *[401] * FREE, 200]


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_tokens_that_their_group_may_read_are_read(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "tokens"
    file.write_text(ANN)
    file.chmod(mode)

    assert [token.name for token in TokenFile(file).read()] == ["ann"]


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o622])
def test_tokens_that_all_users_may_read_or_write_are_refused_with_the_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "tokens"
    file.write_text(ANN)
    file.chmod(mode)

    with pytest.raises(ConfigurationError) as error:
        TokenFile(file)

    assert error.value.setting == "--tokens"
    assert f"{mode:o}" in error.value.problem


def test_the_wait_doubles_and_a_right_token_ends_it() -> None:
    now = 0.0
    throttle = Throttle(lambda: now)
    waits: list[float] = []
    for _ in range(FREE + 12):
        throttle.fail("a")
        waits.append(throttle.wait("a"))

    now = LONGEST
    over = throttle.wait("a")
    throttle.succeed("a")
    throttle.fail("a")

    assert (waits[:FREE], waits[FREE : FREE + 4]) == ([0.0] * FREE, [1.0, 2.0, 4.0, 8.0])
    assert (waits[-1], over) == (LONGEST, 0.0)
    assert throttle.wait("a") == throttle.wait("b") == 0.0


def test_an_address_of_the_same_network_has_to_wait() -> None:
    throttle = Throttle(lambda: 0.0)
    for number in range(FREE + 1):
        throttle.fail(f"2001:db8::{number:x}")
        throttle.fail("::ffff:10.0.0.1")

    throttled = ["2001:db8::ffff", "2001:db8:0:0:1::1", "::ffff:10.0.0.1"]
    free = ["2001:db8:0:1::1", "::ffff:10.0.0.2", "10.0.0.2", "testclient"]

    assert [throttle.wait(address) > 0 for address in throttled + free] == [True] * 3 + [False] * 4


def test_a_million_addresses_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triggers.dashboard.access.throttle.MOST", 3)
    throttle = Throttle(lambda: 0.0)
    for address in ("a", "b", "c"):
        for _ in range(FREE + 1):
            throttle.fail(address)

    throttle.fail("d")

    assert [throttle.wait(address) > 0 for address in ("a", "b", "c")] == [False, True, True]


ANN, BOB = "ann admin cTMJIzVvYz3yVgPz1kJ0Yw8sQ2d", "bob viewer p5m0q8m1vJ3eKf2mZt7hXcW9LrB"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    write(file, ANN, BOB)
    return file


def write(file: Path, *lines: str) -> None:
    """Replace a file of tokens, as an editor does."""
    new = file.with_suffix(".new")
    new.write_text("\n".join(lines))
    new.chmod(0o600)
    new.replace(file)


def test_a_token_that_is_taken_out_of_its_file_counts_no_more(site: Site, token_file: Path) -> None:
    site.serve([], Access(tokens=TokenFile(token_file)))
    ann, bob = site.browser(), site.browser()
    ann.sign_in(ANN.split()[2])
    bob.sign_in(BOB.split()[2])
    before = [one.get("/").status_code for one in (ann, bob)]

    write(token_file, BOB)

    assert before == [200, 200]
    assert [one.get("/").status_code for one in (ann, bob)] == [303, 200]
    assert site.browser().sign_in(ANN.split()[2]).status_code == 403


def test_who_gets_another_role_signs_in_again(site: Site, token_file: Path) -> None:
    site.serve([], Access(tokens=TokenFile(token_file)))
    ann = site.browser()
    ann.sign_in(ANN.split()[2])

    write(token_file, ANN.replace("admin", "viewer"), BOB)

    assert ann.get("/").status_code == 303
    assert ann.sign_in(ANN.split()[2]).status_code == 303
    assert "viewer" in ann.page("/")


@pytest.mark.parametrize("spoil", [f"{ANN}\n{BOB}\nann admin", "", None])
def test_a_file_that_cannot_be_read_any_more_leaves_the_tokens_as_they_were(
    site: Site, token_file: Path, spoil: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    site.serve([], Access(tokens=TokenFile(token_file)))
    if spoil is None:
        token_file.unlink()
    else:
        write(token_file, spoil)

    answers = [site.browser().sign_in(BOB.split()[2]).status_code for _ in range(2)]
    write(token_file, ANN)

    assert answers == [303, 303]
    assert sum(record.levelname == "ERROR" for record in caplog.records) == 1
    assert site.browser().sign_in(BOB.split()[2]).status_code == 403


@pytest.mark.parametrize("spoil", [f"{BOB}\nann admin", f"{BOB}\n{ANN} more", f"#{ANN}\n{BOB}\nx"])
def test_a_token_that_is_taken_out_of_a_file_that_is_not_valid_counts_no_more(
    site: Site, token_file: Path, spoil: str
) -> None:
    site.serve([], Access(tokens=TokenFile(token_file)))
    write(token_file, spoil)

    answers = [site.browser().sign_in(line.split()[2]).status_code for line in (ANN, BOB)]

    assert answers == [403, 303]


@pytest.mark.parametrize("spoil", ["# nobody", "ann admin"])
def test_a_file_without_tokens_lets_nobody_in(site: Site, token_file: Path, spoil: str) -> None:
    site.serve([], Access(tokens=TokenFile(token_file)))
    write(token_file, spoil)

    answers = [site.browser().sign_in(line.split()[2]).status_code for line in (ANN, BOB)]

    assert answers == [403, 403]


# The first order is right.
@pytest.mark.parametrize("words", list(permutations(ANN.split()))[1:])
def test_a_secret_is_not_quoted_whatever_the_order_of_the_words(
    token_file: Path, words: Sequence[str]
) -> None:
    write(token_file, " ".join(words))

    with pytest.raises(ConfigurationError) as error:
        TokenFile(token_file)

    assert ANN.split()[2] not in str(error.value)


@pytest.mark.parametrize(
    ("wanted", "leads_to"),
    [
        ("/parked?trigger=book", "/parked?trigger=book"),
        ("https://elsewhere.example", "/"),
        ("//elsewhere.example", "/"),
        ("/\\elsewhere.example", "/"),
        ("/\t/elsewhere.example", "/"),
    ],
)
def test_signing_in_leads_only_to_pages_of_ours(site: Site, wanted: str, leads_to: str) -> None:
    answer = site.browser().post("/sign-in", {"token": TOKENS[Role.VIEWER].secret, "next": wanted})

    assert answer.headers["location"] == leads_to


def test_a_session_ends_when_somebody_signs_out(site: Site) -> None:
    browser = site.signed_in(Role.OPERATOR)
    cookie = browser.get("/").request.headers["cookie"]

    browser.send("/sign-out")

    assert site.browser(headers={"cookie": cookie}).get("/").status_code == 303


def test_a_session_ends_after_it_was_idle_for_long_enough(site: Site) -> None:
    site.serve([], Access(tokens=list(TOKENS.values()), idle=timedelta(0)))

    browser = site.browser()
    browser.sign_in(TOKENS[Role.ADMIN].secret)

    assert browser.get("/").status_code == 303


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(site: Site) -> None:
    site.serve([], Access(tokens=list(TOKENS.values()), https=True))

    cookie = site.browser().sign_in(TOKENS[Role.ADMIN].secret).headers["set-cookie"].lower()

    assert all(word in cookie for word in ("httponly", "samesite=lax", "secure", "path=/"))


@pytest.mark.parametrize("path", ["/", "/sign-in", "/static/desk.js", "/nothing", "/livez", "/readyz"])
def test_every_answer_has_the_headers_that_protect(site: Site, path: str) -> None:
    answer = site.browser().get(path)

    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["content-security-policy"]


@pytest.mark.parametrize(
    ("host", "code"), [("elsewhere.example", 400), ("127.0.0.1:8378", 200), ("[::1]:1", 200)]
)
def test_a_name_that_is_not_ours_learns_nothing(site: Site, host: str, code: int) -> None:
    assert site.browser(host=host).get("/sign-in").status_code == code


def proxied() -> Access:
    return Access(
        proxy=ProxyHeader(user_header="x-user", role_header="x-role", addresses=frozenset({"10.0.0.1"}))
    )


def test_who_a_proxy_names_is_signed_in_with_the_role_that_it_gives(site: Site) -> None:
    site.serve([], proxied())
    site.park("order-1")
    named = {"x-user": "ann", "x-role": "operator"}

    browser = site.browser(address="10.0.0.1", headers=named)
    html = browser.page("/parked")

    assert "ann" in html
    assert "operator" in html
    assert browser.decide(decision="discard", key=site.group(browser), all="yes", reason="seen").closed == 1


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("10.0.0.2", [("x-user", "ann"), ("x-role", "admin")]),
        ("10.0.0.1", [("x-role", "admin")]),
        ("10.0.0.1", []),
        # A proxy that appends its value leaves the client's value before it.
        ("10.0.0.1", [("x-user", "root"), ("x-user", "ann")]),
        ("10.0.0.1", [("x-user", "root, ann")]),
        ("10.0.0.1", [("x-user", "ann"), ("x-role", "admin"), ("x-role", "viewer")]),
        ("10.0.0.1", [("x-user", "ann"), ("x-role", "admin, viewer")]),
    ],
)
def test_a_header_of_somebody_else_or_that_does_not_say_one_thing_counts_for_nothing(
    site: Site, address: str, headers: Sequence[tuple[str, str]]
) -> None:
    site.serve([], proxied())

    assert site.browser(address=address, headers=headers).get("/").status_code == 303


def test_a_proxy_that_names_somebody_else_ends_the_session_of_before(site: Site) -> None:
    site.serve([], proxied())
    ann = site.browser(address="10.0.0.1", headers={"x-user": "ann", "x-role": "admin"})
    ann.page("/")
    cookie = ann.get("/").request.headers["cookie"]

    bob = site.browser(address="10.0.0.1", headers={"x-user": "bob", "cookie": cookie})
    html = bob.page("/")

    assert "bob" in html
    assert "ann" not in html


@pytest.mark.parametrize(("body", "code"), [("x" * 300_000, 413), ("a=" + "&a=" * 3_000, 403)])
def test_a_form_that_is_too_large_is_refused(site: Site, body: str, code: int) -> None:
    browser = site.signed_in(Role.ADMIN)

    assert browser.post("/decide", {"csrf": body}).status_code == code


def test_a_user_with_many_sessions_ends_nobody_elses() -> None:
    sessions = Sessions(timedelta(hours=1), timedelta(hours=1), Clock())
    ann = sessions.begin("ann", Role.OPERATOR)

    bobs = [sessions.begin("bob", Role.VIEWER) for _ in range(MOST + 1)]

    assert sessions.find(ann.key) is ann
    assert [sessions.find(bob.key) for bob in bobs[:2]] == [None, None]
    assert sessions.find(bobs[-1].key) is bobs[-1]


def form_of(app: Starlette, path: str, receive: Callable[[], Awaitable[Any]]) -> list[int]:
    """Send a form that arrives as ``receive`` has it; return the statuses of the answers."""
    statuses: list[int] = []

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            statuses.append(event["status"])

    headers = [(b"host", b"localhost"), (b"content-type", b"application/x-www-form-urlencoded")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "client": ("::1", 1)}
    asyncio.run(app({**scope, "headers": headers}, receive, send))
    return statuses


def test_a_form_that_breaks_off_is_no_error_of_ours(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    events = iter([{"type": "http.request", "body": b"token=", "more_body": True}])

    async def receive() -> Any:
        return next(events, {"type": "http.disconnect"})

    form_of(site.app, "/sign-in", receive)

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_form_that_does_not_come_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "LONGEST_WAIT", 0.01)

    assert form_of(site.app, "/sign-in", asyncio.Event().wait) == [408]


def test_static_files_are_all_that_is_served_of_the_disk(site: Site, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")

    answers = [
        site.browser().get(f"/static/{path}") for path in ("../app.py", "%2e%2e/app.py", "..%2fapp.py")
    ]

    assert [one.status_code for one in answers] == [404] * 3
