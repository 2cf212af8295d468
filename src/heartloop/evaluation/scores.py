"""The score card of a run: each model's scores, in points of the environment's scale, and what could not be measured.

Mean, success and failure are as in SAGE Table 2, groups as in its Table 3 and in EIBench Table 4, tokens per dialogue as in SAGE
App. D. If a dialogue was played twice, the last transcript counts. An unscored dialogue is counted with its cause and enters no
mean. Models are ranked on the dialogues scored for all of them, so that no model gains from an unscored hard scenario. Failure
cases (`heartloop/garbage`) and models with less than half of their dialogues scored are not ranked and do not shrink that set.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from heartloop.core.chat import EMBEDDED, is_embedded
from heartloop.core.dialogue import Tokens, Transcript, Usage
from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.environments.episode import BROKEN_FORMATS
from heartloop.environments.spec import Scale
from heartloop.evaluation.digests import Dialogue, Digest, digested, scale_of
from heartloop.models.budget import Price, is_paid
from heartloop.scoring.ranks import Rank, ranks
from heartloop.scoring.repeats import said_to_others
from heartloop.scoring.statistics import Shape, mean_interval, share_interval

Standing = Literal["ranked", "unranked", "failure case"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Outcomes(_Frozen):
    """Mean points and counts of success and failure; ends of 95 % intervals are `None` with fewer than two scenarios."""

    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    shape: Shape | None = None
    """How the scenarios' scores are distributed, and so how far the interval can be trusted."""
    success: int = 0
    failure: int = 0
    success_percent: float | None = None
    success_low: float | None = None
    """Ends of Wilson's interval in percent, with scenarios as trials."""
    success_high: float | None = None
    failure_percent: float | None = None
    failure_low: float | None = None
    failure_high: float | None = None


class GroupMean(_Frozen):
    """Mean points of one intention, scene or theme; with an interval if the scale gives intervals by group."""

    key: str
    n: int
    mean: float
    low: float | None = None
    high: float | None = None


class TurnLength(_Frozen):
    n: int
    characters: float


_FAILED = {
    "TransportError": "no answer",
    "RefusedByServer": "the server refused the request",
    "PromptCut": "the server cut the prompt",
    "Moderated": "the provider refused the text",
    "MalformedReply": "no chat completion from the server",
    "ModelError": "an error was raised",
    "AnswerError": "no answer of the form asked for",
    "Copied": "only a copy of what was shown",
}
"""Failures in words, by their kind; those of rescoring are words."""


class Cause(_Frozen):
    role: str
    kind: str
    n: int

    @property
    def words(self) -> str:
        return _FAILED.get(self.kind, self.kind)


class RoleUse(Usage):
    calls: int


class ModelScore(_Frozen):
    model: str
    standing: Standing
    rank: int | None
    group: str | None = None
    """Letter of the rank group: the model is not significantly below the first one of the group (`scoring.ranks`)."""
    best_rank: int | None = None
    worst_rank: int | None = None
    """Ends of the rank interval: all of them together contain the true ranks with a probability of 95 %."""
    planned: int | None
    played: int
    scored: int
    unscored: int
    unscored_share: float
    flagged: bool
    causes: tuple[Cause, ...]
    headline: Outcomes
    """On the common set for a ranked model, on its own scored dialogues otherwise."""
    own: Outcomes
    median_turns: float | None
    mean_turns: float | None
    reply_lengths: tuple[TurnLength, ...]
    silences: int
    failed_replies: int = 0
    """Silences of a bot that failed by itself: it raised, or returned no text."""
    truncated: int
    broken_formats: int | None = None
    """Replies that broke the form that the policy's prompt asks for; `None` where none was counted."""
    said_to_others: float | None = None
    """Share of the scored replies that occur word for word in another scenario too; `None` with fewer than two scenarios."""
    filtered: int
    """Replies stopped by an endpoint's content filter. A refusal in words is not counted."""
    reasks: int
    repaired: int
    clamped: int
    at_limit: int
    lost_farewells: int
    roles: dict[str, RoleUse]
    tokens_per_dialogue: float | None
    """Mean completion tokens of the policy over its scored dialogues."""
    cost: float | None
    """Of all roles, unscored dialogues included; `None` if a paid model has no price. Cached answers cost what they cost at
    first; calls of dialogues that were cut off or played again are not included."""
    groups: tuple[GroupMean, ...]
    themes: tuple[GroupMean, ...]
    stops: dict[str, int]

    @property
    def characters_per_reply(self) -> float | None:
        """Mean length of the visible replies of scored dialogues (EIBench App. E); `None` without one."""
        replies = sum(at.n for at in self.reply_lengths)
        return sum(at.n * at.characters for at in self.reply_lengths) / replies if replies else None


class ScoreCard(_Frozen):
    """The scores of a run: ranked models first, then unranked ones, then failure cases."""

    schema_version: int = 2
    heartloop_version: str | None
    environment: str
    simulators: tuple[str, ...]
    presets: tuple[str, ...]
    variants: tuple[str, ...]
    grouped_by: str
    """The fact that groups scenarios: `intention` (SAGE), `scene` (EIBench)."""
    success_at: float
    failure_below: float
    played: int
    scored: int
    unscored: int
    unscored_share: float
    flagged: bool
    replaced: int
    common: int
    """Scenarios, each with one repeat and seed, scored for all ranked models."""
    scenarios: int | None = None
    notes: tuple[str, ...]
    models: tuple[ModelScore, ...]


def cost_of_usage(usages: Iterable[tuple[str, Usage | Tokens]], prices: object) -> float | None:
    """Cost at prices per million tokens; `None` if a paid model has none. A free model without a price costs 0."""
    total = 0.0
    for model, usage in usages:
        price = Price.read(prices.get(model)) if isinstance(prices, Mapping) else None
        if price is None and is_paid(model):
            return None
        total += 0.0 if price is None else price.of(usage)
    return total


def merged_prices(tables: Iterable[object]) -> dict[str, object]:
    """Prices of several runs in one table; a model that they price differently gets none, so that no cost is wrong."""
    merged: dict[str, object] = {}
    for table in tables:
        for model, price in table.items() if isinstance(table, Mapping) else ():
            merged[model] = price if model not in merged or Price.read(merged[model]) == Price.read(price) else None
    return merged


def points_of(transcript: Transcript) -> float | None:
    return None if transcript.score is None else scale_of(transcript.environment).points * transcript.score


def group_of(dialogue: Dialogue) -> str:
    return dialogue.facts.get(scale_of(dialogue.environment).group, "")


def in_group_order(scale: Scale, keys: Iterable[str]) -> list[str]:
    """Groups in the published order, then other ones by name."""
    known = {key: place for place, key in enumerate(scale.group_order)}
    return sorted(set(keys), key=lambda key: (known.get(key, len(known)), key))


def options_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return options if isinstance(options := settings.get("options"), Mapping) else {}


def roles_of(settings: Mapping[str, Any]) -> Mapping[str, str]:
    return roles if isinstance(roles := settings.get("roles"), Mapping) else {}


def bounds_of(settings: Mapping[str, Any], scale: Scale) -> tuple[float, float]:
    """Bounds of success and failure in points: options `success_at` and `failure_below` of the run, else the scale's."""
    options = options_of(settings)
    success_at, failure_below = (
        float(given) if isinstance(given := options.get(name), (int, float)) and abs(given) < 1e6 else getattr(scale, name)
        for name in ("success_at", "failure_below")
    )
    return success_at, failure_below


Key = tuple[str, str, int, int]  # scenario, fingerprint, repeat, seed


def group_letter(number: int) -> str:
    """1 is A, 26 is Z, 27 is AA."""
    before, letter = divmod(number - 1, 26)
    return (group_letter(before) if before else "") + chr(ord("A") + letter)


IMPORTED = "imported: "  # before the source's name as the scenario set of an imported run
FAILURE_CASES = frozenset({"heartloop/garbage"})
SILENT = "heartloop/silent"
ALLOWED_UNSCORED = 0.05  # maximum share of unscored dialogues; larger shares are marked in every table
ALLOWED_FAILED = 0.5  # maximum share of a model's replies that failed; with more, the command that played it has exit code 1
_NOTICED_LOSS = 0.05  # share of the best-covered model's dialogues outside the common set from which a note is added
_LEAST_SCORED = 0.5  # minimum share of scored dialogues of a ranked model


_Dialogue = TypeVar("_Dialogue", bound=Dialogue)


def latest(dialogues: Iterable[_Dialogue]) -> list[_Dialogue]:
    """The last one of each dialogue (model, scenario, repeat, seed), in the order of first appearance."""
    return list({(dialogue.model, *pairing_key(dialogue)): dialogue for dialogue in dialogues}.values())


def pairing_key(dialogue: Dialogue) -> Key:
    return (dialogue.scenario, dialogue.fingerprint, dialogue.repeat, dialogue.seed)


def common_keys(dialogues: Iterable[Dialogue], models: Iterable[str]) -> set[Key]:
    """The pairing keys that are scored for every one of `models`."""
    scored: dict[str, set[Key]] = {model: set() for model in models}
    for dialogue in dialogues:
        if dialogue.scored and dialogue.model in scored:
            scored[dialogue.model].add(pairing_key(dialogue))
    return set.intersection(*scored.values()) if scored else set()


def score_card(played: Iterable[Dialogue], settings: Mapping[str, Any]) -> ScoreCard:
    """The score card of a run's dialogues; of the settings any may be missing, and a price may be a mapping or a pair."""
    every = digested(played)
    names = list(dict.fromkeys(dialogue.environment for dialogue in every))
    if len(names) > 1:
        raise UseError(f"got dialogues of {' and '.join(names)}; expected dialogues of one environment")
    environment = names[0] if names else _text(settings.get("environment"))
    if environment is None:
        raise UseError("neither the dialogues nor the settings name an environment; expected `environment` in the settings")
    scale = scale_of(environment)
    success_at, failure_below = bounds_of(settings, scale)
    dialogues = latest(every)
    by_model: dict[str, list[Digest]] = {name: [] for name in model_names(settings)}
    for dialogue in dialogues:
        by_model.setdefault(dialogue.model, []).append(dialogue)
    contenders = [
        model
        for model, mine in by_model.items()
        if model not in FAILURE_CASES and _well_scored(sum(d.scored for d in mine), len(mine))
    ]
    common = common_keys(dialogues, contenders)
    planned = _planned(settings)
    rows = [
        _model_score(model, mine, common if common and model in contenders else None, planned, settings, scale)
        for model, mine in by_model.items()
    ]
    found: dict[str, Rank] = {}
    if common:
        keys = sorted(common)
        finals = [{pairing_key(d): d.points for d in by_model[model] if d.scored} for model in contenders]
        of_models = ranks([[mine[key] or 0.0 for key in keys] for mine in finals], clusters=[scenario for scenario, *_ in keys])
        found = dict(zip(contenders, of_models, strict=True))
    rows = _ranked(rows, found)
    unscored = sum(row.unscored for row in rows)
    share = unscored / len(dialogues) if dialogues else 0.0
    return ScoreCard(
        heartloop_version=_text(settings.get("heartloop_version")),
        environment=environment,
        grouped_by=scale.group,
        simulators=_distinct((d.user for d in dialogues), *roles_of(settings).values()),
        presets=_distinct((d.preset for d in dialogues), options_of(settings).get("preset")),
        variants=_distinct((d.variant for d in dialogues), options_of(settings).get("variant")),
        success_at=success_at,
        failure_below=failure_below,
        played=len(dialogues),
        scored=sum(row.scored for row in rows),
        unscored=unscored,
        unscored_share=share,
        flagged=share > ALLOWED_UNSCORED,
        replaced=len(every) - len(dialogues),
        common=len(common),
        scenarios=len({d.scenario for d in dialogues if d.scored}),
        notes=(
            *_source(settings),
            *_notes(rows, len(common)),
            *unfinished("The run", settings, dialogues),
            *_written(rows, settings),
        ),
        models=tuple(rows),
    )


def _planned(settings: Mapping[str, Any]) -> int | None:
    """Planned dialogues of each model; `None` where none were planned or the settings do not say."""
    if str(settings.get("scenario_set")).startswith(IMPORTED):
        return None
    scenarios, repeats = settings.get("scenarios"), settings.get("repeats", 1)
    return len(scenarios) * repeats if isinstance(scenarios, (list, tuple, dict)) and isinstance(repeats, int) else None


def unfinished(name: str, settings: Mapping[str, Any], dialogues: Iterable[Digest]) -> Iterable[str]:
    """The sentence that planned dialogues of a run are missing, if some are; `dialogues` contain each once."""
    if (planned := _planned(settings)) is None:
        return
    played = Counter(dialogue.model for dialogue in dialogues)
    models = {*model_names(settings), *played}
    if missing := sum(max(0, planned - played[model]) for model in models):
        total = amount(planned * len(models), "dialogue")
        yield f"{name} is unfinished: {missing} of {total} {'is' if missing == 1 else 'are'} missing."


def model_names(settings: Mapping[str, Any]) -> list[str]:
    models = settings.get("models")
    return [name for name in models if isinstance(name, str)] if isinstance(models, (list, tuple)) else []


def _well_scored(scored: int, played: int) -> bool:
    return scored > 0 and scored >= _LEAST_SCORED * played


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _distinct(values: Iterable[str], *fallbacks: object) -> tuple[str, ...]:
    distinct = tuple(sorted(set(values)))
    return distinct or tuple(text for text in map(_text, fallbacks) if text)[:1]


def _model_score(
    model: str, mine: list[Digest], common: set[Key] | None, planned: int | None, settings: Mapping[str, Any], scale: Scale
) -> ModelScore:
    scored = [d for d in mine if d.scored]
    basis = scored if common is None else [d for d in scored if pairing_key(d) in common]
    unscored = len(mine) - len(scored)
    share = unscored / len(mine) if mine else 0.0
    causes = Counter((d.failure.role, d.failure.kind) if d.failure else ("unknown", "unknown") for d in mine if not d.scored)
    counts: Counter[str] = Counter()
    for d in mine:
        counts.update(d.counts)
    used = [(d, role, usage) for d in mine for role, usage in d.usage.items()]
    policy_tokens = [usage.completion_tokens for d, role, usage in used if role == "policy" and d.scored]
    several = len({d.scenario for d in scored}) > 1
    turns = [len(d.lengths) for d in scored]
    lengths = [[n for n in one if n is not None] for one in zip_longest(*(d.lengths for d in scored))]
    bounds = bounds_of(settings, scale)
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
        headline=_outcomes(basis, scale, bounds),
        own=_outcomes(scored, scale, bounds),
        median_turns=statistics.median(turns) if scored else None,
        mean_turns=statistics.fmean(turns) if scored else None,
        reply_lengths=tuple(TurnLength(n=len(one), characters=statistics.fmean(one)) for one in lengths),
        silences=sum(d.silences for d in mine),
        failed_replies=sum(d.failed_replies for d in mine),
        truncated=sum(d.truncated for d in mine),
        broken_formats=counts.get(BROKEN_FORMATS),
        said_to_others=said_to_others((d.scenario, d.said) for d in scored) if several else None,
        filtered=sum(d.filtered for d in mine),
        reasks=counts["re-asks"],
        repaired=sum(d.repaired for d in mine),
        clamped=counts["clamped changes"],
        at_limit=counts["states at their limit"],
        lost_farewells=counts["lost farewells"],
        roles={role: _role_use(role, mine, used) for role in sorted({role for _, role, _ in used})},
        tokens_per_dialogue=statistics.fmean(policy_tokens) if policy_tokens else None,
        cost=cost_of_usage(((d.models.get(role, d.model), usage) for d, role, usage in used), settings.get("prices")),
        groups=_groups(basis, scale),
        themes=_themes(basis),
        stops=dict(sorted(Counter(d.stop for d in mine).items())),
    )


def _outcomes(dialogues: Sequence[Digest], scale: Scale, bounds: tuple[float, float]) -> Outcomes:
    scored = [(group_of(d), d.points) for d in dialogues if d.points is not None]
    if not scored:
        return Outcomes(n=0)
    sums = scale.sums(scored, *bounds)
    if scale.by_end:
        stops = Counter(d.stop for d in dialogues if d.scored)
        sums = sums._replace(success=stops["success"], failure=stops["failure"])
    scenarios = [d.scenario for d in dialogues if d.scored]
    interval = mean_interval([points for _, points in scored], clusters=scenarios, within=(scale.low, scale.high))
    return Outcomes(
        n=len(scored),
        mean=sums.mean,
        low=_end(interval.low),
        high=_end(interval.high),
        shape=interval.shape,
        **_share("success", sums.success, scenarios),
        **_share("failure", sums.failure, scenarios),
    )


def _share(name: str, count: int, scenarios: Sequence[str]) -> dict[str, Any]:
    """The fields of `Outcomes` about one kind of end."""
    low, high = None, None
    if (number := len(set(scenarios))) > 1:
        interval = share_interval(count, len(scenarios), clusters=number)
        low, high = 100.0 * interval.low, 100.0 * interval.high
    return {name: count, f"{name}_percent": 100.0 * count / len(scenarios), f"{name}_low": low, f"{name}_high": high}


def _end(value: float) -> float | None:
    return None if value != value else value


def _groups(dialogues: Sequence[Digest], scale: Scale) -> tuple[GroupMean, ...]:
    groups: dict[str, list[tuple[float, str]]] = {}
    for dialogue in dialogues:
        if dialogue.points is not None:
            groups.setdefault(group_of(dialogue), []).append((dialogue.points, dialogue.scenario))
    means = []
    for key in in_group_order(scale, filter(None, groups)):
        values, scenarios = zip(*groups[key], strict=True)
        low, high = None, None
        if scale.group_intervals:
            seen = mean_interval(values, clusters=scenarios, within=(scale.low, scale.high))
            low, high = _end(seen.low), _end(seen.high)
        means.append(GroupMean(key=key, n=len(values), mean=float(np.mean(values)), low=low, high=high))
    return tuple(means)


def _role_use(role: str, dialogues: Sequence[Digest], used: Sequence[tuple[Digest, str, Tokens]]) -> RoleUse:
    *counts, estimated = map(sum, zip(*(usage for _, its_role, usage in used if its_role == role), strict=True))
    usage = Usage.of_counts(counts, estimated=bool(estimated))
    return RoleUse(calls=sum(d.calls_by_role.get(role, 0) for d in dialogues), **usage.model_dump())


def _themes(dialogues: Sequence[Digest]) -> tuple[GroupMean, ...]:
    themes: dict[str, list[float]] = {}
    for dialogue in dialogues:
        if (theme := dialogue.facts.get("theme")) and dialogue.points is not None:
            themes.setdefault(theme, []).append(dialogue.points)
    return tuple(GroupMean(key=key, n=len(themes[key]), mean=statistics.fmean(themes[key])) for key in sorted(themes))


def _ranked(rows: list[ModelScore], ranks: Mapping[str, Rank]) -> list[ModelScore]:
    """Rows in order, with ranks: ranked by mean on the common set and by turns, then unranked by own mean, then failure cases."""
    places: dict[Standing, int] = {"ranked": 0, "unranked": 1, "failure case": 2}
    rows = sorted(rows, key=lambda row: row.mean_turns or 0)
    rows.sort(key=lambda row: (places[row.standing], -(float("-inf") if row.headline.mean is None else row.headline.mean)))
    means = [row.headline.mean for row in rows if row.standing == "ranked"]
    for place, row in enumerate(rows[: len(means)]):
        rank = ranks[row.model]
        ends = {"group": group_letter(rank.group), "best_rank": rank.best, "worst_rank": rank.worst}
        rows[place] = row.model_copy(update={"rank": means.index(row.headline.mean) + 1, **ends})
    return rows


def _source(settings: Mapping[str, Any]) -> Iterable[str]:
    if isinstance(one := settings.get("rescored"), Mapping):
        yield f"Rescored from the transcripts of {one.get('from')} (preset {one.get('preset')}) without a model call."
    if isinstance(one := settings.get("rejudged"), Mapping):
        yield f"Rejudged: another judge scored the stored replies of {one.get('from')} (user simulator {one.get('user')})."


def _written(rows: Sequence[ModelScore], settings: Mapping[str, Any]) -> Iterable[str]:
    """A user simulator that finds its own words says none of the lines that the baseline's replies were written for."""
    if not is_embedded(roles_of(settings).get("user", EMBEDDED)) and any(row.model == "heartloop/counsellor" for row in rows):
        yield (
            "heartloop/counsellor is no upper baseline here: its replies answer written lines of the embedded user. To any other "
            "message it replies as heartloop/reflector."
        )


def _causes(rows: Iterable[ModelScore]) -> str:
    """What failed in the unscored dialogues, the model under test by its name."""
    causes: Counter[str] = Counter()
    for row in rows:
        for one in row.causes:
            who = row.model if one.role == "policy" else "user simulator" if one.role == "user" else one.role
            causes[f"{who}: {one.words}"] += one.n
    return "; ".join(f"{n} x {cause}" for cause, n in causes.most_common())


def _notes(rows: Sequence[ModelScore], common: int) -> Iterable[str]:
    contenders = [row for row in rows if row.standing != "failure case"]
    played = sum(row.played for row in rows)
    unscored = sum(row.unscored for row in rows)
    if played and unscored / played > ALLOWED_UNSCORED:
        yield (
            f"{unscored} of {amount(played, 'dialogue')} ({unscored / played:.0%}) {'is' if unscored == 1 else 'are'} unscored "
            f"({_causes(rows)}); above {ALLOWED_UNSCORED:.0%} these numbers are not reliable."
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
