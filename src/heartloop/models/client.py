"""Client of OpenAI-compatible endpoints: chat completions and embeddings, with bounded retries.

An API key is sent in the request headers and removed from all other text.
"""

from __future__ import annotations

import asyncio
import base64
import io
import math
import os
import random
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

from pydantic_core import to_json  # four times as fast as `json.dumps` on a dialogue's prompt

from heartloop.core.chat import Reply, Schema
from heartloop.core.dialogue import Message, Sampling, Usage, writable
from heartloop.core.errors import (
    EndpointStopped,
    MalformedReply,
    ModelError,
    Moderated,
    PromptCut,
    RefusedByServer,
    TransportError,
    UseError,
)
from heartloop.core.system import packaged_table
from heartloop.core.text import amount
from heartloop.models.formats import (
    MARKED,
    Embedded,
    Habits,
    Trouble,
    mark_prefix,
    read_allowance,
    read_embeddings,
    read_models,
    read_refusal,
    read_reply,
    seconds_of,
)
from heartloop.models.gate import FIRST, FIRST_LOCAL, Gate, Pace

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
    """An API key, and the proxy with its password; neither is in a `repr` nor in any text that was scrubbed."""

    def __init__(self, value: str, *others: str, proxy: str | None = None) -> None:
        self.proxy = proxy
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {value}"} if value else {})}
        self._secrets = tuple(secret for secret in (value, *others) if secret)

    def __repr__(self) -> str:
        return "***"

    def scrub(self, text: str, *, shortest: int = 0) -> str:
        for secret in self._secrets:
            text = scrub(text, secret) if len(secret) >= shortest else text
        return text


CONNECTIONS = 64
TIMEOUT = 300.0
"""Seconds without a byte from the server after which an attempt is abandoned. Most servers send nothing while they generate."""
LONGEST = 600.0
"""Least seconds for a whole attempt: the longest that a provider lets a thinking model take (DeepSeek)."""
RETRIES = 6
"""Further attempts after the first. One that a rate limit refuses does not count; after a time-out there is one more at most."""

Answer = TypeVar("Answer", Reply, Embedded, dict[str, Any])

_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0  # seconds
_SHORT = 6_000  # characters of a prompt that fits into every context
COUNTED = 0.75  # of the tokens that a long prompt has by the ratio of short ones; fewer are a prompt that was cut
_LEARNED, LEAST_RATIO = 5, 1 / 8  # short prompts before their ratio counts; tokens per character before
_SHOWN = 240  # characters of a server's message in an error
_LARGEST_BODY = 4 * 2**20  # bytes; 100,000 tokens with every character escaped are 2.4 MB, 32 embeddings of 4,096 numbers 3 MB
_VERSION = re.compile(r"/v\d")  # in the address of most services
SECRET_FIELD = re.compile(r"(key|token|secret|password|sig|signature)$", re.IGNORECASE)  # of a base URL's query


@cache
def provider_table() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """`services` by name, and `examples` by `service/model`."""
    return packaged_table(__package__, "providers.toml")


_ROWS = provider_table()["services"].items()
SERVICES: Mapping[str, str] = {name: row["address"] for name, row in _ROWS if row["key"] and row["address"]}
"""Addresses of services that need a key; `<SERVICE>_BASE_URL` overrides them."""
LOCAL: Mapping[str, str] = {name: row["address"] for name, row in _ROWS if not row["key"]}
"""Default addresses of local servers, which need no key."""
STRICT = frozenset(name for name, row in _ROWS if row["sent_strict"])


def variable(service: str, what: str) -> str:
    return f"{re.sub(r'[-.]', '_', service.upper())}_{what}"


def base_url_of(service: str) -> str | None:
    """The address of a service by its variable or by default; `None` for an unknown one."""
    return os.environ.get(variable(service, "BASE_URL"), "").strip() or SERVICES.get(service) or LOCAL.get(service)


class Connections(AbstractAsyncContextManager["Connections"]):
    """One pool of sockets that the models of a run share, the gates by address and model, and what each model does not support.

    `limit` counts concurrent calls to one address, over all its models; waiting at the gate is not part of a call's timeout.
    """

    def __init__(self, limit: int = CONNECTIONS, *, factor: float = 1.0) -> None:
        if limit < 1:
            raise UseError(f"connections is {limit}; expected at least 1")
        self.limit = limit
        self.factor = factor
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._gates: defaultdict[str, dict[str, Gate]] = defaultdict(dict)  # by address and model
        self.known: dict[tuple[str, str], Habits] = {}
        """What each model does not support, by address and model."""
        self.ratios: defaultdict[tuple[str, str], deque[float]] = defaultdict(lambda: deque(maxlen=64))
        """Tokens per character of short prompts, by address and model."""

    def session(self) -> aiohttp.ClientSession:
        self._follow_loop()
        if self._session is None or self._session.closed:
            import aiohttp

            # limit=0: aiohttp's own limit would count the wait for a socket as part of the timeout
            connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _follow_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # the events of a gate belong to one loop, what it learned does not
            self._loop, self._session = loop, None
            for gates in self._gates.values():
                gates |= {model: Gate(gate.pace, gate.address, gates.values()) for model, gate in gates.items()}

    def gate(self, address: str, model: str) -> Gate:
        self._follow_loop()
        gates = self._gates[address]
        if model not in gates:
            first = FIRST_LOCAL if is_loopback(address) else FIRST
            shared = next((gate.address for gate in gates.values()), Pace(self.limit, first, self.factor))
            gates[model] = Gate(Pace(self.limit, self.limit, self.factor), shared, gates.values())
        return gates[model]

    def waiting(self) -> str:
        """What rate limits do to the calls now, in words: the longest pause, or else the lowest pace; empty without a limit."""
        hosts = {urlsplit(address).netloc: gates for address, gates in self._gates.items()}
        paces = {f"{model} at {host}": gate.pace for host, gates in hosts.items() for model, gate in gates.items()}
        model = max(paces, key=lambda model: paces[model].held_until, default="")
        if model and (wait := paces[model].held_until - time.monotonic()) >= 1:
            return f"waits {wait:.0f} s for the rate limit of {model}"
        model = min(paces, key=lambda model: paces[model].rate, default="")
        rate = paces[model].rate if model else math.inf
        return f"{60 * rate:,.0f} calls/min by the rate limit of {model}" if rate < math.inf else ""

    def habits(self, address: str, model: str, first: Habits) -> Habits:
        """What is known of a model, or `first` before anything is."""
        return self.known.get((address, model), first)

    def remember(self, address: str, model: str, habits: Habits) -> None:
        known = self.known.get((address, model), habits)
        self.known[address, model] = Habits(
            max(known.format, habits.format), known.long_name or habits.long_name, known.refused | habits.refused
        )

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class EndpointChat(AbstractAsyncContextManager["EndpointChat"]):
    """A model behind an OpenAI-compatible endpoint, for chat completions or embeddings.

    Safe for hundreds of concurrent calls. Close it or use it as `async with`; that closes `connections` too, which open again.

    Args:
        name: in heartloop, `service/model`; error messages name the variables of the service.
        needs_key: refuse every call if there is no key, unless the address is this machine's.
        connections: maximum concurrent calls, or `Connections` shared with other models.
        headers: sent with every request.
        secrets: texts other than the key that are removed from errors.
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
        headers: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        service = name.partition("/")[0]
        self._key_variable, self._url_variable = variable(service, "API_KEY"), variable(service, "BASE_URL")
        parts = checked_address(base_url, self._url_variable, self._key_variable)
        if api_key and not all("!" <= character <= "~" for character in api_key):
            raise UseError(f"{self._key_variable} contains a space or a non-ASCII character; expected an API key: copy it again")
        self.name = name
        self.model = writable(model)
        self._parts = parts
        self._url, self._embeddings_url, self._models_url = map(self._at, ("/chat/completions", "/embeddings", "/models"))
        self.address = urlunsplit(parts._replace(query="", fragment=""))
        """The base URL without query, key or password."""
        proxy = _proxy(parts)
        secrets = [*secrets, *(value for name, value in parse_qsl(parts.query) if SECRET_FIELD.search(name))]
        if proxy is not None and (password := urlsplit(proxy).password):
            secrets += [unquote(password), password]
        self._key = _Key(api_key or "", *secrets, proxy=proxy)
        self._key.headers |= headers or {}
        self.lacks_key = needs_key and not api_key and not is_loopback(base_url)
        self._timeout = timeout
        self.retries = retries
        self._connections = Connections(connections) if isinstance(connections, int) else connections
        self.factor = self._connections.factor
        self._first_habits = Habits(format=0 if service in STRICT else 1)
        self.retried: Counter[str] = Counter()
        """Attempts that were repeated, by cause."""
        self.dropped: Counter[str] = Counter()
        """Calls sent without a setting that the endpoint refused, by setting: `seed`, `response_format`, ..."""
        self.headers: Mapping[str, str] = {}
        """Of the latest response."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "headers": {}}  # those of a response cannot be pickled

    def _at(self, path: str) -> str:
        parts, (path, _, query) = self._parts, path.partition("?")
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path, query="&".join(filter(None, (parts.query, query)))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self.address!r})"

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connections.close()

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        """One completion. Raises `TransportError` or `MalformedReply` after the last attempt, `RefusedByServer` at once, and
        `EndpointStopped` where no further call can succeed now."""
        sampling = sampling or Sampling()
        habits = self._connections.habits(self.address, self.model, self._first_habits)

        async def attempt() -> Reply | Trouble:
            nonlocal habits
            outcome, habits = await self._understood(messages, schema, sampling, habits)
            return outcome

        began = time.monotonic()
        reply, abandoned, retries = await self._tried(attempt)
        self.dropped.update(name for name in habits.refused if getattr(sampling, name) is not None)
        if schema is not None and habits.format > 1:
            self.dropped["response_format"] += 1
        return reply._replace(abandoned=abandoned, seconds=round(time.monotonic() - began, 1), retries=retries)

    async def _tried(
        self, call: Callable[[], Awaitable[Answer | Trouble]], what: str = "chat completion"
    ) -> tuple[Answer, int, int]:
        """The answer, how many attempts before it the server may bill, and how many there were; raises where none is left or a
        retry cannot help."""
        tries, timed_out, abandoned, retries = 1, 0, 0, 0
        while isinstance(outcome := await call(), Trouble):
            abandoned += outcome.abandoned
            timed_out += outcome.timed_out
            left = tries <= self.retries and timed_out < 2
            if not (outcome.again if outcome.limited else outcome.passing and left):
                error = self.error_of(outcome, tries, what)
                if isinstance(error, ModelError):
                    error.abandoned = abandoned
                # `from None`, outside of any handler: a chained traceback could print the request's headers
                raise error from None
            self.retried[outcome.cause] += 1
            retries += 1
            if not outcome.limited:  # else the gate waits
                tries += 1
                await asyncio.sleep(pause_before(tries) * self.factor)
        return outcome, abandoned, retries

    async def ask_once(self, messages: Sequence[Message], sampling: Sampling, *, connect: float) -> Reply | Trouble:
        """One attempt without retries, and at most `connect` seconds to connect. It is not counted in `retried` and `dropped`."""
        habits = self._connections.habits(self.address, self.model, self._first_habits)
        return (await self._understood(messages, None, sampling, habits, min(connect, self._timeout)))[0]

    async def listed_models(self, *, within: float) -> dict[str, int | None]:
        """The names that the server's `/models` lists, with their context in tokens if it does; empty without an answer within
        that many seconds."""
        outcome = await self._attempt(self._models_url, None, read_models, min(within, self._timeout))
        return {} if isinstance(outcome, Trouble) else {self._key.scrub(name): context for name, context in outcome.items()}

    async def send(self, body: dict[str, Any], messages: Sequence[Message], connect: float | None = None) -> Reply | Trouble:
        """One attempt with a request as it is; `messages` are those of its body."""
        if self.lacks_key:
            raise UseError(f"{self.name}: no API key; set {self._key_variable} in the environment or in .env")
        if self.name.startswith(MARKED):
            mark_prefix(body["messages"])
        read = partial(read_reply, messages=messages)
        return self._scrubbed(await self._attempt(self._url, body, read, self._timeout, connect))

    async def _understood(
        self, messages: Sequence[Message], schema: Schema, sampling: Sampling, habits: Habits, connect: float | None = None
    ) -> tuple[Reply | Trouble, Habits]:
        """One attempt, repeated at once without what the server says it does not support; and what is known to be so."""
        while True:
            body = habits.body(self.model, messages, schema, sampling)
            outcome = await self.send(body, messages, connect)
            if isinstance(outcome, Reply) and (cut := self._cut(messages, outcome.usage)):
                outcome = cut
            reduced = None if isinstance(outcome, Reply) else habits.without(outcome, body)
            if reduced is None:
                break
            habits = reduced
        if isinstance(outcome, Reply) and habits != self._first_habits:
            self._connections.remember(self.address, self.model, habits)
        return outcome, habits

    def _cut(self, messages: Sequence[Message], usage: Usage) -> Trouble | None:
        """Trouble if the server counted far fewer tokens than were sent: some cut a long prompt without an error."""
        characters = sum(len(message.content) for message in messages)
        if usage.estimated or not usage.prompt_tokens or not characters:
            return None
        ratios = self._connections.ratios[self.address, self.model]
        if characters <= _SHORT:
            ratios.append(usage.prompt_tokens / characters)
            return None
        least = COUNTED * min(ratios) if len(ratios) >= _LEARNED else LEAST_RATIO
        if usage.prompt_tokens >= least * characters:
            return None
        text = f"a part of the prompt only: it counted {usage.prompt_tokens:,} tokens in {characters:,} characters"
        return Trouble(PromptCut, text, passing=False, abandoned=True)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """An embedding of every text, by one call of `/embeddings`; all have the same length and none is zero."""
        body = {"model": self.model, "input": list(texts)}
        read = partial(read_embeddings, texts=texts)
        return (await self._tried(partial(self._attempt, self._embeddings_url, body, read, self._timeout), "embedding"))[0]

    def _read_refusal(self, status: int, data: bytes, *, wait: float | None = None) -> Trouble:
        return read_refusal(status, data, wait=wait)

    async def _attempt(
        self, url: str, body: Mapping[str, Any] | bytes | None, read: Callable[[bytes], Answer | Trouble], total: float,
        connect: float | None = None, most: int = _LARGEST_BODY,
    ) -> Answer | Trouble:  # fmt: skip
        """One POST of `body`, which is a file for a batch if it is bytes, or a GET where it is `None`, once the gate of the model
        lets it through; a response of more than `most` bytes is no answer."""
        import aiohttp

        session = self._connections.session()
        gate = self._connections.gate(self.address, self.model)
        sent = await gate.acquire()
        if sent is None:
            return Trouble(TransportError, gate.reason, limited=True)
        try:
            async with session.request(
                "GET" if body is None else "POST",
                url,
                data=_form(body) if isinstance(body, bytes) else None if body is None else to_json(body),
                headers={k: v for k, v in self._key.headers.items() if k != "Content-Type" or not isinstance(body, bytes)},
                timeout=aiohttp.ClientTimeout(total=max(LONGEST, total), sock_connect=connect or total, sock_read=total),
                proxy=self._key.proxy,
                allow_redirects=False,  # aiohttp would follow with a GET
            ) as response:
                status, data = response.status, await _body(response, most)
                headers = self.headers = response.headers
        except BaseException as error:
            gate.abandoned(sent, slow=isinstance(error, TimeoutError))
            if not isinstance(error, (aiohttp.ClientError, OSError)):
                vars(error)["abandoned"] = 1  # cancelled: as for a `ModelError`, the server may bill it
                raise
            return self._scrubbed_trouble(_broken(error, total, connect))
        outcome: Answer | Trouble
        if data is None:
            outcome = Trouble(MalformedReply, f"a body of more than {most // 2**20} MiB", status)
        else:
            outcome = read(data) if 200 <= status < 300 else self._read_refusal(status, data, wait=seconds_of(headers))
        if isinstance(outcome, Trouble):
            outcome = self._scrubbed_trouble(outcome)
        usage: Usage = getattr(outcome, "usage", Usage())
        allowance = read_allowance(headers, usage.total)
        if isinstance(outcome, Trouble) and outcome.limited:
            again = await gate.refused(sent, outcome.text, outcome.wait, allowance)
            return outcome._replace(again=again, text=outcome.text if again else gate.reason)
        gate.done(sent, allowance)
        return outcome

    def _scrubbed(self, outcome: Reply | Trouble) -> Reply | Trouble:
        if isinstance(outcome, Trouble):
            return self._scrubbed_trouble(outcome)
        # a short placeholder such as `EMPTY` may be part of an answer
        text, reasoning, finish = (part and self._key.scrub(part, shortest=12) for part in outcome[:3])
        return outcome._replace(text=text or "", reasoning=reasoning, finish_reason=finish)

    def _scrubbed_trouble(self, trouble: Trouble) -> Trouble:
        text = " ".join(writable(self._key.scrub(trouble.text)).split())
        text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
        return trouble._replace(text=text, names=self._key.scrub(trouble.names))

    def error_of(self, trouble: Trouble, tries: int, wanted: str = "chat completion") -> EndpointStopped | ModelError:
        """What a call that failed for good raises: model, address, cause, and what to do."""
        where, key, url = f"{self.name} at {self.address}", self._key_variable, self._url_variable
        if trouble.kind is EndpointStopped:
            todo = f"top up the account behind {key}, or set it to a valid key; rerun the same command to resume"
            return EndpointStopped(f"{where} answered {trouble.text}; {todo}", self.name)
        if trouble.limited and not trouble.again:
            wait = "" if trouble.wait is None else f", to be repeated in {trouble.wait:,.0f} s"
            todo = "rerun the same command later to resume"
            return EndpointStopped(f"{where} refuses every call: {trouble.text}{wait}; {todo}", self.name)
        if trouble.kind is Moderated:
            return Moderated(f"{where} refused the text: {trouble.text}")
        if issubclass(trouble.kind, RefusedByServer):
            advice = {
                403: f"check that the key in {key} may use this model",
                404: f"check the model's name and {url}"
                + ("" if _VERSION.search(self.address) else ", which usually ends in /v1"),
                407: "check the user name and the password in HTTPS_PROXY or HTTP_PROXY",
                413: "use a model with a longer context, or fewer turns",
                200: "raise its context (Ollama: OLLAMA_CONTEXT_LENGTH, vLLM: --max-model-len), then rerun with --retry-failed",
                **dict.fromkeys(range(300, 400), f"set {url} to the address it redirects to"),
            }.get(trouble.status, "check the model's name, its sampling settings and its --request fields")
            return trouble.kind(f"{where} answered {trouble.text}; {advice}")
        count = amount(tries, "try", "tries")
        if trouble.kind is MalformedReply:
            return MalformedReply(
                f"{where} returned no {wanted} in {count}; the last response was {trouble.text}; "
                f"check that {url} is an OpenAI-compatible address (usually ending in /v1)"
            )
        return TransportError(
            f"{where} returned no answer in {count}; the last error: {trouble.text}; "
            f"check {url} and that the server runs, or lower --max-connections, then retry"
        )


def _broken(error: Exception, total: float, connect: float | None) -> Trouble:
    """An attempt that ended without a response."""
    import aiohttp

    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Trouble(TransportError, f"no connection within {connect or total:g} s")
    if isinstance(error, TimeoutError):
        what = f"no byte within {total:g} s, or no end within {max(LONGEST, total):g} s (--timeout)"
        return Trouble(TransportError, what, timed_out=True, abandoned=True)
    if isinstance(error, aiohttp.ClientHttpProxyError) and error.status == 407:
        return Trouble(RefusedByServer, "407 by the proxy", 407, passing=False)
    sent = not isinstance(error, aiohttp.ClientConnectorError)
    return Trouble(TransportError, f"the connection failed: {_cause(error)}", abandoned=sent)


def _cause(error: Exception) -> str:
    """An error of a connection in words. aiohttp's text for one that was refused names TLS settings, also of plain http."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        why = error.os_error
        known = (why.errno or 0) > 0  # the loop's own text for a refused connection is "Connect call failed"
        said = os.strerror(why.errno) if known and why.errno is not None else why.strerror
        return f"cannot connect to {error.host}:{error.port} ({said or str(why) or type(why).__name__})"
    return str(error) or type(error).__name__


def _form(file: bytes) -> aiohttp.FormData:
    import aiohttp

    form = aiohttp.FormData({"purpose": "batch"})
    form.add_field("file", io.BytesIO(file), filename="requests.jsonl", content_type="application/jsonl")
    return form


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """The body; `None` where it exceeds `most`, beyond which nothing is read into memory."""
    try:
        await response.content.readexactly(most + 1)
    except asyncio.IncompleteReadError as whole:
        return whole.partial
    return None


def checked_address(base_url: str, url_variable: str, key_variable: str) -> SplitResult:
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


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in {"localhost", "::1"} or host.startswith("127.")


def _proxy(parts: SplitResult) -> str | None:
    """The proxy by HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; none for this machine."""
    from urllib.request import getproxies, proxy_bypass

    if is_loopback(parts.geturl()) or proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    scheme, separator, _ = proxy.partition("://")
    if separator and scheme not in {"http", "https"}:
        name = f"{parts.scheme.upper()}_PROXY"
        raise UseError(f"the proxy for {parts.hostname} is a {scheme} proxy; expected HTTP: set {name} to http://HOST:PORT")
    return proxy if separator else f"http://{proxy}"


def pause_before(tries: int) -> float:
    """Seconds before an attempt, from the second on: exponential up to a minute, half of it jitter."""
    step = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (tries - 2))
    return random.uniform(step / 2.0, step)
