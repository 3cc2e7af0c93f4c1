"""The desk for programs: its rules are those of the pages, and its OpenAPI document tells the truth."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import OpenAPIV31SpecValidator

from history.beside.security import SecurityEvent
from history.bridge import drive
from tests.fixtures.beside import kept_in
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import Browser
from tests.integration.dashboard.conftest import TOKENS, Site
from triggers.dashboard import Role
from triggers.dashboard.api.document import document_of
from triggers.dashboard.api.operation import ApiOperation
from triggers.dashboard.api.routes import OPERATIONS
from triggers.dashboard.visit import API

ADDRESS = f"{API}openapi.json"


NOTHING: Mapping[str, str] = {}


#: The document without a dashboard, to know what there is to test.
DOCUMENT = document_of(OPERATIONS)


class Client:
    """A program that knows the dashboard by its document only."""

    def __init__(self, site: Site) -> None:
        self._site, self.browser = site, site.browser()
        self.document: dict[str, Any] = self.browser.get(ADDRESS, **bearer(Role.VIEWER)).json()

    def call(
        self, name: str, given: Mapping[str, Any] = NOTHING, headers: Mapping[str, str] = NOTHING
    ) -> httpx.Response:
        """Make a request as the operation describes it, and check the answer."""
        path, method, operation = self._operation(name)
        if method == "post":
            assert list(operation["requestBody"]["content"]) == ["application/x-www-form-urlencoded"]
            answer = self.browser.post(path, given or {"reason": "x"}, headers=headers)
        else:
            known = {parameter["name"] for parameter in operation.get("parameters", ())}
            assert set(given) <= known
            answer = self.browser.get(f"{path}?{urlencode(given)}", **headers)
        self.check(operation, answer)
        return answer

    def check(self, operation: dict[str, Any], answer: httpx.Response) -> None:
        described = operation["responses"][str(answer.status_code)]
        for header in described.get("headers", ()):
            assert header.lower() in answer.headers
        if "content" not in described:
            return
        kind = answer.headers["content-type"].partition(";")[0]
        schema = described["content"][kind]["schema"]
        if "x-line" in schema:
            for line in answer.text.splitlines():
                self.validate(schema["x-line"], json.loads(line))
        elif kind == "application/json":
            self.validate(schema, answer.json())

    def validate(self, schema: dict[str, Any], value: Any) -> None:
        whole = {**schema, "components": self.document["components"]}
        validator: Any = Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)
        validator.validate(value)

    def _operation(self, name: str) -> tuple[str, str, dict[str, Any]]:
        (found,) = [
            (path, method, operation)
            for path, methods in self.document["paths"].items()
            for method, operation in methods.items()
            if operation["operationId"] == name
        ]
        return found


@pytest.fixture
def client(site: Site) -> Client:
    return Client(site)


def test_the_document_is_valid_and_served_as_it_is_made(client: Client) -> None:
    OpenAPIV31SpecValidator(client.document).validate()

    assert client.document == json.loads(json.dumps(DOCUMENT))


def test_every_address_for_programs_is_in_the_document(site: Site, client: Client) -> None:
    routed = {
        (path, method.lower())
        for route in site.app.routes
        if (path := getattr(route, "path", "")).startswith(API)
        for method in getattr(route, "methods", ())
        if method != "HEAD"
    }

    documented = {(path, method) for path, methods in client.document["paths"].items() for method in methods}
    assert routed == documented


@pytest.mark.parametrize("operation", OPERATIONS, ids=[one.name for one in OPERATIONS])
def test_an_operation_needs_a_token_and_its_role(client: Client, operation: ApiOperation) -> None:
    assert client.call(operation.name).status_code == 401
    assert client.call(operation.name, headers={"Authorization": "Bearer wrong"}).status_code == 401
    below = [role for role in Role if role < operation.role]
    assert [client.call(operation.name, headers=bearer(role)).status_code for role in below] == [403] * len(
        below
    )
    assert client.call(operation.name, headers=bearer(operation.role)).status_code != 403


@pytest.mark.parametrize("role", Role)
def test_lists_and_messages_are_as_documented_for_each_role(site: Site, client: Client, role: Role) -> None:
    site.park("order-1", error_class="shop.Error", error_message="no card")
    parked = site.park("order-2", b"\xff\xfe")

    listed = client.call("listParked", {"trigger": "book"}, bearer(role))
    shown = client.call("showMessage", {"trigger": "book", "id": parked.id}, bearer(role))
    table = client.call("listParked", {"format": "csv"}, bearer(role))

    assert len(listed.text.splitlines()) == 2
    assert ("body" in shown.json()) == (role > Role.VIEWER)
    assert table.text.startswith("id,")


def test_a_decision_and_its_progress_are_as_documented(site: Site, client: Client) -> None:
    parked = site.park("order-1")
    fields = {"decision": "discard", "reason": "x", "trigger": "book", "id": [parked.id]}

    begun = client.call("decide", fields, bearer())
    job_of(client.browser, begun)
    (key,) = parse_qs(urlsplit(begun.headers["location"]).query)["key"]
    assert client.call("showJob", {"key": key}, bearer()).json()["closed"] == 1
    assert client.call("decide", fields, bearer()).status_code == 409


@pytest.mark.parametrize(
    ("name", "given", "status"),
    [
        ("listParked", {"format": "xml"}, 404),
        ("listParked", {"trigger": "nobody"}, 404),
        ("listParked", {"key": "none"}, 404),
        ("showMessage", {"trigger": "book", "id": "none"}, 404),
        ("showJob", {"key": "none"}, 404),
        ("decide", {"decision": "burn", "reason": "x", "trigger": "book", "id": "none"}, 400),
        ("decide", {"decision": "done", "reason": "x", "trigger": "book", "id": "none"}, 409),
    ],
)
def test_refusals_are_as_documented(
    site: Site, client: Client, name: str, given: dict[str, str], status: int
) -> None:
    site.park("order-1")

    assert client.call(name, given, bearer()).status_code == status


def test_examples_are_as_documented(client: Client) -> None:
    examples = list(_examples(DOCUMENT))
    for content in examples:
        client.validate(content["schema"], content["example"])

    assert len(examples) >= 3


def test_a_field_that_is_not_documented_is_noticed(client: Client) -> None:
    (job,) = [one for one in OPERATIONS if one.name == "showJob"]
    schema = {"$ref": "#/components/schemas/Job"}

    with pytest.raises(ValidationError):
        client.validate(schema, {**(job.answer.example or {}), "new": 1})


def _examples(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each media type of a document that has an example."""
    for path in document["paths"].values():
        for operation in path.values():
            for described in (operation.get("requestBody", {}), *operation["responses"].values()):
                yield from (one for one in described.get("content", {}).values() if "example" in one)


CARD = "card 4711"


def bearer(role: Role = Role.OPERATOR) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role].secret}"}


def asked(site: Site, path: str, role: Role = Role.OPERATOR) -> httpx.Response:
    return site.browser().get(path, **bearer(role))


def decided(browser: Browser, role: Role = Role.OPERATOR, **fields: str) -> httpx.Response:
    return browser.post("/api/decide", fields, headers=bearer(role))


def job_of(browser: Browser, answer: httpx.Response) -> dict[str, Any]:
    """Follow the job of a decision until it has ended."""
    assert answer.status_code == 303, answer.text
    found: dict[str, Any] = {}

    def ended() -> bool:
        found.update(browser.get(answer.headers["location"], **bearer()).json())
        return bool(found["finished"])

    assert eventually(ended)
    return found


def test_messages_are_listed_and_shown(site: Site) -> None:
    parked = site.park("order-1", {"id": CARD})

    listed = [json.loads(line) for line in asked(site, "/api/parked?trigger=book").text.splitlines()]
    shown = asked(site, f"/api/message?trigger=book&id={parked.id}").json()

    assert [row["uuid"] for row in listed] == ["order-1"]
    assert (shown["body"], shown["decisions"]) == ({"id": CARD}, ["run", "done", "discard"])
    assert shown["decided"] == []


def test_who_sees_no_bodies_gets_none(site: Site) -> None:
    parked = site.park("order-1", {"id": CARD}, error_message=CARD, reason=f"FAILED: {CARD} (row 7)")

    listed = asked(site, "/api/parked", Role.VIEWER).text
    shown = asked(site, f"/api/message?trigger=book&id={parked.id}", Role.VIEWER)

    assert CARD not in listed + shown.text
    assert shown.json()["decisions"] == []


@pytest.mark.parametrize(("word", "ran"), [("run", ["order-1"]), ("done", []), ("discard", [])])
def test_a_decision_is_carried_out_and_recorded_as_one_of_a_page(
    site: Site, word: str, ran: list[str]
) -> None:
    parked, browser = site.park("order-1"), site.browser()

    answer = decided(browser, decision=word, trigger="book", id=parked.id, reason="I have looked")
    job = job_of(browser, answer)

    assert (job["total"], job["closed"], job["left"], job["error"]) == (1, 1, 0, None)
    assert (site.ids(), site.done) == ([], ran)
    (record, *_) = drive(site.store.parking.decisions("book")).records[::-1]
    assert (record.by, record.reason) == ("a operator", "I have looked")
    log = kept_in(site.store).security_log
    kept = [(one.event, one.user) for one in drive(log.read(limit=10)).records]
    assert (SecurityEvent(word), "a operator") in kept


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"decision": "discard", "reason": ""}, 422),
        ({"decision": "burn", "reason": "x"}, 400),
        ({"decision": "discard", "reason": "x", "id": "none"}, 409),
    ],
)
def test_a_decision_that_is_refused_says_why_as_json(site: Site, fields: dict[str, str], status: int) -> None:
    parked = site.park("order-1")

    answer = decided(site.browser(), Role.OPERATOR, **{"trigger": "book", "id": parked.id, **fields})

    assert answer.status_code == status
    assert set(answer.json()) == {"title", "text"}
    assert site.ids() == [parked.id]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_session_or_a_wrong_token_opens_nothing(site: Site, operator: Browser, method: str) -> None:
    parked = site.park("order-1")
    fields = {"decision": "discard", "trigger": "book", "id": parked.id, "reason": "x"}
    fields["csrf"] = operator.csrf()
    wrong = {"Authorization": "Bearer wrong"}
    paths = [one.path for one in OPERATIONS if one.method == method]

    def statuses(headers: dict[str, str]) -> set[int]:
        if method == "GET":
            return {operator.get(path, **headers).status_code for path in paths}
        return {operator.post(path, fields, headers=headers).status_code for path in paths}

    assert statuses({}) == {401}
    assert statuses(wrong) <= {401, 429}  # after some wrong tokens, their sender must wait
    assert site.ids() == [parked.id]


@pytest.mark.parametrize("path", ["/api/message?trigger=book&id=none", "/api/job?key=none"])
def test_what_is_not_there_is_not_found(site: Site, path: str) -> None:
    site.park("order-1")

    assert asked(site, path).status_code == 404
