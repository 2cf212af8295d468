"""How fast does the embedded user play? `python -m benchmarks.embedded_speed`

Every baseline that talks plays with shipped scenarios, one dialogue after the other on one core, without a model, a network or a
file: dialogues a second and milliseconds a turn, the median of several rounds over different scenarios after one to warm up, the
baselines' own time left out. Measures also what labelling a reply costs afterwards where a user simulator model played, and what
scores, labels and report of 1,000 dialogues take: of the embedded user, which labels replies while it plays, and of the same
dialogues as if a model had played the user, in CPU seconds, as nothing waits there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import machine
from benchmarks.page import DOCS, rewrite
from benchmarks.report_opening import make_run
from heartloop.core.chat import Reply
from heartloop.core.dialogue import read_transcripts, write_line
from heartloop.environments.episode import play
from heartloop.environments.sage.embedded_user import EmbeddedUser
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.labels import label
from heartloop.environments.sage.scenario import Scenario, load_scenarios
from heartloop.evaluation.settings import dialogue_seed, stratified
from heartloop.evaluation.store import read_run, write_scores
from heartloop.models.baselines import BASELINES, Baseline
from heartloop.report.labels import LABELS, labelled, talk_of
from heartloop.report.site import write_site

RESULTS = Path(__file__).parent / "results" / "embedded_speed.json"
PAGE = DOCS / "results" / "embedded_speed.md"
REPORTED = 1_000
"""Dialogues of the reports."""
NAMES = tuple(name for name in BASELINES if name != "silent")


class Timed(Baseline):
    """A baseline that adds up the seconds it takes."""

    seconds = 0.0

    async def complete(self, *given: Any, **more: Any) -> Reply:
        started = time.perf_counter()
        reply = await super().complete(*given, **more)
        Timed.seconds += time.perf_counter() - started
        return reply


async def a_round(scenarios: Sequence[Scenario]) -> dict[str, float]:
    """Plays all pairs: seconds without and with the baselines' own, dialogues, turns, and seconds to label the same anew."""
    sage = Sage(scenarios, EmbeddedUser())
    Timed.seconds, started = 0.0, time.perf_counter()
    played = [await play(sage, s.id, Timed(name), seed=dialogue_seed(0, s.id, 0)) for s in scenarios for name in NAMES]
    whole = time.perf_counter() - started
    by_id = {scenario.id: scenario for scenario in scenarios}
    started = time.perf_counter()
    for dialogue in played:
        label(by_id[dialogue.scenario], *talk_of(dialogue))
    labelling = time.perf_counter() - started
    return {
        "wall": whole - Timed.seconds,
        "whole": whole,
        "dialogues": len(played),
        "turns": sum(len(d.turns) for d in played),
        "labelling": labelling,
    }


def as_by_a_model(run: Path, out: Path) -> None:
    """The dialogues of a run as a user simulator model would have left them: without evidence."""
    out.mkdir()
    settings = json.loads((run / "settings.json").read_text()) | {"roles": {"user": "lab/user"}}
    (out / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    with (out / "transcripts.jsonl").open("w", encoding="utf-8") as file:
        for dialogue in read_transcripts(run / "transcripts.jsonl"):
            turns = tuple(turn.model_copy(update={"evidence": {}}) for turn in dialogue.turns)
            file.write(write_line(dialogue.model_copy(update={"user": "lab/user", "turns": turns})))


def reported(run: Path) -> dict[str, float]:
    """CPU seconds from a run directory to its report, whole and in parts; labels that were kept are made anew."""
    (run / LABELS).unlink(missing_ok=True)
    moments = [time.process_time()]
    read = read_run(run)
    write_scores(read)
    moments.append(time.process_time())
    labelled(read)
    moments.append(time.process_time())
    write_site([read], run / "report")
    moments.append(time.process_time())
    scores, labels, report = (after - before for before, after in pairwise(moments))
    return {"scores": scores, "labels": labels, "report": report, "whole": moments[-1] - moments[0]}


def reports(rounds: int) -> dict[str, Any]:
    """Medians of `reported`, and the load of the machine, for each of the two ways to have been played."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {"embedded": Path(folder) / "embedded", "model": Path(folder) / "model"}
        make_run(runs["embedded"], REPORTED)
        as_by_a_model(runs["embedded"], runs["model"])
        measured = {name: [reported(path) for _ in range(rounds + 1)][1:] for name, path in runs.items()}
    medians = {name: {key: round(median(one[key] for one in all_), 1) for key in all_[0]} for name, all_ in measured.items()}
    return {"rounds": rounds, "load": round(os.getloadavg()[0], 1), "played_by": medians}


def main() -> None:
    """Prints and writes the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--people", type=int, default=12, help="a round; 12 are some 80 dialogues")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    where = machine("pydantic")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    people = stratified(load_scenarios("support"), arguments.people * (arguments.rounds + 1))
    groups = [people[number :: arguments.rounds + 1] for number in range(arguments.rounds + 1)]
    rounds = [asyncio.run(a_round(group)) for group in groups][1:]
    found = {
        **where,
        "cores_used": 1,
        "rounds": len(rounds),
        "dialogues": sum(one["dialogues"] for one in rounds),
        "turns": sum(one["turns"] for one in rounds),
        "dialogues_per_s": round(median(one["dialogues"] / one["wall"] for one in rounds), 1),
        "ms_per_turn": round(median(1000 * one["wall"] / one["turns"] for one in rounds), 2),
        "with_baselines_per_s": round(median(one["dialogues"] / one["whole"] for one in rounds), 1),
        "slowest_ms_per_turn": round(max(1000 * one["wall"] / one["turns"] for one in rounds), 2),
        "label_ms_per_reply": round(median(1000 * one["labelling"] / one["turns"] for one in rounds), 2),
        "reported_dialogues": REPORTED,
        "reports_s": reports(arguments.rounds),
    }
    print(json.dumps(found, indent=1))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if arguments.out == RESULTS:
        rewrite(PAGE, "embedded_speed", table(found))


def table(found: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    titles = {"embedded": "the embedded user", "model": "a model, as if"}
    rows = "".join(
        f"| {titles[name]} | {one['scores']} s | {one['labels']} s | {one['report']} s | {one['whole']} s |\n"
        for name, one in found["reports_s"]["played_by"].items()
    )
    return (
        f"One of the {found['machine']}, {found['system']}, Python {found['python']}; "
        f"{found['dialogues']} dialogues, {found['turns']} replies.\n\n"
        "| dialogues / s | with the baselines' own time | a reply and its answer | slowest round | labelling a reply |\n"
        "|---:|---:|---:|---:|---:|\n"
        f"| {found['dialogues_per_s']} | {found['with_baselines_per_s']} | {found['ms_per_turn']} ms | "
        f"{found['slowest_ms_per_turn']} ms | {found['label_ms_per_reply']} ms |\n\n"
        f"| {found['reported_dialogues']:,} dialogues, user played by | read and scored | labelled | report written | whole |\n"
        "|:---|---:|---:|---:|---:|\n"
        f"{rows}\n"
        f"CPU time, median of {found['reports_s']['rounds']} rounds; other work on the machine: a load of "
        f"{found['reports_s']['load']} on its cores, which makes CPU time longer.\n"
    )


if __name__ == "__main__":
    main()
