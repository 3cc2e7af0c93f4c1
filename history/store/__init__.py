"""The protocols of a document history: one per file, with the types that its methods take and return.

=====================  ==============================================================================
``history.py``         :class:`HistoryStore`: claims, settlements, lookups, purges; ``parking``, ``control``,
                       ``joining`` and ``progress`` lead to the protocols below, on the same server;
                       optional, :class:`PackedClaims`: claims by digests, for many rows
``parking.py``         :class:`Parking`: messages kept until somebody decides
``decisions.py``       :class:`OperatorDecision`: a person's decision about them, and the record of it
``control.py``         :class:`Control`: commands to consumers, their states and statistics
``joining.py``         :class:`Joining`: messages of several destinations that wait for each other
``progress.py``        :class:`Progress`: how far each query of Spark has come
``watermark.py``       :class:`Watermark`: how far a link of SQL Remote has come; SQL histories only
``leases.py``          optional, :class:`ManyLeases`: many leases in one call; and
                       :class:`BatchLeases`: the lease of a whole batch
``turning.py``         optional, its ``Turning``: from one message to the next in one call
``records.py``         optional, :class:`Records`: keyed records and logs, in which
                       :mod:`history.beside` keeps the next three
``results.py``         optional: the result of a uuid's first run,
``fingerprints.py``    the fingerprint of the first body that came with it,
``journal.py``         and one line for each verdict that needs an explanation
``sealing.py``         the layer that encrypts parked messages and kept results for a store
``security.py``        the security log: who signed in, was refused, decided or gave a command
``inspection.py``      reports of a store: refused permissions, room for connections, and about how many
                       entries it has
``owners.py``          owners of claims, and unique tokens
``single_verbs.py``    :class:`SingleVerbs`: the calls for one entry, made from the calls for many
``times.py``           instants and durations in milliseconds
``texts.py``           text from any source, in the JSON that a store keeps
=====================  ==============================================================================

The author of a store needs only these names and those of :mod:`history.entry`. The functions there are the
transitions. :class:`history.contract.HistoryContract` checks that a store does everything required.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
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
        FoundInPiece,
        HistoryStats,
        HistoryStore,
        PackedClaims,
        Page,
        Purged,
        ScannedEntry,
        ScanPart,
    )
    from history.store.inspection import Capability, Refusal, Room, TellingRefusals, TellingRoom
    from history.store.joining import Added, Addition, Hold, Joining, JoinPart, JoinTerms, Period, PeriodState
    from history.store.leases import BatchLeases, ManyLeases
    from history.store.owners import BatchOwner, Owner, owner_token, process_token
    from history.store.parking import Evidence, LabelPage, Parked, ParkedKind, ParkedLabel, Parking
    from history.store.progress import KEPT_BATCHES, RECORDS_KEPT_FOR, BatchRecord, BatchState, Progress
    from history.store.records import (
        Append,
        Change,
        Delete,
        Expects,
        Fail,
        Get,
        Kind,
        Log,
        LogLine,
        LogPage,
        Now,
        Put,
        Record,
        Records,
        Settle,
        View,
    )
    from history.store.single_verbs import SingleVerbs
    from history.store.times import instant, milliseconds
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
    "Fail",
    "FoundInPiece",
    "Get",
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
    "Now",
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
    "Settle",
    "SingleVerbs",
    "TellingRefusals",
    "TellingRoom",
    "TriggerState",
    "Verb",
    "View",
    "Watermark",
    "instant",
    "milliseconds",
    "owner_token",
    "process_token",
]
