"""The OpenAPI document, made from the routes: what is not routed is not in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from penstock.connect.rest.routing import Route

_NAME: Final = re.compile(r"\{(\w+)\}")
_OBJECT: Final = {"application/json": {"schema": {"type": "object"}}}
_ERROR: Final = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


def openapi_document(routes: Sequence[Route]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock Connect", "version": version("penstock")},
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}},
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _NAME.findall(route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in route.query.items()
    ]
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "parameters": parameters,
        "responses": {str(status): _response(status, text) for status, text in route.answers.items()},
    }
    if route.takes_body:
        operation["requestBody"] = {"required": True, "content": _OBJECT}
    return operation


def _operation_id(route: Route) -> str:
    words = [re.sub(r"\W", "_", segment.strip("{}")) for segment in route.segments]
    return "_".join([route.method.lower(), *words])


def _response(status: int, text: str) -> dict[str, Any]:
    if status < 400:
        return {"description": text}
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}
