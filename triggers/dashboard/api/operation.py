"""A row of the table of the addresses for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from triggers.dashboard.access.roles import Role
from triggers.dashboard.visit import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of an address; it is text, or one of ``values``."""

    name: str
    about: str
    example: str
    required: bool = False
    values: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """The answer to a request that succeeds.

    ``body`` is the answer as JSON, or a line of it if ``lines``. ``also`` are other media types, as text.
    ``location`` is what the header ``Location`` has.
    """

    about: str
    status: int = 200
    body: type[BaseModel] | None = None
    lines: bool = False
    also: Sequence[str] = ()
    location: str | None = None
    example: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation:
    """A method of an address: its page, the role that it needs, and its description.

    ``problems`` are the statuses of requests that it refuses, and why; see :attr:`refusals` for all of them.
    """

    method: str
    path: str
    page: Page
    role: Role
    name: str
    summary: str
    answer: ApiAnswer
    about: str = ""
    parameters: Sequence[Parameter] = ()
    form: type[BaseModel] | None = None
    form_example: Mapping[str, Any] | None = None
    problems: Mapping[int, str] = field(default_factory=dict[int, str])

    @property
    def refusals(self) -> Mapping[int, str]:
        """All statuses of refused requests: of any operation, of any form, and its own, which count most."""
        return {**COMMON, **({} if self.form is None else OF_FORMS), **self.problems}


#: The statuses of requests that any operation refuses, and why. The first two are plain text.
COMMON = {
    401: "The token is missing or wrong.",
    429: "Too many wrong tokens came from this address. The header Retry-After has the seconds to wait.",
    403: "The role of the token is too low.",
    503: "The history does not answer. Try again.",
}

#: How any operation refuses a form that it cannot read.
OF_FORMS = {
    400: "The form is invalid.",
    408: "The form did not arrive in time.",
    413: "The form is too large.",
}

#: Those that are answered before a token is known: as text.
AS_TEXT = frozenset({401, 429})
