"""A Hypothesis strategy for scripts, beside strategies of one's own for what the messages hold."""

from typing import TYPE_CHECKING

from history.errors import ConfigurationError, MissingExtraError
from triggers.service.checking import check_least
from triggers.testing.simulator.script import Counts, Fault, Script

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

#: What is drawn; an interrupt is for handlers that a death has shown, and rows come again in batches alone.
_DRAWN = tuple(fault for fault in Fault if fault not in {Fault.INTERRUPT, Fault.AGAIN})


def scripts(*, crashes: int = 2, points: int = 60, counts: Counts | None = None) -> "SearchStrategy[str]":
    """Return a Hypothesis strategy for the ``script=`` of :func:`triggers.testing.exactly_once`.

    Each fault is drawn with a number: it happens at the first point from there on where it may happen.
    What fits nowhere does not happen, so that every script that is drawn can be run, and a small one is
    found where a large one was drawn.

    Args:
        crashes: how many faults a script has at most.
        points: below which number they are drawn. A message that is processed at once has some twenty.
        counts: what the provider's delivery counts are worth: "exact", "undefined" (-1), or both.

    Raises:
        ConfigurationError: an argument makes no sense.
        MissingExtraError: ``pip install 'doubtless[contract]'``.
    """
    check_least("crashes", crashes, 0)
    check_least("points", points, 1)
    if counts not in {None, "exact", "undefined"}:
        raise ConfigurationError(
            "counts", f"{counts!r:.40} is none", 'use "exact", "undefined" or None for both'
        )
    try:
        from hypothesis import strategies as st  # noqa: PLC0415  (with the extra)
    except ModuleNotFoundError as error:
        raise MissingExtraError("triggers.testing.scripts", extra="contract", package="hypothesis") from error
    fault = st.tuples(st.integers(0, points - 1), st.sampled_from(_DRAWN))
    faults = st.lists(fault, max_size=crashes).map(lambda drawn: tuple(sorted(drawn)))
    counted = st.sampled_from(("exact", "undefined")) if counts is None else st.just(counts)
    return st.builds(Script, counted, st.sampled_from(("dies", "stays")), faults).map(str)
