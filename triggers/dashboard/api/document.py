"""The OpenAPI document of the addresses for programs, made from their table."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from triggers.dashboard.api.operation import AS_TEXT, ApiAnswer, ApiOperation, Parameter
from triggers.dashboard.api.schemas import Problem

#: Where the document's schemas are.
_SCHEMAS = "#/components/schemas/{model}"

_ABOUT = """\
The dashboard of doubtless for programs. A request has the header `Authorization: Bearer TOKEN`. The token is
one of the file of `--tokens`. Its role decides what a program sees and may do: each role may do all that the
role before it may (viewer, operator, admin). Its name is in the record of each decision."""


def document_of(operations: Sequence[ApiOperation]) -> dict[str, Any]:
    """Return the OpenAPI document of some operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "doubtless dashboard",
            "version": version("doubtless"),
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(operations),
        },
    }


def _schemas(operations: Sequence[ApiOperation]) -> dict[str, Any]:
    answers: list[type[BaseModel]] = [
        operation.answer.body for operation in operations if operation.answer.body is not None
    ]
    forms: list[type[BaseModel]] = [operation.form for operation in operations if operation.form is not None]
    models: list[tuple[type[BaseModel], Literal["serialization", "validation"]]] = [
        (Problem, "serialization"),
        *((model, "serialization") for model in dict.fromkeys(answers)),
        *((model, "validation") for model in dict.fromkeys(forms)),
    ]
    _, made = models_json_schema(models, ref_template=_SCHEMAS)
    schemas: dict[str, Any] = made["$defs"]
    return schemas


def _operation(operation: ApiOperation) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"{operation.about} Needs the role {operation.role.word}.".strip(),
        "x-role": operation.role.word,
        "responses": {
            str(operation.answer.status): _answer(operation.answer),
            **{str(status): _problem(status, why) for status, why in operation.refusals.items()},
        },
    }
    if operation.parameters:
        entry["parameters"] = [_parameter(parameter) for parameter in operation.parameters]
    if operation.form is not None:
        content = _content(_reference(operation.form), operation.form_example)
        entry["requestBody"] = {"required": True, "content": {"application/x-www-form-urlencoded": content}}
    return entry


def _answer(answer: ApiAnswer) -> dict[str, Any]:
    content: dict[str, Any] = {media_type: {"schema": {"type": "string"}} for media_type in answer.also}
    if answer.body is not None and answer.lines:
        line = _reference(answer.body)
        schema = {"type": "string", "description": "a JSON object in each line", "x-line": line}
        content = {"application/x-ndjson": {"schema": schema}, **content}
    elif answer.body is not None:
        content = {"application/json": _content(_reference(answer.body), answer.example), **content}
    elif not content and answer.location is None:
        content = {"application/json": {"schema": {"type": "object"}}}
    response: dict[str, Any] = {"description": answer.about}
    if content:
        response["content"] = content
    if answer.location is not None:
        location = {"description": answer.location, "schema": {"type": "string"}}
        response["headers"] = {"Location": location}
    return response


def _problem(status: int, why: str) -> dict[str, Any]:
    if status in AS_TEXT:
        return {"description": why, "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {"description": why, "content": {"application/json": {"schema": _reference(Problem)}}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if parameter.values:
        schema["enum"] = list(parameter.values)
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
        "required": parameter.required,
        "schema": schema,
        "example": parameter.example,
    }


def _content(schema: dict[str, str], example: Any) -> dict[str, Any]:
    return {"schema": schema} if example is None else {"schema": schema, "example": dict(example)}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _SCHEMAS.format(model=model.__name__)}
