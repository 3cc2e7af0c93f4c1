"""The rows of a message and of a failure in a client-side queue's file: JSON, encrypted if there is a key.

An encrypted row is bytes (:mod:`history.support.encryption`), and a plain one is text. A message is bound to
its alias and destination, a failure to its alias and number.
"""

from dataclasses import dataclass

from history.message import Message
from history.support.encryption import Cipher, MissingKeyError, decrypted
from triggers.producer.delivery_failure import DeliveryFailureEvent


class LockedRowError(MissingKeyError):
    """The oldest message to a destination is encrypted, and its key is not here: all messages to it wait."""

    def __init__(self, destination: str, error: MissingKeyError) -> None:
        super().__init__(f"the oldest message to {destination}: {error.problem}", error.remedy)
        self.destination = destination


@dataclass(frozen=True, slots=True)
class Queued:
    """A message on disk; ``number`` is its position, ``attempts`` how often sending it failed."""

    number: int
    destination: str
    message: Message
    attempts: int


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that could not be read as a message, as it was in the queue, and what is wrong with it."""

    number: int
    destination: str
    text: str | bytes
    problem: str


@dataclass(frozen=True, slots=True)
class QueueRows:
    """Writes and reads the rows of one alias; ``cipher`` is None for plain rows."""

    alias: str
    cipher: Cipher | None

    def of_message(self, destination: str, message: Message) -> str | bytes:
        """Return the row of a waiting message."""
        return self._written(message.to_json(), ["queued", self.alias, destination])

    def message(self, destination: str, row: str | bytes) -> Message:
        """Return a message that waits.

        Raises:
            MissingKeyError: its key is not here.
            ValueError and others of :data:`~history.support.spoilt.UNREADABLE`: it cannot be read.
        """
        return Message.from_json(self._read(row, ["queued", self.alias, destination]))

    def of_failure(self, event: DeliveryFailureEvent) -> str | bytes:
        """Return the row of a given-up message."""
        return self._written(event.model_dump_json().encode(), self._about_failure(event.number))

    def failure(self, numbered: tuple[int, str | bytes]) -> DeliveryFailureEvent:
        """Return the event of a given-up message from its number and row; raises as :meth:`message`."""
        number, row = numbered
        return DeliveryFailureEvent.model_validate_json(self._read(row, self._about_failure(number)))

    def _about_failure(self, number: int) -> list[str]:
        return ["failed", self.alias, str(number)]

    def _written(self, data: bytes, about: list[str]) -> str | bytes:
        return data.decode() if self.cipher is None else self.cipher.encrypt(data, about=about)

    def _read(self, row: str | bytes, about: list[str]) -> str | bytes:
        return decrypted(self.cipher, row, about=about) if isinstance(row, bytes) else row
