"""Hostile messages of JMS, by ActiveMQ's own client: contents and properties that no sender would write."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.hostile.content import EDGES, NAMES, body, dice_of, short
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.settings import JmsSettings
from triggers.providers.jms.targets import Target

_KINDS = ["Text", "Text", "Text", "Bytes", "Map", "Stream", "Object", ""]

#: Makes one of a session's messages hostile.
Hostile = Callable[[Any], Any]


def deliveries(count: int, seed: int) -> Sequence[Hostile]:
    return [_Maker(seed * count + number) for number in range(count)]


def send(url: str, queue: str, hostile: Sequence[Hostile], *, milliseconds: int = 0) -> None:
    """Send them in one transaction; they live for so long, 0 for ever."""
    link = JmsLink(JmsSettings.from_url(url))
    connection = link.connect("sending what is hostile")
    try:
        with link.asking("sending what is hostile"):
            session = link.session(connection, transacted=True)
            producer = session.createProducer(link.destination(session, Target.parse(queue)))
            producer.setTimeToLive(milliseconds)
            for make in hostile:
                producer.send(make(session))
            session.commit()
    finally:
        jms_jvm.close_quietly(connection)


def text_of_no_unicode(session: Any) -> Any:
    """Make a text message with broken content: its length is greater than the number of its bytes."""
    made = session.createTextMessage()
    made.setContent(_bytes(b"\x00\x00\x00\x09\xff\xff"))
    return made


def an_object(session: Any) -> Any:
    """Make a message with a serialized Java object, which nobody may read."""
    made = session.createObjectMessage()
    made.setObject(jms_jvm.java_value("an object"))
    return made


class _Maker:
    def __init__(self, seed: int) -> None:
        self._dice = dice_of(seed)

    def __call__(self, session: Any) -> Any:
        dice = self._dice
        kind = dice.choice(_KINDS)
        made = getattr(session, f"create{kind}Message")()
        self._fill(kind, made)
        for _ in range(dice.randrange(3)):
            self._give_property(made)
        if dice.random() < 0.1:
            made.setMarshalledProperties(_bytes(dice.randbytes(20)))
        if dice.random() < 0.3:
            made.setJMSCorrelationID(dice.choice([None, jms_jvm.java_value(self._text())]))
        if dice.random() < 0.3:
            made.setType(jms_jvm.java_value(self._text()))
        if dice.random() < 0.2:
            made.setRedeliveryCounter(dice.choice([2**31 - 1, 250, -1, -5]))
        return made

    def _fill(self, kind: str, made: Any) -> None:
        dice = self._dice
        if dice.random() < 0.3:
            made.setContent(
                _bytes(dice.choice([b"\x7f\xff\xff\xff", dice.randbytes(30), b"\x00\x00\x00\x02\xed\xa0"]))
            )
        elif kind == "Text":
            made.setText(dice.choice([None, jms_jvm.java_value(body(dice).decode("latin-1")), self._half()]))
            if dice.random() < 0.5:
                made.setStringProperty("jms_body", dice.choice(["json", "map", "stream", "none", "yaml"]))
        elif kind == "Bytes":
            made.writeBytes(jms_jvm.java_value(body(dice)))
        elif kind == "Map":
            for name in ("a", "b", self._text() or "c"):
                made.setObject(name, self._value())
        elif kind == "Stream":
            for _ in range(3):
                made.writeObject(self._value())

    def _give_property(self, made: Any) -> None:
        name = self._dice.choice([name for name in NAMES if name.strip()])
        try:
            made.setObjectProperty(name, self._value())
        except (jms_jvm.JavaError, UnicodeDecodeError):
            made.setStringProperty("spare", "x")  # this client does not let one write it, and may not say why

    def _value(self) -> Any:
        dice = self._dice
        edge = dice.choice(EDGES)
        number = jms_jvm.load(
            f"java.lang.{dice.choice(['Byte', 'Short', 'Float', 'Double'])}", setting="test"
        )
        values = [jms_jvm.java_value(value) for value in (edge, edge > 0, float("nan"), self._text(), None)]
        return dice.choice([*values, number.valueOf("1"), self._half()])

    def _text(self) -> str:
        return short(self._dice).decode("latin-1")

    def _half(self) -> Any:
        return jms_jvm.load("java.lang.StringBuilder", setting="test")().appendCodePoint(0xD83D).toString()


def _bytes(content: bytes) -> Any:
    return jms_jvm.load("org.apache.activemq.util.ByteSequence", setting="test")(jms_jvm.java_value(content))
