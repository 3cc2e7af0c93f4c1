"""Sends over one connection and one transacted session, with one commit for many messages."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from history.errors import ConfigurationError
from history.message import Message
from history.support.paging import pieces_of
from triggers.providers.brokers.sending import refuse_later
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.codec import encode
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.targets import Target

_log = logging.getLogger(__name__)

#: How many messages one commit makes visible at most.
MOST_TOGETHER = 200


class JmsSender:
    """Safe between threads: one sends at a time. It connects when it first sends."""

    def __init__(self, link: JmsLink) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._connection: Any = None
        self._session: Any = None
        self._lost = threading.Event()

    def send(self, destination: str, messages: Sequence[Message]) -> list[str]:
        """Send in order and return the JMSMessageIDs; see ``Provider.send``."""
        target, sent = self._link.target(destination), list[str]()
        refuse_later(messages)
        with self._sending:
            try:
                with self._link.asking("sending"):
                    self._connect()
                    for some in pieces_of(messages, MOST_TOGETHER):
                        sent += self._send_together(target, some)
            except ConfigurationError as error:
                self._disconnect()
                if target.kind == "temporary" and error.setting == "destination":
                    _log.info(
                        "temporary destination %s no longer exists: a message to it was dropped", destination
                    )
                    return [message.message_id or f"ID:{target.name}:gone" for message in messages]
                raise
            except BaseException:
                self._disconnect()
                raise
        return sent

    def _send_together(self, target: Target, messages: Sequence[Message]) -> list[str]:
        destination = self._link.destination(self._session, target)
        producer = self._session.createProducer(destination)
        ids: list[str] = []
        for message in messages:
            made = encode(self._link, self._session, message)
            producer.send(made.message, made.delivery_mode, made.priority, made.time_to_live)
            ids.append(str(made.message.getJMSMessageID()))
        self._session.commit()
        producer.close()
        return ids

    def _connect(self) -> None:
        if self._connection is not None and not self._lost.is_set():
            return
        self._disconnect()
        lost = threading.Event()
        self._connection = self._link.connect("connecting to send")
        listener = jms_jvm.listen(
            f"{self._link.api}.ExceptionListener", "onException", lambda _error: lost.set()
        )
        self._connection.setExceptionListener(listener)
        self._session = self._link.session(self._connection, transacted=True)
        self._lost = lost

    def _disconnect(self) -> None:
        connection, self._connection, self._session = self._connection, None, None
        if connection is not None:
            jms_jvm.close_quietly(connection)

    def close(self) -> None:
        """Close the connection."""
        with self._sending:
            self._disconnect()
