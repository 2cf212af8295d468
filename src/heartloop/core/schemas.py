"""The JSON schema of an answer, as it is sent to an endpoint.

It is narrower than what the answer class accepts: an endpoint that enforces lengths, ranges and values ends every answer of a
weak model before its token limit; an answer of another endpoint is not refused for a long text. Lengths (ours) are several times
what a prompt asks for, and together within `LONGEST_ANSWER`. Fields have the order of the prompts: thoughts before numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

LONGEST_ANSWER = 3000
"""Most characters of an answer of a user simulator, judge or director, without spaces between the fields: 750 tokens of English,
within `max_tokens=800`. EQ-Bench3's judge has 8,000 tokens by its release; a writer has no limit of its own."""

_QUOTED = "x-quoted"
_UNSENT = ("title", "default", "$defs", _QUOTED)


class Sent:
    """Marks a field's type with keywords of JSON schema that are sent, and not required of an answer.

    >>> from typing import Annotated
    >>> from pydantic import create_model
    >>> Feeling = create_model("Feeling", words=(Annotated[str, Sent(maxLength=200)], ...))
    >>> dict(schema_of(Feeling)["properties"]["words"])
    {'maxLength': 200, 'type': 'string'}
    >>> len(Feeling(words="oh " * 100).words)
    300
    """

    def __init__(self, **keywords: Any) -> None:
        self._keywords = keywords

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), **self._keywords}


QUOTED = Sent(**{_QUOTED: True})
"""Marks a text that must occur word for word in what the model was shown (`schema_of`, `passages`)."""


@lru_cache(maxsize=256)
def schema_of(answer: type[BaseModel], passages: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """The JSON schema that is sent for an answer class, without references: every field is required, no other is allowed.

    `passages` are the possible values of fields that are `QUOTED`. They differ between calls, so they are not sent to providers
    that take seconds to prepare a new schema.
    """
    whole = answer.model_json_schema()
    try:
        sent = _sent(whole, whole.get("$defs", {}), passages)
    except RecursionError:
        raise TypeError(f"{answer.__name__} contains itself; expected a class whose answers have a greatest length") from None
    return MappingProxyType({"title": whole.get("title", answer.__name__), **sent})


def _sent(part: Mapping[str, Any], classes: Mapping[str, Any], passages: Sequence[str]) -> dict[str, Any]:
    if "$ref" in part:
        other = {name: value for name, value in part.items() if name != "$ref"}
        return _sent({**classes[part["$ref"].removeprefix("#/$defs/")], **other}, classes, passages)
    if passages and _QUOTED in part:
        return {"type": "string", "enum": list(passages)}
    sent = {name: value for name, value in part.items() if name not in _UNSENT}
    if "const" in sent:
        sent["enum"] = [sent.pop("const")]
    if "properties" in sent:
        sent["properties"] = {name: _sent(field, classes, passages) for name, field in sent["properties"].items()}
        sent |= {"required": list(sent["properties"]), "additionalProperties": False}
    elif isinstance(sent.get("additionalProperties"), Mapping):
        sent["additionalProperties"] = _sent(sent["additionalProperties"], classes, passages)
    if "items" in sent:
        sent["items"] = _sent(sent["items"], classes, passages)
    if "prefixItems" in sent:  # a tuple; of equal items it is a list, which more servers know
        items = [_sent(item, classes, passages) for item in sent.pop("prefixItems")]
        alike = all(item == items[0] for item in items)
        sent["items" if alike else "prefixItems"] = items[0] if alike else items
    if "anyOf" in sent:
        sent["anyOf"] = [_sent(one, classes, passages) for one in sent["anyOf"]]
    return sent
