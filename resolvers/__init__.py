"""Resolvers: the user's last word on a message that the document history cannot decide.

``resolution.py`` defines the question to a resolver and its answers, ``bulk.py`` the same for many messages
at a time, and ``contract.py`` the suite that a resolver must pass. ``loading.py`` finds one by its name,
``chain.py`` puts several in a row, and ``effect_exists/`` has ready-made ones.
"""

from resolvers.chain import Chain, chain
from resolvers.effect_exists import (
    EffectUnavailableError,
    http_resource_exists,
    redis_key_exists,
    sql_row_exists,
)
from resolvers.loading import load_resolver
from resolvers.resolution import (
    NO_EVIDENCE,
    Answer,
    AskedResolver,
    Evidence,
    NonsenseAnswerError,
    Resolution,
    Resolved,
    Resolver,
    asking,
)

__all__ = [
    "NO_EVIDENCE",
    "Answer",
    "AskedResolver",
    "Chain",
    "EffectUnavailableError",
    "Evidence",
    "NonsenseAnswerError",
    "Resolution",
    "Resolved",
    "Resolver",
    "asking",
    "chain",
    "http_resource_exists",
    "load_resolver",
    "redis_key_exists",
    "sql_row_exists",
]
