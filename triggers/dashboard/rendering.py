"""From values to HTML.

All shown values came from strangers: they are escaped. A character that cannot be printed, or that changes
the reading direction of a line, is shown as an escape sequence.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from history.message import Message
from history.support.rendering import printable
from triggers.dashboard.charts.drawing import short
from triggers.detection.sentences import without_verdict

#: How much of a body or a traceback a page shows, in characters.
SHOWN = 65_536

#: The units of ages, longest first, in seconds.
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@cache
def environment() -> Environment:
    """Return the templates' environment."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    filters: dict[str, Any] = made.filters
    filters.update(age=age, moment=moment, lines=lines, points=points, rate=rate, short=short, word=word)
    filters.update(without_verdict=without_verdict, thousands=thousands)
    functions: dict[str, Any] = made.globals
    functions["url"] = url
    return made


def load_templates() -> None:
    """Compile all templates: the first page would take a tenth of a second longer."""
    for name in environment().list_templates():
        environment().get_template(name)


def render(template: str, **values: Any) -> str:
    """Return the HTML of a template."""
    return environment().get_template(template).render(values)


def _final(value: Any) -> Any:
    if value is None:
        return "-"
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def lines(text: str) -> Markup:
    """Return a text of several lines; only line ends and tabs stay unescaped."""
    parts = [printable(part).replace("\\t", "\t") for part in text[:SHOWN].split("\n")]
    more = [] if len(text) <= SHOWN else [f"… and {len(text) - SHOWN:,} characters more"]
    return escape("\n".join([*parts, *more]))


def age(instant: datetime | None) -> str | None:
    """Return how long ago something was, in the two largest units."""
    if instant is None:
        return None
    seconds = max(0, int((datetime.now(UTC) - instant).total_seconds()))
    parts: list[str] = []
    for size, unit in _UNITS:
        if seconds >= size or (unit == "s" and not parts):
            parts.append(f"{seconds // size} {unit}")
            seconds %= size
        elif parts:
            break
    return " ".join(parts[:2])


def moment(instant: datetime | None) -> str | None:
    """Return an instant in UTC: people at several places read the same page."""
    if instant is None:
        return None
    try:
        return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:  # the ends of the calendar have no other time zone
        return instant.isoformat(" ", "seconds")


def rate(value: float | None) -> str | None:
    """Return a number a second."""
    if value is None:
        return None
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}"  # noqa: PLR2004


def thousands(value: float | None) -> str | None:
    """Return a number with its thousands apart."""
    return None if value is None else f"{value:,}"


def word(value: object) -> str:
    """Return a name of the code as people read it."""
    return str(value).replace("_", " ")


def points(values: Sequence[float], width: int = 120, height: int = 28) -> str:
    """Return the points of a curve that fills a box."""
    if len(values) < 2:  # noqa: PLR2004  (a line is between two)
        return ""
    most, step = max(*values, 1e-9), width / (len(values) - 1)
    return " ".join(
        f"{number * step:.1f},{height - 1 - value / most * (height - 2):.1f}"
        for number, value in enumerate(values)
    )


def url(path: str, **parameters: str | int | None) -> str:
    """Return the address of a page of ours."""
    present = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(present, errors='backslashreplace')}" if present else path


def body_of(message: Message) -> Mapping[str, str]:
    """Return the kind of a body, and its text: bytes as text if they are UTF-8, else in base64."""
    match message.body:
        case bytes() as body:
            try:
                return {"kind": f"{len(body):,} bytes, as text", "text": body.decode("utf-8")}
            except UnicodeDecodeError:
                return {
                    "kind": f"{len(body):,} bytes, in base64",
                    "text": base64.b64encode(body).decode("ascii"),
                }
        case str() as body:
            return {"kind": f"text of {len(body):,} characters", "text": body}
        case _ if message.loses_digits:
            return {"kind": "JSON, as it arrived", "text": message.encoded().decode("utf-8")}
        case _:
            return {"kind": "JSON", "text": json.dumps(message.body, indent=2, ensure_ascii=False)}
