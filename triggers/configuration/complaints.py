"""What is wrong with a configuration, in one line: where it stands, what it is, and what to write."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError

from history.errors import ConfigurationError
from triggers.configuration.model import DefaultKeys, Keys, RedeliveryKeys, RetryKeys, TriggerKeys
from triggers.configuration.nearest import nearest
from triggers.service.options import TriggerOptions

#: What gives a key the name by which its source knows it.
Origin = Callable[..., str]


def complaint(error: ValidationError, origin: Origin, *, in_variables: bool) -> ConfigurationError:
    """Return the first thing that is wrong. Values are not quoted: one may be a password."""
    first = error.errors(include_url=False, include_input=False, include_context=True)[0]
    # A variable has its whole list in one text, so no name for a place in it.
    left_out = (int,) if in_variables else ()
    path = [str(part) for part in first["loc"] if part != "[key]" and not isinstance(part, left_out)]
    where = origin(*path)
    match first["type"]:
        case "extra_forbidden":
            return _unknown(where, path)
        case "value_error":
            problem, _, remedy = str(first.get("ctx", {}).get("error", first["msg"])).partition(": ")
            return ConfigurationError(where, problem, remedy or "correct it")
        case "model_type" | "dict_type" | "model_attributes_type":
            remedy = f"set {where}__KEY" if in_variables else f"write [{'.'.join(path)}] above its keys"
            return ConfigurationError(where, "must be a table", remedy)
        case _:
            return ConfigurationError(where, _lower(first["msg"]), "correct it")


def _unknown(where: str, path: list[str]) -> ConfigurationError:
    *above, name = path
    if above[:1] == ["defaults"] and name in TriggerKeys.model_fields:
        return ConfigurationError(where, "is not a default", f"write {name} in [triggers.NAME]")
    if above and name in TriggerOptions.__annotations__:
        return ConfigurationError(where, "is said in the code only", f"write {name}= in @trigger")
    return ConfigurationError(where, "there is no such key", nearest(name, _table(above).model_fields))


def _table(path: list[str]) -> type[BaseModel]:
    match path:
        case []:
            return Keys
        case ["triggers", _]:
            return TriggerKeys
        case ["defaults"]:
            return DefaultKeys
        case [*_, "redelivery"]:
            return RedeliveryKeys
        case _:
            return RetryKeys


def _lower(text: Any) -> str:
    """Return a sentence of pydantic as the middle of one of ours."""
    return f"{str(text)[:1].lower()}{str(text)[1:]}".replace("input should", "must").replace(
        "string should", "must"
    )
