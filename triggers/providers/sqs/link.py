"""The edge to boto3, and its only import: one client for all threads of a process, errors translated once."""

import json
import os
import threading
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, cast

from history.errors import ConfigurationError, MissingExtraError, NotPermittedError
from history.support.forks import keep
from triggers.providers.provider import DeliveryLimit, ProviderUnavailableError
from triggers.providers.sqs.settings import FIFO, SqsSettings

try:
    import boto3  # pyright: ignore[reportMissingTypeStubs]
    import botocore  # pyright: ignore[reportMissingTypeStubs]
except ImportError as error:
    raise MissingExtraError("the SQS provider", extra="sqs", package="boto3") from error

#: As Any: boto3 makes its methods when it runs.
driver = cast("Any", boto3)
core = cast("Any", botocore)


#: How many messages one request takes.
MOST = 10

#: How many bytes a message may have.
LARGEST = 1_048_576

#: How many bytes a request with several messages may have: the former limit of AWS, and still that of others.
LARGEST_TOGETHER = 262_144

#: How long connecting may take, and an answer beyond its requested wait, in seconds.
_CONNECTING, _ANSWERING = 5, 30

#: How many connections the client keeps, at most: one for each worker that waits for messages.
_CONNECTIONS = 100

#: The beginnings or ends of the service's error codes that a retry does not cure: the field, and the remedy.
_REFUSALS = (
    ("AccessDenied", "provider", "give the account the permission"),
    ("InvalidClientTokenId", "provider", "correct the access key"),
    ("UnrecognizedClient", "provider", "correct the access key"),
    ("SignatureDoesNotMatch", "provider", "correct the secret key"),
    ("KmsAccessDenied", "provider", "let the account use the queue's key"),
    ("InvalidMessageContents", "message", "send text that XML allows"),
    ("BatchRequestTooLong", "message", "send less: SQS takes 1 MiB"),
    ("MessageTooLong", "message", "send less: SQS takes 1 MiB"),
    ("InvalidParameterValue", "message", "correct it; a queue may take less than 1 MiB"),
    ("InvalidAttributeValue", "message", "correct it; a queue may take less than 1 MiB"),
    ("QueueDeletedRecently", "destination", "wait a minute, and try again"),
)

_MISSING = ("QueueDoesNotExist", "NonExistentQueue")


#: SQS's names for the numbers of a backlog.
_COUNTS = {
    "ApproximateNumberOfMessages": "waiting",
    "ApproximateNumberOfMessagesNotVisible": "held",
    "ApproximateNumberOfMessagesDelayed": "later",
}


#: SQS's name for the policy that removes a message which was received too often.
_REDRIVE = "RedrivePolicy"


class SqsLink:
    """The client, and the addresses of queues."""

    def __init__(self, settings: SqsSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._client: Any = None
        self._process = 0
        self._addresses: dict[str, str] = {}

    def client(self) -> Any:
        """Return this process's client; a forked child has its own."""
        with self._lock:
            if self._client is None or self._process != os.getpid():
                keep(self._client)
                self._client, self._process = self._new(), os.getpid()
            return self._client

    def _new(self) -> Any:
        config = core.config.Config(
            connect_timeout=_CONNECTING,
            read_timeout=_ANSWERING,
            max_pool_connections=_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": 2},
        )
        # A separate session: boto3's default session is not safe between threads.
        return driver.session.Session().client(
            "sqs", region_name=self._settings.region, endpoint_url=self._settings.endpoint, config=config
        )

    def call(self, doing: str, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Ask SQS.

        Raises:
            ProviderUnavailableError: SQS does not answer.
            ConfigurationError: it refuses this, and always will.
        """
        try:
            answer: Mapping[str, Any] = getattr(self.client(), method)(**arguments)
        except core.exceptions.ClientError as error:
            raise self._translated(error, doing) from error
        except (core.exceptions.NoCredentialsError, core.exceptions.ProfileNotFound) as error:
            remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role"
            raise ConfigurationError("provider", f"has no account for SQS ({error})", remedy) from error
        except core.exceptions.ParamValidationError as error:
            raise ConfigurationError("message", f"SQS cannot take it: {error}", "correct it") from error
        except core.exceptions.BotoCoreError as error:
            raise ProviderUnavailableError("SQS", doing) from error
        return answer

    def ping(self) -> None:
        """Return when SQS answers, even if it does not let us list queues.

        Raises:
            ProviderUnavailableError: it does not.
            ConfigurationError: the account is missing, or SQS does not know it.
        """
        try:
            self.call("asking whether it is there", "list_queues", MaxResults=1)
        except ConfigurationError as error:
            if not is_denied(error.__cause__):
                raise

    def address_of(self, queue: str) -> str:
        """Return the URL of a queue, which is made if it is missing.

        Raises:
            ConfigurationError: it is missing and may not be made.
        """
        if (address := self._addresses.get(queue)) is not None:
            return address
        try:
            answer = self.call(f"looking for {queue!r}", "get_queue_url", QueueName=queue)
        except QueueGoneError:
            answer = self._make(queue)
        self._addresses[queue] = answer["QueueUrl"]
        return self._addresses[queue]

    def _make(self, queue: str) -> Mapping[str, Any]:
        if not self._settings.create:
            raise ConfigurationError("destination", f"SQS has no queue {queue!r}", "make it, or correct it")
        attributes = {
            "VisibilityTimeout": str(self._settings.visibility),
            "MessageRetentionPeriod": str(self._settings.retention),
        }
        if queue.endswith(FIFO):
            attributes["FifoQueue"] = "true"
        return self.call(f"making {queue!r}", "create_queue", QueueName=queue, Attributes=attributes)

    def counts_of(self, queue: str) -> Mapping[str, int]:
        """Return about how many messages of a queue wait, are held, and are delayed; empty if missing."""
        counts = self._attributes(queue, list(_COUNTS))
        return {name: int(counts[attribute]) for attribute, name in _COUNTS.items() if attribute in counts}

    def limit_of(self, queue: str) -> DeliveryLimit | None:
        """Return after how many deliveries the redrive policy of a queue removes a message."""
        text = self._attributes(queue, [_REDRIVE]).get(_REDRIVE)
        if text is None:
            return None
        policy: Mapping[str, Any] = json.loads(text)
        target = str(policy.get("deadLetterTargetArn", "")).rpartition(":")[2]
        return DeliveryLimit(int(policy["maxReceiveCount"]), f"it goes to the queue {target}", is_kept=True)

    def _attributes(self, queue: str, names: Sequence[str]) -> Mapping[str, str]:
        """Return the attributes of a queue; nothing for a missing queue, which is not made."""
        try:
            address = self.call(f"looking for {queue!r}", "get_queue_url", QueueName=queue)["QueueUrl"]
            arguments = {"QueueUrl": address, "AttributeNames": names}
            answer = self.call(f"looking at {queue!r}", "get_queue_attributes", **arguments)
        except QueueGoneError:
            return {}
        attributes: Mapping[str, str] = answer.get("Attributes", {})
        return attributes

    def forget(self, queue: str) -> None:
        """Look for a queue again the next time: somebody has deleted it."""
        self._addresses.pop(queue, None)

    def _translated(self, error: Any, doing: str) -> Exception:
        problem: Mapping[str, Any] = error.response.get("Error", {})
        code, text = str(problem.get("Code", "")), str(problem.get("Message", error))
        if any(code.endswith(word) for word in _MISSING):
            return QueueGoneError("the queue of SQS, which is missing,", doing)
        for word, field, remedy in _REFUSALS:
            if word in code:
                wrong = NotPermittedError if "AccessDenied" in word else ConfigurationError
                return wrong(field, f"SQS refuses {doing}: {text} ({code})", remedy)
        return ProviderUnavailableError("SQS", f"{doing} ({code}: {text})")


def is_denied(error: object) -> bool:
    """Whether SQS answered that the account may not do this."""
    answer: Mapping[str, Any] = getattr(error, "response", {})
    return "AccessDenied" in str(answer.get("Error", {}).get("Code", ""))


class QueueGoneError(ProviderUnavailableError):
    """The queue does not exist, or no longer."""


def failed_of(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of a batch that failed."""
    return list(islice(answer.get("Failed") or (), MOST))
