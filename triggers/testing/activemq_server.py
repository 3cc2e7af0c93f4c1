"""A private ActiveMQ Classic broker as a child process, started from a distribution's jars, for tests."""

import shutil
import socket
import time
from pathlib import Path
from typing import Self

from history.errors import ConfigurationError
from triggers.testing.child import Child, ChildServer
from triggers.testing.redis_server import free_port

#: Where Debian's package ``activemq`` puts its jars.
HOME = Path("/usr/share/activemq")

#: How long a broker may take to listen, in seconds.
START_TIMEOUT = 60.0

#: Java 17 keeps these to itself unless told otherwise.
_OPENED = ("java.base/java.util", "java.base/java.lang", "java.base/java.util.concurrent")

_CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" dataDirectory="{data}"
    useJmx="false" useShutdownHook="true" schedulePeriodForDestinationPurge="0">
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry queue=">" persistJMSRedelivered="{persist_redelivered}"/>
    </policyEntries></policyMap></destinationPolicy>
    <persistenceAdapter>
      <kahaDB directory="{data}/kahadb" journalMaxFileLength="4mb" checkForCorruptJournalFiles="true"/>
    </persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin anonymousAccessAllowed="true">
        <users><authenticationUser username="{user}" password="{password}" groups="users,admins"/></users>
      </simpleAuthenticationPlugin>
      <authorizationPlugin><map><authorizationMap><authorizationEntries>
        <authorizationEntry queue="*" read="anonymous,users" write="anonymous,users" admin="anonymous,users"/>
        <authorizationEntry queue="DLQ.>" read="anonymous,users" write="anonymous,users"
          admin="anonymous,users"/>
        <authorizationEntry queue="Consumer.>" read="anonymous,users" write="anonymous,users"
          admin="anonymous,users"/>
        <authorizationEntry topic=">" read="anonymous,users" write="anonymous,users" admin="anonymous,users"/>
        <authorizationEntry queue="locked.>" read="anonymous,users" write="anonymous,users" admin="admins"/>
      </authorizationEntries></authorizationMap></map></authorizationPlugin>
    </plugins>
    <systemUsage><systemUsage>
      <memoryUsage><memoryUsage limit="64 mb"/></memoryUsage>
      <storeUsage><storeUsage limit="512 mb"/></storeUsage>
      <tempUsage><tempUsage limit="64 mb"/></tempUsage>
    </systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="openwire"
        uri="tcp://127.0.0.1:{port}?wireFormat.maxFrameSize={max_frame_size}"/>
    </transportConnectors>
  </broker>
</beans>
"""

_LOGGING = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c: %m%n
"""


class ActiveMqServer(ChildServer):
    """ActiveMQ on a free port of 127.0.0.1, with its journal in ``folder``.

    Anybody may use every topic, and every queue whose name has no dot or begins with ``DLQ.``
    or ``Consumer.``; queues of
    ``locked.`` only ``admin`` (password ``secret``) may create. A wrong password is refused.

    Raises:
        ConfigurationError: there is no ``java`` on the PATH, or no ActiveMQ.
    """

    USER, PASSWORD = "admin", "secret"

    def __init__(
        self, folder: Path, *, persist_redelivered: bool = False, max_frame_size: int = 16 * 1024 * 1024
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self._told = {
            "name": "doubtless-tests",
            "data": folder / "data",
            "port": self.port,
            "persist_redelivered": str(persist_redelivered).lower(),
            "max_frame_size": max_frame_size,
            "user": self.USER,
            "password": self.PASSWORD,
        }

    @property
    def url(self) -> str:
        """The provider's URL, with the client jars of this installation, and a small JVM."""
        factory = "org.apache.activemq.ActiveMQConnectionFactory"
        small = "jvm=-Xmx256m,-XX:%2BUseSerialGC,-XX:TieredStopAtLevel=1"
        return f"jms+tcp://127.0.0.1:{self.port}?factory={factory}&classpath={HOME}/lib/*.jar&{small}"

    @property
    def broker_url(self) -> str:
        """The URL that a Java client uses."""
        return f"tcp://127.0.0.1:{self.port}"

    @staticmethod
    def installed() -> bool:
        """Whether there is a broker to start."""
        return shutil.which("java") is not None and (HOME / "lib").is_dir()

    def start(self) -> Self:
        """Start, or start again on the same port and journal, and wait until it listens."""
        if not self.installed():
            raise ConfigurationError("activemq", f"no java, or nothing in {HOME}", "apt-get install activemq")
        self.folder.mkdir(exist_ok=True)
        (self.folder / "activemq.xml").write_text(_CONFIGURATION.format(**self._told))
        (self.folder / "log4j.properties").write_text(_LOGGING)
        with (self.folder / "activemq.log").open("ab") as log:
            self._process = Child(self._command(), cwd=self.folder, stdout=log, stderr=log)
        self._wait_until_it_listens()
        return self

    def _command(self) -> list[str]:
        opened = [word for package in _OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
        places = {"home": HOME, "base": self.folder, "conf": self.folder, "data": self.folder / "data"}
        return [
            *("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened),
            *(f"-Dactivemq.{name}={place}" for name, place in places.items()),
            f"-Dlog4j.configuration=file:{self.folder}/log4j.properties",
            *("-cp", f"{self.folder}:{HOME}/lib/*:{HOME}/lib/optional/*"),
            *("org.apache.activemq.console.Main", "start", f"xbean:file:{self.folder}/activemq.xml"),
        ]

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                if not self.running or time.monotonic() > deadline:
                    log = (self.folder / "activemq.log").read_text(errors="replace")
                    raise RuntimeError(f"ActiveMQ did not start:\n{log[-4000:]}") from None
                time.sleep(0.02)
