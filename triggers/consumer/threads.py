"""The consumer for blocking code: threads that receive, and threads for the work beside them."""

from history.bridge import drive
from history.shell import ThreadShell
from triggers.consumer.core import ConsumerCore


class Consumer(ConsumerCore):
    """Runs triggers in threads of this process until it is stopped.

        Consumer([book], "redis://127.0.0.1:6379/0", history="redis://127.0.0.1:6379/0").run(signals=True)

    Each trigger gets ``concurrency`` workers. Each worker has a receiver named ``<name>-<trigger>-<n>``.

    SIGTERM or SIGINT drains: running messages end, and fetched messages that have not begun are recovered. A
    second signal ends the process immediately. Entries that it had started are then In Doubt, as after any
    crash.

    Once a second, the consumer reports its triggers to its histories, and carries out the commands that it
    finds there.

    Args:
        triggers: the triggers to run. Their names must differ.
        provider: a URL or a provider.
        history: for triggers that name none. By default: the provider's history, if it has one.
        name: the name of this consumer, unique among running consumers. By default: made of host and process.
        observe: called with each step of each message; the crash tests use it.
        parent: the id of a process. If that process ends, this one drains and ends as well.

    Raises:
        ConfigurationError: it names the problem and the remedy.
    """

    _make_shell = ThreadShell

    def run(self, *, signals: bool = False, until_idle: float | None = None) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        Without ``signals``, a KeyboardInterrupt also drains the consumer. It is raised after that.

        Raises:
            ConfigurationError: a history or consumer name cannot be used, or it has run already.
            BaseException: an exception of a service that ends the process.
        """
        drive(self._run(signals=signals, until_idle=until_idle))
