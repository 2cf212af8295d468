"""A bot behind a JSON API of its own as a model under test: `http:bot.yaml`, a file that says how to ask it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote, urlunsplit

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json, to_json

from heartloop.core.chat import Reply, Schema, dialogue_id, estimate_usage
from heartloop.core.dialogue import Message, Sampling, writable
from heartloop.core.errors import BotError, EndpointStopped, InputError, MalformedReply, ModelError, RefusedByServer, UseError
from heartloop.core.system import readable
from heartloop.core.text import amount
from heartloop.models.client import CONNECTIONS, RETRIES, SECRET_FIELD, TIMEOUT, Connections, EndpointChat, checked_address
from heartloop.models.formats import Habits, Trouble

_RETRIES = 2  # at most: a bot that holds the dialogue may get a message twice
_LISTS = ("messages", "dialogue")
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
            raise UseError(f"model name {name!r}; expected http:bot.yaml, a file with {_FORM} (docs/your-bot.md)")
        with readable(path, f"a YAML file with {_FORM}"):
            content = path.read_bytes()
            self._file = _read(path, content.decode())
        self.source = hashlib.sha256(content).hexdigest()
        self._sessions: dict[str, str] = {}
        file, ids = self._file, ("dialogue_id",) if self._file.session is None else ("dialogue_id", "session")
        in_headers, in_body = (
            _variables(path, file.headers, ()),
            _variables(path, file.body, (*_LISTS, "system", "last_message", *ids)),
        )
        self._variables = {**_variables(path, file.url, ids), **in_headers, **in_body}
        if not {*_LISTS, "last_message"}.intersection(Template(to_json(file.body).decode()).get_identifiers()):
            raise UseError(f"{path}: body holds no message of the dialogue; name $messages, $dialogue or $last_message in it")
        try:
            url, _ = self._asking([Message(role="user", content="")])
        except ValueError as error:
            raise UseError(f"{path}: body puts a list of messages into a text; give it alone: messages: $messages") from error
        headers = _filled(file.headers, self._variables)
        if bad := [key for key, value in headers.items() if not f"{key}{value}".isascii() or not f"{key}{value}".isprintable()]:
            raise UseError(f"{path}: header {bad[0]} holds a character that is not printable ASCII; correct it or its variables")
        parts = checked_address(url, f"url in {path}", "a header Authorization")
        super().__init__(
            name, model=name, base_url=urlunsplit(parts._replace(path="")), timeout=timeout, retries=min(retries, _RETRIES),
            connections=connections, headers=headers,
            secrets=[value for name, value in self._variables.items() if name in in_headers or SECRET_FIELD.search(name)],
        )  # fmt: skip
        self._url_variable = f"url in {path}"

    async def _understood(
        self, messages: Sequence[Message], schema: Schema, sampling: Sampling, habits: Habits, connect: float | None = None
    ) -> tuple[Reply | Trouble, Habits]:
        url, body = self._asking(messages)
        read = partial(self._read, messages=messages)
        return await self._attempt(url, body, read, self._timeout, connect), habits

    def _asking(self, messages: Sequence[Message]) -> tuple[str, dict[str, Any]]:
        plain = [{"role": message.role, "content": message.content} for message in messages]
        session = self._sessions.get(dialogue_id.get(), "")
        values = {
            **self._variables,
            "messages": plain,
            "dialogue": [message for message in plain if message["role"] != "system"],
            "system": "\n\n".join(message["content"] for message in plain if message["role"] == "system"),
            "last_message": plain[-1]["content"],
            "dialogue_id": dialogue_id.get(),
        }
        url = _filled(self._file.url, {**values, "session": quote(session, safe="")})
        return url, _filled(self._file.body, {**values, "session": session})

    def _read(self, data: bytes, *, messages: Sequence[Message]) -> Reply | Trouble:
        response: Any = None
        with contextlib.suppress(ValueError):
            response = from_json(data)
        text = _at(response, self._file.answer)
        if not isinstance(text, str):
            return Trouble(MalformedReply, f"no JSON with a text at {self._file.answer}: {data[:200].decode(errors='replace')}")
        if self._file.session is not None and isinstance(session := _at(response, self._file.session), (str, int)):
            self._sessions[dialogue_id.get()] = str(session)
        text = self._key.scrub(writable(text), shortest=12)
        return Reply(text, usage=estimate_usage(messages, text))

    def _read_refusal(self, status: int, data: bytes, *, wait: float | None = None) -> Trouble:
        trouble = super()._read_refusal(status, data, wait=wait)
        return Trouble(BotError, trouble.text, status) if status >= 500 else trouble

    def error_of(self, trouble: Trouble, tries: int, wanted: str = "answer") -> EndpointStopped | ModelError:
        where, count = f"{self.name} at {self.address}", amount(tries, "try", "tries")
        if trouble.kind is EndpointStopped:
            return EndpointStopped(f"{where} answered {trouble.text}; correct the headers in the file, then rerun", self.name)
        if trouble.kind is RefusedByServer:
            return RefusedByServer(f"{where} answered {trouble.text}; correct url, headers or body in the file")
        if trouble.kind in (MalformedReply, BotError) or trouble.timed_out:
            todo = "correct its server, or answer in the file"
            return BotError(f"{where} returned no reply in {count}; the last error: {trouble.text}; {todo}")
        return super().error_of(trouble, tries, wanted)


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


def _variables(path: Path, template: Any, known: Sequence[str]) -> dict[str, str]:
    """The environment variables that a template names, apart from the names that are `known`."""
    text = Template(to_json(template).decode())
    if not text.is_valid():
        raise UseError(f"{path}: {text.template} has a $ without a name; expected $NAME or ${{NAME}}, or $$ for a dollar sign")
    used = {name: os.environ.get(name, "").strip() for name in text.get_identifiers() if name not in known}
    if missing := [name for name, value in used.items() if not value]:
        of_dialogue = f"; of the dialogue it may name {', '.join(known)}" if known else ""
        raise UseError(f"{path} names ${missing[0]}, which is not set; set it in the environment or in .env{of_dialogue}")
    return used


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with its names replaced, in its JSON: a list takes the place of the text that is its name alone."""
    text = to_json(template).decode()
    for name in _LISTS:
        text = text.replace(f'"${name}"', f"${name}").replace(f'"${{{name}}}"', f"${name}")
    in_json = {name: to_json(value).decode() for name, value in values.items()}
    return from_json(Template(text).substitute({name: one if name in _LISTS else one[1:-1] for name, one in in_json.items()}))


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError, ValueError):
            return None
    return value
