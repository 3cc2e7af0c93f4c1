"""Exceptions and identities from any source as text: this always ends, and the text is short.

A service may raise anything, such as a driver's exception with a ``__str__`` that reads from a closed
connection. Showing one failure must not cause another: nothing here raises.

If a user has rules that redact texts, the rules see a text before it is cut short: no rule would find half a
card number.
"""

import re
import traceback
from types import TracebackType

from history.support.redaction import Redaction

#: The longest text of an exception that is kept, in characters.
LONGEST_TEXT = 4000

#: The longest traceback that is kept, in characters.
LONGEST_TRACE = 8000

#: How much of a user's wrong value an error shows, in characters.
LONGEST_VALUE = 60

#: The longest identity in a log line, in characters.
LONGEST_IDENTITY = 255
#: How many characters of a text the rules see: of a longer one, its beginning and its end.
MOST_REDACTED = 50_000

#: How many frames, at the end of a traceback, are shown at most.
_MOST_FRAMES = 50

_CUT = "\n... cut short ...\n"

_UNTOLD = "\n... its causes cannot be shown ...\n"


#: Replaces values that were left out.
_HIDDEN = "(hidden: values of rows)"

#: How the line after PostgreSQL's details begins, in the text of an error or in a traceback.
_NEXT = r"DETAIL|CONTEXT|HINT|LINE|QUERY|\[|\(Background|The above exception|During handling|Traceback|\+-"

#: Before each line of a group of exceptions.
_MARGIN = r"[ |]*"

#: The values of rows in texts of databases: PostgreSQL's details, and the parameters of statements.
_VALUES = re.compile(
    rf"^{_MARGIN}(DETAIL|CONTEXT): .*?(?=\n{_MARGIN}\n?{_MARGIN}(?:{_NEXT})|\Z)"
    # Up to the next one: otherwise, many without an end would take very long.
    rf"|^{_MARGIN}\[parameters: (?:(?!\n{_MARGIN}\[parameters: ).)*?\]$",
    re.MULTILINE | re.DOTALL,
)

#: Texts that Python's own formatter would show differently: at length, not at all, with half a character, or
#: with the values of rows.
_ODD = re.compile(rf"{re.escape(_CUT)}|{re.escape(_UNTOLD)}|\\ud[89a-f]|{re.escape(_HIDDEN)}")

#: The type that a log accepts as ``exc_info``.
ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def encodable(text: str) -> str:
    """Escape lone surrogates, which UTF-8 cannot hold; they come from names of undecodable files."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def printable(text: str) -> str:
    """Return a text in one line; characters that cannot be printed, or that move the cursor, are escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def in_one_line(text: str) -> str:
    """Return a text of user code in one printable line: with a line break, it could forge log lines."""
    return printable(" ".join(text.split()))


def in_log(identity: str) -> str:
    """Return an identity as a log line shows it: in one line, and cut short if it is long.

    The sender of a message chooses it. With a line break in it, it could forge log lines.
    """
    return printable(_shortened(identity, LONGEST_IDENTITY))


def without_values(text: str) -> str:
    """Return a database's text without the values of rows: they may be private data, such as cards."""
    return _VALUES.sub(lambda value: f"{value[1] or 'PARAMETERS'}: {_HIDDEN}", text)


def class_of(error: BaseException) -> str:
    """Return the full name of an exception's class."""
    class_ = type(error)
    return encodable(f"{_own(class_, '__module__')}.{name_of(error)}")


def name_of(error: BaseException) -> str:
    """Return the name of an exception's class."""
    return encodable(_own(type(error), "__qualname__"))


def text_of(error: BaseException, redact: Redaction | None = None, *, longest: int = LONGEST_TEXT) -> str:
    """Return an exception's text, without what ``redact`` finds, encodable, cut short if it is long."""
    try:
        text = str.__str__(str(error))
    except Exception as failure:  # noqa: BLE001  (its __str__ is unknown code)
        return f"<it cannot say: its __str__ raised {name_of(failure)}>"
    return _shown(text, longest, redact)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text; if it has no text, its class."""
    lines = [line for line in text_of(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else name_of(error)


def reason_of(error: BaseException | None) -> str:
    """Return a driver's text in one line, without the class and the link that SQLAlchemy adds."""
    return "no answer" if error is None else first_line(getattr(error, "orig", None) or error)


def told_of(error: BaseException, redact: Redaction | None = None) -> str:
    """Return an exception in one piece: its class, and its text if it has one."""
    text = text_of(error, redact)
    return f"{name_of(error)}: {text}" if text else name_of(error)


def repr_of(error: BaseException, redact: Redaction | None = None) -> str:
    """Return what Python shows of an exception when it prints a value, encodable and cut short."""
    try:
        text = str.__str__(repr(error))
    except Exception:  # noqa: BLE001  (as above)
        return told_of(error, redact)
    return _shown(text, LONGEST_TEXT, redact)


def shown(value: object) -> str:
    """Return a user's wrong value for an error: the beginning of its repr, or its type if that fails.

    Python itself refuses to write a number of thousands of digits.
    """
    try:
        return encodable(str.__str__(repr(value))[:LONGEST_VALUE])
    except Exception:  # noqa: BLE001  (its __repr__ is unknown code)
        return f"a {type(value).__qualname__}"


def trace_of(
    error: BaseException, *, without: tuple[str, ...] = (), redact: Redaction | None = None
) -> str | None:
    """Return the traceback of an exception, encodable and cut short if it is long.

    Leading frames are left out if the names of their modules begin with one of ``without``. If no other
    frames exist, the result is None, because the exception says everything.
    """
    begun = traceback_of(error, without=without)
    if begun is None:
        return None
    try:
        shown = traceback.TracebackException(type(error), error, begun, limit=-_MOST_FRAMES, compact=True)
        lines = list(shown.format())
    except Exception:  # noqa: BLE001  (it reads causes and notes, which may also be unknown code)
        lines = [*traceback.format_tb(begun, limit=-_MOST_FRAMES), told_of(error, redact), _UNTOLD]
    return _shown("".join(lines), LONGEST_TRACE, redact)


def exception_info(
    error: BaseException,
    trace: str | None = None,
    *,
    without: tuple[str, ...] = (),
    redact: Redaction | None = None,
) -> ExceptionInfo | None:
    """Return a log record's ``exc_info``; None if a formatter could not show it, or not in a few lines.

    Also None if ``redact`` finds anything in it: a formatter would print what was raised. ``trace`` is the
    result of :func:`trace_of`, if the caller has it already.
    """
    trace = trace_of(error, without=without, redact=redact) if trace is None else trace
    if trace is None or _ODD.search(trace):
        return None
    if redact is not None and trace != trace_of(error, without=without):
        return None
    return type(error), error, traceback_of(error, without=without)


def traceback_of(error: BaseException, *, without: tuple[str, ...] = ()) -> TracebackType | None:
    """Return where an exception was raised, without leading frames of some modules."""
    step: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    while step is not None and str(step.tb_frame.f_globals.get("__name__")).startswith(without):
        step = step.tb_next
    return step


def _own(class_: type, attribute: str) -> str:
    # Not getattr: a metaclass may have made a property of it.
    value: object = vars(type)[attribute].__get__(class_)
    return value if type(value) is str else "?"


def _shown(text: str, longest: int, redact: Redaction | None) -> str:
    """Return a text for display: without values, encodable, and cut short if it is long."""
    text = without_values(text)
    if redact is not None:
        text = redact(_shortened(text, MOST_REDACTED))
    return encodable(_shortened(text, longest))


def _shortened(text: str, longest: int) -> str:
    """Cut the middle out: the beginning names the error, the end of a traceback shows the cause."""
    if len(text) <= longest:
        return text
    half = (longest - len(_CUT)) // 2
    return text[:half] + _CUT + text[-half:]
