"""The consumer for asyncio: tasks of the running event loop."""

from history.shell import TaskShell
from triggers.consumer.core import ConsumerCore


class AsyncConsumer(ConsumerCore):
    """Runs triggers as tasks until it is stopped. Arguments and behaviour are those of ``Consumer``.

        await AsyncConsumer([book], "redis://127.0.0.1:6379/0", history="redis://127.0.0.1:6379/0").run()

    Services that are plain functions run on the thread of the event loop, so that they and the completion can
    share a transaction. Keep them short, or use the blocking consumer. Monitors run in threads.

    If you cancel :meth:`run`, the running services are cancelled, and their messages are In Doubt.
    :meth:`stop` lets the services end.
    """

    _make_shell = TaskShell

    async def run(self, *, signals: bool = False, until_idle: float | None = None) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        Raises:
            ConfigurationError: a history or consumer name cannot be used, or it has run already.
            BaseException: an exception of a service that ends the process.
        """
        await self._run(signals=signals, until_idle=until_idle)
