"""Several resolvers in a row: the first with an opinion wins."""

from history.errors import ConfigurationError
from history.message import Message
from history.store.parking import Evidence
from resolvers.resolution import NO_EVIDENCE, Resolution, Resolved, Resolver, asking


class Chain:
    """A resolver that asks its members in order. Made by :func:`chain`; as thread-safe as they are.

    A call returns a coroutine, which suspends only if a member does: a trigger can use it in blocking
    code as long as all members are blocking.
    """

    __slots__ = ("_members",)

    def __init__(self, *resolvers: Resolver) -> None:
        if not resolvers:
            raise ConfigurationError("chain", "has no members", "give it at least one resolver")
        self._members = tuple(asking(resolver) for resolver in resolvers)

    async def __call__(
        self, uuid: str, trigger_name: str, message: Message, evidence: Evidence = NO_EVIDENCE
    ) -> Resolved:
        """Return the first NEW or DUPLICATE, else IN_DOUBT with every reason that was given."""
        reasons: list[str] = []
        for member in self._members:
            answer = await member.ask(uuid, trigger_name, message, evidence)
            if answer.resolution is not Resolution.IN_DOUBT:
                return answer
            if answer.reason is not None:
                reasons.append(answer.reason)
        return Resolved(Resolution.IN_DOUBT, "; ".join(reasons) or None)


def chain(*resolvers: Resolver) -> Chain:
    """Join resolvers to one: NEW and DUPLICATE are final; after IN_DOUBT the next member is called.

    An exception of a member propagates immediately and the later members are not asked: they might say NEW
    although the failed one would have said DUPLICATE. None does not pass to the next member; it is a
    forgotten ``return``, and raises :class:`~resolvers.resolution.NonsenseAnswerError`.

    Raises:
        ConfigurationError: no members, or one that cannot take a resolver's arguments.
    """
    return Chain(*resolvers)
