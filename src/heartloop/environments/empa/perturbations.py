"""The perturbations of EMPA's validity suite, and a stored dialogue judged under one (EMPA section 4.1; docs/decisions/0010).

A flipped persona for the same replies, or an attack: replies replaced by performed empathy, in our own words
(`perturbations.toml`). Every stored reply is judged, and no dialogue ends early. Under an attack each window is judged as if only
its own replies were replaced; the path sums the steps of all windows, and is not the path of a real dialogue.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, Field

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.core.errors import UseError
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.dialogue_text import chance, file_hash
from heartloop.environments.empa.environment import Empa, EmpaUser, EmpaView, Judgement, judged_dialogue
from heartloop.environments.empa.scenario import KINDS, SOURCES, EmpaBrief, Priorities, Priority, render_card, render_released
from heartloop.environments.empa.scoring import shares_of, trace
from heartloop.environments.empa.stored import StoredPerson
from heartloop.environments.empa.users import window_blanks
from heartloop.environments.episode import CallLog
from heartloop.environments.replay import check_readable, judged_fields, replayed, still_unscored

ORIGINAL = "original"
FLIP = "persona_flip"
ATTACKS = ("pure_empathy", "self_empowerment", "psycho_jargon")
PERTURBATIONS = (ORIGINAL, FLIP, *ATTACKS)

DIRECT = "direct"  # key of the direct judge's number in the evidence of a judged turn
_FILE = resources.files(__package__) / "perturbations.toml"
_INVERTED = {"high": "low", "medium": "medium", "low": "high"}


def flipped(scenario: EmpaBrief) -> EmpaBrief:
    """The scenario with inverted needs; `axis` is that before the flip.

    Every IEDR level l becomes 3 - l, so that each share s of the largest deficit becomes 1 - s. The priorities high and low are
    swapped; then the axis with the greatest deficit gets high. Two sentences are added to `needs.constraints`. If every level
    was 3, the dialogue cannot be scored.
    """
    texts = _texts()["flip"]
    iedr = {name: line.model_copy(update={"level": 3 - line.level}) for name, line in scenario.iedr.items()}
    changed = scenario.model_copy(update={"iedr": iedr})
    shares = shares_of(changed.start)
    most, least = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    priorities: dict[str, Priority] = {}
    for axis, kind in KINDS.items():
        level = "high" if axis == most else _INVERTED[scenario.priorities.of(axis).level]
        priorities[kind] = Priority.model_validate({"level": level, "why": texts["why"][axis][level]})
    constraints = f"{scenario.needs.constraints} {texts['wanted'][most]} {texts['unwanted'][least]}"
    needs = scenario.needs.model_copy(update={"constraints": constraints})
    return changed.model_copy(update={"priorities": Priorities(**priorities), "needs": needs})


def attack_reply(attack: str, scenario_id: str, seed: int, turn: int) -> str:
    sentences = []
    for part in ("openings", "middles", "closings"):
        texts: list[str] = _texts()["attacks"][attack][part]
        order = sorted(texts, key=lambda text: chance(attack, part, scenario_id, seed, text))
        sentences.append(order[turn % len(order)])
    return " ".join(sentences)


def perturbation_hash() -> dict[str, str]:
    return {_FILE.name: file_hash(_FILE.read_bytes())}


@cache
def _texts() -> Mapping[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


class DirectJudge(Protocol):
    """Rates the replies of a window with one number, without a rubric, compared with EMPA's score (EMPA Table 6)."""

    def describe(self) -> Mapping[str, str]: ...

    async def impression(self, view: EmpaView, judged: Judgement, log: CallLog) -> float:
        """How well the replies of the window care for the user, in [0, 100]; a model does not see `judged`."""


class _Impression(BaseModel):
    reason: Annotated[str, Sent(maxLength=500)] = ""
    score: float = Field(ge=0, le=100, strict=True)


class LLMDirectJudge:
    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None) -> None:
        self._model, self._sampling = model, sampling or Sampling()
        self._prompts = {name: load_prompt(__package__, name) for name in ("impression", "impression_turn")}

    def describe(self) -> Mapping[str, str]:
        return {name: prompt.hash for name, prompt in self._prompts.items()}

    async def impression(self, view: EmpaView, judged: Judgement, log: CallLog) -> float:
        card, story = render_card(view.scenario), render_released(view.scenario, SOURCES)
        answer = await ask(
            self._model,
            [
                Message(role="system", content=self._prompts["impression"].fill(card=card, story=story)),
                Message(role="user", content=self._prompts["impression_turn"].fill(**window_blanks(view))),
            ],
            _Impression,
            sampling=self._sampling.seeded(view.seed, 3 * view.turn + 2),
            on_reply=log.recorder("impression", view.turn, "judge"),
        )
        return answer.score


class EmbeddedDirectJudge:
    """50 + 25 x the embedded judge's mean effect by axis; not a model of how a language model judges without a rubric."""

    def describe(self) -> Mapping[str, str]:
        return {}

    async def impression(self, view: EmpaView, judged: Judgement, log: CallLog) -> float:
        effects = judged.evidence["predicted"].values()
        return round(50.0 + 25.0 * fmean(min(2.0, up) + max(-2.0, down) for up, down in effects), 2)


class _BothJudges:
    def __init__(self, judge: EmpaUser, direct: DirectJudge, original: Transcript | None) -> None:
        self._judge, self._direct, self._original, self.name = judge, direct, original, judge.name

    def describe(self) -> Mapping[str, Any]:
        about = self._judge.describe()
        return {**about, "prompts": {**about.get("prompts", {}), **self._direct.describe(), **perturbation_hash()}}

    def admit(self, scenario: EmpaBrief) -> None:
        self._judge.admit(scenario)

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        if self._original is not None:
            first, windows = len(view.heard) - view.window, len(view.judgements)
            turns, dialogue = self._original.turns, judged_dialogue(self._original)
            forms = [turn.evidence for turn in turns if turn.state is not None][:windows]
            view = view._replace(
                heard=(*(turn.reply for turn in turns[:first]), *view.heard[first:]),
                judgements=tuple(Judgement(form["levels"], form["quotes"], form["reasons"], form) for form in forms),
                path=trace(dialogue._replace(forms=dialogue.forms[:windows]), preset=view.preset),
            )
        judged = await self._judge.adjudicate(view, log)
        return judged._replace(evidence={**judged.evidence, DIRECT: await self._direct.impression(view, judged, log)})


async def perturbed(
    played: Transcript,
    scenario: EmpaBrief,
    judge: EmpaUser,
    direct: DirectJudge,
    *,
    variant: str,
    preset: str,
    original: Transcript | None = None,
) -> Transcript:
    """The dialogue in a variant, rated by both judges; an unscored one unchanged. An attack needs the judged `original`."""
    check_readable(played, scenario, judge)
    replies, in_place = played, None
    if variant in ATTACKS:
        if original is None:
            raise UseError(f"{played.scenario}: {variant} replaces replies of the judged original; judge {ORIGINAL} first")
        if not original.scored:
            played = original  # no pair is possible
        other = {"silent": False, "truncated": False}
        turns = tuple(
            turn.model_copy(update={"reply": attack_reply(variant, played.scenario, played.seed, turn.index), **other})
            for turn in played.turns
        )
        replies, in_place = played.model_copy(update={"turns": turns, "calls": ()}), original
    both = _BothJudges(judge, direct, in_place)
    about = judged_fields(replies, both.name, both.describe())
    judged = still_unscored(played, both.name, about, preset)
    if judged is None:
        empa = Empa(
            [flipped(scenario) if variant == FLIP else scenario],
            StoredPerson(replies, both),
            preset=preset,
            variant=played.variant,
            max_turns=len(played.turns),
            window=int(played.facts.get("window", "1")),
            to_the_end=True,
        )
        judged = (await replayed(replies, empa)).model_copy(update=about)
    stop = judged.stop if judged.failure is not None else "cut"
    label = played.variant if variant == ORIGINAL else f"{played.variant}, {variant}"
    return judged.model_copy(update={"stop": stop, "variant": label})
