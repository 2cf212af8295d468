"""The score card of a run: each model's scores, and what could not be measured.

Pure: transcripts and settings in, numbers out. Scores are in points of the environment's scale (`measures`): mean, success and
failure as in SAGE Table 2, groups as in its Table 3 and in EIBench Table 4, tokens per dialogue as in SAGE App. D. Does not cover
the display (`leaderboard`, `heartloop.report`), nor tests between two models (`comparison`).

Three rules. If a dialogue was played twice, the last transcript counts. An unscored dialogue is counted with its cause and enters
no mean. Models are ranked on the dialogues scored for all of them, so that no model gains from an unscored hard scenario. Failure
cases (`heartloop/garbage`) and models with less than half of their dialogues scored are not ranked and do not shrink that set.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heartloop.core.dialogue import Call, Transcript, total_usage
from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.environments.episode import BROKEN_FORMATS
from heartloop.environments.spec import Scale
from heartloop.evaluation.card import Cause, GroupMean, ModelScore, Outcomes, RoleUse, ScoreCard, Standing, TurnLength
from heartloop.evaluation.costs import cost_of
from heartloop.evaluation.groups import Key, group_letter, ranks_of
from heartloop.evaluation.measures import (
    bounds_of,
    group_means,
    group_of,
    heard,
    in_group_order,
    options_of,
    points_of,
    roles_of,
    scale_of,
)
from heartloop.scoring.ranks import Rank
from heartloop.scoring.repeats import repeats_of
from heartloop.scoring.statistics import mean_interval, share_interval

__all__ = [
    "ALLOWED_UNSCORED", "FAILURE_CASES", "common_keys", "latest", "model_names", "pairing_key", "score_card",
]  # fmt: skip

FAILURE_CASES = frozenset({"heartloop/garbage"})
"""Models that demonstrate broken output; they are not ranked."""
ALLOWED_UNSCORED = 0.05
"""Maximum share of unscored dialogues; larger shares are marked in every table."""
_NOTICED_LOSS = 0.05
"""A note is added if the common set is smaller than the best-covered model's own by more than this share."""
_LEAST_SCORED = 0.5
"""Minimum share of scored dialogues of a ranked model."""


def latest(transcripts: Iterable[Transcript]) -> list[Transcript]:
    """The last transcript of each dialogue, in the order of first appearance.

    A dialogue is identified by model, scenario, repeat and seed.
    """
    return list({(transcript.model, *pairing_key(transcript)): transcript for transcript in transcripts}.values())


def pairing_key(dialogue: Transcript) -> Key:
    """Key by which dialogues of two models are paired: scenario, fingerprint of its text, repeat, seed."""
    return (dialogue.scenario, dialogue.fingerprint, dialogue.repeat, dialogue.seed)


def common_keys(dialogues: Iterable[Transcript], models: Iterable[str]) -> set[Key]:
    """The pairing keys that are scored for every one of `models`."""
    scored: dict[str, set[Key]] = {model: set() for model in models}
    for dialogue in dialogues:
        if dialogue.scored and dialogue.model in scored:
            scored[dialogue.model].add(pairing_key(dialogue))
    return set.intersection(*scored.values()) if scored else set()


def score_card(transcripts: Sequence[Transcript], settings: Mapping[str, Any]) -> ScoreCard:
    """The score card of a run's transcripts.

    Args:
        settings: `models`, `scenarios`, `repeats`, `prices` (by model: input and output price per million tokens, as a mapping or
            a pair), `options`, `rescored`, `rejudged` and `heartloop_version` are read where present.

    Raises:
        UseError: several environments, an unknown one, or neither a transcript nor `environment` in `settings`.
    """
    names = list(dict.fromkeys(transcript.environment for transcript in transcripts))
    if len(names) > 1:
        raise UseError(f"got dialogues of {' and '.join(names)}; expected dialogues of one environment")
    environment = names[0] if names else _text(settings.get("environment"))
    if environment is None:
        raise UseError("neither the dialogues nor the settings name an environment; expected `environment` in the settings")
    scale = scale_of(environment)
    bounds = bounds_of(settings, scale)
    dialogues = latest(transcripts)
    by_model: dict[str, list[Transcript]] = {name: [] for name in model_names(settings)}
    for dialogue in dialogues:
        by_model.setdefault(dialogue.model, []).append(dialogue)
    contenders = [
        model
        for model, mine in by_model.items()
        if model not in FAILURE_CASES and _well_scored(sum(d.scored for d in mine), len(mine))
    ]
    common = common_keys(dialogues, contenders)
    ranked = set(contenders) if common else set()
    planned = _planned(settings)
    rows = [
        _model_score(model, mine, common if model in ranked else None, planned, settings, scale)
        for model, mine in by_model.items()
    ]
    finals = {
        model: {pairing_key(d): points for d in by_model[model] if (points := points_of(d)) is not None} for model in contenders
    }
    rows = _ranked(rows, ranks_of(finals, common))
    unscored = sum(row.unscored for row in rows)
    share = unscored / len(dialogues) if dialogues else 0.0
    return ScoreCard(
        heartloop_version=_text(settings.get("heartloop_version")),
        environment=environment,
        grouped_by=scale.group,
        simulators=_distinct((d.user for d in dialogues), *roles_of(settings).values()),
        presets=_distinct((d.preset for d in dialogues), options_of(settings).get("preset")),
        variants=_distinct((d.variant for d in dialogues), options_of(settings).get("variant")),
        success_at=bounds[0],
        failure_below=bounds[1],
        played=len(dialogues),
        scored=sum(row.scored for row in rows),
        unscored=unscored,
        unscored_share=share,
        flagged=share > ALLOWED_UNSCORED,
        replaced=len(transcripts) - len(dialogues),
        common=len(common),
        scenarios=len({d.scenario for d in dialogues if d.scored}),
        notes=(*_source(settings), *_notes(rows, len(common), planned)),
        models=tuple(rows),
    )


def model_names(settings: Mapping[str, Any]) -> list[str]:
    """Names of the models under test in the settings, which hold a list of names or of objects with a name."""
    models = settings.get("models")
    if not isinstance(models, (list, tuple)):
        return []
    names = [entry.get("name") or entry.get("model") if isinstance(entry, dict) else entry for entry in models]
    return [name for name in names if isinstance(name, str)]


def _well_scored(scored: int, played: int) -> bool:
    return scored > 0 and scored >= _LEAST_SCORED * played


def _planned(settings: Mapping[str, Any]) -> int | None:
    scenarios, repeats = settings.get("scenarios"), settings.get("repeats", 1)
    if not isinstance(scenarios, (list, tuple, dict)) or not isinstance(repeats, int):
        return None
    return len(scenarios) * repeats


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _distinct(values: Iterable[str], *fallbacks: object) -> tuple[str, ...]:
    distinct = tuple(sorted(set(values)))
    return distinct or tuple(text for text in map(_text, fallbacks) if text)[:1]


def _model_score(
    model: str, mine: list[Transcript], common: set[Key] | None, planned: int | None, settings: Mapping[str, Any], scale: Scale
) -> ModelScore:
    scored = [d for d in mine if d.scored]
    basis = scored if common is None else [d for d in scored if pairing_key(d) in common]
    unscored = len(mine) - len(scored)
    share = unscored / len(mine) if mine else 0.0
    causes = Counter((d.failure.role, d.failure.kind) if d.failure else ("unknown", "unknown") for d in mine if not d.scored)
    policy_tokens = [d.usage["policy"].completion_tokens for d in scored if "policy" in d.usage]
    return ModelScore(
        model=model,
        standing="failure case" if model in FAILURE_CASES else "unranked" if common is None else "ranked",
        rank=None,
        planned=planned,
        played=len(mine),
        scored=len(scored),
        unscored=unscored,
        unscored_share=share,
        flagged=share > ALLOWED_UNSCORED,
        causes=tuple(Cause(role=role, kind=kind, n=n) for (role, kind), n in causes.most_common()),
        headline=_outcomes(basis, scale, bounds_of(settings, scale)),
        own=_outcomes(scored, scale, bounds_of(settings, scale)),
        median_turns=statistics.median(len(d.turns) for d in scored) if scored else None,
        mean_turns=statistics.fmean(len(d.turns) for d in scored) if scored else None,
        reply_lengths=_reply_lengths(scored),
        silences=sum(turn.silent for d in mine for turn in d.turns),
        truncated=sum(turn.truncated for d in mine for turn in d.turns),
        broken_formats=_broken_formats(mine),
        said_to_others=_said_to_others(scored),
        filtered=sum(call.role == "policy" and call.finish_reason == "content_filter" for d in mine for call in d.calls),
        reasks=sum(d.counts.get("re-asks", 0) for d in mine),
        repaired=sum(_repaired(d) for d in mine),
        clamped=sum(d.counts.get("clamped changes", 0) for d in mine),
        at_limit=sum(d.counts.get("states at their limit", 0) for d in mine),
        lost_farewells=sum(d.counts.get("lost farewells", 0) for d in mine),
        roles={role: _role_use(role, mine) for role in sorted({role for d in mine for role in d.usage})},
        tokens_per_dialogue=statistics.fmean(policy_tokens) if policy_tokens else None,
        cost=cost_of(mine, settings.get("prices")),
        groups=_groups(basis, scale),
        themes=_themes(basis),
        stops=dict(sorted(Counter(d.stop for d in mine).items())),
    )


def _outcomes(dialogues: Sequence[Transcript], scale: Scale, bounds: tuple[float, float]) -> Outcomes:
    scored = [(group_of(d), points) for d in dialogues if (points := points_of(d)) is not None]
    if not scored:
        return Outcomes(n=0)
    sums = scale.sums(scored, *bounds)
    if scale.by_end:
        stops = Counter(d.stop for d in dialogues if d.scored)
        sums = sums._replace(success=stops["success"], failure=stops["failure"])
    scenarios = [d.scenario for d in dialogues if d.scored]
    interval = mean_interval([points for _, points in scored], clusters=scenarios, within=(scale.low, scale.high))
    success, failure = (_share_ends(count, scenarios) for count in (sums.success, sums.failure))
    return Outcomes(
        n=len(scored),
        mean=sums.mean,
        low=_end(interval.low),
        high=_end(interval.high),
        shape=interval.shape,
        success=sums.success,
        failure=sums.failure,
        success_percent=100.0 * sums.success / len(scored),
        success_low=success[0],
        success_high=success[1],
        failure_percent=100.0 * sums.failure / len(scored),
        failure_low=failure[0],
        failure_high=failure[1],
    )


def _share_ends(count: int, scenarios: Sequence[str]) -> tuple[float | None, float | None]:
    """Ends in percent of the interval of a share of dialogues; `None` with one scenario."""
    number = len(set(scenarios))
    if number < 2:
        return None, None
    interval = share_interval(count, len(scenarios), clusters=number)
    return 100.0 * interval.low, 100.0 * interval.high


def _end(value: float) -> float | None:
    """An end of an interval; `None` with one scenario."""
    return None if value != value else value


def _groups(dialogues: Sequence[Transcript], scale: Scale) -> tuple[GroupMean, ...]:
    means = group_means(dialogues)
    groups = []
    for key in in_group_order(scale, filter(None, means)):
        mine = [d for d in dialogues if group_of(d) == key]
        points = [points for d in mine if (points := points_of(d)) is not None]
        low, high = None, None
        if scale.group_intervals and points:
            seen = mean_interval(points, clusters=[d.scenario for d in mine if d.scored], within=(scale.low, scale.high))
            low, high = _end(seen.low), _end(seen.high)
        groups.append(GroupMean(key=key, n=len(points), mean=means[key], low=low, high=high))
    return tuple(groups)


def _reply_lengths(dialogues: Sequence[Transcript]) -> tuple[TurnLength, ...]:
    longest = max((len(d.turns) for d in dialogues), default=0)
    by_turn = [[len(d.turns[turn].reply) for d in dialogues if turn < len(d.turns)] for turn in range(longest)]
    return tuple(TurnLength(n=len(lengths), characters=statistics.fmean(lengths)) for lengths in by_turn)


def _broken_formats(dialogues: Sequence[Transcript]) -> int | None:
    counted = [d.counts[BROKEN_FORMATS] for d in dialogues if BROKEN_FORMATS in d.counts]
    return sum(counted) if counted else None


def _said_to_others(scored: Sequence[Transcript]) -> float | None:
    if len({d.scenario for d in scored}) < 2:
        return None
    return repeats_of((d.scenario, heard(d)) for d in scored).said_to_others


def _repaired(dialogue: Transcript) -> int:
    """Number of questions answered validly only after a re-ask.

    Not counted: a question whose re-ask failed too, so that the dialogue failed or its farewell was lost.
    """
    if not dialogue.calls:
        return 0 if dialogue.failure else dialogue.counts.get("re-asks", 0)

    def question(call: Call) -> tuple[str, str, int]:
        return (call.role, call.purpose, call.turn)

    asked_again = {question(call) for call in dialogue.calls if call.reask}
    instruments = [call for call in dialogue.calls if call.role != "policy"]
    in_vain = dialogue.counts.get("lost farewells", 0) or (dialogue.failure and dialogue.failure.role != "policy")
    return len(asked_again - ({question(instruments[-1])} if in_vain and instruments else set()))


def _role_use(role: str, dialogues: Sequence[Transcript]) -> RoleUse:
    usage = total_usage(d.usage[role] for d in dialogues if role in d.usage)
    return RoleUse(
        calls=sum(call.role == role for d in dialogues for call in d.calls),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        estimated=usage.estimated,
    )


def _themes(dialogues: Sequence[Transcript]) -> tuple[GroupMean, ...]:
    themes: dict[str, list[float]] = {}
    for dialogue in dialogues:
        theme, points = dialogue.facts.get("theme"), points_of(dialogue)
        if theme and points is not None:
            themes.setdefault(theme, []).append(points)
    return tuple(GroupMean(key=key, n=len(themes[key]), mean=statistics.fmean(themes[key])) for key in sorted(themes))


def _ranked(rows: list[ModelScore], ranks: Mapping[str, Rank]) -> list[ModelScore]:
    """Rows in order, with ranks: ranked by mean on the common set, then unranked by own mean, then failure cases."""
    places: dict[Standing, int] = {"ranked": 0, "unranked": 1, "failure case": 2}
    rows = sorted(
        rows, key=lambda row: (places[row.standing], -(row.headline.mean if row.headline.mean is not None else float("-inf")))
    )
    means = [row.headline.mean for row in rows if row.standing == "ranked"]
    placed = []
    for row in rows:
        if row.standing == "ranked":
            update: dict[str, object] = {"rank": means.index(row.headline.mean) + 1}
            if (rank := ranks.get(row.model)) is not None:
                update |= {"group": group_letter(rank.group), "best_rank": rank.best, "worst_rank": rank.worst}
            row = row.model_copy(update=update)
        placed.append(row)
    return placed


def _source(settings: Mapping[str, Any]) -> Iterable[str]:
    rescored = settings.get("rescored")
    if isinstance(rescored, Mapping):
        source = f"{rescored.get('from')} (preset {rescored.get('preset')})"
        yield f"Rescored from the transcripts of {source} without a model call."
    rejudged = settings.get("rejudged")
    if isinstance(rejudged, Mapping):
        source = f"{rejudged.get('from')} (user simulator {rejudged.get('user')})"
        yield f"Rejudged: another judge scored the stored replies of {source}."


def _notes(rows: Sequence[ModelScore], common: int, planned: int | None) -> Iterable[str]:
    contenders = [row for row in rows if row.standing != "failure case"]
    played = sum(row.played for row in rows)
    unscored = sum(row.unscored for row in rows)
    if played and unscored / played > ALLOWED_UNSCORED:
        yield (
            f"{unscored} of {amount(played, 'dialogue')} ({unscored / played:.0%}) {'is' if unscored == 1 else 'are'} unscored "
            f"because a user simulator, judge or connection failed; above {ALLOWED_UNSCORED:.0%} these numbers are not reliable."
        )
    if not any(row.scored for row in rows):
        yield "No dialogue is scored, so no model is ranked." if any(row.played for row in rows) else "No dialogue is finished."
        return
    scored = [row for row in contenders if _well_scored(row.scored, row.played)]
    most = max((row.scored for row in scored), default=0)
    if len(scored) > 1 and not common:
        yield (
            "The models share no scored scenario with the same repeat and seed, so they are not ranked; "
            "each mean is over that model's own dialogues."
        )
    elif most and (most - common) / most > _NOTICED_LOSS:
        fewest = min(scored, key=lambda row: row.scored)
        shared = "one dialogue" if common == 1 else f"{common} dialogues"
        yield (
            f"The ranking uses the {shared} scored for every model; the best-covered model has {most}, "
            f"{fewest.model} only {fewest.scored}."
        )
    for row in contenders:
        if not row.scored:
            yield f"{row.model} has no scored dialogue and is not ranked."
        elif not _well_scored(row.scored, row.played):
            yield (
                f"{row.model} is not ranked: {row.scored} of its {amount(row.played, 'dialogue')} "
                f"{'is' if row.scored == 1 else 'are'} scored, fewer than half. "
                "Its mean is over its own dialogues."
            )
    missing = sum(max(0, planned - row.played) for row in rows) if planned is not None else 0
    if missing:
        total = amount(planned * len(rows) if planned else 0, "dialogue")
        yield f"The run is unfinished: {missing} of {total} {'has' if missing == 1 else 'have'} not been played."
