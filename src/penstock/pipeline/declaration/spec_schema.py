"""The JSON Schema of pipeline files, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

from penstock.pipeline.declaration.spec import PipelineSpec


def json_schema() -> dict[str, Any]:
    schema = PipelineSpec.model_json_schema(by_alias=True, mode="validation")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Penstock pipeline"}
    # pydantic knows them as optional, each for the sake of the other.
    schema["allOf"] = [
        {"oneOf": [{"required": ["source"]}, {"required": ["sources"]}]},
        {"oneOf": [{"required": ["sink"]}, {"required": ["sinks"]}]},
    ]
    return schema
