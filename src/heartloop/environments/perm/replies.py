"""PERM's judges on every reply of another environment's dialogue; the paper leaves several turns to later work (Limitations).

Ours: besides persona, situation and message, the judges know what the user simulator knows, and the dialogue so far. The analysis
is what the model thought before its reply; without one, resonation is not judged and is left out of the reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.chat import ChatModel, estimate_tokens
from heartloop.core.dialogue import Sampling
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import JudgedReply, JudgedText, ReplyJudging, evidence_of
from heartloop.environments.perm.environment import JUDGES, SCALE
from heartloop.environments.perm.scoring import PARTS, perm_reward
from heartloop.environments.perm.users import PermLLMUser


async def _ask(model: ChatModel, sampling: Sampling | None, reply: JudgedReply) -> Mapping[str, Any]:
    judges = PermLLMUser(model, sampling=sampling)
    texts = {**({"resonation": reply.analysis} if reply.analysis else {}), **dict.fromkeys(JUDGES[1:], reply.response)}
    grades = {judge: await judges.grade(judge, JudgedText(reply, text, 0), CallLog()) for judge, text in texts.items()}
    return {**evidence_of(grades), "tokens": estimate_tokens(reply.response)}


def _numbers(answer: Mapping[str, Any]) -> tuple[float | None, ...]:
    scores = answer["scores"]
    grades = {judge: scores.get(judge) for judge in JUDGES}
    reward = perm_reward(**grades, tokens=answer["tokens"], parts=[part for part in PARTS if part in scores])
    return (SCALE.points * reward.total, *grades.values())


REPLIES = ReplyJudging(
    title="How do the four perspectives of PERM see each reply?",
    about=(
        "A judge grades every reply as PERM's reward does: resonation by the model's thoughts before it, expression, reception, "
        "and a bystander. If the reward sees what the person feels, it is higher in turns after which the person feels better."
    ),
    source="PERM, sections 2.2 and 2.3; one message and one answer there, several turns here",
    reading=(
        "Reward: 100 times the reward of a turn, with grade / 5 as the share of a grade and a bystander weight of 0.5. "
        "Resonation, expression and reception are grades from 1 to 5, the bystander gives 0 to 100.",
        "Where a model wrote no thoughts, resonation is left out and the reward is that of the other parts, as with `without` in "
        "PERM. Rewards with and without it do not compare.",
        "The correlation treats replies as independent, although those of one dialogue are not: its interval is too narrow.",
    ),
    names=("reward", *JUDGES),
    prompts={name: prompt.hash for name, prompt in PermLLMUser.prompts.items()},
    ask=_ask,
    numbers=_numbers,
)
