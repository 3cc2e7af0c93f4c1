"""Read the messages of a dead-letter destination into the parked messages of triggers.

Each letter is parked first and acknowledged then. If the process dies in between, the letter comes again. Its
id is the same, so it is parked once. If it has been run in the meantime, its entry says so, and running it
again closes it as a duplicate.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from history.beside.kept import KeepsBeside
from history.beside.parking import Parking
from history.bridge import drive
from history.entry import State
from history.errors import ConfigurationError
from history.message import Message
from history.store.parking import Evidence, Parked, ParkedKind, encodable, parked_id
from triggers.consumer.options import AnyTrigger
from triggers.operations.letters import Letter, read_letter
from triggers.operations.looking import is_in_memory, open_to_look
from triggers.pipeline.parking.lot import copies_of
from triggers.providers.provider import Arrival, Provider, Received, Receiver, Unreadable
from triggers.service.identity import read_identity
from triggers.sinks.dead_letter import SUFFIX

#: How many letters are received, parked and acknowledged together.
PIECE = 100

#: How many letters of no known trigger are held at most; then the import ends.
MOST_HELD = 1_000

#: The subscription, or the group, that receives letters by default.
SUBSCRIPTION = "letters"

#: How long one look for letters takes at most.
LOOK = timedelta(milliseconds=500)


@dataclass(slots=True)
class Imported:
    """How many letters were parked for each trigger; ``left`` are for no trigger that is known here."""

    parked: Counter[str] = field(default_factory=Counter[str])
    left: int = 0

    @property
    def total(self) -> int:
        """How many letters were parked."""
        return self.parked.total()


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import from one dead-letter destination.

    ``stores`` returns the history of a trigger. Letters are parked beside it, or in the lot that ``parking=``
    names. A lot in the memory of a consumer, or that code made, is not used: nobody could see the letters.
    It ends after ``limit`` letters, or if none has come for ``until_idle`` seconds.

    Raises:
        ConfigurationError: one of the triggers receives from the destination: its messages are not dead.
    """

    destination: str
    triggers: Sequence[AnyTrigger]
    stores: Callable[[str], KeepsBeside]
    limit: int | None = None
    until_idle: float = 5.0

    def __post_init__(self) -> None:
        """Refuse to empty the queue of a trigger."""
        for trigger in self.triggers:
            if self.destination in trigger.destinations:
                problem = f"the trigger {trigger.name} receives from {self.destination}"
                raise ConfigurationError("DESTINATION", problem, "name its dead-letter queue or topic")

    def run_on(self, provider: Provider, *, subscription: str) -> Imported:
        """Open a receiver, park its letters, and close it.

        Raises:
            UnavailableError: as :meth:`run`.
        """
        receiver = drive(provider.open_receiver(self.destination, subscription=subscription, name="import"))
        try:
            return self.run(receiver)
        finally:
            drive(receiver.close())

    def run(self, receiver: Receiver) -> Imported:
        """Park letters, each before it is acknowledged; give the letters of no known trigger back.

        Raises:
            UnavailableError: the provider or a history does not answer: the other letters stay there.
            ConfigurationError: a lot cannot be opened: all letters stay there.
        """
        with self._opened_lots() as lots:
            return self._run(receiver, lots)

    @contextmanager
    def _opened_lots(self) -> Generator[Mapping[str, Parking]]:
        """Open the lots that triggers name; return them by trigger."""
        named = {trigger.name: trigger.settings.parking for trigger in self.triggers}
        urls = {name: url for name, url in named.items() if isinstance(url, str) and not is_in_memory(url)}
        stores: dict[str, KeepsBeside] = {}
        try:
            for url in urls.values():
                if url not in stores:
                    stores[url] = open_to_look("parking", url, makes=True)
            yield {name: stores[url].parking for name, url in urls.items()}
        finally:
            for store in stores.values():
                drive(store.close())

    def _run(self, receiver: Receiver, lots: Mapping[str, Parking]) -> Imported:
        imported, unparked = Imported(), list[Received]()
        idle_since = alive_at = time.monotonic()
        try:
            while not self._is_over(imported, unparked) and time.monotonic() - idle_since <= self.until_idle:
                received = drive(receiver.receive(self._wanted(imported), LOOK))
                unparked += self._take_in(receiver, received, imported, lots)
                now = time.monotonic()
                idle_since = now if received else idle_since
                if unparked and now - alive_at > receiver.keep_alive_interval.total_seconds():
                    drive(receiver.keep_alive())
                    alive_at = now
        finally:
            if unparked:
                drive(receiver.recover(unparked))
        imported.left = len(unparked)
        return imported

    def _is_over(self, imported: Imported, unparked: Sequence[Received]) -> bool:
        return len(unparked) >= MOST_HELD or (self.limit is not None and imported.total >= self.limit)

    def _wanted(self, imported: Imported) -> int:
        return PIECE if self.limit is None else min(PIECE, self.limit - imported.total)

    def _take_in(
        self,
        receiver: Receiver,
        received: Sequence[Received],
        imported: Imported,
        lots: Mapping[str, Parking],
    ) -> Sequence[Received]:
        """Park letters and acknowledge them; return the letters of no known trigger."""
        mine: dict[str, list[tuple[Received, Letter | None]]] = {}
        others: list[Received] = []
        for delivery in received:
            letter = read_letter(delivery.message) if isinstance(delivery, Arrival) else None
            trigger = self._trigger_of(letter)
            if trigger is None:
                others.append(delivery)
            else:
                mine.setdefault(trigger.name, []).append((delivery, letter))
        for name, some in mine.items():
            self._park(name, some, lots.get(name))
            drive(receiver.acknowledge([delivery for delivery, _ in some]))
            imported.parked[name] += len(some)
        return others

    def _trigger_of(self, letter: Letter | None) -> AnyTrigger | None:
        """Return the trigger that a letter names, or the only one that it can be for."""
        if letter is not None and letter.trigger is not None:
            return next((trigger for trigger in self.triggers if trigger.name == letter.trigger), None)
        places = {*(() if letter is None else letter.places), *_whose_letters(self.destination)}
        from_there = [trigger for trigger in self.triggers if not places.isdisjoint(trigger.destinations)]
        candidates = from_there or self.triggers
        return candidates[0] if len(candidates) == 1 else None

    def _park(
        self, name: str, letters: Sequence[tuple[Received, Letter | None]], apart: Parking | None
    ) -> None:
        store = self.stores(name)
        lot = apart or store.parking
        (trigger,) = (declared for declared in self.triggers if declared.name == name)
        messages = [self._parked(trigger, letter) for _, letter in letters if letter is not None]
        # A copy that is parked already says more than a letter: why the service failed, and where.
        new = [message for message in messages if drive(lot.get(message.id, trigger=name)) is None]
        if new:
            drive(lot.park(_with_evidence(store, name, new)))
        for delivery, _ in letters:
            if isinstance(delivery, Unreadable):
                self._park_raw(lot, name, delivery)

    def _parked(self, trigger: AnyTrigger, letter: Letter) -> Parked:
        message = _of_trigger(trigger, letter, self.destination)
        why = "" if letter.reason is None else f": {letter.reason}"
        unnamed = "" if message.uuid is not None else message.message_id or uuid4().hex
        return Parked(
            id=parked_id(trigger.name, message, delivery=unnamed),
            trigger_name=trigger.name,
            kind=ParkedKind.REJECTED,
            reason=encodable(f"DEAD LETTER from {self.destination}{why}"),
            uuid=message.uuid,
            destination=message.destination,
            message=message,
            error_class=letter.error_class,
            error_message=letter.reason if letter.error_class else None,
            error_trace=letter.trace,
        )

    def _park_raw(self, lot: Parking, name: str, delivery: Unreadable) -> None:
        """Park a delivery that is not a message whole or, if the store cannot take that, a piece of it."""
        copies = copies_of(delivery, trigger=name, destination=self.destination)
        refusal: Exception | None = None
        for parked in copies:
            try:
                return drive(lot.park([parked]))
            except Exception as error:  # noqa: BLE001  (any error of a lot: a piece may fit)
                refusal = error
        if refusal is not None:
            raise refusal
        raise MemoryError(delivery.problem)


def _whose_letters(destination: str) -> Sequence[str]:
    """Return the destination whose dead letters doubtless sends here."""
    name = destination.removesuffix(SUFFIX)
    for prefix in ("DLQ.", "DLQ-"):
        name = name.removeprefix(prefix)
    return [] if name == destination else [name]


def _of_trigger(trigger: AnyTrigger, letter: Letter, destination: str) -> Message:
    """Return the message as its trigger would have received it."""
    message, here = letter.message, trigger.destinations
    if message.destination == destination or message.destination is None:
        from_here = next((name for name in letter.places if name in here), None)
        from_here = from_here or (here[0] if len(here) == 1 else None)
        if from_here is not None:
            message = message.model_copy(update={"destination": from_here})
    settings = trigger.settings
    if settings.uuid is None:
        return message
    try:
        return message.known_by(read_identity(settings.uuid, settings.max_body_size)(message))
    except Exception:  # noqa: BLE001  (any error of user code: without an identity it is parked as well)
        return message.known_by(None)


def _with_evidence(store: KeepsBeside, trigger: str, messages: Sequence[Parked]) -> Sequence[Parked]:
    """Add what the history knows of an earlier run; a run that never ended makes a letter In Doubt."""
    uuids = list(dict.fromkeys(message.uuid for message in messages if message.uuid is not None))
    entries = dict(zip(uuids, drive(store.lookup(trigger, uuids)), strict=True))
    explained: list[Parked] = []
    for message in messages:
        entry = None if message.uuid is None else entries[message.uuid]
        if entry is None:
            explained.append(message)
            continue
        evidence = Evidence(owner=entry.owner, started_at=entry.started_at, fence=entry.fence)
        parked_kind = ParkedKind.IN_DOUBT if entry.state is State.STARTED else message.kind
        explained.append(message.model_copy(update={"evidence": evidence, "kind": parked_kind}))
    return explained
