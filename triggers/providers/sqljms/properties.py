"""Properties of messages as text and a number for their type, and their conversion to other types, as in JMS.

The numbers of ``dms_msg_properties.data_type`` are 1 to 8, in the order in which JMS names the types. Ours is
9: a string that a database cannot hold as it is (with a NUL, or invalid Unicode), as JSON.
"""

import json
from dataclasses import dataclass
from enum import IntEnum

from history.message import PropertyValue


class PropertyType(IntEnum):
    """The types of ``data_type``."""

    BOOLEAN = 1
    BYTE = 2
    SHORT = 3
    INT = 4
    LONG = 5
    FLOAT = 6
    DOUBLE = 7
    STRING = 8
    ESCAPED = 9


#: The longest name in bytes: PostgreSQL's indexes take less than 2704 bytes of all their columns.
LONGEST_NAME = 1000


class PropertyFormatError(ValueError):
    """A property cannot be read as the requested type."""


#: How many bits the whole numbers have.
_BITS = {PropertyType.BYTE: 8, PropertyType.SHORT: 16, PropertyType.INT: 32, PropertyType.LONG: 64}

_FRACTIONS = (PropertyType.FLOAT, PropertyType.DOUBLE)

#: The other types that a property may be read as; a string may be read as anything that its text is.
_WIDER: dict[PropertyType, tuple[PropertyType, ...]] = {
    PropertyType.BOOLEAN: (PropertyType.BOOLEAN,),
    PropertyType.BYTE: (PropertyType.BYTE, PropertyType.SHORT, PropertyType.INT, PropertyType.LONG),
    PropertyType.SHORT: (PropertyType.SHORT, PropertyType.INT, PropertyType.LONG),
    PropertyType.INT: (PropertyType.INT, PropertyType.LONG),
    PropertyType.LONG: (PropertyType.LONG,),
    PropertyType.FLOAT: _FRACTIONS,
    PropertyType.DOUBLE: (PropertyType.DOUBLE,),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A property as its row has it."""

    data_type: int
    text: str | None

    @classmethod
    def of(cls, value: PropertyValue) -> "Stored":
        """Return the stored form of a value: a whole number is a long, another number a double."""
        match value:
            case None:
                return cls(PropertyType.STRING, None)
            case bool():
                return cls(PropertyType.BOOLEAN, "true" if value else "false")
            case int():
                return cls(PropertyType.LONG, str(value))
            case float():
                return cls(PropertyType.DOUBLE, repr(value))
            case _ if is_storable(value):
                return cls(PropertyType.STRING, value)
            case _:
                return cls(PropertyType.ESCAPED, json.dumps(value))

    @property
    def value(self) -> PropertyValue:
        """Return the value.

        Raises:
            PropertyFormatError: the text does not fit its type, or the type is unknown.
        """
        if self.text is None:
            return None
        try:
            return _parsed(PropertyType(self.data_type), self.text)
        except ValueError as error:
            raise PropertyFormatError(f"{self.text!r} is no property of type {self.data_type}") from error

    def read_as(self, wanted: PropertyType) -> PropertyValue:
        """Return the value as JMS converts it: to a wider number, to text, or from text.

        Raises:
            PropertyFormatError: it cannot be converted.
        """
        own = PropertyType(self.data_type)
        text = self.value if own is PropertyType.ESCAPED else self.text
        if wanted is PropertyType.STRING:
            return text
        if own in (PropertyType.STRING, PropertyType.ESCAPED):
            return Stored(wanted, None if text is None else str(text)).value
        if wanted in _WIDER[own]:
            return self.value
        raise PropertyFormatError(f"a {own.name.lower()} property cannot be read as {wanted.name.lower()}")


def _parsed(property_type: PropertyType, text: str) -> PropertyValue:
    match property_type:
        case PropertyType.BOOLEAN:
            if text.lower() not in _BOOLEANS:
                # JMS reads every other text as false; that is an error only for a value stored as a boolean.
                raise ValueError(text)
            return _BOOLEANS[text.lower()]
        case PropertyType.STRING:
            return text
        case PropertyType.ESCAPED:
            return str(json.loads(text))
        case PropertyType.FLOAT | PropertyType.DOUBLE:
            return float(text)
        case _:
            number = int(text)
            # Python's numbers have no limit, and a long of ours may be longer than one of Java.
            if (
                property_type is not PropertyType.LONG
                and not -(1 << _BITS[property_type] - 1) <= number < 1 << _BITS[property_type] - 1
            ):
                raise ValueError(text)
            return number


_BOOLEANS = {"true": True, "false": False}


def is_name(text: str) -> bool:
    """Whether both databases can hold a text in an index."""
    return is_storable(text) and len(text.encode()) <= LONGEST_NAME


def is_storable(text: str) -> bool:
    """Whether both databases can hold a text as it is: without NUL, and valid Unicode."""
    if text.isascii():
        return "\0" not in text
    try:
        return b"\0" not in text.encode("utf-8")
    except UnicodeEncodeError:
        return False
