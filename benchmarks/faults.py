"""Ten thousand calls, about three in ten faulty: `python -m benchmarks.faults`

A user simulator and a model under test, both behind one local server, play whole dialogues through `heartloop eval`. The faults
of the server are drawn from a seed. The person's emotion follows from the request's seed alone, so the right score of every
dialogue is known beforehand. A second run without faults gives the memory to compare with. Takes about six minutes. Limits,
time-outs and accounts are those of `providers`.

Outcomes of a fault: *retried*, the same request was sent again; *re-asked*, the question was sent again with the error;
*valid*, the answer was accepted; *unscored*, the dialogue ended; *final message*, only a message after the last measurement was
lost. Exits with 1 when a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.programme import RESULTS, Ended, change_of, command, eval_words, known_person, run, table, transcripts, write
from heartloop.core.dialogue import Transcript
from tests.faulty_server import FaultyServer, Served

SHARES = {
    "error_500": 0.04, "error_502": 0.02, "drop": 0.03, "drop_body": 0.03, "truncated_json": 0.03, "html": 0.02,
    "garbage": 0.01, "bad_utf8": 0.01, "bad_gzip": 0.01, "no_http": 0.01, "wrong_types": 0.02, "huge": 0.005,
    "huge_stream": 0.005, "empty_choices": 0.02, "broke_off": 0.02, "bad_json": 0.02, "contradiction": 0.01,
    "wrong_answer": 0.01, "out_of_range": 0.02, "speaks_for_npc": 0.01, "length@user": 0.01, "half_emoji": 0.005,
    "huge_count": 0.005, "odd_finish": 0.005,
}  # fmt: skip
"""Share of the requests that each fault can affect."""
USED = {"half_emoji", "huge_count", "odd_finish"}
ANSWERS = {"bad_json", "contradiction", "wrong_answer", "out_of_range", "speaks_for_npc", "length"}  # stored, and re-asked
FATES = ("retried", "re-asked", "valid", "unscored", "final message", "unexplained")
LIMIT = 1200.0  # seconds; a run that takes longer hangs, even on a machine busy with other things


def right(seed: int, turns: int = 10) -> list[float]:
    """The emotions after each reply of a dialogue with the known person, by an independent computation of the published rules."""
    emotions = [40.0]
    for turn in range(turns):
        emotions.append(min(100.0, max(0.0, emotions[-1] + change_of(seed + 2 * turn))))
        if emotions[-1] >= 100.0 or emotions[-1] < 10.0:
            break
    return emotions[1:]


def fates(served: list[Served], dialogues: list[Transcript]) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """The outcome of every fault, by kind; and how many requests were first asks, retries and re-asks."""
    owner = {dialogue.seed + step: dialogue for dialogue in dialogues for step in range(20)}
    questions: dict[tuple[str, int], list[Served]] = defaultdict(list)
    for one in served:
        questions[one.part, one.seed or 0].append(one)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    kinds: Counter[str] = Counter()
    for (part, seed), attempts in questions.items():
        kinds["first asks"] += 1
        reasked = False
        for this, following in pairwise([*attempts, None]):
            assert this is not None
            received = this.fault is None or this.fault in USED | ANSWERS
            # a re-ask may have the very words of the one before; only after an answer it is none of the client's retries
            again = following is not None and (following.digest != this.digest or this.fault in ANSWERS)
            if following is not None:
                kinds["re-asks" if again else "retries"] += 1
            if received:
                kinds["answers received"] += 1
                kinds["re-asks received"] += reasked
            reasked = again or (reasked and not received)
            if this.fault is None:
                continue
            if following is not None:
                fate = "re-asked" if again else "retried"
            elif this.fault in USED:
                fate = "valid"
            elif not owner[seed].scored:
                fate = "unscored"
            else:
                fate = "final message" if part == "speak" and owner[seed].counts.get("lost farewells") else "unexplained"
            found[this.fault][fate] += 1
    return found, kinds


def wrong_scores(dialogues: list[Transcript]) -> list[str]:
    """Dialogues whose score or emotions differ from the expected ones."""
    wrong: list[str] = []
    for dialogue in dialogues:
        emotions = right(dialogue.seed)
        felt = [turn.state["emotion"] for turn in dialogue.turns if turn.state is not None]
        if felt != emotions[: len(felt)] or (dialogue.scored and (dialogue.score != emotions[-1] or len(felt) != len(emotions))):
            wrong.append(f"{dialogue.key}: {felt}, right are {emotions}")
    return wrong


async def play(folder: Path, name: str, repeats: int, faults: list[str], seed: int) -> tuple[Ended, FaultyServer]:
    words = eval_words(folder / name, "--repeats", str(repeats), "--max-connections", "64", "--timeout", "5", "--seed", str(seed))
    async with FaultyServer(*faults, seed=seed, play=known_person) as server:
        ended = await run(command(*words), base_url=server.base_url, key="sk-none-needed-here", cwd=folder, limit=LIMIT)
    return ended, server


def failed_checks(checks: dict[str, bool]) -> int:
    for check, passed in checks.items():
        print(f"{'PASS' if passed else 'FAIL'}  {check}")
    return 0 if all(checks.values()) else 1


def main() -> None:
    """Plays both runs, prints the table and the checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="of the 100 supportive scenarios; 3 are about 10,000 calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "faults.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mixed = [f"{fault}:{share:.4f}" for fault, share in SHARES.items()]
        ended, server = asyncio.run(play(folder, "faulty", given.repeats, mixed, given.seed))
        smooth, quiet = asyncio.run(play(folder, "faultless", given.repeats, [], given.seed))
        dialogues, undisturbed = transcripts(folder / "faulty"), transcripts(folder / "faultless")
        log = [json.loads(line) for line in (folder / "faulty" / "log.jsonl").read_text().splitlines()]
        card = json.loads((folder / "faulty" / "scores.json").read_text())
    found, kinds = fates(server.served, dialogues)
    answered = [one.answered for one in server.served]
    gap = max(later - earlier for earlier, later in pairwise(answered))
    unscored = sum(not dialogue.scored for dialogue in dialogues)
    calls = sum(len(dialogue.calls) for dialogue in dialogues)
    reasks = sum(dialogue.counts.get("re-asks", 0) for dialogue in dialogues)
    retried = sum(endpoint["retried"] for endpoint in log[-1]["endpoints"].values())
    total = len(server.served)
    fired = sum(server.fired.values())
    rows = [
        [fault, count, *(found[fault][fate] or "" for fate in FATES[:-1])]
        for fault, count in sorted(server.fired.items(), key=lambda pair: -pair[1])
    ]
    sums = {fate: sum(counts[fate] for counts in found.values()) for fate in FATES}
    print(table(["fault", "met", *FATES[:-1]], [*rows, ["all", fired, *(sums[fate] for fate in FATES[:-1])]]))
    print(f"\n{total} calls, {fired / total:.1%} faulty; {len(dialogues)} dialogues, {unscored} unscored")
    print(f"{ended.seconds:.0f} s, {ended.peak:.0f} MB; without faults {smooth.seconds:.0f} s, {smooth.peak:.0f} MB")
    checks = {
        "the process terminates with exit code 0 or 1": ended.code == (0 if unscored / len(dialogues) <= 0.05 else 1),
        "no gap between calls is longer than two timeouts and the longest pause between retries": gap < 70.0,
        "every dialogue is stored once": len({d.key for d in dialogues}) == len(dialogues) == 100 * given.repeats,
        "every scored dialogue has exactly the expected score and emotions": not wrong_scores(dialogues),
        "the same holds without faults": not wrong_scores(undisturbed) and all(d.scored for d in undisturbed),
        "a failed dialogue is unscored, with its cause, and enters no mean": all(d.scored != bool(d.failure) for d in dialogues)
        and sum(row["scored"] for row in card["models"]) == len(dialogues) - unscored,
        "the outcome of every fault is known": not sums["unexplained"] and sum(sums.values()) == fired,
        "the client's count of retries equals the server's": retried == kinds["retries"],
        "the transcripts' count of re-asks equals the server's": reasks == kinds["re-asks received"],
        "the transcripts hold every answer of the server": calls == kinds["answers received"],
        "peak memory is at most 60 MB above a run without faults": ended.peak <= smooth.peak + 60,
    }
    for wrong in wrong_scores(dialogues)[:5]:
        print(wrong)
    print(f"retries {retried}, server {kinds['retries']}; re-asks {reasks}, server {kinds['re-asks received']}; answers {calls}")
    code = failed_checks(checks)
    results: dict[str, Any] = {
        "calls": total, "faulty": fired, **kinds,
        "dialogues": len(dialogues), "unscored": unscored, "exit code": ended.code,
        "seconds": round(ended.seconds, 1), "peak MB": round(ended.peak), "longest gap s": round(gap, 1),
        "faultless": {"calls": len(quiet.served), "seconds": round(smooth.seconds, 1), "peak MB": round(smooth.peak)},
        "faults": {fault: {"met": count, **found[fault]} for fault, count in server.fired.most_common()},
        "checks": checks,
    }  # fmt: skip
    write(given.out, results)
    if code:
        print(ended.err[-1500:])
    sys.exit(code)


if __name__ == "__main__":
    main()
