"""The JMS provider's URL and the names of its destinations."""

import pytest

from history.errors import ConfigurationError
from triggers.providers.brokers.trust import FirstCount
from triggers.providers.jms.link import JmsLink
from triggers.providers.jms.settings import JmsSettings
from triggers.providers.jms.targets import Target, public_name_of

FACTORY = "factory=org.example.Factory"


def test_a_url_is_the_brokers_own_but_for_what_is_ours() -> None:
    url = (
        f"jms+ssl://me:p%40ss@broker:61617/path?{FACTORY}&classpath=/a/*.jar,/b.jar&classpath=/c&jvm=-Xmx64m"
        "&wireFormat.maxInactivityDuration=5000&session=transacted&client_id=mine&first_count=as_told"
        "&factory.trustStore=/etc/trust&factory.prefetchPolicy.all=1&jms.useCompression=true"
    )

    settings = JmsSettings.from_url(url)

    assert settings == JmsSettings(
        factory="org.example.Factory",
        broker="ssl://broker:61617/path?wireFormat.maxInactivityDuration=5000&jms.useCompression=true",
        classpath=("/a/*.jar", "/b.jar", "/c"),
        properties={"trustStore": "/etc/trust", "prefetchPolicy.all": "1"},
        user="me",
        password="p@ss",  # noqa: S106  (of nobody)
        client_id="mine",
        session="transacted",
        first_count=FirstCount.AS_TOLD,
        jvm=("-Xmx64m",),
    )
    assert "p@ss" not in repr(settings)


def test_a_password_is_masked_in_what_a_provider_says() -> None:
    settings = JmsSettings(factory="org.example.Factory", user="me", password="p@ss")  # noqa: S106  (of nobody)

    said = JmsLink(settings).without_password("tcp://broker?jms.password=p@ss is away")

    assert said == "tcp://broker?jms.password=*** is away"


def test_a_broker_whose_url_is_no_url_stands_in_the_query() -> None:
    url = f"jms:?{FACTORY}&broker=failover:(tcp://a:1,tcp://b:2)%3Ftimeout%3D3000&user=me"

    settings = JmsSettings.from_url(url)

    assert (settings.broker, settings.user) == ("failover:(tcp://a:1,tcp://b:2)?timeout=3000", "me")


def test_jndi_is_given_its_environment() -> None:
    url = "jms:?jndi=jms/Factory&jndi.java.naming.factory.initial=org.example.Initial"

    settings = JmsSettings.from_url(url)

    assert (settings.jndi, settings.factory, settings.broker) == ("jms/Factory", None, None)
    assert settings.environment == {"java.naming.factory.initial": "org.example.Initial"}


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("jms+tcp://broker:1", "factory: neither factory nor jndi is given"),
        (f"jms+tcp://broker:1?{FACTORY}&jndi=x", "factory: both are given"),
        (f"jms+tcp://broker:1?{FACTORY}&session=auto", "session: 'auto' is unknown"),
        (f"jms+tcp://broker:1?{FACTORY}&first_count=never", "first_count: 'never' is unknown"),
        (f"jms:?{FACTORY}&clazzpath=x", "provider: 'clazzpath' is unknown in a jms: URL"),
        (f"jms://broker:1?{FACTORY}", "provider: 'broker:1' is unknown in a jms: URL"),
    ],
    ids=["no factory", "two factories", "session", "count", "unknown word", "host"],
)
def test_a_url_that_cannot_be_used_says_why(url: str, named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        JmsSettings.from_url(url)

    assert str(caught.value).startswith(named)


def test_one_text_is_no_class_path() -> None:
    with pytest.raises(ConfigurationError, match="classpath: must be a tuple of texts, not one text"):
        JmsSettings(factory="org.example.Factory", classpath="/a.jar")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("destination", "target"),
    [
        ("orders", Target("queue", "orders", "orders")),
        ("queue:orders", Target("queue", "orders", "orders")),
        ("topic:prices", Target("topic", "prices", "prices")),
        ("temporary:ID:x", Target("temporary", "ID:x", "ID:x")),
        (
            "orders?selector=a%20%3D%201&consumer.priority=5",
            Target("queue", "orders", "orders?consumer.priority=5", selector="a = 1"),
        ),
        (
            "topic:prices?durable=true&client_id=c&subscriber=s",
            Target("topic", "prices", "prices", client_id="c", subscriber="s"),
        ),
        ("topic:prices?durable=false", Target("topic", "prices", "prices", durable=False)),
        ("what%3F", Target("queue", "what?", "what?")),
        (
            "jndi:java:comp/env/jms/Prices?subscriber=s",
            Target("jndi", "java:comp/env/jms/Prices", "java:comp/env/jms/Prices", subscriber="s"),
        ),
    ],
    ids=["bare", "queue", "topic", "temporary", "selector", "durable", "not durable", "escaped", "jndi"],
)
def test_a_destination_says_what_it_is(destination: str, target: Target) -> None:
    assert Target.parse(destination) == target


@pytest.mark.parametrize(
    "destination", ["", "queue:", "topic:?durable=false", "topic:x?durable=yes", "orders?durable=true"]
)
def test_a_destination_that_cannot_be_is_refused(destination: str) -> None:
    with pytest.raises(ConfigurationError):
        Target.parse(destination)


def test_a_queue_is_told_by_its_bare_name_unless_that_means_something_else() -> None:
    names = [
        public_name_of("queue", "orders"),
        public_name_of("topic", "prices"),
        public_name_of("queue", "topic:odd"),
    ]
    names.append(public_name_of("queue", "100% what?"))

    assert names == ["orders", "topic:prices", "queue:topic:odd", "100%25 what%3F"]
    assert [Target.parse(name).name for name in names] == ["orders", "prices", "topic:odd", "100% what?"]
