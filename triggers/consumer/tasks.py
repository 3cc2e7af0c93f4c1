"""The consumer for asyncio: tasks of the running event loop."""

from history.shell import TaskShell
from triggers.consumer.core import ConsumerCore


class AsyncConsumer(ConsumerCore):
    """Runs triggers as tasks until it is stopped; arguments and behaviour as of ``Consumer``.

    Services that are plain functions run on the event loop's own thread, so that they and the completion can
    share a transaction; keep them short, or use the blocking consumer. Monitors run in threads.

    Cancelling :meth:`run` cancels the services that run, and leaves their messages In Doubt; :meth:`stop`
    lets them end.
    """

    _make_shell = TaskShell

    async def run(self, *, signals: bool = False, until_idle: float | None = None) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        Raises:
            ConfigurationError: a history or consumer name cannot be used, or it has run already.
            BaseException: what a service raised to end the process.
        """
        await self._run(signals=signals, until_idle=until_idle)
