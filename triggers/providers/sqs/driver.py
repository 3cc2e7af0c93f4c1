"""The only import of boto3."""

from typing import Any, cast

from history.errors import MissingExtraError

try:
    import boto3  # pyright: ignore[reportMissingTypeStubs]
    import botocore  # pyright: ignore[reportMissingTypeStubs]
except ImportError as error:
    raise MissingExtraError("the SQS provider", extra="sqs", package="boto3") from error

#: As Any: boto3 makes its methods when it runs.
driver = cast("Any", boto3)
core = cast("Any", botocore)
