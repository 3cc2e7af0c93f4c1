"""What it means: the user's last word on a message that the document history cannot decide."""

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
