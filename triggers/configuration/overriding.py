"""Triggers with configured values in place of the values of their decorators."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, Final

from history.errors import ConfigurationError
from triggers.configuration.layers import Configuration, FoundValue
from triggers.configuration.nearest import nearest
from triggers.declaration.trigger import Trigger
from triggers.detection.table import Policy
from triggers.service.failures import Redelivery
from triggers.service.settings import Settings

AnyTrigger = Trigger[..., Any]

#: The meaning of ``redelivery=None``.
AT_ONCE: Final = Redelivery(interval=timedelta(0))

_POLICY: Final = frozenset(field.name for field in fields(Policy))


def override(
    triggers: Iterable[AnyTrigger], configuration: Configuration, *, complete: bool = True
) -> list[AnyTrigger]:
    """Return these triggers, in their order; a trigger that the configuration names gets its settings.

    The decorated functions stay as they are. With ``complete`` these are all triggers of the program. Then a
    table of another one is an error, because it may be a typing error, and its settings would be lost.

    Raises:
        ConfigurationError: such a table exists, or a setting cannot work; it names file and key, or variable.
    """
    overridden = list(triggers)
    if complete:
        _refuse_unclaimed(configuration, [trigger.name for trigger in overridden])
    _refuse_ambiguous(configuration, [trigger.name for trigger in overridden])
    return [_overridden(trigger, said_of(trigger, configuration)) for trigger in overridden]


def settings_of(trigger: AnyTrigger) -> dict[str, Any]:
    """Return the settings of a trigger that can be configured, by the keys of a file."""
    from triggers.configuration.model import RedeliveryKeys, RetryKeys, TriggerKeys  # noqa: PLC0415  (few ask)

    settings = trigger.settings
    values: dict[str, Any] = {"history": trigger.history_source}
    for key in TriggerKeys.model_fields:
        if key == "retry":
            values |= {f"retry.{name}": getattr(settings.retry, name) for name in RetryKeys.model_fields}
        elif key == "redelivery":
            redelivery = settings.redelivery or AT_ONCE
            values |= {
                f"redelivery.{name}": getattr(redelivery, name) for name in RedeliveryKeys.model_fields
            }
        elif key != "history":
            values[key] = getattr(settings.policy if key in _POLICY else settings, key)
    return values


def said_of(trigger: AnyTrigger, configuration: Configuration) -> Mapping[str, FoundValue]:
    """Return the configured values of a trigger, by keys.

    A value for all triggers counts if neither the trigger's table nor its code sets the key.
    """
    defaults = {
        key: default for key, default in configuration.defaults().items() if not _is_said(trigger, key)
    }
    journal = configuration.find("journal")
    can_keep = journal is not None and (trigger.has_history or journal.value is not True)
    if journal is not None and can_keep and not _is_said(trigger, "journal"):
        defaults["journal"] = journal
    return defaults | configuration.of_trigger(trigger.name)


def _is_said(trigger: AnyTrigger, key: str) -> bool:
    """Whether the code sets it: also by ``on_rollback``, which is another word for ``on_retry_failure``."""
    option, _, _ = key.partition(".")
    return option in trigger.said or (option == "on_retry_failure" and "on_rollback" in trigger.said)


def _overridden(trigger: AnyTrigger, values_found: Mapping[str, FoundValue]) -> AnyTrigger:
    if not values_found:
        return trigger
    values = {key: value.value for key, value in values_found.items()}
    history = values.pop("history", None)
    if history is not None and not trigger.has_history:
        raise ConfigurationError(
            values_found["history"].origin,
            f"trigger {trigger.name} has no history, as its code says",
            "leave it out here, or leave history=None out there",
        )
    try:
        return trigger.configured(_changed(trigger.settings, values), history)
    except ConfigurationError as error:
        raise _blamed(error, values_found, trigger.name) from error


def _changed(settings: Settings, values: Mapping[str, Any]) -> Settings:
    retry, pauses = _part("retry", values), _part("redelivery", values)
    redelivery = settings.redelivery
    if pauses:
        redelivery = replace(redelivery or AT_ONCE, **pauses)
    policy = {key: value for key, value in values.items() if key in _POLICY}
    others = {key: value for key, value in values.items() if key not in policy and "." not in key}
    return replace(
        settings,
        **others,
        retry=replace(settings.retry, **retry),
        redelivery=redelivery,
        policy=replace(settings.policy, **policy),
    )


def _part(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in a table of a trigger, by the names in it."""
    return {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{table}.")}


def _blamed(error: ConfigurationError, values: Mapping[str, FoundValue], trigger: str) -> ConfigurationError:
    """Return an error that names the file or variable, and the trigger, not the line of the decorator."""
    about = [value for key, value in values.items() if key.partition(".")[0] == error.setting]
    blamed = about[0] if about else next(iter(values.values()))
    problem = error.problem if about else f"{error.setting} {error.problem}"
    remedy = f'{error.remedy}; or say it in [triggers."{trigger}"]' if blamed.is_default else error.remedy
    return ConfigurationError(blamed.origin, problem, remedy)


def _refuse_unclaimed(configuration: Configuration, names: Sequence[str]) -> None:
    for called, origin, close in configuration.unclaimed(names):
        remedy = nearest(called, close) if close else "leave it out"
        raise ConfigurationError(origin, "there is no such trigger here", remedy)


def _refuse_ambiguous(configuration: Configuration, names: Sequence[str]) -> None:
    """Refuse a variable for two triggers: their names differ only in characters that variables lack."""
    for layer in configuration.layers:
        for called in layer.triggers:
            mine = sorted({name for name in names if layer.called(name) == called})
            if len(mine) > 1:
                origin = layer.origin("triggers", called)
                raise ConfigurationError(origin, f"is of {' and '.join(mine)} alike", "use a file for them")
