"""Client of OpenAI-compatible endpoints: chat completions and embeddings, with bounded retries.

An API key is sent in the request headers and removed from all other text.
"""

from __future__ import annotations

import asyncio
import base64
import math
import os
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit, urlunsplit

from pydantic_core import to_json  # four times as fast as `json.dumps` on a dialogue's prompt

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, writable
from heartloop.core.errors import MalformedReply, ModelError, RefusedByServer, TransportError, UseError
from heartloop.models.formats import (
    MARKED,
    Embedded,
    Habits,
    Trouble,
    mark_prefix,
    read_embeddings,
    read_model_names,
    read_refusal,
    read_reply,
)  # fmt: skip

if TYPE_CHECKING:
    import aiohttp


def scrub(text: str, secret: str) -> str:
    """The text without the secret: whole, URL-encoded, in base64, or truncated to eight characters or more."""
    if len(secret) < 4:  # a placeholder, which may be part of ordinary words
        return text
    text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
    if len(secret) < 12:
        return text
    for start in (secret[:8], *_in_base64(secret)):
        if start in text:
            text = re.sub(re.escape(start) + r"[^\s\"'<>,;]*", "***", text)
    return text


def _in_base64(secret: str) -> tuple[str, ...]:
    """For each of the three alignments, the first base64 characters that depend on the secret alone; in both alphabets."""
    starts: list[str] = []
    for before in range(3):
        code = base64.b64encode(b"\0" * before + secret.encode())
        start = code[4 if before else 0 :][:10].decode()
        starts += [start, start.replace("+", "-").replace("/", "_")]
    return tuple(dict.fromkeys(starts))


class _Key:
    def __init__(self, value: str, *others: str) -> None:
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {value}"} if value else {})}
        self._secrets = tuple(secret for secret in (value, *others) if secret)
        # a short placeholder such as `EMPTY` may be part of a model's answer
        long = [secret for secret in self._secrets if len(secret) >= 12]
        self._starts = tuple(part for secret in long for part in (secret[:8], quote(secret, safe="")[:8], *_in_base64(secret)))

    def __repr__(self) -> str:
        return "***"

    def scrub(self, text: str) -> str:
        for secret in self._secrets:
            text = scrub(text, secret)
        return text

    def may_occur_in(self, *texts: str | None) -> bool:
        """Whether one of the texts may contain the key; a fast check before `scrub`."""
        return any(start in text for start in self._starts for text in texts if text)


CONNECTIONS = 64
TIMEOUT = 120.0
"""Seconds for one attempt, from connecting to the last byte."""
RETRIES = 6

Answer = TypeVar("Answer", Reply, Embedded, tuple[str, ...])

_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0  # seconds; all pauses add up to over a minute, the window of rate limits
_SHOWN = 240  # characters of a server's message in an error
_LARGEST_BODY = 4 * 2**20  # bytes; 100,000 tokens with every character escaped are 2.4 MB, 32 embeddings of 4,096 numbers 3 MB
_SECRET_FIELD = re.compile(r"(key|token|secret|password|sig|signature)$", re.IGNORECASE)  # of a base URL's query


SERVICES: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "together": "https://api.together.xyz/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
}
"""Addresses of services that need a key; `<SERVICE>_BASE_URL` overrides them."""

LOCAL: Mapping[str, str] = {
    "vllm": "http://127.0.0.1:8000/v1",
    "sglang": "http://127.0.0.1:30000/v1",
    "ollama": "http://127.0.0.1:11434/v1",
}
"""Default addresses of local servers, which need no key."""


def variable(service: str, what: str) -> str:
    return f"{re.sub(r'[-.]', '_', service.upper())}_{what}"


def base_url_of(service: str) -> str | None:
    """The address of a service by its variable or by default; `None` for an unknown one."""
    return os.environ.get(variable(service, "BASE_URL"), "").strip() or SERVICES.get(service) or LOCAL.get(service)


class Connections:
    """One pool of sockets that the models of a run share, and what each model at each address does not support.

    `limit` counts concurrent calls to one address, over all its models; waiting for a slot is not part of a call's timeout.
    """

    def __init__(self, limit: int = CONNECTIONS) -> None:
        if limit < 1:
            raise UseError(f"connections is {limit}; expected at least 1")
        self.limit = limit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._habits: dict[tuple[str, str], Habits] = {}

    def session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            import aiohttp

            self._loop, self._slots = loop, {}
            # limit=0: aiohttp's own limit would count the wait for a socket as part of the timeout
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300), cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    def slots(self, address: str) -> asyncio.Semaphore:
        """The semaphore of one address; call `session` first."""
        return self._slots.setdefault(address, asyncio.Semaphore(self.limit))

    def habits(self, address: str, model: str) -> Habits:
        return self._habits.get((address, model), Habits())

    def remember(self, address: str, model: str, habits: Habits) -> None:
        known = self.habits(address, model)
        self._habits[address, model] = Habits(
            max(known.format, habits.format), known.long_name or habits.long_name, known.refused | habits.refused
        )

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class EndpointChat:
    """A model behind an OpenAI-compatible endpoint, for chat completions or embeddings.

    Safe for hundreds of concurrent calls. Close it, use it as `async with`, or share `connections` and close those.

    Args:
        name: in heartloop, `service/model`; error messages name the variables of the service.
        needs_key: refuse every call if there is no key, unless the address is this machine's.
        connections: maximum concurrent calls, or `Connections` shared with other models.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str,
        base_url: str,
        api_key: str | None = None,
        needs_key: bool = False,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        connections: int | Connections = CONNECTIONS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        service = name.partition("/")[0]
        self._key_variable, self._url_variable = variable(service, "API_KEY"), variable(service, "BASE_URL")
        parts = _address(base_url, self._url_variable, self._key_variable)
        if api_key and not all("!" <= character <= "~" for character in api_key):
            raise UseError(f"{self._key_variable} contains a space or a non-ASCII character; expected an API key: copy it again")
        self.name = name
        self.model = writable(model)
        self._url, self._embeddings_url, self._models_url = (
            urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))
            for path in ("/chat/completions", "/embeddings", "/models")
        )
        self.address = urlunsplit(parts._replace(query="", fragment=""))
        """The base URL without query, key or password."""
        self._proxy = _proxy(parts)
        self._key = _Key(api_key or "", *(value for name, value in parse_qsl(parts.query) if _SECRET_FIELD.search(name)))
        self.lacks_key = needs_key and not api_key and not _is_loopback(parts)
        self._timeout = timeout
        self._retries = retries
        self._owned = isinstance(connections, int)
        self._connections = Connections(connections) if isinstance(connections, int) else connections
        self._sleep = sleep
        self.retried = 0
        self.dropped: Counter[str] = Counter()
        """Calls sent without a setting that the endpoint refused, by setting: `seed`, `response_format`, ..."""

    def __repr__(self) -> str:
        return f"EndpointChat({self.name!r}, base_url={self.address!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owned:
            await self._connections.close()

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """One completion. Raises `TransportError` or `MalformedReply` after the last attempt, `RefusedByServer` at once."""
        sampling = sampling or Sampling()
        habits = self._connections.habits(self.address, self.model)
        tries = 0
        while True:
            outcome, habits = await self._understood(messages, schema, sampling, habits)
            if isinstance(outcome, Reply):
                break
            tries = await self._wait(outcome, tries, "chat completion")
        self.dropped.update(name for name in habits.refused if getattr(sampling, name) is not None)
        if schema is not None and habits.format:
            self.dropped["response_format"] += 1
        return outcome

    async def ask_once(self, messages: Sequence[Message], sampling: Sampling, *, connect: float) -> Reply | Trouble:
        """One attempt without retries, and at most `connect` seconds to connect. It is not counted in `retried` and `dropped`."""
        habits = self._connections.habits(self.address, self.model)
        return (await self._understood(messages, None, sampling, habits, min(connect, self._timeout)))[0]

    async def listed_models(self, *, within: float) -> tuple[str, ...]:
        """The names that the server's `/models` lists; empty where it does not answer so within that many seconds."""
        outcome = await self._attempt(self._models_url, None, read_model_names, min(within, self._timeout))
        return () if isinstance(outcome, Trouble) else tuple(self._key.scrub(name) for name in outcome)

    async def _understood(
        self, messages: Sequence[Message], schema: Mapping[str, Any] | None, sampling: Sampling, habits: Habits,
        connect: float | None = None,
    ) -> tuple[Reply | Trouble, Habits]:  # fmt: skip
        """One attempt, repeated at once without what the server says it does not support; and what is known to be so."""
        if self.lacks_key:
            raise UseError(f"{self.name}: no API key; set {self._key_variable} in the environment or in .env")
        while True:
            body = habits.body(self.model, messages, schema, sampling)
            if self.name.startswith(MARKED):
                mark_prefix(body["messages"])
            outcome = await self._attempt(self._url, body, partial(read_reply, messages=messages), self._timeout, connect)
            if isinstance(outcome, Trouble):
                outcome = self._scrubbed(outcome)
            elif self._key.may_occur_in(outcome.text, outcome.reasoning, outcome.finish_reason):
                text, reasoning, finish = (part and self._key.scrub(part) for part in outcome[:3])
                outcome = outcome._replace(text=text or "", reasoning=reasoning, finish_reason=finish)
            reduced = None if isinstance(outcome, Reply) else habits.without(outcome, body)
            if reduced is None:
                break
            habits = reduced
        if isinstance(outcome, Reply) and habits != Habits():
            self._connections.remember(self.address, self.model, habits)
        return outcome, habits

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """An embedding of every text, by one call of `/embeddings`; all have the same length and none is zero."""
        body = {"model": self.model, "input": list(texts)}
        tries = 0
        while True:
            outcome = await self._attempt(self._embeddings_url, body, partial(read_embeddings, texts=texts), self._timeout)
            if isinstance(outcome, Embedded):
                return outcome
            outcome = self._scrubbed(outcome)  # before anything is raised: a traceback may print it
            tries = await self._wait(outcome, tries, "embedding")

    async def _wait(self, outcome: Trouble, tries: int, wanted: str) -> int:
        """Waits before the next attempt and counts it, or raises where no attempt is left or a retry cannot help."""
        if not outcome.passing or tries >= self._retries:
            # `from None`, outside of any handler: a chained traceback could print the request's headers
            raise self.error_of(outcome, tries + 1, wanted) from None
        self.retried += 1
        await self._sleep(_pause(tries + 1, outcome.wait))
        return tries + 1

    async def _attempt(
        self, url: str, body: Mapping[str, Any] | None, read: Callable[[bytes], Answer | Trouble], total: float,
        connect: float | None = None,
    ) -> Answer | Trouble:  # fmt: skip
        """One POST of `body`, or a GET where it is `None`."""
        import aiohttp

        session = self._connections.session()
        async with self._connections.slots(self.address):
            try:
                async with session.request(
                    "GET" if body is None else "POST",
                    url,
                    data=None if body is None else to_json(body),
                    headers=self._key.headers,
                    timeout=aiohttp.ClientTimeout(total=total, sock_connect=connect),
                    proxy=self._proxy,
                    allow_redirects=False,  # aiohttp would follow with a GET
                ) as response:
                    status, wait, data = response.status, response.headers.get("Retry-After"), await _body(response)
            except aiohttp.ConnectionTimeoutError:
                return Trouble(TransportError, f"no connection within {connect or total:g} s")
            except TimeoutError:
                return Trouble(TransportError, f"no response within {total:g} s")
            except (aiohttp.ClientError, OSError) as error:
                return Trouble(TransportError, f"the connection failed: {_cause(error)}")
        if data is None:
            return Trouble(MalformedReply, f"a body of more than {_LARGEST_BODY // 2**20} MiB", status)
        if 200 <= status < 300:
            return read(data)
        return read_refusal(status, data, wait=_seconds(wait))

    def _scrubbed(self, trouble: Trouble) -> Trouble:
        text = " ".join(writable(self._key.scrub(trouble.text)).split())
        text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
        return trouble._replace(text=text, names=self._key.scrub(trouble.names))

    def error_of(self, trouble: Trouble, tries: int, wanted: str = "chat completion") -> ModelError:
        """What a call that failed for good raises: model, address, cause, and what to do."""
        if trouble.kind is RefusedByServer:
            key, url = self._key_variable, self._url_variable
            advice = {
                401: f"set {key} to a valid key",
                402: f"top up the account behind {key}",
                403: f"check that the key in {key} may use this model",
                404: f"check the model's name and {url}",
                413: "use a model with a longer context, or fewer turns",
                429: f"top up the account behind {key}",
            }.get(trouble.status, "check the model's name, its sampling settings and its --request fields")
            if 300 <= trouble.status < 400:
                advice = f"set {url} to the address it redirects to"
            return RefusedByServer(f"{self.name} at {self.address} answered {trouble.text}; {advice}")
        count = f"{tries} {'try' if tries == 1 else 'tries'}"
        if trouble.kind is MalformedReply:
            return MalformedReply(
                f"{self.name} at {self.address} returned no {wanted} in {count}; the last response was {trouble.text}; "
                f"check that {self._url_variable} is an OpenAI-compatible address (usually ending in /v1)"
            )
        return TransportError(
            f"{self.name} at {self.address} returned no answer in {count}; the last error: {trouble.text}; "
            f"check {self._url_variable} and that the server runs, or lower --max-connections, then retry"
        )


def _cause(error: Exception) -> str:
    """An error of a connection in words. aiohttp's text for one that was refused names TLS settings, also of plain http."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        why = error.os_error
        known = (why.errno or 0) > 0  # the loop's own text for a refused connection is "Connect call failed"
        said = os.strerror(why.errno) if known and why.errno is not None else why.strerror
        return f"cannot connect to {error.host}:{error.port} ({said or str(why) or type(why).__name__})"
    return str(error) or type(error).__name__


async def _body(response: aiohttp.ClientResponse) -> bytes | None:
    """The body; `None` where it exceeds `_LARGEST_BODY`, beyond which nothing is read into memory."""
    if response.content_length is not None and "Content-Encoding" not in response.headers:
        return await response.read() if response.content_length <= _LARGEST_BODY else None
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > _LARGEST_BODY:
            return None
    return bytes(body)


def _address(base_url: str, url_variable: str, key_variable: str) -> SplitResult:
    try:
        parts = urlsplit(base_url.strip())
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        fits = False
    if not fits:
        raise UseError(f"{url_variable} is not an address; expected one such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise UseError(f"{url_variable} contains a user name or a password; set {key_variable} to the key instead")
    return parts


def _proxy(parts: SplitResult) -> str | None:
    """The proxy by HTTP_PROXY, HTTPS_PROXY and NO_PROXY; none for this machine."""
    from urllib.request import getproxies, proxy_bypass

    return None if _is_loopback(parts) or proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _pause(tries: int, wait: float | None) -> float:
    """Seconds before the next attempt: exponential, half of it jitter, and at least the server's Retry-After, up to a minute."""
    step = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (tries - 1))
    pause = random.uniform(step / 2.0, step)
    # spreads the retries of callers with the same Retry-After
    requested = 0.0 if wait is None else wait * random.uniform(1.0, 1.25)
    return min(_LONGEST_PAUSE, max(pause, requested))


def _seconds(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if not math.isnan(seconds) else None
