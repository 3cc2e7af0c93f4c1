"""Errors below a trigger, by what the caller can do next.

=====================  ==========================================================
fix the call           :class:`ConfigurationError`
try again later        :class:`UnavailableError` (its subclasses name what is unavailable)
install something      :class:`MissingExtraError`
=====================  ==========================================================

Driver exceptions are translated into these once, at the edge, with the original as ``__cause__``.
"""

from typing import Any


class DoubtlessError(Exception):
    """The base class of all errors that doubtless raises itself. Each of them can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickle with the same text and attributes, without the constructor: it takes other arguments."""
        return _unpickled, (type(self), self.args), vars(self)


def _unpickled(class_: type[DoubtlessError], args: tuple[object, ...]) -> DoubtlessError:
    error = class_.__new__(class_)
    error.args = args
    return error


class ConfigurationError(DoubtlessError, ValueError):
    """A setting cannot work. The text names the setting, the problem and the remedy.

    ``where`` is the line that made the setting, if that is known. The text then ends with it.
    """

    def __init__(self, setting: str, problem: str, remedy: str) -> None:
        super().__init__(f"{setting}: {problem}; {remedy}")
        self.setting = setting
        self.problem = problem
        self.remedy = remedy
        self.where: str | None = None

    def point_at(self, where: str) -> None:
        """Add the line that made the setting, unless a nearer one is known."""
        if self.where is None:
            self.where = where
            self.args = (f"{self.args[0]} ({where})",)


class NotPermittedError(ConfigurationError):
    """The server knows the account, but does not permit this: no message is at fault."""


class MissingExtraError(ConfigurationError):
    """A feature needs a package that is not installed."""

    def __init__(self, feature: str, *, extra: str, package: str) -> None:
        super().__init__(feature, f"needs the package {package}", f"pip install 'doubtless[{extra}]'")
        self.extra = extra


class UnavailableError(DoubtlessError, ConnectionError):
    """A server did not answer, so the result of the last call is unknown. Always transient.

    ``remedy`` says what to do, after the cause.
    """

    remedy: str = "start the server, or correct its URL"

    def __init__(self, what: str, doing: str) -> None:
        super().__init__(f"{what} is unavailable while {doing}")
        self.what = what
        self.doing = doing


class HistoryUnavailableError(UnavailableError):
    """The document history did not answer."""

    def __init__(self, doing: str) -> None:
        super().__init__("the document history", doing)


class EffectsDiscardedError(DoubtlessError):
    """A service closed the session that it received, so its uncommitted work there was undone."""

    def __init__(self, how: str) -> None:
        super().__init__(
            f"the service's session: {how} has undone what was not committed; leave the session open: the "
            "trigger commits and closes it"
        )


class TransactionBrokenError(DoubtlessError):
    """A transaction in which a service ran cannot be committed, although the database answers.

    ``ended`` means that the service ended the transaction: its later work may have been committed.
    """

    def __init__(self, cause: str, *, ended: bool) -> None:
        why = "the service ended its transaction" if ended else "its transaction cannot be committed"
        super().__init__(f"{why}: {cause}")
        self.ended = ended


class TransactionConflictError(HistoryUnavailableError):
    """The database rolled a transaction back in favour of another one. It may simply be tried again."""
