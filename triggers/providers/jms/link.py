"""The edge to a JMS provider: its connection factory, connections, and its errors translated once."""

import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from history.errors import ConfigurationError, NotPermittedError
from triggers.providers.brokers.trust import ACTIVEMQ, ARTEMIS, OTHER_JMS, TrustProfile, weighed
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.settings import JmsSettings
from triggers.providers.jms.targets import Target, TargetKind, public_name_of
from triggers.providers.provider import ProviderUnavailableError

#: Set on ActiveMQ's factory, unless the settings or the broker's URL set the same. The broker sends a
#: consumer only what it asks for. The client moves no message to the broker's dead-letter queue. The broker
#: decides that a temporary queue is gone: a new client would say so before it knows the queues.
ACTIVEMQ_PROPERTIES: dict[str, str] = {
    "prefetchPolicy.all": "0",
    "redeliveryPolicy.maximumRedeliveries": "-1",
    "redeliveryPolicy.initialRedeliveryDelay": "0",
    "watchTopicAdvisories": "false",
}

#: The same on the factory of Artemis. There, the broker's address settings say when it gives a message up.
ARTEMIS_PROPERTIES: dict[str, str] = {"consumerWindowSize": "0"}

_ACTIVEMQ_FACTORY = "org.apache.activemq.ActiveMQConnectionFactory"
_ARTEMIS_FACTORY = "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory"

#: How many temporary destinations to remember, to which somebody expects replies.
MOST_TEMPORARY = 1000

_WHAT = "the JMS provider"

#: JMS's constants.
CLIENT_ACKNOWLEDGE, TRANSACTED = 2, 0

#: The kinds of destinations: here, the interface of JMS, and its method that returns the name.
_NAMED: tuple[tuple[TargetKind, str, str], ...] = (
    ("queue", "Queue", "getQueueName"),
    ("topic", "Topic", "getTopicName"),
)

#: Exceptions that mean that the user may not do this.
_FORBIDDEN = {"JMSSecurityException", "SecurityException"}

#: Classes of Java exceptions that waiting does not cure -> the setting to correct, and how.
_NEVER: dict[str, tuple[str, str]] = {
    "JMSSecurityException": ("provider", "give a user and a password that may do this"),
    "SecurityException": ("provider", "give a user and a password that may do this"),
    "InvalidDestinationException": ("destination", "create it, or correct its name"),
    "DestinationDoesNotExistException": ("destination", "create it, or correct its name"),  # ActiveMQ
    "InvalidSelectorException": ("selector", "correct it"),
    "MessageFormatException": ("message", "send what JMS can hold"),
    "CertificateException": ("provider", "look at the certificates and at the factory's trust store"),
    "NoClassDefFoundError": ("classpath", "add the jar that has it"),
    "ClassNotFoundException": ("classpath", "add the jar that has it"),
    "NamingException": ("jndi", "look at the name and at the jndi. settings"),
}


class JmsLink:
    """Opens connections to one JMS provider; safe between threads. It connects on request."""

    def __init__(self, settings: JmsSettings) -> None:
        self.settings = settings
        self._making = threading.Lock()
        self._factory: Any = None
        self.api = "javax.jms"
        self.pulls = False
        self.profile: TrustProfile = OTHER_JMS
        self._temporary: OrderedDict[str, Any] = OrderedDict()
        self._located: dict[str, Any] = {}

    def connect(self, doing: str, *, client_id: str | None = None) -> Any:
        """Return a started connection.

        Raises:
            ProviderUnavailableError: nobody answers, or (``client_id``) another connection has this id.
            ConfigurationError: the class path, the factory, the account or the JVM is wrong.
        """
        factory = self.factory()
        with self.asking(doing):
            account = [self.settings.user, self.settings.password] if self.settings.user is not None else []
            connection = factory.createConnection(*account)
            try:
                if client_id is not None:
                    connection.setClientID(client_id)
                connection.start()
            except BaseException:
                jms_jvm.close_quietly(connection)
                raise
            jms_jvm.keep(connection)
        return connection

    def factory(self) -> Any:
        """Return the connection factory, made once."""
        with self._making:
            if self._factory is None:
                self._factory = self._make_factory()
            return self._factory

    def _make_factory(self) -> Any:
        settings = self.settings
        jms_jvm.ensure_started(settings.classpath, settings.jvm)
        if settings.jndi is not None:
            factory = self._look_up(settings.jndi)
        else:
            factory = self._new_factory(settings.factory or "")
        for api in ("javax.jms", "jakarta.jms"):
            if jms_jvm.is_a(factory, f"{api}.ConnectionFactory"):
                self.api = api
                break
        else:
            raise ConfigurationError(
                "factory",
                f"{settings.factory or settings.jndi} is not a JMS ConnectionFactory",
                "name one that is",
            )
        for name, value in {**self._own_properties(factory), **settings.properties}.items():
            jms_jvm.set_property(factory, name, value)
        self.pulls = _pulls(factory)
        return factory

    def _look_up(self, name: str) -> Any:
        with self.asking(f"looking up {name!r}"):
            return jms_jvm.look_up(name, dict(self.settings.environment))

    def _new_factory(self, name: str) -> Any:
        factory_class = jms_jvm.load(name, setting="factory")
        try:
            with self.asking(f"making a {name}"):
                return (
                    factory_class() if self.settings.broker is None else factory_class(self.settings.broker)
                )
        except TypeError as error:
            raise ConfigurationError(
                "factory",
                f"{name} cannot be made from {'nothing' if self.settings.broker is None else 'a URL'}",
                "leave broker out, or give it, and set bean properties with factory.NAME=",
            ) from error

    def _own_properties(self, factory: Any) -> dict[str, str]:
        """Return the properties that this kind of factory needs for the promises of :class:`JmsProvider`."""
        if jms_jvm.is_a(factory, _ARTEMIS_FACTORY):
            properties, self.profile = ARTEMIS_PROPERTIES, ARTEMIS
        elif jms_jvm.is_a(factory, _ACTIVEMQ_FACTORY):
            properties, self.profile = ACTIVEMQ_PROPERTIES, ACTIVEMQ
        else:
            return {}
        said = " ".join((self.settings.broker or "", *self.settings.properties))
        return {name: value for name, value in properties.items() if name.split(".")[0] not in said}

    def count_of(self, count: int, *, redelivered: bool) -> int:
        """Return the delivery count to report for the provider's number."""
        rule = self.settings.first_count
        return weighed(count, redelivered=redelivered, profile=self.profile, first_count=rule)

    def session(self, connection: Any, *, transacted: bool) -> Any:
        """Open a session that settles by commits, or by acknowledging messages."""
        return connection.createSession(transacted, TRANSACTED if transacted else CLIENT_ACKNOWLEDGE)

    def target(self, destination: str) -> Target:
        """Read a destination; a name in JNDI is looked up once.

        Raises:
            ProviderUnavailableError: JNDI does not answer.
            ConfigurationError: the destination cannot be used, or JNDI has no queue or topic of this name.
        """
        target = Target.parse(destination)
        if target.kind != "jndi":
            return target
        self.factory()  # with it, the JVM runs, and the API is known
        located = self._located.get(target.name)
        if located is None:
            located = self._located[target.name] = self._look_up(target.name)
        for target_kind, api, read in _NAMED:
            if jms_jvm.is_a(located, f"{self.api}.{api}"):
                return target.located(target_kind, str(getattr(located, read)()), located)
        raise ConfigurationError(
            "destination", f"{destination!r} is not a queue or topic", "give the name of one that is"
        )

    def destination(self, session: Any, target: Target) -> Any:
        """Return the provider's object for a destination."""
        if target.java_object is not None:
            return target.java_object
        match target.kind:
            case "topic":
                return session.createTopic(target.address)
            case "temporary" if target.name in self._temporary:
                return self._temporary[target.name]
            case _:
                return session.createQueue(target.address)

    def name_of(self, destination: Any) -> str | None:
        """Return our name of a destination of the provider; temporary destinations are remembered."""
        if destination is None:
            return None
        for target_kind, api, read in _NAMED:
            if jms_jvm.is_a(destination, f"{self.api}.{api}"):
                name = str(getattr(destination, read)())
                if jms_jvm.is_a(destination, f"{self.api}.Temporary{api}"):
                    self.remember(name, destination)
                    return public_name_of("temporary", name)
                return public_name_of(target_kind, name)
        return str(destination.toString())

    def remember(self, name: str, destination: Any) -> None:
        """Keep a temporary destination, because only some providers find it again by name."""
        self._temporary[name] = destination
        if len(self._temporary) > MOST_TEMPORARY:
            with suppress(KeyError):  # another thread was quicker
                self._temporary.popitem(last=False)

    @contextmanager
    def asking(self, doing: str) -> Generator[None, None, None]:
        """Translate what Java throws while doing something.

        Raises:
            ProviderUnavailableError: it may pass.
            ConfigurationError: it will not.
        """
        try:
            with jms_jvm.inside():
                yield
        except jms_jvm.ThrownError as failure:
            raise self._translated(failure, doing) from failure
        except jms_jvm.EndingError as error:
            jms_jvm.refuse_forked()
            raise ProviderUnavailableError(_WHAT, doing) from error

    def _translated(self, failure: jms_jvm.ThrownError, doing: str) -> Exception:
        names, text = failure.kinds, self.without_password(str(failure))
        if "InvalidClientIDException" in names:
            return ProviderUnavailableError(_WHAT, f"{doing}: its client id is another connection's ({text})")
        for name, (setting, remedy) in _NEVER.items():
            if name in names and "CommunicationException" not in names:  # JNDI's server is away
                wrong = NotPermittedError if name in _FORBIDDEN else ConfigurationError
                return wrong(setting, f"the JMS provider refuses {doing} ({text})", remedy)
        return ProviderUnavailableError(_WHAT, f"{doing} ({text})")

    def without_password(self, text: str) -> str:
        """Return a provider's text, without the password, for a log."""
        password = self.settings.password
        return text.replace(password, "***") if password else text


def _pulls(factory: Any) -> bool:
    """Whether the broker sends a consumer only what it asks for."""
    if jms_jvm.is_a(factory, _ACTIVEMQ_FACTORY):
        return bool(factory.getPrefetchPolicy().getQueuePrefetch() == 0)
    return jms_jvm.is_a(factory, _ARTEMIS_FACTORY) and bool(factory.getConsumerWindowSize() == 0)
