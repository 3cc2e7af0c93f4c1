"""What a document history must do: one protocol a file, with the types that its methods take and return.

=====================  ==============================================================================
``history.py``         :class:`HistoryStore`: claims, settlements, lookups, purges; ``parking``, ``control``,
                       ``joining`` and ``progress`` lead to the protocols below, on the same server
``parking.py``         :class:`Parking`: messages kept until somebody decides
``decisions.py``       :class:`OperatorDecision`: what somebody decided about them, and the record of it
``control.py``         :class:`Control`: orders to consumers, their states and statistics
``joining.py``         :class:`Joining`: messages of several destinations that wait for each other
``progress.py``        :class:`Progress`: how far each query of Spark has come
``watermark.py``       :class:`Watermark`: how far a link of SQL Remote has come; SQL histories only
``leases.py``          :class:`ManyLeases`, which a store may lack: many leases in one call; and
                       :class:`BatchLeases`, which it may lack, too: the lease of a whole batch
``packed_claims.py``   :class:`PackedClaims`, which a store may lack: claims by digests, for many rows
``turning.py``         its ``Turning``, which a store may lack: from one message to the next in one call
``records.py``         :class:`Records`, which a store may lack: keyed records and logs, over which
                       :mod:`history.beside` keeps what comes next
``results.py``         what a store may keep besides: what the first run of a uuid answered,
``fingerprints.py``    the fingerprint of the first body that came with it,
``journal.py``         and one line for each verdict that is not plain
``sealing.py``         between a store and what it stores: encrypts parked messages and kept results
``security.py``        the security log: who signed in, was refused, decided or gave a command
``inspection.py``      what an account may not do, and for how many connections there is room, which a
                       store may tell to ``doubtless doctor``
``owners.py``          who claims, and tokens that nobody else has
``single_verbs.py``    :class:`SingleVerbs`: the calls for one entry, made of those for many
``times.py``           instants and durations in milliseconds
``texts.py``           text of anybody's, in what is kept as JSON
=====================  ==============================================================================

Whoever writes a store needs no more than these names and those of :mod:`history.entry`, whose functions are
the transitions; :class:`history.contract.HistoryContract` says whether it does all that is asked of it.
"""

from typing import TYPE_CHECKING

from history.store.control import (
    FORGOTTEN_AFTER,
    GONE_AFTER,
    Beat,
    Control,
    Counts,
    Heard,
    Order,
    Overview,
    Report,
    TriggerState,
    Verb,
)
from history.store.decisions import (
    Decided,
    DecidedMessage,
    DecisionKind,
    DecisionPage,
    DecisionRecord,
    OperatorDecision,
)
from history.store.history import (
    CLAIM_BATCH,
    WHOLE,
    HistoryStats,
    HistoryStore,
    Page,
    Purged,
    ScannedEntry,
    ScanPart,
)
from history.store.joining import Added, Addition, Hold, Joining, JoinPart, JoinTerms, Period, PeriodState
from history.store.leases import BatchLeases, ManyLeases
from history.store.owners import BatchOwner, Owner, owner_token, process_token
from history.store.packed_claims import FoundInPiece, PackedClaims
from history.store.parking import Evidence, LabelPage, Parked, ParkedKind, ParkedLabel, Parking
from history.store.progress import KEPT_BATCHES, RECORDS_KEPT_FOR, BatchRecord, BatchState, Progress
from history.store.single_verbs import SingleVerbs
from history.store.times import instant, milliseconds
from history.support.faces import lazy

if TYPE_CHECKING:
    from history.store.inspection import Capability, Refusal, Room, TellingRefusals, TellingRoom
    from history.store.records import (
        Append,
        Change,
        Delete,
        Expects,
        Kind,
        Log,
        LogLine,
        LogPage,
        Put,
        Record,
        Records,
    )
    from history.store.watermark import Epoch, Incoming, Offset, Outgoing, Watermark
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = [
    "CLAIM_BATCH",
    "FORGOTTEN_AFTER",
    "GONE_AFTER",
    "KEPT_BATCHES",
    "RECORDS_KEPT_FOR",
    "WHOLE",
    "Added",
    "Addition",
    "Append",
    "BatchLeases",
    "BatchOwner",
    "BatchRecord",
    "BatchState",
    "Beat",
    "Capability",
    "Change",
    "Control",
    "Counts",
    "Decided",
    "DecidedMessage",
    "DecisionKind",
    "DecisionPage",
    "DecisionRecord",
    "Delete",
    "Epoch",
    "Evidence",
    "Expects",
    "FoundInPiece",
    "Heard",
    "HistoryStats",
    "HistoryStore",
    "Hold",
    "Incoming",
    "JoinPart",
    "JoinTerms",
    "Joining",
    "Kind",
    "LabelPage",
    "Log",
    "LogLine",
    "LogPage",
    "ManyLeases",
    "Offset",
    "OperatorDecision",
    "Order",
    "Outgoing",
    "Overview",
    "Owner",
    "PackedClaims",
    "Page",
    "Parked",
    "ParkedKind",
    "ParkedLabel",
    "Parking",
    "Period",
    "PeriodState",
    "Progress",
    "Purged",
    "Put",
    "Record",
    "Records",
    "Refusal",
    "Report",
    "Room",
    "ScanPart",
    "ScannedEntry",
    "SingleVerbs",
    "TellingRefusals",
    "TellingRoom",
    "TriggerState",
    "Verb",
    "Watermark",
    "instant",
    "milliseconds",
    "owner_token",
    "process_token",
]

# Only a history that keeps links needs these.
