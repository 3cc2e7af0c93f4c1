"""A look into a queue of a JMS provider, without removing anything."""

from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.settings import JmsSettings
from triggers.providers.jms.targets import Target


def depth(url: str, queue: str) -> int:
    """Count the messages in a queue, including messages that a receiver holds."""
    link = JmsLink(JmsSettings.from_url(url))
    connection = link.connect("looking")
    try:
        with link.asking("looking"):
            session = link.session(connection, transacted=False)
            found = session.createBrowser(link.destination(session, Target.parse(queue))).getEnumeration()
            count = 0
            while found.hasMoreElements():
                found.nextElement()
                count += 1
            return count
    finally:
        jms_jvm.close_quietly(connection)
