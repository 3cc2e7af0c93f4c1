"""The layer that encrypts parked messages, and parts of joins, for a store.

An encrypted parked message is a JSON object that begins with ``{"encrypted":``, as no other does::

    {"encrypted": "AGRidGUB...", "label": {"id": ..., "trigger_name": ..., "reason": ...}}

In its label, the facts for lists and look-ups stay unencrypted: the trigger, the id, the uuid, the
destination, the kind, the reason, the class of the error and its place in the code, the evidence and the
time. The text of the error is encrypted in the label as well.
"""

import base64
from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from history.entry import Fence
from history.message import Message
from history.store.joining import JoinPart
from history.store.parking import Parked, ParkedLabel, read_parked
from history.support.encryption import Cipher, DecryptionError, decrypted, is_encrypted

#: How the document of an encrypted message begins, and the name of the only field if it cannot be decrypted.
_ENCRYPTED = "encrypted"
_BEGINNING = f'{{"{_ENCRYPTED}":'


class _SealedParked(BaseModel):
    encrypted: str
    label: ParkedLabel


class _StoredLabel(ParkedLabel):
    """A label with the encrypted text of the error."""

    encrypted: str | None = None


def document_of(parked: Parked, cipher: Cipher | None) -> str:
    """Return a parked message as it is stored: a JSON document, encrypted if there is a cipher."""
    document = parked.model_dump_json()
    if cipher is None:
        return document
    sealed = _SealedParked(
        encrypted=_encrypted(cipher, document, _about_parked(parked.trigger_name, parked.id)),
        label=_plain(ParkedLabel.of(parked)),
    )
    return sealed.model_dump_json()


def label_of(parked: Parked, cipher: Cipher | None) -> str:
    """Return the label that is stored with a parked message, as JSON."""
    label = ParkedLabel.of(parked)
    if cipher is None or label.error_message is None:
        return label.model_dump_json(exclude={"copies"})
    sealed = _encrypted(cipher, label.error_message, _about_label(label))
    return _StoredLabel(**_plain(label).model_dump(), encrypted=sealed).model_dump_json(exclude={"copies"})


def read_label(text: str | bytes, cipher: Cipher | None) -> ParkedLabel:
    """Return the original label; if its error cannot be decrypted, the label says so instead.

    Raises:
        pydantic.ValidationError: it cannot be read.
    """
    label = ParkedLabel.model_validate_json(text)
    stored = text if isinstance(text, bytes) else text.encode(errors="replace")
    if _ENCRYPTED.encode() not in stored:  # nearly all labels
        return label
    encrypted = _StoredLabel.model_validate_json(text).encrypted
    if encrypted is None:
        return label
    try:
        error = _decrypted(cipher, encrypted, _about_label(label)).decode("utf-8", "replace")
    except DecryptionError as failure:
        error = _told(failure)
    return label.model_copy(update={"error_message": error})


def read_document(
    document: str | bytes, *, cipher: Cipher | None, trigger: str, parked_id: str, copies: int = 1
) -> Parked:
    """Read what :func:`document_of` made; see :func:`~history.store.parking.read_parked`.

    If it cannot be decrypted, it has no message: ``error_message`` gives the reason and the remedy.
    """
    beginning = document[: len(_BEGINNING)]
    if beginning not in {_BEGINNING, _BEGINNING.encode()}:
        return read_parked(document, trigger=trigger, parked_id=parked_id, copies=copies)
    try:
        sealed = _SealedParked.model_validate_json(document)
    except ValidationError:
        return read_parked(document, trigger=trigger, parked_id=parked_id, copies=copies)
    try:
        text = _decrypted(cipher, sealed.encrypted, _about_parked(trigger, parked_id))
    except DecryptionError as error:
        facts = {"trigger_name": trigger, "id": parked_id, "copies": copies, "error_message": _told(error)}
        return _locked(sealed, facts)
    return read_parked(text, trigger=trigger, parked_id=parked_id, copies=copies)


def why_locked(parked: Parked) -> str | None:
    """Return why a message cannot be decrypted here, and the remedy; None if it can be read."""
    if parked.message is None and parked.raw is not None and parked.raw.keys() == {_ENCRYPTED}:
        return parked.error_message
    return None


def document_of_part(trigger: str, part: JoinPart, cipher: Cipher | None) -> str:
    """Return a message that waits in a join, as it is stored: JSON, or base64 if there is a cipher."""
    document = part.message.to_json().decode()
    if cipher is None:
        return document
    return _encrypted(cipher, document, _about_part(trigger, part.activation, part.destination, part.fence))


def opened_part(
    trigger: str, activation: str, destination: str, fence: Fence, *, document: str, cipher: Cipher | None
) -> JoinPart:
    """Return a part of a join with its original message.

    Raises:
        DecryptionError: it cannot be decrypted.
    """
    if not document.startswith("{"):
        document = _decrypted(cipher, document, _about_part(trigger, activation, destination, fence)).decode()
    message = Message.from_json(document)
    return JoinPart(activation=activation, destination=destination, fence=fence, message=message)


def _about_parked(trigger: str, parked_id: str) -> list[str]:
    return ["parked", trigger, parked_id]


def _about_label(label: ParkedLabel) -> list[str]:
    return ["label", label.trigger_name, label.id]


def _about_part(trigger: str, activation: str, destination: str, fence: Fence) -> list[str]:
    return ["join", trigger, activation, destination, str(fence)]


def _plain(label: ParkedLabel) -> ParkedLabel:
    return label.model_copy(update={"error_message": None})


def _encrypted(cipher: Cipher, text: str, about: list[str]) -> str:
    return base64.b64encode(cipher.encrypt(text.encode(), about=about)).decode("ascii")


def _decrypted(cipher: Cipher | None, text: str, about: list[str]) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except ValueError:
        value = b""
    if not is_encrypted(value):
        raise DecryptionError("it was changed after it was encrypted", "restore it, or discard it")
    return decrypted(cipher, value, about=about)


def _locked(sealed: _SealedParked, outside: Mapping[str, object]) -> Parked:
    facts = {name: getattr(sealed.label, name) for name in ParkedLabel.model_fields}
    return Parked.model_validate({**facts, **outside, "raw": {_ENCRYPTED: sealed.encrypted}})


def _told(error: DecryptionError) -> str:
    return f"{error.problem}; {error.remedy}"
