"""Suite `pairwise`: which of two dialogues is better, by a judge in both orders, and the models' Elo (EQ-Bench3, released code).

A run's models are compared with each other in every scenario. If the checkout holds the leaderboard with its dialogues, each is
also placed on it, in stages: one scenario against every tenth model, then more and more against those at most three ranks away,
until its rank stays. The judge reads the checkout's prompt and notes, and answers cut to the released lengths.

The pluses of both orders are summed; their difference, up to `MOST_PLUSES`, counts as up to `WINS` wins in a row. Matches of
models more than `RANK_WINDOW` ranks apart in a first solution are left out of the second. The interval is that of fewer wins for
a margin. Elo is on the line through two `ANCHORS`; without both it is the rating. Departures: docs/eqbench.md.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model

from heartloop.core.blocks import Column, Estimate, Row, Table
from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError, UseError
from heartloop.core.judging import ask
from heartloop.core.schemas import Sent
from heartloop.core.text import amount
from heartloop.environments.eqbench.scenario import REASONING, EQBenchScenario, sections_of, text_of
from heartloop.environments.eqbench.users import JUDGE_SAMPLING, LONGEST_REASONING
from heartloop.environments.grading import REASKS
from heartloop.environments.suites import Answers, Material, Question, Result, RunSuite
from heartloop.scoring.ratings import Rating, anchored, trueskill

CODES = ("A0493", "A0488")
"""What the prompt calls the first and the second of two models."""
ANCHORS: Mapping[str, float] = {"o3": 1500.0, "meta-llama/llama-3.2-1b-instruct": 200.0}
START, NOISE = Rating(1200.0, 350 / 3), 350 / 6
MOST_PLUSES, WINS, WINS_FOR_INTERVAL, RANK_WINDOW = 30, 20, 5, 16
_SECTIONS, _ANSWER, _ANALYSIS, _DEBRIEF = (2200, 1600, 1600), 4000, 6000, 4000
"""Most characters that the judge reads."""
_STAGES = (0, 4, 8, 16, 24, 9999)
"""The first is over the whole ladder; then scenarios against a model one rank away, a half and a quarter two and three away."""
_FIRST_ANALYSIS, _FIRST_SCENARIO = 400, "404"
_SIGNS = re.compile(r"[*#]")


class Pair(NamedTuple):
    first: str
    second: str
    scenario: str
    repeat: int

    @property
    def turned(self) -> Pair:
        return self._replace(first=self.second, second=self.first)

    @property
    def key(self) -> str:
        return "|".join(map(str, self))


Comparison = tuple[Pair, tuple[int, int]]
"""One judgement of a pair, in one order: the pluses of either model."""


class Played(NamedTuple):
    turns: tuple[tuple[str, str], ...]
    """Prompts and answers."""
    debrief: str


Dialogues = Mapping[tuple[str, int], Played]
"""Of one model, by scenario and repeat."""


class Leaderboard(NamedTuple):
    comparisons: tuple[Comparison, ...]
    published: Mapping[str, Mapping[str, float]]
    """By model, with `elo` (before the anchors) and `elo_norm`."""
    dialogues: Mapping[str, Dialogues]


def pluses_of(answer: Mapping[str, Any], scenario: str) -> tuple[int, int]:
    """The pluses of either model in a judge's answer; of an analysis one for the winner."""
    said = [value for name, value in answer.items() if name != REASONING and isinstance(value, str)]
    a = sum(value.count("+") for value in said if CODES[0] in value)
    b = sum(value.count("+") for value in said if CODES[1] in value and CODES[0] not in value)
    return (int(a > b), int(b > a)) if scenario.isdecimal() and int(scenario) >= _FIRST_ANALYSIS else (a, b)


def matches_of(comparisons: Iterable[Comparison]) -> list[tuple[str, str, float]]:
    """A match for each two dialogues, in the order of their first judgements."""
    totals: dict[Pair, list[int]] = {}
    for pair, pluses in comparisons:
        turned = pair.second < pair.first
        total = totals.setdefault(pair.turned if turned else pair, [0, 0])
        for place, n in enumerate(reversed(pluses) if turned else pluses):
            total[place] += n
    margins = {pair: min(abs(a - b) / MOST_PLUSES, 1.0) / 2.0 + 0.5 for pair, (a, b) in totals.items()}
    return [(pair.first, pair.second, m if totals[pair][0] >= totals[pair][1] else 1.0 - m) for pair, m in margins.items()]


@lru_cache(maxsize=256)  # placing one model takes up to 21
def rated(comparisons: tuple[Comparison, ...]) -> Mapping[str, Rating]:
    rough = trueskill(matches_of(comparisons), most_wins=WINS, start=START, noise=NOISE)
    rank = {name: number for number, name in enumerate(sorted(rough, key=lambda name: rough[name].mean))}
    near = matches_of(one for one in comparisons if abs(rank[one[0].first] - rank[one[0].second]) <= RANK_WINDOW)
    means, intervals = (trueskill(near, most_wins=wins, start=START, noise=NOISE) for wins in (WINS, WINS_FOR_INTERVAL))
    return {name: Rating(one.mean, intervals[name].deviation) for name, one in means.items()}


@lru_cache(maxsize=4)
def leaderboard_of(root: Path) -> Leaderboard:
    """The released leaderboard in a checkout; empty without its file of ratings."""
    path, runs = (root / "data" / f"canonical_leaderboard_{name}results.json.gz" for name in ("elo_", ""))
    if not path.is_file():
        return Leaderboard((), {}, {})
    try:
        ratings, dialogues = (json.loads(gzip.decompress(one.read_bytes()) if one.is_file() else "{}") for one in (path, runs))
        listed = ratings.pop("__metadata__")["global_pairwise_comparisons"]
        return Leaderboard(tuple(_comparison(one) for one in listed if "error" not in one), ratings, _dialogues(dialogues))
    except (OSError, EOFError, zlib.error, KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"cannot read {path} and {runs.name}: {error!r}; expected the files as released") from error


def _comparison(record: Mapping[str, Any]) -> Comparison:
    scenario, models = str(record["scenario_id"]), record["pair"]
    pair = Pair(models["test_model"], models["neighbor_model"], scenario, int(models["iteration_index"]))
    shown = pair if record["order"].startswith(f"{CODES[0]}:test") else pair.turned
    return shown, pluses_of(record["judge_response"], scenario)


def _dialogues(runs: Mapping[str, Any]) -> dict[str, Dialogues]:
    found: dict[str, dict[tuple[str, int], Played]] = {}
    for run in runs.values():
        for repeat, (_, tasks) in enumerate(sorted(run["scenario_tasks"].items(), key=lambda item: int(item[0]))):
            for scenario, task in tasks.items():
                texts = [message["content"] for message in task.get("conversation_history") or ()]
                turns = tuple(zip(texts[::2], texts[1::2], strict=False))
                debrief = "" if int(scenario) >= _FIRST_ANALYSIS else task.get("debrief_response")
                if turns and debrief is not None:
                    found.setdefault(run.get("model_name") or run["test_model"], {})[scenario, repeat] = Played(turns, debrief)
    return dict(found)


def pairwise_prompt(scenario: EQBenchScenario, first: Played, second: Played) -> tuple[str, type[BaseModel]]:
    """What the judge reads, and the form of its answer."""
    kind = "_analysis" if scenario.kind == "analysis" else ""
    blanks = {"scenario_notes": scenario.notes or "(none)"}
    if kind:
        blanks["transcript_being_analysed"] = (scenario.official or scenario.repaired)[0]
    for letter, played in zip("AB", (first, second), strict=True):
        if kind:
            blanks[f"response_{letter}"] = _cut(_SIGNS.sub("", played.turns[0][1]), _ANALYSIS)
        else:
            said = (f"User:\n{prompt}\n---\nAssistant:\n{_shown(scenario, answer)}\n---" for prompt, answer in played.turns)
            blanks[f"conversation_history_{letter}"] = _SIGNS.sub("", "\n".join(said))
            blanks[f"debrief_{letter}"] = _cut(_SIGNS.sub("", played.debrief), _DEBRIEF)
    path = scenario.root / "data" / f"pairwise_prompt_eqbench3{kind}.txt"
    template = text_of(path)
    criteria = tuple(name for name in re.findall(r'^\s*"(\w+)":', template, re.MULTILINE) if name != REASONING)
    lacking = [part for part in (*CODES, *(f"{{{name}}}" for name in blanks)) if part not in template]
    if lacking or not criteria:
        raise InputError(f"{path} has no {' and no '.join(lacking) or 'criteria'}; expected the file as released")
    return re.sub(r"\{(\w+)\}", lambda blank: blanks.get(blank[1], blank[0]), template), _form_of(criteria)


def _shown(scenario: EQBenchScenario, answer: str) -> str:
    if not scenario.form.sections:
        return _cut(answer, _ANSWER)
    sections = zip(sections_of(answer, scenario.form.sections).items(), _SECTIONS, strict=False)
    return "\n\n".join([*(f"# {heading}\n\n{_cut(text, most)}" for (heading, text), most in sections), "--"])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "... [truncated]"


@lru_cache(maxsize=4)
def _form_of(criteria: tuple[str, ...]) -> type[BaseModel]:
    values = tuple(code + "+" * n for code in CODES for n in range(1, 6))
    spaceless = BeforeValidator(lambda value: re.sub(r"[\s:]", "", value) if isinstance(value, str) else value)
    winner = Annotated[Literal[values], spaceless]  # type: ignore[valid-type]
    reasoning = (Annotated[str, Sent(maxLength=LONGEST_REASONING)], ...)
    fields: dict[str, Any] = {REASONING: reasoning, **dict.fromkeys(criteria, (winner, ...))}
    return create_model("Winners", __config__=ConfigDict(extra="forbid"), **fields)


def _of_runs(material: Material) -> dict[str, Dialogues]:
    found: dict[str, dict[tuple[str, int], Played]] = {model: {} for model in material.models}
    for one in material.dialogues:
        if (scenario := material.scenarios.get(one.scenario)) is not None:
            prompts = [one.opening, *(turn.message for turn in one.turns)]
            turns = [(prompt or "", turn.reply) for prompt, turn in zip(prompts, one.turns, strict=False)]
            debrief = turns.pop()[1] if scenario.form.debrief is not None else ""
            found[one.model][one.scenario, one.repeat] = Played(tuple(turns), debrief)
    return dict(found)


def _board(material: Material) -> Leaderboard:
    return leaderboard_of(min(scenario.root for scenario in material.scenarios.values()))


def _common(first: tuple[str, Dialogues], second: tuple[str, Dialogues]) -> list[Pair]:
    both = sorted(first[1].keys() & second[1].keys(), key=lambda place: (place[0] != _FIRST_SCENARIO, place))
    return [Pair(first[0], second[0], *place) for place in both]


def _pairs(material: Material, answers: Answers) -> list[Pair]:
    """Every pair that is asked, given the answers so far."""
    of_runs, board = _of_runs(material), _board(material)
    pairs = [pair for first, second in combinations(of_runs.items(), 2) for pair in _common(first, second)]
    if known := of_runs.keys() & board.published.keys():
        raise UseError(f"model {min(known)!r} is on the leaderboard, too; play yours under another name")
    return pairs + [pair for one in of_runs.items() for pair in (_placing(one, board, answers) if board.dialogues else ())]


def _placing(mine: tuple[str, Dialogues], board: Leaderboard, answers: Answers) -> list[Pair]:
    """Pairs of a model with those of the leaderboard, as far as the answers lead."""
    chosen: dict[Pair, None] = {}
    means = {name: one["elo"] for name, one in board.published.items()} | {mine[0]: START.mean}
    for stage in _STAGES:
        for _ in range(4 if stage else 1):
            ladder = sorted(means, key=means.__getitem__)
            rank = ladder.index(mine[0])
            for place, most in opponents(rank, len(ladder), stage).items():
                common = _common(mine, (ladder[place], board.dialogues.get(ladder[place], {})))
                chosen |= dict.fromkeys(common[:most])
            if sum(key not in answers for pair in chosen for key in (pair.key, pair.turned.key)) > 0.05 * 2 * len(chosen):
                return list(chosen)
            means |= {name: one.mean for name, one in rated((*board.comparisons, *judged(chosen, answers))).items()}
            if sorted(means, key=means.__getitem__).index(mine[0]) == rank:
                break
    return list(chosen)


def opponents(rank: int, length: int, stage: int) -> dict[int, int]:
    """Places on a ladder, from the lowest, and the most scenarios against the model there."""
    if stage == 0:
        step = math.ceil(length / 10)
        return {place: 1 for place in range((length - 1) // 2 % step, length, step) if place != rank}
    near = range(max(0, rank - 3), min(length, rank + 4))
    return {place: max(1, stage // (1, 2, 4)[abs(place - rank) - 1]) for place in near if place != rank}


def judged(pairs: Iterable[Pair], answers: Answers) -> list[Comparison]:
    """Both judgements of each pair that was judged in both orders."""
    whole = (pair for pair in pairs if pair.key in answers and pair.turned.key in answers)
    return [(one, pluses_of(answers[one.key], one.scenario)) for pair in whole for one in (pair, pair.turned)]


def _questions(material: Material, answers: Answers) -> list[Question]:
    played = {**_board(material).dialogues, **_of_runs(material)}
    return [
        _question(one, *pairwise_prompt(material.scenarios[pair.scenario], *(played[name][one[2:]] for name in one[:2])))
        for pair in _pairs(material, answers)
        for one in (pair, pair.turned)
    ]


def _question(pair: Pair, prompt: str, form: type[BaseModel]) -> Question:
    async def answer(judge: ChatModel | None, sampling: Sampling | None) -> Mapping[str, Any]:
        assert judge is not None  # `_lacks` refuses the embedded judge
        asked = [Message(role="user", content=prompt)]
        given = await ask(judge, asked, form, reasks=REASKS, sampling=(sampling or Sampling()).over(JUDGE_SAMPLING))
        return given.model_dump()

    return Question(pair.key, hashlib.sha256(prompt.encode()).hexdigest(), answer)


def _lacks(material: Material) -> str | None:
    if not material.scenarios:
        return "it reads your checkout of the benchmark; pass --scenarios DIRECTORY"
    if EMBEDDED in material.judges or len(material.judges) > 1 or not (material.judges or _board(material).comparisons):
        return "it asks one judge, a language model; pass --judge service/model once"
    return None


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    board, models = _board(material), material.models
    judge, given = next(iter(answers.items()), ("the leaderboard's judge", {}))
    mine = judged(pairs := _pairs(material, given), given)
    ratings = rated((*board.comparisons, *mine))
    if not ratings:
        raise InputError(f"{judge} compared no two dialogues in both orders; pass runs of models that share scenarios")
    scale = anchored({name: one.mean for name, one in ratings.items()}, ANCHORS)
    slope, shift = scale or (1.0, 0.0)
    elos: dict[str, Estimate] = {}
    rows: list[Row] = []
    for name, (mean, deviation) in sorted(ratings.items(), key=lambda item: -item[1].mean):
        n = sum(name in pair[:2] for pair, _ in (*board.comparisons, *mine))
        elos[name] = Estimate(n, *(slope * (mean + sign * 1.96 * deviation) + shift for sign in (0, -1, 1)))
        cells = (elos[name], mean, board.published.get(name, {}).get("elo_norm"))
        rows.append(Row(name, cells, models.index(name) if name in models else None))
    columns = (Column("Elo", digits=0), Column("Rating", digits=0), Column("Published Elo", digits=0))
    table = Table(f"Elo by {judge}", columns, tuple(rows), help="Elo with its 95 % interval; rating: before the anchors.")
    wins = [a > b for _, (a, b) in mine]
    same = 2 * sum(a != b for a, b in zip(wins[::2], wins[1::2], strict=True)) / len(wins) if wins else math.nan
    record: dict[str, Any] = {"elo": {name: elo._asdict() for name, elo in elos.items()}, "same_winner": same}
    compared = f"Compared in both orders: {len(wins) // 2} of {amount(len(pairs), 'pair')}, {same:.0%} with the same winner."
    notes = [compared] if mine else []
    if scale is None:
        notes.append(f"Elo is the rating itself: {' and '.join(ANCHORS)} were not both compared.")
    if board.comparisons:
        again = rated(board.comparisons)
        away = max((abs(again[name].mean - one["elo"]) for name, one in board.published.items() if name in again), default=0.0)
        record["leaderboard"] = {"comparisons": len(board.comparisons), "largest_difference": away}
        notes.append(f"The leaderboard's ratings, recomputed from its comparisons, differ from its file's by at most {away:.2f}.")
    shown = ", ".join(f"{name} {elo.mean:.0f}" for name, elo in elos.items() if name in models or not mine)
    return Result(record, notes, table, [table], f"Elo by {judge}: {shown}.")


PAIRWISE = RunSuite(
    "Which of two dialogues is better?",
    "A judge compares the dialogues of two models by criterion, in both orders; TrueSkill turns the margins into Elo.",
    "EQ-Bench3, released code", _result, _lacks, _questions,
)  # fmt: skip
