"""From a URL to a carrier."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from history.errors import ConfigurationError
from history.support.urls import guarded, origin
from triggers.providers.provider import Provider
from triggers.providers.sqlremote.carriers.carrier import Carrier
from triggers.providers.sqlremote.carriers.directory import DirectoryCarrier

#: Opens the provider at a URL, as :func:`triggers.providers.opening.open_provider` does.
OpenProvider = Callable[[str], Provider]


def open_carrier(url: str, *, name: str, largest: int, open_provider: OpenProvider | None = None) -> Carrier:
    """Open the carrier at ``url``; ``name`` is this agent's, ``largest`` the bytes of a message at most.

    A URL is ``file:///folder``, ``sqlite:///file.db``, ``postgresql://user@host/database``, either of these
    two after ``sqljms+``, or that of another provider.

    Raises:
        ConfigurationError: the URL is for something else, or names a provider without ``open_provider``, or
            (MissingExtraError) a driver is missing.
    """
    with guarded(url, "carrier"):
        parts = urlsplit(url)
    match parts.scheme.partition("+")[0]:
        case "file":
            if parts.netloc not in {"", "localhost"} or not parts.path:
                raise ConfigurationError(
                    "carrier", f"{origin(url)} does not name a local folder", "write file:///folder"
                )
            return DirectoryCarrier(Path(unquote(parts.path)), largest=largest)
        case "sqlite" | "postgresql" | "postgres":
            from triggers.providers.sqlremote.carriers.table import (  # noqa: PLC0415  (a driver, when asked for)
                TableCarrier,
            )

            return TableCarrier.from_url(url)
        case _:
            if open_provider is None:
                raise ConfigurationError(
                    "carrier",
                    f"{parts.scheme}: is a provider's URL, and these links were opened without open_provider",
                    "open them by open_provider('sqlremote:FILE') or with open_provider=open_provider",
                )
            from triggers.providers.sqlremote.carriers.over_provider import (  # noqa: PLC0415  (as above)
                ProviderCarrier,
            )

            # Without ``sqljms+``, the URL of a database means a table of messages.
            return ProviderCarrier(open_provider(url.removeprefix("sqljms+")), name=name)
