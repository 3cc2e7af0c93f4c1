"""Exceptions and identities of anybody's as text: whatever they do, it ends, and it is short.

A service may raise what it likes, such as a driver's exception whose ``__str__`` reads from a connection that
is closed by now. Showing one failure must not cause another: nothing here raises.

Where a user has rules that take values out of texts, they see a text before it is cut short: half a card
number is none that a rule would find.
"""

import re
import traceback
from types import TracebackType

from history.support.redaction import Redaction

#: The longest text of an exception that is kept, in characters.
LONGEST_TEXT = 4000

#: The longest traceback that is kept, in characters.
LONGEST_TRACE = 8000

#: The longest identity in a log line, in characters.
LONGEST_IDENTITY = 255
#: How much of a text rules are given, in characters: of a longer one, its beginning and its end.
MOST_REDACTED = 50_000

#: How many frames, at the end of a traceback, are looked at.
_MOST_FRAMES = 50

_CUT = "\n... cut short ...\n"

_UNTOLD = "\n... its causes cannot be shown ...\n"


#: Stands where values were left out.
_HIDDEN = "(hidden: values of rows)"

#: How the line begins that follows PostgreSQL's details, in the text of an error or in a traceback.
_NEXT = r"DETAIL|CONTEXT|HINT|LINE|QUERY|\[|\(Background|The above exception|During handling|Traceback"

#: The values of rows in what databases say: PostgreSQL's details, and the parameters of statements.
_VALUES = re.compile(
    rf"^(DETAIL|CONTEXT): .*?(?=\n\n?(?:{_NEXT})|\Z)|^\[parameters: .*?\]$", re.MULTILINE | re.DOTALL
)

#: Found in what Python's own means would tell otherwise: at length, not at all, with half a character, or
#: with the values of rows.
_ODD = re.compile(rf"{re.escape(_CUT)}|{re.escape(_UNTOLD)}|\\ud[89a-f]|{re.escape(_HIDDEN)}")

#: What a log takes as ``exc_info``.
ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def encodable(text: str) -> str:
    """Escape lone surrogates, which no UTF-8 holds; they come with the names of undecodable files."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def printable(text: str) -> str:
    """Return a text in one line, with what cannot be printed, or moves the cursor, as an escape."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def in_log(identity: str) -> str:
    """Return an identity as a log line shows it: in one line, and cut short where it is long.

    Whoever sends messages chooses it. With a line break in it, it could write log lines of its own.
    """
    return printable(_shortened(identity, LONGEST_IDENTITY))


def without_values(text: str) -> str:
    """Return what a database says, without the values of rows: they may be anybody's data, such as cards."""
    return _VALUES.sub(lambda found: f"{found[1] or 'PARAMETERS'}: {_HIDDEN}", text)


def class_of(error: BaseException) -> str:
    """Return the full name of an exception's class."""
    kind = type(error)
    return encodable(f"{_own(kind, '__module__')}.{name_of(error)}")


def name_of(error: BaseException) -> str:
    """Return the name of an exception's class."""
    return encodable(_own(type(error), "__qualname__"))


def text_of(error: BaseException, redact: Redaction | None = None, *, longest: int = LONGEST_TEXT) -> str:
    """Return what an exception says, without what ``redact`` finds, encodable, cut short where it is long."""
    try:
        text = str.__str__(str(error))
    except Exception as failure:  # noqa: BLE001  (its __str__ is anybody's code)
        return f"<it cannot say: its __str__ raised {name_of(failure)}>"
    return _shown(text, longest, redact)


def first_line(error: BaseException) -> str:
    """Return what an exception says, without the further lines of drivers; its class, if it is silent."""
    lines = [line for line in text_of(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else name_of(error)


def reason_of(error: BaseException | None) -> str:
    """Return what a driver says, in one line, without the class and the link that SQLAlchemy adds."""
    return "no answer" if error is None else first_line(getattr(error, "orig", None) or error)


def told_of(error: BaseException, redact: Redaction | None = None) -> str:
    """Return an exception in one piece: its class and what it says."""
    return f"{name_of(error)}: {text_of(error, redact)}"


def repr_of(error: BaseException, redact: Redaction | None = None) -> str:
    """Return what Python shows of an exception where it prints a value, encodable and cut short."""
    try:
        text = str.__str__(repr(error))
    except Exception:  # noqa: BLE001  (as above)
        return told_of(error, redact)
    return _shown(text, LONGEST_TEXT, redact)


def trace_of(
    error: BaseException, *, without: tuple[str, ...] = (), redact: Redaction | None = None
) -> str | None:
    """Return the traceback of an exception, encodable and cut short where it is long.

    Frames at its beginning whose modules' names begin with one of ``without`` are left out; where there are
    no others it is None, for the exception says all.
    """
    begun = traceback_of(error, without=without)
    if begun is None:
        return None
    try:
        shown = traceback.TracebackException(type(error), error, begun, limit=-_MOST_FRAMES, compact=True)
        lines = list(shown.format())
    except Exception:  # noqa: BLE001  (it asks for causes and notes, which may be anybody's code, too)
        lines = [*traceback.format_tb(begun, limit=-_MOST_FRAMES), told_of(error, redact), _UNTOLD]
    return _shown("".join(lines), LONGEST_TRACE, redact)


def exception_info(
    error: BaseException,
    trace: str | None = None,
    *,
    without: tuple[str, ...] = (),
    redact: Redaction | None = None,
) -> ExceptionInfo | None:
    """Return a log record's ``exc_info``; None where a formatter could not tell it, or not in a few lines.

    None, too, where ``redact`` finds anything in it: a formatter would print what was raised. ``trace`` is
    the answer of :func:`trace_of`, where there is one already.
    """
    trace = trace_of(error, without=without, redact=redact) if trace is None else trace
    if trace is None or _ODD.search(trace):
        return None
    if redact is not None and trace != trace_of(error, without=without):
        return None
    return type(error), error, traceback_of(error, without=without)


def traceback_of(error: BaseException, *, without: tuple[str, ...] = ()) -> TracebackType | None:
    """Return where an exception was raised, without the frames of some modules at its beginning."""
    found: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    while found is not None and str(found.tb_frame.f_globals.get("__name__")).startswith(without):
        found = found.tb_next
    return found


def _own(kind: type, attribute: str) -> str:
    # Not the attribute: a metaclass may have made a property of it.
    value: object = vars(type)[attribute].__get__(kind)
    return value if type(value) is str else "?"


def _shown(text: str, longest: int, redact: Redaction | None) -> str:
    """Return a text as it is shown: without values, encodable, and cut short where it is long."""
    text = without_values(text)
    if redact is not None:
        text = redact(_shortened(text, MOST_REDACTED))
    return encodable(_shortened(text, longest))


def _shortened(text: str, longest: int) -> str:
    """Cut the middle out: the beginning says what it is, the end of a traceback why."""
    if len(text) <= longest:
        return text
    half = (longest - len(_CUT)) // 2
    return text[:half] + _CUT + text[-half:]
