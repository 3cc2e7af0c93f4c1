"""The options of a guard: the options of ``@trigger``, without the options of a consumer."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import TypedDict

from history.store.parking import Parking
from history.support.redaction import Redact
from resolvers.resolution import Resolver
from triggers.detection.table import (
    FailurePolicy,
    ForgottenPolicy,
    HistoryErrorPolicy,
    InDoubtPolicy,
)
from triggers.service.failures import Retry
from triggers.service.fingerprints import FingerprintSource
from triggers.service.keeping import Keep

#: The largest body of a guard's message: unlimited. It shows the call, and no broker of ours receives it; the
#: framework has its own limits.
LARGEST_BODY = sys.maxsize


class GuardOptions(TypedDict, total=False):
    """The options of :func:`~triggers.guards.protect`, except its name and its history."""

    resolver: Resolver | str | None
    max_delivery_count: int
    history_time_to_live: timedelta
    lease: timedelta | None
    in_doubt: InDoubtPolicy
    transient: tuple[type[Exception], ...]
    retry: Retry | None
    on_retry_failure: FailurePolicy
    on_history_error: HistoryErrorPolicy
    forgotten: ForgottenPolicy
    redelivery_horizon: timedelta | None
    transacted: bool
    parking: str | Parking | None
    local_parking_file: Path | None
    raise_event_on_exception: bool
    raise_event_on_retry_failure: bool
    shadow: bool
    keep_result: bool | Keep
    fingerprint: FingerprintSource | None
    journal: bool | str
    redact: Redact
