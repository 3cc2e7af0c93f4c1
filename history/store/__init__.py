"""The two protocols of a document history, entries and records, and the types that their methods take.

=====================  ==============================================================================
``history.py``         :class:`HistoryStore`: claims, settlements, lookups, purges;
                       optional, :class:`PackedClaims`: claims by digests, for many rows
``records.py``         :class:`Records`: keyed records and logs; a store that has them keeps everything of
                       :mod:`history.beside` in them, on the same server
``parking.py``         a parked message, which waits until somebody decides
``decisions.py``       :class:`OperatorDecision`: a person's decision about them, and the record of it
``control.py``         commands to consumers, their states and statistics
``joining.py``         messages of several destinations that wait for each other
``progress.py``        how far each query of Spark has come
``watermark.py``       :class:`Watermark`: how far a link of SQL Remote has come; SQL histories only
``leases.py``          optional, :class:`ManyLeases`: many leases in one call; and
                       :class:`BatchLeases`: the lease of a whole batch
``turning.py``         optional, its ``Turning``: from one message to the next in one call
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
    from history.store.control import FORGOTTEN_AFTER as FORGOTTEN_AFTER
    from history.store.control import GONE_AFTER as GONE_AFTER
    from history.store.control import Beat as Beat
    from history.store.control import Counts as Counts
    from history.store.control import Heard as Heard
    from history.store.control import Order as Order
    from history.store.control import Overview as Overview
    from history.store.control import Report as Report
    from history.store.control import TriggerState as TriggerState
    from history.store.control import Verb as Verb
    from history.store.decisions import Decided as Decided
    from history.store.decisions import DecidedMessage as DecidedMessage
    from history.store.decisions import DecisionKind as DecisionKind
    from history.store.decisions import DecisionPage as DecisionPage
    from history.store.decisions import DecisionRecord as DecisionRecord
    from history.store.decisions import OperatorDecision as OperatorDecision
    from history.store.history import CLAIM_BATCH as CLAIM_BATCH
    from history.store.history import WHOLE as WHOLE
    from history.store.history import FoundInPiece as FoundInPiece
    from history.store.history import HistoryStats as HistoryStats
    from history.store.history import HistoryStore as HistoryStore
    from history.store.history import PackedClaims as PackedClaims
    from history.store.history import Page as Page
    from history.store.history import Purged as Purged
    from history.store.history import ScannedEntry as ScannedEntry
    from history.store.history import ScanPart as ScanPart
    from history.store.inspection import Capability as Capability
    from history.store.inspection import Refusal as Refusal
    from history.store.inspection import Room as Room
    from history.store.inspection import TellingRefusals as TellingRefusals
    from history.store.inspection import TellingRoom as TellingRoom
    from history.store.joining import Added as Added
    from history.store.joining import Addition as Addition
    from history.store.joining import Hold as Hold
    from history.store.joining import JoinPart as JoinPart
    from history.store.joining import JoinTerms as JoinTerms
    from history.store.joining import Period as Period
    from history.store.joining import PeriodState as PeriodState
    from history.store.leases import BatchLeases as BatchLeases
    from history.store.leases import ManyLeases as ManyLeases
    from history.store.owners import BatchOwner as BatchOwner
    from history.store.owners import Owner as Owner
    from history.store.owners import owner_token as owner_token
    from history.store.owners import process_token as process_token
    from history.store.parking import Evidence as Evidence
    from history.store.parking import LabelPage as LabelPage
    from history.store.parking import Parked as Parked
    from history.store.parking import ParkedKind as ParkedKind
    from history.store.parking import ParkedLabel as ParkedLabel
    from history.store.progress import KEPT_BATCHES as KEPT_BATCHES
    from history.store.progress import RECORDS_KEPT_FOR as RECORDS_KEPT_FOR
    from history.store.progress import BatchRecord as BatchRecord
    from history.store.progress import BatchState as BatchState
    from history.store.records import Append as Append
    from history.store.records import Change as Change
    from history.store.records import Delete as Delete
    from history.store.records import Expects as Expects
    from history.store.records import Fail as Fail
    from history.store.records import Get as Get
    from history.store.records import Kind as Kind
    from history.store.records import Log as Log
    from history.store.records import LogLine as LogLine
    from history.store.records import LogPage as LogPage
    from history.store.records import Now as Now
    from history.store.records import Put as Put
    from history.store.records import Record as Record
    from history.store.records import Records as Records
    from history.store.records import Settle as Settle
    from history.store.records import View as View
    from history.store.single_verbs import SingleVerbs as SingleVerbs
    from history.store.times import instant as instant
    from history.store.times import milliseconds as milliseconds
    from history.store.watermark import Epoch as Epoch
    from history.store.watermark import Incoming as Incoming
    from history.store.watermark import Offset as Offset
    from history.store.watermark import Outgoing as Outgoing
    from history.store.watermark import Watermark as Watermark
else:  # for a type checker, any name would be there
    _moved = dict.fromkeys(("Control", "Joining", "Parking", "Progress"), "history.beside")
    __getattr__ = lazy(__name__, **_moved)
