"""Files in the form of the SAGE release, with invented people: what the importers are tried on.

The form was read off the released files; every text here is our own. By hand: `write(path, [profile(), ...])`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

__all__ = ["course", "feel", "log", "profile", "speak", "write"]


def feel(change: object = 5, **more: object) -> str:
    thoughts = {"meant": "meant CONTENT", "fit": "served FIT", "thoughts": "thought ACTIVITY", "feeling": "felt FEELING"}
    return json.dumps(thoughts | {"change": change} | more)


def speak(reply: object = "And then he left.") -> str:
    return json.dumps({"attitude": "near", "aim": "tell", "tone": "dry", "matter": "him", "reply": reply})


TASKS = {
    "dialectic": "想辩证地看这件事",
    "advice": "想要有用的建议",
    "motives": "想弄清其他人的动机",
    "reflection": "想反思一下自己",
    "praise": "想被好好夸一夸",
    "listen": "想有人倾听",
    "empathy": "想要共情",
    "blameless": "觉得自己没有错",
}
"""A hidden intention of each meaning, in our own words."""


def profile(
    number: int = 0, *, task: str = TASKS["listen"], first: str | None = "今天的船又没有来。", **more: Any
) -> dict[str, Any]:
    """One released profile; without `first` as training files have it."""
    found: dict[str, Any] = {
        "id": f"0000-{number:04}",
        "player": f"* 姓名：林小舟{number}\n* 年龄：31岁\n* 职业：摆渡人\n\n* 说话方式：\n话少，喜欢停顿。",
        "scene": "河面结冰，渡船停了三周，家里人催他换工作。",
        "main_cha": "慢热型",
        "cha_group": ["固执", "细心", "寡言"],
        "task": task,
    }
    return {**found, **({} if first is None else {"first_talk": first}), **more}


def course(final: int, *, start: int = 40) -> list[int]:
    """Emotions from the start to a final one in steps of at most 10; nine of them where no end is reached."""
    emotions = [start]
    while emotions[-1] != final:
        emotions.append(emotions[-1] + max(-10, min(10, final - emotions[-1])))
    return emotions if final >= 100 or final < 10 else [*emotions, *[final] * (10 - len(emotions))]


def log(number: int, emotions: Sequence[int], *, unjudged: bool = False, label: bool = True, **more: Any) -> dict[str, Any]:
    """One released dialogue with these emotions, the first of them before any reply; `unjudged` adds a last reply."""
    person = profile(number)
    head = "小标题]\n" if label else ""
    history: list[dict[str, Any]] = [{"role": "user", "content": person["first_talk"], "emotion-point": emotions[0]}]
    for turn, (before, after) in enumerate(pairwise(emotions)):
        history.append({"role": "assistant", "content": f"第{turn}次回答。"})
        planning = {
            "activity": f"{head}心里想{turn}",
            "TargetCompletion": f"合不合{turn}",
            "content": f"说了什么{turn}",
            "analyse": f"感觉如何{turn}",
            "change": after - before,
        }
        history.append(
            {
                "role": "user",
                "content": f"第{turn}句话。",
                "thinking": f"思路{turn}",
                "emotion-point": after,
                "planning": planning,
            }
        )
    if unjudged:
        history.append({"role": "assistant", "content": "还没有被评的回答。"})
    found = {
        "id": person["id"],
        "emo_point": emotions[-1],
        "emo_state": "Emotion-B",
        "target": "eq",
        "player": person["player"],
        "scene": person["scene"],
        "character": person["main_cha"],
        "topic": "工作-渡船停了怎么办",
        "task": person["task"],
        "history": history,
    }
    return {**found, **more}


def write(path: Path, values: Iterable[Any]) -> Path:
    """JSON lines as the release has them: Chinese as it is, one object a line."""
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return path
