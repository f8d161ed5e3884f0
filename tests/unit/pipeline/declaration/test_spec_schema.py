"""The JSON Schema that editors are given, and the page that explains the same keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from penstock.pipeline.declaration.choice import MODEL_OF_TAG
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.spec_schema import json_schema

PAGE = Path(__file__).resolve().parents[4] / "docs" / "pipelines.md"
MODELS: list[type[BaseModel]] = [PipelineSpec, *MODEL_OF_TAG.values()]


def keys() -> list[tuple[str, str, Any]]:
    return [
        (model.__name__, field.alias or name, field) for model in MODELS for name, field in model.model_fields.items()
    ]


@pytest.mark.parametrize(("model", "key", "field"), keys(), ids=lambda value: str(value)[:30])
def test_every_key_is_explained(model: str, key: str, field: Any) -> None:
    assert field.description, f"{model}.{key}"
    assert f"`{key}`" in PAGE.read_text(encoding="utf-8"), f"docs/pipelines.md does not explain {key} of {model}"


def test_the_schema_is_plain_json_and_knows_every_key() -> None:
    text = json.dumps(json_schema())
    for model, key, _field in keys():
        assert f'"{key}"' in text, f"{model}.{key}"


def test_the_schema_allows_what_people_write() -> None:
    """Looked up by hand: the places where the model accepts more than one spelling."""
    schema = json_schema()
    topic = schema["$defs"]["TopicSource"]["properties"]["topic"]
    assert {"type": "string"} in topic["anyOf"]
    transform = schema["properties"]["transform"]
    assert {"type": "string"} in transform["anyOf"]
    steps = next(choice for choice in transform["anyOf"] if choice.get("type") == "array")
    assert {"additionalProperties": {"type": "string"}, "type": "object"} in steps["items"]["anyOf"]
    assert schema["additionalProperties"] is False
    assert "declared_schema" not in json.dumps(schema)
