"""Comments and assignments; a store without records passes."""

import pytest

from history.beside.comments import Comment
from history.beside.kept import KeepsBeside
from history.contract.common import TRIGGER
from history.errors import ConfigurationError
from tests.fixtures.beside import kept_in


def _comment(
    text: str | None = None, *, to: str | None = None, by: str = "ana", parked_id: str = "p1"
) -> Comment:
    return Comment.checked(parked_id, by=by, text=text, assigned_to=to)


class CommentContract:
    """Every client reads all comments of a message, in order, and its last assignment."""

    async def test_comments_are_read_in_order_by_another_client(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        comments = kept_in(store).comments
        first, second = _comment("größer \ud800 \x00"), _comment("it is booked", to="bob", by="bob")

        await comments.add(TRIGGER, first)
        await comments.add(TRIGGER, second)
        await comments.add(TRIGGER, second)
        await comments.add(TRIGGER, _comment("another", parked_id="p2"))

        read = await kept_in(another).comments.read(TRIGGER, "p1")
        assert [(one.by, one.text, one.assigned_to) for one in read] == [
            ("ana", first.text, None),
            ("bob", "it is booked", "bob"),
        ]
        assert all(one.at is not None for one in read)
        assert await kept_in(another).comments.read(f"{TRIGGER}-2", "p1") == []

    async def test_the_last_assignment_counts(self, store: KeepsBeside) -> None:
        comments = kept_in(store).comments
        for given in (
            _comment(to="bob"),
            _comment("no"),
            _comment(to="zoë"),
            _comment(to="x", parked_id="p2"),
        ):
            await comments.add(TRIGGER, given)
        await comments.add(TRIGGER, _comment(to="", parked_id="p2"))

        assert await comments.assigned(TRIGGER, ["p1", "p2", "p3"]) == {"p1": "zoë"}

    @pytest.mark.parametrize(
        ("text", "to"), [(None, None), (" ", None), ("x" * 4_001, None), (None, "x" * 201)]
    )
    def test_a_comment_that_says_nothing_or_too_much_is_refused(
        self, text: str | None, to: str | None
    ) -> None:
        with pytest.raises(ConfigurationError):
            _comment(text, to=to)
