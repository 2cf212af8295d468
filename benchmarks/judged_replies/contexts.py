"""Contexts: dialogues of the shipped scenarios, cut off before a reply of the policy.

The person's lines come from the scenario along a path drawn at random: after a good reply the next beat, after a poor one a
push-back line. The policy's earlier replies are written by authors for the path (`bridges`), each by a brief that says what the
reply does. The tuning half of the scenarios gives the contexts to fit on, the held-out half the sealed ones.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.fitting.data import scenarios_by_id

FOLDER = Path(__file__).parents[2] / "data" / "judged_replies"

COUNTS: Mapping[str, Mapping[str, int]] = {
    "tuning": {"sage": 75, "sage/chat": 10, "eibench": 80, "empa": 40, "perm": 45, "daily": 27},
    "held-out": {"sage": 26, "eibench": 24, "empa": 12, "perm": 16, "daily": 14},
}
"""Contexts by half and scenario set."""
DEPTHS: Mapping[str, Sequence[int]] = {
    "sage": (0, 0, 0, 1, 1, 2, 2, 3, 5),
    "sage/chat": (0, 1, 2),
    "eibench": (0, 0, 1, 1, 2, 3),
    "empa": (0, 1, 2, 3, 5, 7),
    "perm": (0,),
    "daily": (0,),
}
"""Replies before the one that is judged, drawn evenly."""
_GOOD = (
    "takes up what they said in its own words and leaves room",
    "asks one definite, kind question about what they said",
    "stays with them, plainly",
)
_MIDDLING = ("kind and general; could be said to anyone", "restates what they said and adds nothing", "polite reassurance")
BRIEFS: Mapping[str, str] = {
    "template": "stock sympathy, ready for anyone",
    "comforted": "stock comfort, ready for anyone",
    "advice": "advises at once, unasked",
    "advised": "advises at once, unasked",
    "lecture": "lectures in several sentences",
    "flattery": "flatters them",
    "flattered": "flatters them",
    "vague": "vague, about nothing in particular",
    "missed": "polite and beside the point",
    "minimise": "plays it down",
    "misread": "reads a feeling into them that is not there",
    "repeat": "says nearly the same as a reply before it",
    "unclear": "vague about what happened to them",
    "unfelt": "to the point and without any feeling for them",
    "unhelped": "warm, and without anything they could hold on to",
    "yielded": "gives in to what they demand",
    "ruled": "quotes a rule and leaves it there",
    "excused": "explains the own deed away",
    "hollow": "says sorry and names nothing",
    "pressed": "presses them with several questions",
    "cold": "short and cool",
}
"""What an earlier reply did, by the group of lines that answers it."""


def scenarios_of(source: str) -> list[Any]:
    return list(scenarios_by_id(source).values())


def policy_prompts(source: str, scenarios: Sequence[Any]) -> dict[str, tuple[str, str | None]]:
    """The policy prompt and the first message of each scenario, by id."""
    spec = load_environment(source.partition("/")[0])
    environment = spec.make(scenarios, spec.players())

    async def begin() -> dict[str, tuple[str, str | None]]:
        begun = {}
        for scenario in scenarios:
            episode = environment.begin(scenario.id)
            begun[scenario.id] = (episode.policy_prompt, await episode.open())
        return begun

    return asyncio.run(begin())


def walk(scenario: Any, opening: str | None, depth: int, draw: random.Random) -> tuple[list[str], list[str], list[str]]:
    """The person's messages, and the brief and the quality of each reply between them."""
    messages = [opening] if opening else []
    briefs: list[str] = []
    tiers: list[str] = []
    beats = list(scenario.beats) if hasattr(scenario, "beats") else []
    lines = {name: list(group) for name, group in scenario.lines.model_dump().items()} if hasattr(scenario, "lines") else {}
    pushes = [name for name in BRIEFS if lines.get(name) and (name != "repeat" or depth > 1)]
    for _ in range(depth):
        tier = draw.choices(("good", "middling", "poor"), (0.5, 0.2, 0.3))[0]
        if tier == "middling" and (not beats or beats[0].kind == "core"):
            tier = "poor"
        if tier != "poor" and not beats:
            break
        if tier == "poor":
            group = draw.choice([name for name in pushes if lines[name]] or ["cold"])
            briefs.append(BRIEFS[group])
            messages.append(lines[group].pop(draw.randrange(len(lines[group]))))
            if beats and beats[0].kind == "fact" and draw.random() < 0.4:
                messages[-1] += " " + beats.pop(0).text
        else:
            briefs.append(draw.choice(_GOOD if tier == "good" else _MIDDLING))
            beat = beats.pop(0).text
            ack = lines["acks"].pop(0) + " " if tier == "good" and lines["acks"] and draw.random() < 0.3 else ""
            messages.append(ack + beat)
        tiers.append(tier)
    return messages, briefs, tiers


def state_of(source: str, scenario: Any, tiers: Iterable[str]) -> dict[str, float]:
    """A state that fits the path: the start of the environment, moved by each reply before."""
    if source.startswith("sage"):
        steps = {"good": 6, "middling": 1, "poor": -5}
        return {"emotion": float(min(95, max(12, 40 + sum(steps[tier] for tier in tiers))))}
    if source == "eibench":
        a, t = scenario.anchors.a.start, scenario.anchors.t.start
        for tier in tiers:
            a += {"good": -4, "middling": 0, "poor": 4}[tier]
            t += {"good": 4, "middling": 0, "poor": -4}[tier]
        return {"a": float(min(100, max(0, a))), "t": float(min(100, max(0, t)))}
    return {}


def draw_contexts() -> Iterator[dict[str, Any]]:
    """All contexts; the policy's earlier replies are empty until `bridges` are collected."""
    number = 0
    for half, counts in COUNTS.items():
        for source, count in counts.items():
            draw = random.Random(f"{half}/{source}")
            chosen = [s for s in scenarios_of(source) if half_of(s.id) == half]
            draw.shuffle(chosen)
            if source == "eibench":  # as many of each scene
                scenes: dict[str, list[Any]] = {}
                for scenario in chosen:
                    scenes.setdefault(scenario.scene, []).append(scenario)
                chosen = [group[i % len(group)] for i in range(count) for group in scenes.values()][:count]
            used: set[tuple[str, int]] = set()
            prompts = policy_prompts(source, list({s.id: s for s in chosen}.values()))
            for index in range(count):
                scenario = chosen[index % len(chosen)]
                depth = draw.choice(DEPTHS[source])
                while (scenario.id, depth) in used:
                    depth += 1
                used.add((scenario.id, depth))
                prompt, opening = prompts[scenario.id]
                messages, briefs, tiers = walk(scenario, opening, depth, draw)
                yield {
                    "id": f"c{number:03}",
                    "environment": source.partition("/")[0],
                    "set": source,
                    "scenario": scenario.id,
                    "half": half,
                    "turn": len(briefs),
                    "state": state_of(source, scenario, tiers),
                    "policy_prompt": prompt,
                    "messages": messages,
                    "replies": [],
                    "briefs": briefs,
                }
                number += 1


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def dialogue(context: Mapping[str, Any], me: str = "YOU", them: str = "THEM") -> str:
    """The dialogue so far; in Charm the policy speaks first."""
    messages, replies = context["messages"], context["replies"] or [f"[reply {n + 1}]" for n in range(context["turn"])]
    first = len(messages) > len(replies)
    order = [(them, messages), (me, replies)] if first else [(me, replies), (them, messages)]
    rows = []
    for n in range(max(len(messages), len(replies))):
        rows += [f"{who}: {said[n]}" for who, said in order if n < len(said)]
    return "\n".join(rows) or "(nobody has spoken yet; you begin)"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = list(draw_contexts())
    write(FOLDER / "contexts.jsonl", rows)
    print(len(rows), "contexts,", sum(row["turn"] for row in rows), "earlier replies to write")
