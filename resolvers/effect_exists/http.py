"""Does a resource exist? It sends a GET and does not read the body of the answer."""

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import SplitResult, quote, urlsplit

import httpx

from history.bridge import settled
from history.errors import ConfigurationError
from resolvers.effect_exists.probe import EffectUnavailableError, Location, placeholders
from resolvers.resolution import Resolution, Resolved

#: How long one step (connecting, sending, waiting for the answer) may take with a client of our own.
DEFAULT_TIMEOUT = timedelta(seconds=10)

#: 4xx answers that mean "not now": Request Timeout, Too Early, Too Many Requests.
_TRY_AGAIN = frozenset({408, 425, 429})

#: Answers that mean that the resource does not exist: Not Found, Gone.
_ABSENT = frozenset({404, 410})

_SETTING = "http_resource_exists"


class HttpResource:
    """Looks for a resource. Without a client of the user, each question opens and closes a connection."""

    def __init__(
        self,
        template: str,
        *,
        client: httpx.Client | httpx.AsyncClient | None,
        headers: Mapping[str, str],
        timeout: timedelta | None,
        absent: Resolution,
        redirect: Resolution,
    ) -> None:
        self.location = Location(_redacted(template), placeholders(_SETTING, template), absent)
        self._template = template
        self._client = client
        self.awaits = isinstance(client, httpx.AsyncClient)
        self._headers = dict(headers)
        self._timeout = timeout
        self._redirect = redirect

    async def look(self, identities: Mapping[str, str], uuid: str) -> Resolved:
        """Ask for the resource and read the status of the answer."""
        url = self._template.format_map({name: quote(value, safe="") for name, value in identities.items()})
        # Clients resolve "." and ".." before they send: that would ask for another resource.
        if {".", ".."} & set(urlsplit(url).path.split("/")):
            return self.location.unsure("the uuid of the message cannot be part of a URL")
        try:
            status = await self._status(url)
        except httpx.InvalidURL as error:
            return self.location.unsure(f"the uuid of the message does not make a valid URL ({error})")
        except (
            httpx.TimeoutException,
            httpx.NetworkError,
            httpx.RemoteProtocolError,
            httpx.ProxyError,
        ) as error:
            raise EffectUnavailableError(self.location.name, uuid, type(error).__name__) from error
        return self._meaning(status, uuid)

    async def _status(self, url: str) -> int:
        if self._client is not None:
            return await self._asked(self._client, url)
        with httpx.Client(timeout=(self._timeout or DEFAULT_TIMEOUT).total_seconds()) as client:
            return await self._asked(client, url)

    async def _asked(self, client: httpx.Client | httpx.AsyncClient, url: str) -> int:
        timeout = httpx.USE_CLIENT_DEFAULT if self._timeout is None else self._timeout.total_seconds()
        request = client.build_request("GET", url, headers=self._headers, timeout=timeout)
        # The client's own setting must not decide the meaning of a redirect.
        sent = client.send(request, stream=True, follow_redirects=False)  # noqa: ASYNC212  (either kind)
        response = await settled(sent)
        if isinstance(client, httpx.Client):
            response.close()
        else:
            await response.aclose()
        return response.status_code

    def _meaning(self, status: int, uuid: str) -> Resolved:
        detail = f" (HTTP {status})"
        if status in _ABSENT:
            return self.location.lacks_it(detail)
        if httpx.codes.is_server_error(status) or status in _TRY_AGAIN:
            raise EffectUnavailableError(self.location.name, uuid, f"HTTP {status}")
        if httpx.codes.is_redirect(status):
            return Resolved(self._redirect, f"{self.location.name} redirects{detail}")
        if httpx.codes.is_success(status):
            return self.location.has_it(detail)
        return self.location.unsure(f"answered HTTP {status}")


def _redacted(template: str) -> str:
    """Return the template without user, password and query, which may hold a token."""
    parts = _parts(template)
    # A placeholder in the host would let the sender of a message choose the server.
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or "{" in parts.netloc:
        raise ConfigurationError(
            _SETTING, "its URL is not http(s):// with a fixed host", "write https://host/orders/{uuid}"
        )
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _parts(template: str) -> SplitResult | None:
    try:
        parts = urlsplit(template)
        parts.port  # noqa: B018  (raises if it is not a number)
    except ValueError:
        return None
    return parts
