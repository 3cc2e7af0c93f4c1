"""From what came over the wire to what a receiver hands over: a message, or an unreadable delivery.

Receivers decode everything through :func:`read`. So an error of a decoder never ends a consumer: the
delivery is handed over as :class:`~triggers.providers.provider.Unreadable`, to be parked whole.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from history.message import Message
from history.store.parking import encodable
from triggers.providers.provider import Arrival, ProviderUnavailableError, Received, Unreadable

#: The longest text about a problem, in characters.
MOST_WORDS = 1000

_REMEDY = "correct the sender (the delivery is kept whole)"


class UndecodableError(ValueError):
    """A delivery cannot be read as a message; the text names the field, the problem and the remedy."""

    def __init__(self, field: str, problem: str, remedy: str = _REMEDY) -> None:
        super().__init__(f"{field}: {problem}; {remedy}")


def read(
    decode: Callable[[], Message],
    *,
    handle: object,
    delivery_id: Callable[[], str],
    raw: Callable[[], Mapping[bytes, bytes]],
) -> Received:
    """Return a delivery: as a message, or as it came if ``decode`` raises anything at all.

    ``raw`` and ``delivery_id`` are called only for an unreadable delivery, and may fail as well. The id
    identifies the delivery: it is the same when the delivery comes again, and differs for any other
    delivery, even of the same bytes.

    Raises:
        ProviderUnavailableError: ``decode`` had to ask the provider.
    """
    try:
        return Arrival(decode(), handle)
    except ProviderUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001  (foreign bytes can make a decoder raise anything)
        return unreadable(error, handle=handle, delivery_id=delivery_id, raw=raw)


def with_headers(own: Mapping[bytes, bytes], headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the fields of an unreadable delivery: its own parts, and all headers.

    A header whose name is taken gets a number. Of headers with one name, the last keeps the name.

    >>> with_headers({b"body": b"{"}, [(b"body", b"1"), (b"x", b"2")])
    {b'body': b'{', b'x': b'2', b'body (2)': b'1'}
    """
    fields, others = dict(own), Counter[bytes]()
    for name, value in reversed(list(headers)):
        unique = name
        while unique in fields:
            others[name] += 1
            unique = b"%b (%d)" % (name, others[name] + 1)
        fields[unique] = value
    return fields


def unreadable(
    error: Exception,
    *,
    handle: object,
    delivery_id: Callable[[], str],
    raw: Callable[[], Mapping[bytes, bytes]],
) -> Unreadable:
    """Return a delivery as it came, because its decoder has raised ``error``; as :func:`read` does."""
    return Unreadable(_kept(raw), problem_of(error), handle, delivery_id())


def problem_of(error: Exception) -> str:
    """Return what is wrong with a delivery, in a text of limited length."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (foreign classes)
        text = "its text cannot be shown"
    if not isinstance(error, UndecodableError):
        text = f"{type(error).__name__}: {text[:MOST_WORDS]}; {_REMEDY}"
    if len(text) > MOST_WORDS:
        text = f"{text[: MOST_WORDS // 2]} ... {text[-MOST_WORDS // 2 :]}"
    return encodable(text)


def _kept(raw: Callable[[], Mapping[bytes, bytes]]) -> dict[bytes, bytes]:
    try:
        return dict(raw())
    except ProviderUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001  (as above: a delivery without its fields is still a delivery)
        return {b"problem": f"its fields cannot be shown: {problem_of(error)}".encode("utf-8", "replace")}
