"""A browser without a window: it asks the application in this process, and keeps cookies."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
from starlette.applications import Starlette

from tests.fixtures.waiting import PATIENCE, eventually
from triggers.dashboard.jobs.job import DecisionJob
from triggers.dashboard.operations import Operations
from triggers.testing.redis_server import RedisServer


class Browser:
    """A browser without a window. The application sees ``address`` as its network address."""

    def __init__(
        self,
        app: Starlette,
        *,
        address: str = "127.0.0.1",
        host: str = "localhost",
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> None:
        self._app = app
        self._runner = asyncio.Runner()
        sent = list(headers.items() if isinstance(headers, Mapping) else headers)
        transport = httpx.ASGITransport(app, client=(address, 1))
        self._client = httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=sent)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page; a redirection is not followed."""
        return self._runner.run(self._client.get(path, headers=headers))

    def page(self, path: str) -> str:
        """Open a page that must be there, and return its HTML."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(
        self, path: str, fields: Mapping[str, str | list[str]], *, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return self._runner.run(self._client.post(path, data=dict(fields), headers=headers))

    def send(self, path: str, **fields: str | list[str]) -> httpx.Response:
        """Send a form of the dashboard. It contains the session's secret."""
        return self.post(path, {"csrf": self.csrf(), **fields})

    def sign_in(self, secret: str) -> httpx.Response:
        return self.post("/sign-in", {"token": secret})

    def csrf(self) -> str:
        """Return the secret that the forms of this session contain."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.page("/decisions"))
        assert found is not None
        return found[1]

    def decide(self, **fields: str | list[str]) -> DecisionJob:
        """Decide about messages, and wait until the decision is carried out."""
        answer = self.send("/decide", **fields)
        assert answer.status_code == 303, answer.text
        (key,) = parse_qs(urlsplit(answer.headers["location"]).query)["key"]
        operations: Operations = self._app.state.operations
        job = operations.jobs.find(key)
        assert job is not None
        assert job.finished.wait(PATIENCE)
        return job

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()


def keys_of(html: str) -> list[str]:
    """Return the keys of the groups that a page links to, each once, in the order of the page."""
    return list(dict.fromkeys(part.split('"')[0] for part in html.split("/group?key=")[1:]))


def text_of(html: str) -> str:
    """Return the text of a page without its tags."""
    return unescape(re.sub(r"<[^>]+>", " ", html))


def desk_during_an_outage(browser: Browser, history: RedisServer) -> str:
    """Return the desk while a history is away, and wait until it is there again."""
    history.kill()
    assert eventually(lambda: "does not answer" in browser.page("/parked"))
    seen = browser.page("/parked")
    history.start()
    assert eventually(lambda: "does not answer" not in browser.page("/parked"))
    return seen
