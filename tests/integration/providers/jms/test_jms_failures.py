"""Bad input and bad days on a real ActiveMQ: messages are refused, parked or delivered again."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from history import ConfigurationError, Message
from history.bridge import drive
from history.store import ParkedKind
from tests.fixtures.network import NetworkBefore
from tests.fixtures.servers.activemq import ACTIVEMQ, JavaPeer
from tests.fixtures.servers.activemq_server import HOME, ActiveMqServer
from tests.fixtures.servers.certificates import make_certificate, showing
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Running, parked_in
from tests.integration.helpers.jms_queues import depth
from tests.integration.providers.jms.test_jms import bodies, nothing_comes, opened, take
from triggers import Consumer, Producer, RetrievalFailureEvent, on_retrieval_failure, trigger
from triggers.providers import Arrival, ProviderUnavailableError
from triggers.providers.jms import JmsProvider

pytestmark = ACTIVEMQ

FACTORY = "factory=org.apache.activemq.ActiveMQConnectionFactory"


@pytest.fixture
def queue() -> str:
    return f"jms-{uuid4().hex[:12]}"


def use(url: str, destination: str = "orders") -> None:
    provider = JmsProvider.from_url(url)
    try:
        drive(provider.send(destination, [Message(body="x")]))
        drive(opened(provider, destination).close())
    finally:
        drive(provider.close())


def refusal(url: str, destination: str = "orders") -> str:
    with pytest.raises(ConfigurationError) as caught:
        use(url, destination)
    return str(caught.value)


def refused(url: str) -> str | None:
    """Return why a use was refused. Return None if the other side hung up before it gave a reason."""
    try:
        use(url)
    except ConfigurationError as error:
        return str(error)
    except ProviderUnavailableError:
        return None
    pytest.fail("it was not refused")


def test_a_jar_that_is_not_there_is_named(activemq: ActiveMqServer) -> None:
    said = refusal(f"jms+{activemq.broker_url}?{FACTORY}&classpath=/nowhere/*.jar")

    assert said.startswith("classpath: no file matches '/nowhere/*.jar'")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("com.example.Missing", "factory: the class com.example.Missing is in none of the"),
        ("java.lang.String", "factory: java.lang.String is not a JMS ConnectionFactory"),
        ("java.util.Random", "factory: java.util.Random cannot be made from a URL"),
    ],
    ids=["missing", "no factory", "no URL"],
)
def test_a_wrong_factory_is_named(activemq: ActiveMqServer, factory: str, said: str) -> None:
    url = f"jms+{activemq.broker_url}?factory={factory}&classpath={HOME}/lib/*.jar"

    assert refusal(url).startswith(said)


@pytest.mark.parametrize(
    "setting", ["prefetchPolicy.none=1", "noSuch=1", "sendTimeout=soon", "useAsyncSend=perhaps"]
)
def test_a_property_that_the_factory_does_not_have_is_named(activemq: ActiveMqServer, setting: str) -> None:
    assert refusal(f"{activemq.url}&factory.{setting}").startswith(f"factory.{setting.partition('=')[0]}: ")


def test_properties_of_the_factory_are_set_with_their_types(activemq: ActiveMqServer) -> None:
    use(f"{activemq.url}&factory.sendTimeout=5000&factory.useAsyncSend=true&factory.clientIDPrefix=me")


def test_a_refused_login_says_so_and_keeps_the_password(activemq: ActiveMqServer) -> None:
    provider = JmsProvider.from_url(activemq.url.replace("tcp://", "tcp://admin:wr%40ng@"))

    with pytest.raises(ConfigurationError, match="give a user and a password that may do this") as caught:
        drive(provider.ping())

    told = [str(caught.value), str(caught.value.__cause__), repr(provider.settings)]
    assert [one for one in told if "wr@ng" in one or "wr%40ng" in one] == []
    assert "admin" in told[0]


def test_an_expired_certificate_is_refused_by_its_reason(activemq: ActiveMqServer, tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority")
    expired = make_certificate(tmp_path, "server", authority=authority, days=-1)
    trusted = ["-file", str(authority.certificate), "-keystore", str(tmp_path / "trust")]
    subprocess.run(["keytool", "-importcert", "-noprompt", "-storepass", "secret", *trusted], check=True)
    trust = f"factory.trustStore={tmp_path}/trust&factory.trustStorePassword=secret"
    factory = "factory=org.apache.activemq.ActiveMQSslConnectionFactory"

    with showing(expired) as port:
        url = f"jms+ssl://localhost:{port}?{factory}&{trust}&classpath={HOME}/lib/*.jar"
        said = eventually(lambda: refused(url))

    assert "Expired" in said
    assert "look at the certificates" in said


def test_an_account_that_may_is_let_in(activemq: ActiveMqServer, queue: str) -> None:
    account = f"{ActiveMqServer.USER}:{ActiveMqServer.PASSWORD}@"

    use(activemq.url.replace("tcp://", f"tcp://{account}"), f"locked.{queue}")


def test_a_queue_that_does_not_exist_and_may_not_be_made_is_refused(
    activemq: ActiveMqServer, queue: str
) -> None:
    said = refusal(activemq.url, f"locked.{queue}")

    assert "is not authorized to create" in said
    assert f"locked.{queue}" in said


def test_a_selector_that_is_none_is_refused(activemq: ActiveMqServer, queue: str) -> None:
    assert refusal(activemq.url, f"{queue}?selector=a+b+c").startswith("selector: the JMS provider refuses")


def test_nobody_at_the_port_is_unavailable(activemq: ActiveMqServer) -> None:
    away = activemq.url.replace(f":{activemq.port}", ":1")

    with pytest.raises(ProviderUnavailableError, match="unavailable while connecting to send"):
        use(away)
    with pytest.raises(ProviderUnavailableError, match="looking whether it is there"):
        drive(JmsProvider.from_url(away).ping())


@pytest.mark.parametrize(
    "message",
    [
        Message(body="x", properties={"far": 2**70}),
        Message(body="\ud800"),
        Message(body={"list": []}, properties={"jms_body": "map"}),
        Message(body="x", delivery_time=datetime.now(UTC) + timedelta(hours=1)),
    ],
    ids=["number", "text", "map", "later"],
)
def test_what_jms_cannot_hold_is_refused_and_nothing_is_sent(
    activemq: ActiveMqServer, queue: str, message: Message
) -> None:
    provider = JmsProvider.from_url(activemq.url)

    with pytest.raises(ConfigurationError):
        drive(provider.send(queue, [Message(body="before"), message]))

    drive(provider.send(queue, [Message(body="after")]))
    assert depth(activemq.url, queue) == 1
    drive(provider.close())


def test_a_message_too_large_for_the_broker_is_unavailable_and_the_provider_goes_on(
    activemq: ActiveMqServer, queue: str
) -> None:
    provider = JmsProvider.from_url(activemq.url)

    with pytest.raises(ProviderUnavailableError):
        drive(provider.send(queue, [Message(body=b"x" * (17 * 2**20))]))

    drive(provider.send(queue, [Message(body="small")]))
    assert depth(activemq.url, queue) == 1
    drive(provider.close())


def ended(code: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process, which has no JVM yet."""
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


PING = """
import sys
from history.bridge import drive
from history.errors import ConfigurationError
from triggers.providers.opening import open_provider
try:
    drive(open_provider(sys.argv[1]).ping())
except ConfigurationError as error:
    print(type(error).__name__, error)
"""


def test_an_extra_that_is_missing_is_named(activemq: ActiveMqServer) -> None:
    said = ended("import sys; sys.modules['jpype'] = None\n" + PING, activemq.url)

    assert said.stdout.startswith("MissingExtraError the JMS provider: needs the package jpype1")
    assert "pip install 'doubtless[jms]'" in said.stdout


def test_a_java_machine_that_does_not_start_is_told_of(activemq: ActiveMqServer) -> None:
    said = ended(PING, f"{activemq.url},-XX:NoSuchOption=1")

    assert "the Java virtual machine cannot be started" in said.stdout


DEEP = """
import sys
from history.bridge import drive
from history.message import Message
from triggers.providers.opening import open_provider
drive(open_provider(sys.argv[1]).ping())
body = 1
for _ in range(300):
    body = [body]
try:
    Message(body=body)
except ValueError:
    print("refused", flush=True)
"""


def test_a_body_that_is_nested_too_deeply_does_not_end_a_process_with_a_java_machine(
    activemq: ActiveMqServer,
) -> None:
    assert ended(DEEP, activemq.url).stdout == "refused\n"


FORKED = """
import gc, os, sys, weakref
from history.bridge import drive
from triggers.providers.opening import open_provider
import jpype
drive(open_provider(sys.argv[1]).ping())

class Holder:
    pass

gc.disable()
holder = Holder()
holder.itself, holder.java = holder, jpype.JClass("java.util.ArrayList")()
garbage = weakref.ref(holder)
del holder
child = os.fork()
if child == 0:
    gc.collect()
    os._exit(0 if garbage() is not None else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_does_not_collect_the_java_objects_of_its_parent(activemq: ActiveMqServer) -> None:
    """To release such an object, Python calls Java, which may be in the middle of a pause for ever."""
    assert ended(FORKED, activemq.url).stdout == "0\n"


def test_what_nobody_should_send_is_parked_with_an_event_and_loses_nothing(
    activemq: ActiveMqServer, queue: str, java_peer: JavaPeer, tmp_path: Path
) -> None:
    history = f"sqlite:///{tmp_path}/history.sqlite3"
    read: list[Any] = []
    told: list[str] = []

    @trigger(queue, name=queue)
    def work(message: Message) -> None:
        read.append(message.body)

    @on_retrieval_failure(trigger=queue)
    def note(event: RetrievalFailureEvent) -> None:
        told.append(event.exception_message or "")

    java_peer(activemq, "wrong", queue)
    Consumer([work], activemq.url, history=history).run(until_idle=1)

    parked = parked_in(history, queue)
    assert read == ["a good one"]
    assert {one.kind for one in parked} == {ParkedKind.UNREADABLE}
    assert sorted(one.reason.partition(":")[0] for one in parked) == ["body", "body", "message", "uuid"]
    assert sorted(told) == sorted(one.reason for one in parked)
    raw = {one.reason.partition(":")[0]: one.raw or {} for one in parked if "object" not in one.reason}
    assert raw["uuid"]["body"] == "its uuid is no identity"
    assert depth(activemq.url, queue) == 0
    letter = dict(
        line.split("\t")[::2] for line in java_peer(activemq, "read", f"DLQ.{queue}", 1).splitlines()
    )
    assert letter["message"] == "ActiveMQObjectMessage"
    assert "never opened" in letter["property dead_letter_reason"]
    assert depth(activemq.url, f"DLQ.{queue}") == 1  # the message that Java could not read


@pytest.mark.parametrize("session", ["client", "transacted"])
def test_a_broker_that_goes_away_in_an_acknowledgement_delivers_again(
    activemq: ActiveMqServer, network_before: NetworkBefore, queue: str, session: str
) -> None:
    network = network_before(activemq.broker_url)
    url = activemq.url.replace(f":{activemq.port}", f":{network.port}") + f"&session={session}"
    provider = JmsProvider.from_url(url)
    drive(provider.send(queue, [Message(uuid="u1", body="x")]))
    receiver = opened(provider, queue)
    [arrival] = take(receiver)

    network.cut()
    try:
        drive(receiver.acknowledge([arrival]))
    except ProviderUnavailableError:
        pass
    else:
        assert session == "client", "a commit has an answer"

    [again] = _patiently(lambda: take(receiver))
    assert (again.message.uuid, again.message.redelivered) == ("u1", True)
    drive(receiver.acknowledge([again]))
    assert nothing_comes(receiver)
    drive(receiver.close())
    drive(provider.close())


def _patiently(work: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """Repeat a call while the provider is away."""
    done: list[Sequence[Any]] = []

    def tried() -> bool:
        try:
            done.append(work())
        except ProviderUnavailableError:
            return False
        return True

    eventually(tried)
    return done[0]


def test_what_is_sent_to_a_temporary_queue_that_has_ended_goes_nowhere(activemq: ActiveMqServer) -> None:
    asking, answering = (JmsProvider.from_url(activemq.url) for _ in range(2))
    name, receiver = drive(asking.open_temporary("replies"))
    drive(answering.send(name, [Message(body="in time")]))
    assert bodies(receiver, 1) == ["in time"]
    drive(receiver.close())

    drive(answering.send(name, [Message(body="too late")]))

    drive(answering.send("orders", [Message(body="it goes on")]))
    for one in (asking, answering):
        drive(one.close())


def test_a_producer_has_another_temporary_queue_when_the_first_was_lost(
    activemq: ActiveMqServer, network_before: NetworkBefore, queue: str
) -> None:
    network = network_before(activemq.broker_url)
    url = activemq.url.replace(f":{activemq.port}", f":{network.port}")

    @trigger(queue, name=queue)
    def answer(message: Message) -> None:
        with Producer(activemq.url) as replying:
            replying.reply(message, "answer")

    def asked(patience: timedelta) -> list[Any]:
        reply = producer.request(queue, "?", timeout=patience)
        return [] if reply is None else [reply.body]

    with Running(Consumer([answer], activemq.url, history="memory://")), Producer(url) as producer:
        assert asked(timedelta(seconds=10)) == ["answer"]
        network.cut()
        eventually(lambda: _patiently(lambda: asked(timedelta(seconds=2))) == ["answer"])


def test_what_arrives_for_a_wait_that_was_cancelled_is_given_back(
    activemq: ActiveMqServer, queue: str
) -> None:
    async def cancelled() -> list[Any]:
        provider = JmsProvider.from_url(activemq.url).for_asyncio()
        receiver = await provider.open_receiver(queue, subscription="s", name="a")
        waiting = asyncio.create_task(receiver.receive(1, timedelta(seconds=5)))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await provider.send(queue, [Message(body="late")])
        found: list[Any] = []
        while not found:
            received = await receiver.receive(1, timedelta(seconds=5))
            await receiver.acknowledge(received)
            found = [one.message.body for one in received if isinstance(one, Arrival)]
        await receiver.close()
        await provider.close()
        return found

    assert asyncio.run(cancelled()) == ["late"]


def told_url(server: ActiveMqServer) -> str:
    return f"{server.url}&first_count=as_told"


def test_a_first_count_is_undefined_unless_the_setting_says_that_it_is_believed(
    activemq: ActiveMqServer, queue: str
) -> None:
    counts: list[int] = []
    for url in (activemq.url, told_url(activemq)):
        provider = JmsProvider.from_url(url)
        drive(provider.send(queue, [Message(body="x")]))
        receiver = opened(provider, queue)
        for _ in range(2):
            [arrival] = take(receiver)
            counts.append(arrival.message.delivery_count)
            drive(receiver.recover([arrival]))
        assert bodies(receiver, 1) == ["x"]
        drive(receiver.close())
        drive(provider.close())

    assert counts == [-1, 2, 1, 2]
