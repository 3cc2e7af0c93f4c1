"""Amazon SQS, over boto3: tested against moto and ElasticMQ, never against AWS.

``provider.py`` sends in tens and opens receivers, ``receiver.py`` is one consumer, ``codec.py`` turns
messages, ``settings.py`` has settings and names, ``link.py`` is the edge to boto3: it translates its errors
once, and is its only import.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.sqs.provider import Sqs as Sqs
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
