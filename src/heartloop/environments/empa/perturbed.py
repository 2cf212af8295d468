"""A stored EMPA dialogue judged under a perturbation: another persona for the same replies, or replaced replies.

Covers one dialogue in one variant. Every stored reply is judged, and no dialogue ends early, so that windows can be paired. Does
not cover the texts (`perturbations`), runs (`heartloop.validity`) or the shifts (`perturbation_shifts`).

Under an attack each window is judged as if only its own replies were replaced: earlier replies and the path are the original's.
The transcript contains the judged replies and the user's stored messages; its path sums the steps of all windows, and is not the
path of a real dialogue. The direct judge's number is stored with each form, as `direct`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.environments.empa.direct_judge import DirectJudge
from heartloop.environments.empa.environment import Empa, EmpaUser, Judgement, View, judged_dialogue
from heartloop.environments.empa.perturbations import ATTACKS, FLIP, ORIGINAL, attack_reply, flipped, perturbation_hash
from heartloop.environments.empa.scenario import Brief
from heartloop.environments.empa.scoring import trace
from heartloop.environments.empa.stored import StoredPerson
from heartloop.environments.episode import CallLog
from heartloop.environments.stored import check_readable, judged_fields, replayed, still_unscored, with_judge

__all__ = ["DIRECT", "perturbed"]

DIRECT = "direct"
"""Key of the direct judge's number in a judged turn's evidence."""


class _BothJudges:
    """The judge and the direct judge. With an original, the dialogue before the window is taken from it."""

    def __init__(self, judge: EmpaUser, direct: DirectJudge, original: Transcript | None) -> None:
        self._judge = judge
        self._direct = direct
        self._original = original
        self._judgements: tuple[Judgement, ...] = () if original is None else _judgements_of(original)

    @property
    def name(self) -> str:
        return self._judge.name

    def describe(self) -> Mapping[str, Any]:
        about = self._judge.describe()
        return {**about, "prompts": {**about.get("prompts", {}), **self._direct.describe(), **perturbation_hash()}}

    def admit(self, scenario: Brief) -> None:
        self._judge.admit(scenario)

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        view = self._in_place(view)
        judged = await self._judge.adjudicate(view, log)
        return judged._replace(evidence={**judged.evidence, DIRECT: await self._direct.impression(view, judged, log)})

    def _in_place(self, view: View) -> View:
        if self._original is None:
            return view
        first, windows = len(view.heard) - view.window, len(view.judgements)
        dialogue = judged_dialogue(self._original)
        return view._replace(
            heard=(*(turn.reply for turn in self._original.turns[:first]), *view.heard[first:]),
            judgements=self._judgements[:windows],
            path=trace(dialogue._replace(forms=dialogue.forms[:windows]), preset=view.preset),
        )


async def perturbed(
    played: Transcript,
    scenario: Brief,
    judge: EmpaUser,
    direct: DirectJudge,
    *,
    variant: str,
    preset: str,
    original: Transcript | None = None,
) -> Transcript:
    """The dialogue in a variant, rated by both judges. An unscored dialogue is returned with its cause, without a call.

    Args:
        scenario: the scenario, unchanged since it was played.
        variant: one of `PERTURBATIONS`.
        original: for an attack, the dialogue in the variant `ORIGINAL` under the same judges.

    Raises:
        UseError: an attack without the original.
        InputError: as `check_readable`.
        BudgetSpent: a budget is spent.
    """
    check_readable(played, scenario, judge)
    attack = variant in ATTACKS
    if attack and original is None:
        raise UseError(f"{played.scenario}: {variant} replaces replies of the judged original; judge {ORIGINAL} first")
    if attack and original is not None and not original.scored:
        played = original  # no pair is possible
    both = _BothJudges(judge, direct, original if attack else None)
    replies = _attacked(played, variant) if attack else played
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
        judged = with_judge(await replayed(replies, empa), about)
    stop = judged.stop if judged.failure is not None else "cut"
    label = played.variant if variant == ORIGINAL else f"{played.variant}, {variant}"
    return judged.model_copy(update={"stop": stop, "variant": label})


def _attacked(played: Transcript, attack: str) -> Transcript:
    """The dialogue with every reply replaced, and without calls."""
    turns = [
        turn.model_copy(
            update={
                "reply": attack_reply(attack, played.scenario, played.seed, turn.index),
                "silent": False,
                "truncated": False,
            }
        )
        for turn in played.turns
    ]
    return played.model_copy(update={"turns": tuple(turns), "calls": ()})


def _judgements_of(original: Transcript) -> tuple[Judgement, ...]:
    forms = [turn.evidence for turn in original.turns if turn.state is not None]
    return tuple(Judgement(e["levels"], e["quotes"], e["reasons"], e) for e in forms)
