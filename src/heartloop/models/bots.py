"""A bot behind a JSON API of its own as a model under test: `http:bot.yaml`, a file that says how to ask it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote, urlunsplit

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from heartloop.core.chat import Reply, Schema, current_dialogue, estimate_usage
from heartloop.core.dialogue import Message, Sampling, writable
from heartloop.core.errors import BotError, EndpointStopped, InputError, MalformedReply, ModelError, RefusedByServer, UseError
from heartloop.core.system import readable
from heartloop.models.client import CONNECTIONS, RETRIES, SECRET_FIELD, TIMEOUT, Connections, EndpointChat, checked_address
from heartloop.models.formats import Habits, Trouble, read_refusal

_RETRIES = 2  # at most: a bot that holds the dialogue may get a message twice
_LISTS, _TEXTS = ("messages", "dialogue"), ("system", "last_message")
_FORM = "the keys url, body and answer, and optionally headers and session"


class BotFile(BaseModel):
    """How to ask a bot. In `url`, `headers` and `body`, `$NAME` is an environment variable, and `$$` a dollar sign.

    `url` and `body` may name `$dialogue_id` and `$session`; `body` also `$messages` (a list of `role` and `content`), `$dialogue`
    (the same without the system message), `$system` and `$last_message`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    url: str
    headers: dict[str, str] = {}
    body: dict[str, Any]
    answer: str
    """Path of the reply in the response: keys and list indices, such as `choices.0.message.content`."""
    session: str | None = None
    """Path of the session that the server gives a dialogue; `$session` is its latest value, and empty before the first answer."""


class HttpBot(EndpointChat):
    """A bot behind its own API. What its server does is the bot's (`BotError`); the way there, and a 4xx, are not.

    It gets no schema and no sampling settings. `source` is the SHA-256 of the file.
    """

    keeps_dialogues = True

    def __init__(
        self, name: str, *, timeout: float = TIMEOUT, retries: int = RETRIES, connections: int | Connections = CONNECTIONS
    ) -> None:
        path = Path(name.removeprefix("http:"))
        if name.startswith(("http://", "https://")):
            raise UseError(f"model name {name!r}; expected http:bot.yaml, a file with {_FORM}")
        with readable(path, f"a YAML file with {_FORM}"):
            content = path.read_bytes()
            self._file = _read(path, content.decode())
        self.source = hashlib.sha256(content).hexdigest()
        file, ids = self._file, ("dialogue_id",) if self._file.session is None else ("dialogue_id", "session")
        in_headers, in_body = _variables(path, file.headers, ()), _variables(path, file.body, (*_LISTS, *_TEXTS, *ids))
        self._variables = {**_variables(path, file.url, ids), **in_headers, **in_body}
        if not {*_LISTS, "last_message"}.intersection(_names(file.body)):
            raise UseError(f"{path}: body holds no message of the dialogue; name $messages, $dialogue or $last_message in it")
        headers = _filled(file.headers, self._variables)
        if bad := [key for key, value in headers.items() if not f"{key}{value}".isascii() or not f"{key}{value}".isprintable()]:
            raise UseError(f"{path}: header {bad[0]} holds a character that is not printable ASCII; correct it or its variables")
        url = _filled(file.url, {**self._variables, **dict.fromkeys(ids, "0")})
        parts = checked_address(url, f"url in {path}", "a header Authorization")
        super().__init__(
            name, model=name, base_url=urlunsplit(parts._replace(path="")), timeout=timeout, retries=min(retries, _RETRIES),
            connections=connections, headers=headers,
            secrets=[value for name, value in self._variables.items() if name in in_headers or SECRET_FIELD.search(name)],
        )  # fmt: skip
        self._url_variable, self._read_refusal = f"url in {path}", _refusal
        self._sessions: dict[str, str] = {}

    async def listed_models(self, *, within: float) -> dict[str, int | None]:
        return {}

    async def _understood(
        self, messages: Sequence[Message], schema: Schema, sampling: Sampling, habits: Habits, connect: float | None = None
    ) -> tuple[Reply | Trouble, Habits]:
        dialogue_id = current_dialogue()
        plain = [{"role": message.role, "content": message.content} for message in messages]
        values = {
            **self._variables,
            "messages": plain,
            "dialogue": [message for message in plain if message["role"] != "system"],
            "system": "\n\n".join(message["content"] for message in plain if message["role"] == "system"),
            "last_message": plain[-1]["content"],
            "dialogue_id": dialogue_id,
            "session": self._sessions.get(dialogue_id, ""),
        }
        url = _filled(self._file.url, {**values, "session": quote(str(values["session"]), safe="")})
        read = partial(self._read, messages=messages, dialogue_id=dialogue_id)
        return await self._attempt(url, _filled(self._file.body, values), read, self._timeout, connect), habits

    def _read(self, data: bytes, *, messages: Sequence[Message], dialogue_id: str) -> Reply | Trouble:
        response: Any = None
        with contextlib.suppress(ValueError):
            response = from_json(data)
        text = _at(response, self._file.answer)
        if not isinstance(text, str):
            return Trouble(MalformedReply, f"no JSON with a text at {self._file.answer}: {data[:200].decode(errors='replace')}")
        if self._file.session is not None and isinstance(session := _at(response, self._file.session), (str, int)):
            self._sessions[dialogue_id] = str(session)
        text = self._key.scrub(writable(text), shortest=12)
        return Reply(text, usage=estimate_usage(messages, text))

    def error_of(self, trouble: Trouble, tries: int, wanted: str = "answer") -> EndpointStopped | ModelError:
        where, count = f"{self.name} at {self.address}", f"{tries} {'try' if tries == 1 else 'tries'}"
        if trouble.kind is EndpointStopped:
            return EndpointStopped(f"{where} answered {trouble.text}; correct the headers in the file, then rerun", self.name)
        if trouble.kind is RefusedByServer:
            return RefusedByServer(f"{where} answered {trouble.text}; correct url, headers or body in the file")
        if trouble.kind is MalformedReply:
            return BotError(f"{where} returned {trouble.text} in {count}; correct its server, or answer in the file")
        if trouble.kind is BotError or trouble.timed_out:
            return BotError(f"{where} returned no answer in {count}; the last error: {trouble.text}; correct its server")
        return super().error_of(trouble, tries, wanted)


def _refusal(status: int, data: bytes, *, wait: float | None = None) -> Trouble:
    trouble = read_refusal(status, data, wait=wait)
    return Trouble(BotError, trouble.text, status) if status >= 500 else trouble


def _read(path: Path, text: str) -> BotFile:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return BotFile.model_validate(YAML(typ="safe", pure=True).load(text))
    except YAMLError as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}; expected {_FORM}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}{where and f', {where}'}: {first['msg']}; expected {_FORM}") from error


def _texts(template: Any) -> Iterator[str]:
    if isinstance(template, str):
        yield template
    elif isinstance(template, (dict, list)):
        for part in template.values() if isinstance(template, dict) else template:
            yield from _texts(part)


def _names(template: Any) -> list[str]:
    return [name for text in _texts(template) for name in Template(text).get_identifiers()]


def _variables(path: Path, template: Any, known: Sequence[str]) -> dict[str, str]:
    """The environment variables that a template names, apart from the names that are `known`."""
    for text in _texts(template):
        if not Template(text).is_valid():
            raise UseError(f"{path}: {text!r} has a $ without a name; expected $NAME or ${{NAME}}, or $$ for a dollar sign")
        names = Template(text).get_identifiers()
        if any(name in _LISTS for name in names) and text.strip("${}") not in _LISTS:
            raise UseError(
                f"{path}: {text!r} puts a list of messages into a text; expected it alone, such as messages: $messages"
            )
    used = {name: os.environ.get(name, "").strip() for name in _names(template) if name not in known}
    if missing := [name for name, value in used.items() if not value]:
        of_dialogue = f"; of the dialogue it may name {', '.join(known)}" if known else ""
        raise UseError(f"{path} names ${missing[0]}, which is not set; set it in the environment or in .env{of_dialogue}")
    return used


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        return {key: _filled(part, values) for key, part in template.items()}
    if isinstance(template, list):
        return [_filled(part, values) for part in template]
    if not isinstance(template, str):
        return template
    alone = template.strip("${}")
    return values[alone] if alone in _LISTS and alone != template else Template(template).substitute(values)


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError, ValueError):
            return None
    return value
