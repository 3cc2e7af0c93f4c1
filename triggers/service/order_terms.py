"""What a trigger may say of its order, checked once."""

from typing import TYPE_CHECKING

from history.errors import ConfigurationError

if TYPE_CHECKING:
    from triggers.service.settings import Settings


def check_ordering(settings: "Settings", history: object) -> None:
    """Refuse an ordered trigger whose order could not be kept.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    if not settings.ordered:
        return
    for setting, wrong, told, remedy in (
        (
            "history",
            history is None,
            "which process receives is settled in the document history, and there is none",
            "give it one, such as history='redis://...'",
        ),
        (
            "destination",
            len(settings.destinations) > 1,
            "ordered=True keeps the order of one destination, and there are several",
            "name one destination, and have the senders use it",
        ),
        ("batch", settings.batch > 1, "ordered=True takes one message at a time", "leave batch out"),
        (
            "acknowledge_mode",
            settings.acknowledge_mode != "client",
            "ordered=True needs to know what was processed before what comes after it",
            "leave acknowledge_mode out",
        ),
    ):
        if wrong:
            raise ConfigurationError(setting, told, f"{remedy}, or leave ordered out")
