"""Ask the dashboard for the page that lets people in, and for what that page loads; print the answers."""

import asyncio
import re
import sys
from typing import Any

from triggers.dashboard import Access, Role, Token, create_app


def main() -> None:
    """Print how each was answered."""
    app = create_app("sqlite:///history.db", access=Access(tokens=[Token.drawn("ann", Role.ADMIN)]))
    page, html = asyncio.run(asked(app, "/sign-in"))
    loaded = re.findall(r'(?:href|src)="(/static/[^"]+)"', html)
    answers = [page, *(asyncio.run(asked(app, path))[0] for path in loaded)]
    sys.stdout.write(" ".join(map(str, answers)))


async def asked(app: Any, path: str) -> tuple[int, str]:
    """Return the status and the body of a page, asked for without a server and a client."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()  # nobody sends more, or goes away
        return {}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    await app(scope, receive, send)
    return status, body.decode()


if __name__ == "__main__":
    main()
