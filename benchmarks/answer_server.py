"""A local endpoint that answers every call after a fixed time: the other side of the speed benchmarks.

`python -m benchmarks.answer_server` prints its port and serves `http://127.0.0.1:PORT/LATENCY/v1`, where LATENCY is the
answer time in seconds. Answers are of a usual size and decided by the seed of the request alone, so the same run asks
for the same dialogues however fast it is and whatever its prompts look like. `answer` gives the same texts without a
network. Covers speed only: nothing here is a person, and it never fails (for that: `tests/faulty_server.py`).
"""

from __future__ import annotations

import asyncio
import json
import re

from heartloop.core.tags import tagged

__all__ = ["answer", "completion"]

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_PURPOSES = {  # by a property of the schema asked for; without one, a reply
    "feel": re.compile(rb'"change": ?\{'),
    "speak": re.compile(rb'"matter": ?\{'),
    "react": re.compile(rb'"strain_change": ?\{'),
}
_SEED = re.compile(rb'"seed": ?(\d+)')

REPLIES = (
    "That sounds like a long week, and you carried most of it by yourself.",
    "When you say nobody asked, I hear how much you would have wanted one of them to notice.",
    "I would not call that weak; you were tired, and you still went in the next morning.",
    "What was the moment in all of this that stayed with you when you lay awake?",
    "You could write down the two sentences you would say to her, and look at them again tomorrow.",
    "It makes sense to me that the money is only half of it and the silence is the other half.",
    "Maybe he did not mean to leave you out, but that does not make the evening any less lonely.",
    "If you like, tell me what a good ending would look like for you, even a small one.",
    "You did not cause this, and you do not have to mend it before Friday.",
    "I am glad you told me, and I am not in a hurry.",
)
"""What the policy says, four sentences at a time."""

LINES = (
    "I keep going over it at night, what I should have said to them.",
    "He just put the keys on the table and went, as if it were any other day.",
    "It is not the work, I can do the work. It is how they look past me.",
    "My sister says to let it rest. She was not there.",
    "I suppose. I had not thought of it from that side.",
    "And then the letter came, two lines, not even a name under it.",
    "You know, nobody has asked me that since it happened.",
)
"""What the person says."""

CHANGES = (-4, -2, 0, 1, 2, 3, 3, 4, 5)
"""How the mood moves: it drifts upwards, to no end within ten replies."""

LEAVES_EVERY = 29
"""One answer of EIBench's person in so many ends the talk, so that dialogues differ in length; most reach the turn limit."""


def answer(purpose: str, seed: int) -> str:
    """The text for a `reply`, a SAGE person's `feel` or `speak`, or an EIBench person's `react` with this seed."""
    pick = (seed * 2654435761) >> 7  # neighbouring seeds are to give different texts
    if purpose == "reply":
        return " ".join(REPLIES[(pick + 3 * place) % len(REPLIES)] for place in range(4))
    if purpose == "feel":
        found: dict[str, object] = {
            "meant": "The NPC tries to show that they have understood how tiring this was, and asks for the moment that hurt. "
            "The question meets what I am after; the advice at the end does not.",
            "fit": "It serves it in part: they name the silence and not only the money. It would not suit just anybody, "
            "but they leave out what I said about my sister.",
            "thoughts": "At least they listened. I do not know whether I want to go into that night again, but nobody else "
            "has asked, and it is easier to say to somebody who was not there.",
            "feeling": "A little lighter than before, still careful, and somewhat irritated by the last sentence.",
            "change": CHANGES[pick % len(CHANGES)],
        }
    elif purpose == "react":
        found = {
            "reflection": {
                "need": "That somebody says aloud what happened on that evening. They came near it and then turned to the plan.",
                "quality": "Four sentences, and I could have done with two; the third one was meant for anybody.",
                "inertia": "The question about the morning was new. The rest I have heard before, in other words.",
                "changes": "A little less angry, because they did not defend themselves; hardly any closer.",
                "tone": "Still short, but I no longer mean to leave.",
            },
            "strain_change": -CHANGES[pick % len(CHANGES)],
            "relation_change": CHANGES[(pick // 3) % len(CHANGES)],
            "reply": LINES[pick % len(LINES)],
            "continue": "settled" if pick % LEAVES_EVERY == 0 else "yes",
        }
    else:
        found = {
            "attitude": "Towards the NPC, carefully, because they noticed what the others did not.",
            "aim": "Say one more thing that happened and see what they make of it.",
            "tone": "Dry and short, a little tired, as I talk at the end of a shift.",
            "matter": "The evening on which the letter came and who was in the room when it did.",
            "reply": LINES[pick % len(LINES)],
        }
    return json.dumps(found)


def completion(body: bytes) -> bytes:
    """The answer to a request, as an endpoint writes it."""
    purpose = next((name for name, schema in _PURPOSES.items() if schema.search(body)), "reply")
    seeds = _SEED.findall(body)
    text = tagged(answer(purpose, int(seeds[-1]) if seeds else 0), json.loads(body)["messages"][-1]["content"])
    return json.dumps(
        {
            "id": "chatcmpl-benchmark",
            "object": "chat.completion",
            "created": 1700000000,
            "model": "benchmark",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", "logprobs": None}
            ],
            "usage": {
                "prompt_tokens": len(body) // 4,
                "completion_tokens": len(text) // 4,
                "total_tokens": (len(body) + len(text)) // 4,
            },
        }
    ).encode()


class _Connection(asyncio.Protocol):
    """As much of HTTP/1.1 as a client with one request at a time on a connection needs: little work, so steady answer times."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, ended, body = self._held.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not ended or length is None or len(body) < int(length[1]):
            return
        latency = float(head.split(b"/", 2)[1])
        self._held.clear()
        asyncio.get_running_loop().call_later(latency, self._send, completion(bytes(body)))

    def _send(self, answer: bytes) -> None:
        assert self._transport is not None
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
        self._transport.write(head.encode() + answer)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
