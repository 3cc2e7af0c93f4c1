"""The consumer for blocking code: threads that receive, and threads for what is done beside them."""

from history.bridge import drive
from history.shell import ThreadShell
from triggers.consumer.core import ConsumerCore


class Consumer(ConsumerCore):
    """Runs triggers in threads of this process until it is stopped.

    Each trigger gets ``concurrency`` workers, each with a receiver named ``<name>-<trigger>-<n>``. SIGTERM or
    SIGINT drains: what runs ends, what was fetched and not begun is given back. A second signal ends the
    process at once; entries it had started are In Doubt, as after any crash.

    Once a second it reports its triggers to its histories, and carries out the orders that these return.

    Args:
        triggers: whose names must differ.
        provider: a URL or a provider.
        history: for triggers that name none; by default the provider's, if it brings one.
        name: of this consumer, unique among the living; made of host and process by default.
        observe: called with each step of each message; the crash tests use it.
        parent: the id of a process without which this one drains and ends.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """

    _make_shell = ThreadShell

    def run(self, *, signals: bool = False, until_idle: float | None = None) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        Without ``signals``, a KeyboardInterrupt drains, too, and is raised then.

        Raises:
            ConfigurationError: a history or consumer name cannot be used, or it has run already.
            BaseException: what a service raised to end the process.
        """
        drive(self._run(signals=signals, until_idle=until_idle))
