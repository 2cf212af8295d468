"""A desk: an OpenAI-compatible endpoint whose answers are written by whoever sits at it, a capable reader and not a script.

Each request becomes a file. A reader takes the requests of one seat and writes the answers:

    python -m benchmarks.recorded.desk serve DIR --seats reader=4,free=1       the endpoint, http://127.0.0.1:9001/RUN/v1
    python -m benchmarks.recorded.desk read DIR reader-1 --max 12              print waiting requests, without lines shown before
    python -m benchmarks.recorded.desk answer DIR reader-1 FILE                blocks headed `=== ID`, the answer below, verbatim

All requests of a dialogue go to one seat, and a seat sees no name of a run or policy. The tag that marks an answer as the judge's
own (`heartloop.core.tags`) is taken out of what a reader sees and put into the answer; everything else is as sent. An answer that
does not fit its schema is not sent: the reader is told what is wrong. A model `local/NAME` is answered by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema

from heartloop.core.dialogue import Message, Sampling
from heartloop.core.tags import FIRST, LAST, objects_in, split_tag
from heartloop.models.names import resolve

LOCAL = {"smollm2": "local/smollm2"}
"""Models that answer without a reader, by the name in the request."""
LONGEST = 160  # tokens of their replies: a small model may not end by itself


def _waiting(folder: Path, seat: str) -> list[Path]:
    done = {path.stem for path in (folder / "answers").glob("*.txt")}
    return [path for path in sorted((folder / seat).glob("*.json")) if path.stem not in done]


def serve(folder: Path, port: int, seats: dict[str, int]) -> None:
    from aiohttp import web

    (folder / "answers").mkdir(parents=True, exist_ok=True)
    held: dict[str, str] = {}
    local = {name: resolve(model, max_connections=1) for name, model in LOCAL.items()}
    number = sum(1 for _ in folder.glob("*-*/*.json"))

    def place(run: str, body: dict[str, Any]) -> tuple[str, str]:
        """The seat and a name of the dialogue: its seat if it has one, else the one with the fewest of this environment."""
        role = body["model"] if body["model"] in seats else "reader"
        first = body["messages"][0]["content"]
        if run.startswith(("perm", "daily")) or role != "reader":  # single answers: the person is the same for all judgements
            first += "".join(message["content"] for message in body["messages"][1:2])
        key = f"{run} {role} {hashlib.sha256(first.encode()).hexdigest()}"
        if key not in held:
            load = Counter({f"{role}-{i + 1}": 0 for i in range(seats[role])})
            kind = run.partition("-")[0]
            load.update(seat for other, seat in held.items() if seat in load and other.startswith(kind))
            held[key] = min(load, key=lambda seat: (load[seat], seat))
        return held[key], hashlib.sha256(key.encode()).hexdigest()[:6]

    async def answer(request: web.Request) -> web.Response:
        nonlocal number
        body = await request.json()
        if len(body["messages"]) == 1 and "the word OK" in body["messages"][0]["content"]:  # the probe before a run
            text = "OK"
        elif body["model"] in local:
            settings = {"seed": body.get("seed"), "max_tokens": LONGEST}
            messages = [Message(role=m["role"], content=m["content"]) for m in body["messages"]]
            text = (await local[body["model"]].complete(messages, sampling=Sampling(**settings))).text
        else:
            number += 1
            (seat, dialogue), name = place(request.match_info["run"], body), f"{number:05d}"
            (folder / seat).mkdir(exist_ok=True)
            text = json.dumps({"dialogue": dialogue, **body}, ensure_ascii=False)
            (folder / seat / f"{name}.json").write_text(text, encoding="utf-8")
            path = folder / "answers" / f"{name}.txt"
            while not path.exists():  # noqa: ASYNC110 (another process writes it)
                await asyncio.sleep(0.5)
            text = path.read_text(encoding="utf-8").strip("\n")
        tokens = {"prompt_tokens": sum(len(m["content"]) for m in body["messages"]) // 4, "completion_tokens": len(text) // 4}
        message = {"role": "assistant", "content": text}
        return web.json_response({"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": tokens})

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{run}/v1/chat/completions", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


def read(folder: Path, seat: str, most: int, wait: float) -> None:
    """Waits until `most` requests are there, or some and no more for a while; prints each without the lines shown before."""
    end, count, since = time.monotonic() + wait, -1, time.monotonic()
    while time.monotonic() < end:
        waiting = len(_waiting(folder, seat))
        if waiting != count:
            count, since = waiting, time.monotonic()
        if waiting >= most or (waiting and time.monotonic() - since > 4):
            break
        time.sleep(0.5)
    todo = _waiting(folder, seat)[:most]
    if not todo:
        print("nothing is waiting")
    path = folder / seat / "shown.txt"
    shown = set(path.read_text(encoding="utf-8").split()) if path.exists() else set()
    for file in todo:
        body = json.loads(file.read_text(encoding="utf-8"))
        messages = body["messages"]
        whose = body["dialogue"]
        print(f"\n######## {file.stem}   (dialogue {whose})")
        form = json.dumps(body.get("response_format", {}).get("json_schema", {}).get("schema"), ensure_ascii=False)
        form_id = hashlib.sha256(_untagged_schema(form).encode()).hexdigest()[:10]
        for n, message in enumerate(messages):
            text = split_tag(message["content"])[0] if n == len(messages) - 1 else message["content"]
            print(f"<{message['role']}>")
            _print_new(text.split("\n"), shown, whose)
        if form != "null" and form_id not in shown:
            shown.add(form_id)
            print(f"[form of the answer, JSON schema] {_untagged_schema(form)}")
    path.write_text("\n".join(sorted(shown)), encoding="utf-8")
    print(f"\n{len(_waiting(folder, seat))} waiting in all")


def _untagged_schema(form: str) -> str:
    schema = json.loads(form)
    if schema:
        for name in (FIRST, LAST):
            schema.get("properties", {}).pop(name, None)
        schema["required"] = [name for name in schema.get("required", []) if name not in (FIRST, LAST)]
    return json.dumps(schema, ensure_ascii=False)


def _print_new(lines: list[str], shown: set[str], whose: str) -> None:
    """Prints lines; runs of long lines that were shown in the same dialogue, or of instructions shown in any, become one mark."""
    left_out = 0
    for line in lines:
        key = hashlib.sha256(f"{whose}{line}".encode()).hexdigest()[:10]
        if len(line) > 25 and key in shown:
            left_out += 1
            continue
        if left_out and line.strip():
            print(f"[... {left_out} lines as shown before]")
            left_out = 0
        if line.strip():
            print(line)
        shown.add(key)
    if left_out:
        print(f"[... {left_out} lines as shown before]")


def answer(folder: Path, seat: str, file: Path) -> None:
    blocks: dict[str, list[str]] = {}
    current: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            current = blocks.setdefault(line[4:].strip(), [])
        else:
            current.append(line)
    sent = 0
    for name, lines in blocks.items():
        path = folder / seat / f"{name}.json"
        if not path.exists() or (folder / "answers" / f"{name}.txt").exists():
            print(f"{name}: no such request at this seat, or it is answered")
            continue
        body = json.loads(path.read_text(encoding="utf-8"))
        text = "\n".join(lines).strip("\n")
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if schema is not None:
            objects = list(objects_in(text))
            if len(objects) != 1 or objects[0].fields is None:
                print(f"{name}: not one JSON object; check quotation marks and commas")
                continue
            tag = split_tag(body["messages"][-1]["content"])[1]
            fields = {FIRST: tag, **objects[0].fields, LAST: tag}
            errors = [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(fields)]
            if errors:
                print(f"{name}: {'; '.join(errors)[:400]}")
                continue
            text = json.dumps(fields, ensure_ascii=False)
        if not text:
            print(f"{name}: empty")
            continue
        temporary = folder / "answers" / f"{name}.part"
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.rename(folder / "answers" / f"{name}.txt")
        sent += 1
    print(f"{sent} of {len(blocks)} answered; {len(_waiting(folder, seat))} waiting")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["serve", "read", "answer"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("seat", nargs="?", default="")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--port", type=int, default=9001)
    parser.add_argument("--seats", default="reader=4,free=1,assistant=1", help="seats by role")
    parser.add_argument("--max", type=int, default=12)
    parser.add_argument("--wait", type=float, default=240.0, help="seconds to wait for requests")
    args = parser.parse_args()
    if args.action == "serve":
        serve(args.folder, args.port, {name: int(n) for name, n in (part.split("=") for part in args.seats.split(","))})
    elif args.action == "read":
        read(args.folder, args.seat, args.max, args.wait)
    else:
        answer(args.folder, args.seat, args.file)


if __name__ == "__main__":
    main()
