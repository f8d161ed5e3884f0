"""Which kind of source, sink or step a mapping means, by the key that only this kind has.

A misspelled key counts as the one that it resembles, so that the message is about the typo and not about the kind.
Tags contain spaces: they are in the places that pydantic reports, and a key of a pipeline cannot be mistaken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, Union

from pydantic import BaseModel, Discriminator, Tag

# Every model that is reached by a tag; `spec_errors.py` finds the keys there through it.
MODEL_OF_TAG: Final[dict[str, type[BaseModel]]] = {}


def nearest(word: str, known: Iterable[str]) -> str | None:
    found = get_close_matches(word[:100].lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def choose_by_key(kinds: Mapping[str, tuple[str, type[BaseModel]]]) -> Callable[[Any], str | None]:
    """`kinds`: a key, and the tag and model of the kind that it announces."""
    MODEL_OF_TAG.update(kinds.values())
    tag_of_model = {model: tag for tag, model in kinds.values()}

    def choose(value: Any) -> str | None:
        if isinstance(value, BaseModel):
            return tag_of_model.get(type(value))
        if not isinstance(value, Mapping):
            return None
        keys = [key for key in value if isinstance(key, str)]
        for announcing, (tag, _model) in kinds.items():
            if announcing in keys:
                return tag
        # No such key has a mapping; what has one is rather the name of something.
        resembled = (nearest(key, kinds) for key in keys if not isinstance(value[key], Mapping))
        return next((kinds[key][0] for key in resembled if key is not None), None)

    return choose


def union_by_key(role: str, kinds: Mapping[str, type[BaseModel]], spellings: Sequence[str]) -> Any:
    """The type of a field that holds one of `kinds`, by the keys that announce them.

    `role` is what they are in a pipeline (sink, source); `spellings` are what a message says was expected.
    """
    tags: dict[type[BaseModel], str] = {}
    for key, kind in kinds.items():
        tags.setdefault(kind, f"{role} by {key}")
    choose = choose_by_key({key: (tags[kind], kind) for key, kind in kinds.items()})
    union: Any = Union[tuple(Annotated[kind, Tag(tag)] for kind, tag in tags.items())]  # noqa: UP007 (made at run time)
    expected = f"expected {', '.join(spellings[:-1])} or {spellings[-1]}"
    return Annotated[union, Discriminator(choose, custom_error_type="choice", custom_error_message=expected)]
