"""The tables of benchmarks/results/language-model-training.md, from the results of `language_model_training`.

Covers what is said of what was measured; a part that was not is named, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.language_model_parts import EVALUATIONS, FORMED, NEEDS, READER, SEEDS, START, TRAININGS, WIDELY, homes
from benchmarks.page import PAGES
from heartloop.scoring.statistics import Interval, paired_difference

__all__ = ["PAGE", "PICTURE", "table"]

PAGE = PAGES / "language-model-training.md"
PICTURE = PAGE.with_suffix(".svg")


def table(results: Mapping[str, Any]) -> str:
    """The page's numbers: what was measured, and the names of what was not."""
    parts: Mapping[str, Any] = results["parts"]
    missing = [name for name in NEEDS if name not in parts]
    earlier = [_earlier(attempt) for attempt in results.get("earlier", ())]
    if not parts:
        return "\n\n".join(["With the present weights nothing has been measured yet.", *earlier])
    sections = [
        _training_table(parts),
        _score_table(parts),
        _control_table(parts),
        _replies_table(parts),
        _judges(results.get("judgements"), parts),
        _reading(parts),
        _made_on(parts),
        f"Missing: {', '.join(missing)}." if missing else "",
        *earlier,
    ]
    return "\n\n".join(section for section in sections if section)


def _earlier(attempt: Mapping[str, Any]) -> str:
    """What was measured with other weights of the embedded user; its dialogues stand in the results alone."""
    parts: Mapping[str, Any] = attempt["parts"]
    sections = [_training_table(parts).partition("\n\n![")[0], _score_table(parts), _replies_table(parts), _made_on(parts)]
    deeper = "\n\n".join(section.replace("### ", "#### ") for section in sections if section)
    return f"### Earlier, with the weights {attempt['weights']}\n\n{deeper}"


def _training_table(parts: Mapping[str, Any]) -> str:
    runs = {name: parts[f"train/{name}"]["result"] for name in TRAININGS if f"train/{name}" in parts}
    if not runs:
        return ""
    head = ["run", "recipe", "training score, first three steps", "last three", "held out in training, first", "last", "last KL",
            "entropy, first and last", "tokens a step", "of them replies", "seconds a step", "failed"]  # fmt: skip
    rows = [
        [
            name, f"`{TRAININGS[name].recipe}`" + (", shuffled" if TRAININGS[name].variant else ""),
            _mean(run["training"][:3]), _mean(run["training"][-3:]), f"{run['held_out'][0]['mean']:.2f}",
            f"{run['held_out'][-1]['mean']:.2f}", f"{run['kl'][-1]:.3f}",
            f"{run['entropy'][0]:.2f}, {run['entropy'][-1]:.2f}" if run["entropy"] else "", f"{run['tokens_a_step']:,}",
            f"{run['reply_tokens_a_step']:,}", f"{run['seconds_a_step']:.0f}", str(run["failed"]),
        ]
        for name, run in runs.items()
    ]  # fmt: skip
    drawn = f"\n\n![Training in SAGE]({PICTURE.name})" if any(name.startswith("headline") for name in runs) else ""
    return f"### Training\n\n{_rows(head, rows)}{drawn}"


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.2f}"


def _score_table(parts: Mapping[str, Any]) -> str:
    """Before and after, environment by environment."""
    rows = []
    for where, how in EVALUATIONS.items():
        seeds = []
        for name, training in TRAININGS.items():
            before, after = (_scores(parts, policy, where) for policy in (training.start, name))
            if training.variant is not None or before is None or after is None:
                continue
            rows.append(_compared(how.title, name, [before], [after]))
            seeds += [(before, after)] if name.startswith("headline") else []
        if len(seeds) == len(SEEDS):
            befores, afters = [list(side) for side in zip(*seeds, strict=True)]
            rows.append(_compared(how.title, "**headline, all seeds**", befores, afters))
    head = ["scenarios", "policy", "dialogues", "before", "after", "difference (95 %)", "unscored"]
    return f"### Before and after\n\n{_rows(head, rows)}" if rows else ""


Scores = Mapping[tuple[str, int], float | None]


def _scores(parts: Mapping[str, Any], policy: str, where: str) -> Scores | None:
    part = parts.get(f"play/{policy}/{where}/{READER}")
    return None if part is None else {(scenario, repeat): score for scenario, repeat, score in part["result"]["scores"]}


def _paired(before: Sequence[Scores], after: Sequence[Scores]) -> tuple[list[float], list[float], list[str], int]:
    """Scores of the dialogues that both sides have scored, their scenarios, and the number of the others."""
    a, b, scenarios, lost = [], [], [], 0
    for one, other in zip(before, after, strict=True):
        for key, x in one.items():
            y = other.get(key)
            if x is None or y is None:
                lost += 1
                continue
            a.append(x)
            b.append(y)
            scenarios.append(key[0])
    return a, b, scenarios, lost


def _compared(title: str, policy: str, before: Sequence[Scores], after: Sequence[Scores]) -> list[str]:
    a, b, scenarios, lost = _paired(before, after)
    if not a:
        return [title, policy, "0", "", "", "", str(lost)]
    difference = paired_difference(a, b, clusters=scenarios)
    return [title, policy, str(len(a)), _mean(a), _mean(b), _interval(difference), str(lost)]


def _interval(found: Interval) -> str:
    return f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _control_table(parts: Mapping[str, Any]) -> str:
    """The headline against its controls with shuffled rewards, seed by seed and together."""
    before = _scores(parts, START, "sage")
    pairs = [
        (shuffled, headline)
        for seed in SEEDS
        if (shuffled := _scores(parts, f"shuffled-{seed}", "sage")) is not None
        and (headline := _scores(parts, f"headline-{seed}", "sage")) is not None
    ]
    if before is None or not pairs:
        return ""
    controls, trained = [list(side) for side in zip(*pairs, strict=True)]
    named = f"{len(pairs)} of {len(SEEDS)} seeds"
    rows = [
        _compared("shuffled against the start", named, [before] * len(controls), controls),
        _compared("headline against shuffled", named, controls, trained),
    ]
    head = ["SAGE, held out", "seeds", "dialogues", "first", "second", "difference (95 %)", "unscored"]
    return f"### Against shuffled rewards\n\n{_rows(head, rows)}"


def _replies_table(parts: Mapping[str, Any]) -> str:
    rows = []
    for home in homes():
        for policy in (START, FORMED, *(name for name, training in TRAININGS.items() if training.home == home)):
            if f"play/{policy}/{home}/embedded" not in parts:
                continue
            found = parts[f"play/{policy}/{home}/embedded"]["result"]["counted"]
            far = parts.get(f"replies/{policy}/{home}", {}).get("result")
            rows.append([
                EVALUATIONS[home].title, policy, *([f"{far['kl']:.3f}", f"{far['perplexity']:.1f}",
                f"{far['perplexity under the start']:.1f}"] if far else ["", "", ""]), f"{found['tokens']:.1f}",
                *(f"{found[name]:.0%}" for name in ("empty", "cut", "said before", "said to others")),
                f"{found['distinct-1']:.2f}", f"{found['distinct-2']:.2f}",
            ])  # fmt: skip
    head = ["scenarios", "policy", "KL to the start", "perplexity", "under the start", "tokens a reply", "empty", "cut",
            "said before", "said to others", "distinct-1", "distinct-2"]  # fmt: skip
    return f"### Replies\n\n{_rows(head, rows)}" if rows else ""


def _judges(found: Mapping[str, Any] | None, parts: Mapping[str, Any]) -> str:
    if found is None:
        return ""
    trained = " and ".join(parts["pairs"]["result"]["from"])
    rows = [
        [judge, *(str(counts[name]) for name in ("after", "before", "same")), f"{counts['p']:.3f}", *_care(counts.get("care"))]
        for judge, counts in found["judges"].items()
    ]
    if "both" in found:
        rows.append(["both the same", *(str(found["both"][name]) for name in ("after", "before", "same")), "", "", ""])
    said = f"\n\nThe judges agree on {found['agreement']:.0%} of the pairs." if "agreement" in found else ""
    head = ["judge", "prefers after", "before", "same", "p of the sign test", "mark before (0 to 4)", "mark after"]
    return (
        f"### {found['pairs']} pairs read by blind judges\n\nBefore training and after, {trained}.\n\n{_rows(head, rows)}{said}"
    )


def _care(found: Mapping[str, float] | None) -> list[str]:
    if found is None:
        return ["", ""]
    return [f"{found[when]:.2f}, {found[f'{when}, at least 2']:.0%} at least 2" for when in ("before", "after")]


def _reading(parts: Mapping[str, Any]) -> str:
    """The first held-out dialogue before and after, whatever its score; also of what was trained in that environment itself."""
    said = []
    for where, how in EVALUATIONS.items():
        own = [] if where == TRAININGS[WIDELY].home else [name for name, one in TRAININGS.items() if one.home == where]
        policies = dict.fromkeys((START, WIDELY, *(TRAININGS[name].start for name in own), *own))
        found = {policy: part for policy in policies if (part := parts.get(f"play/{policy}/{where}/embedded")) is not None}
        if not {START, WIDELY} <= found.keys():
            continue
        said.append(f"#### {how.title}")
        for policy, part in found.items():
            dialogue = part["result"]["dialogues"][0]
            lines = [] if dialogue["opening"] is None else [f"- person: {_line(dialogue['opening'])}"]
            for reply, message in dialogue["turns"]:
                lines.append(f"- **policy**: {_line(reply) or '(nothing)'}")
                lines += [f"- person: {_line(message)}"] if message else []
            when = {START: "before", FORMED: f"before, {FORMED}"}.get(policy, f"after, {policy}")
            said.append(f"`{dialogue['scenario']}`, {when}\n\n" + "\n".join(lines))
    return "### Dialogues to read\n\nThe first scenario by name, whatever it scored.\n\n" + "\n\n".join(said) if said else ""


def _line(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;").replace("#", "\\#")


def _made_on(parts: Mapping[str, Any]) -> str:
    machines = sorted({part["machine"]["machine"] for part in parts.values()})
    versions = sorted(
        {f"{name} {part['machine'][name]}" for part in parts.values() for name in part["machine"] if name != "machine"}
    )
    hours = sum(part["seconds"] for part in parts.values()) / 3600
    loads = [part["load"] for part in parts.values()]
    return (
        f"Made on {' and '.join(machines)}; {', '.join(versions)}. {hours:.1f} hours in all, at a load of {min(loads):.1f} to "
        f"{max(loads):.1f} at the end of each part."
    )


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{':---|' * min(3, len(head))}{'---:|' * max(0, len(head) - 3)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
