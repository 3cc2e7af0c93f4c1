"""Triggers with several destinations, and how their messages are joined.

=====================  ===========================================================================
``join="any"``         every message runs the service; the default
``join="all"``         one message of each destination with the same ``activation`` runs it, once
``join="one"``         the first message of an activation runs it, the others are discarded
=====================  ===========================================================================

Source: the join types All (AND), Any (OR) and Only one (XOR) of webMethods JMS triggers. Parts of a join are
kept beside the document history (:mod:`history.store.joining`), so that they outlive every process.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from history.errors import ConfigurationError
from history.store.joining import Hold, Joining
from history.store.owners import owner_token
from resolvers.resolution import asking
from triggers.pipeline.joining import pipeline as joining_pipeline
from triggers.pipeline.joining.composite import Joined, JoinedBinding
from triggers.pipeline.joining.only_one import FirstExecution
from triggers.pipeline.joining.parts import PartCompletion, PartExecution, may_be_kept, settings_of_parts
from triggers.pipeline.joining.time_out import TimeOut
from triggers.pipeline.pipeline import Pipeline
from triggers.service.binding import Binding
from triggers.service.settings import Settings
from triggers.service.terms import check_history

__all__ = ["Joined", "bind", "with_join"]


def bind(service: Callable[..., Any], settings: Settings, local_names: Mapping[str, Any] | None) -> Binding:
    """Read a service's signature.

    Raises:
        ConfigurationError: it cannot be filled from the messages of this trigger.
    """
    if settings.join == "all":
        binding: Binding = JoinedBinding(service, settings.destinations, local_names)
    else:
        binding = Binding(service, local_names, batch=settings.batch > 1)
    if settings.join != "any" and binding.resources:
        raise ConfigurationError(
            "join",
            f"the service takes a {next(iter(binding.resources))}, which only a transacted trigger has, "
            f"and join={settings.join!r} cannot be transacted",
            "do without it, or without join",
        )
    return binding


def with_join(pipeline: Pipeline) -> Pipeline:
    """Return a trigger's pipeline as its join needs it.

    Raises:
        ConfigurationError: there is no history, or one that has no joins.
    """
    match pipeline.settings.join:
        case "any":
            return pipeline
        case "one":
            return replace(pipeline, execution=_first_only(pipeline))
        case "all":
            return _joining(pipeline)


def _joining_of(pipeline: Pipeline) -> Joining:
    store = pipeline.judge.store
    check_history(pipeline.settings.join, store)
    joining: Joining | None = getattr(store, "joining", None)
    if joining is None:
        raise ConfigurationError(
            "history", f"{type(store).__name__} has no joins", "use one of the histories that come along"
        )
    return joining


def _first_only(pipeline: Pipeline) -> FirstExecution:
    execution = pipeline.execution
    return FirstExecution(
        settings=execution.settings,
        binding=execution.binding,
        sleep=execution.sleep,
        blocking=execution.blocking,
        joining=_joining_of(pipeline),
    )


def _joining(pipeline: Pipeline) -> Pipeline:
    joining, settings, execution = _joining_of(pipeline), pipeline.settings, pipeline.execution
    hold = Hold(owner_token(), joining_pipeline.HOLD)
    of_parts = settings_of_parts(settings)
    parts = replace(
        pipeline,
        settings=of_parts,
        execution=PartExecution(
            settings=of_parts,
            binding=execution.binding,
            sleep=execution.sleep,
            blocking=execution.blocking,
            joining=joining,
            hold=hold,
        ),
        judge=replace(pipeline.judge, settings=of_parts, resolver=asking(may_be_kept), leases=None),
        completion=PartCompletion(
            settings=of_parts, store=pipeline.completion.store, sleep=pipeline.completion.sleep
        ),
    )
    # The parts have been measured; together they may be larger than one of them may be.
    whole = replace(settings, max_body_size=sys.maxsize)
    inherited: dict[str, Any] = {one.name: getattr(pipeline, one.name) for one in fields(pipeline)}
    inherited["execution"] = replace(execution, settings=whole)
    inherited["routing"] = None  # its parts have been asked
    return joining_pipeline.JoiningPipeline(
        **inherited,
        parts=parts,
        usual_judge=pipeline.judge,
        joining=joining,
        hold=hold,
        time_out=TimeOut(settings=settings, lot=pipeline.lot, blocking=pipeline.blocking),
    )
