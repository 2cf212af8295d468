"""Imported scenarios of the authors' releases (SAGE, RLVER), for an LLM user.

Covers the unchanged released record, the form that `heartloop import sage-profiles` writes, and the fields for runs and reports:
intention, first message, name. Does not cover the released files (`importers`), nor our own scenarios (`scenario`). The texts are
Chinese and the authors'; none of them is part of this project.

A profile has no written lines, so the embedded user cannot play it. The prompts are ours and English, so scores on these
scenarios are not comparable with published ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from heartloop.environments.records import load_own_or_imported
from heartloop.environments.sage.intentions import INTENTIONS, Family
from heartloop.environments.sage.scenario import SETS, Brief, load_any

__all__ = [
    "FORM",
    "AnyScenario",
    "ReleasedProfile",
    "ReleasedScenario",
    "family_of",
    "intention_of",
    "intention_text_of",
    "load_set",
    "name_of",
    "story_fingerprint",
]

FORM: Literal["sage-released/1"] = "sage-released/1"
"""Value of `form` in the lines of an imported file."""

_MEANINGS: dict[str, str] = {
    "dialectic": r"辩证|dialectic",
    "advice": r"建议|\badvice\b",
    "motives": r"其他人.*(原因|动机)|\breasons\b.*\bother people\b",
    "reflection": r"反思|自省|成长|\bself-reflection\b",
    "praise": r"夸|赞(?!同|成)|表扬|\bpraise\b",
    "listen": r"倾听|\blisten\b",
    "empathy": r"共情|\bempathi[sz]e\b",
    "blameless": r"没有.*(责任|错)|\bnot at fault\b",
}
"""Patterns of hidden intentions by our key (SAGE Table 3): Chinese as released, English as printed."""


def intention_of(task: str) -> str | None:
    """Our key of a released hidden intention; `None` if no pattern matches, or several do.

    >>> intention_of("想要一些建议"), intention_of("想要建议，也想被倾听"), intention_of("想聊聊爱好")
    ('advice', None, None)
    """
    fitting = [key for key, words in _MEANINGS.items() if re.search(words, task, re.IGNORECASE | re.DOTALL)]
    return fitting[0] if len(fitting) == 1 else None


def intention_text_of(task: str) -> str:
    """The hidden intention in our wording if its key is known, else the released text, quoted."""
    key = intention_of(task)
    return INTENTIONS[key].text if key else f"wants this: “{task}”"


def family_of(task: str) -> Family:
    """The family of a hidden intention; `support` if it is unknown, as of nearly all released profiles."""
    key = intention_of(task)
    return INTENTIONS[key].family if key else "support"


def name_of(player: str, *, otherwise: str) -> str:
    """Name, age and occupation from the persona text, as far as it lists them.

    >>> name_of("* 姓名：林一\\n* 年龄：30岁\\n* 职业：木匠", otherwise="x")
    '林一, 30岁, 木匠'
    """
    matches = [re.search(rf"{slot}\**\s*[:：]\s*\**\s*([^\n]+)", player) for slot in ("姓名", "年龄", "职业")]
    return ", ".join(match[1].strip() for match in matches if match) or otherwise


def story_fingerprint(player: str, scene: str, task: str, first_message: str | None) -> str:
    """16 hex digits of the SHA-256 of all text in the prompts; the same for the profile and the log of a scenario."""
    canonical = json.dumps([player, scene, task, first_message], ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class ReleasedProfile(BaseModel):
    """One line of a released profile file. Training files lack `first_talk`; unknown fields are preserved."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str = Field(min_length=1)
    player: str = Field(min_length=1)
    """Persona."""
    scene: str = Field(min_length=1)
    """Background, with reactions by mood."""
    main_cha: str
    """Character type."""
    cha_group: tuple[str, ...]
    """Traits."""
    task: str
    """Hidden intention."""
    first_talk: str | None = None


class ReleasedScenario(BaseModel):
    """An imported scenario: the unchanged record, and the fields that `Sage` and `LLMUser` need."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["sage-released/1"]
    source: str
    """Name of the source file."""
    record: ReleasedProfile

    @property
    def id(self) -> str:
        """The id of the record."""
        return self.record.id

    @property
    def family(self) -> Family:
        """`support` or `chat`."""
        return family_of(self.record.task)

    @property
    def intention(self) -> str:
        """Our key, or the released text if no key fits."""
        return intention_of(self.record.task) or self.record.task

    @property
    def stratum(self) -> str:
        """Stratum for `--limit`: the hidden intention."""
        return self.intention

    @property
    def intention_text(self) -> str:
        """The hidden intention as a clause."""
        return intention_text_of(self.record.task)

    @property
    def goal(self) -> str:
        """The released text of the hidden intention; a profile has no other goal."""
        return self.record.task

    @property
    def theme(self) -> str:
        """Empty: profiles have no theme, logs do."""
        return ""

    @property
    def title(self) -> str:
        """Name, age and occupation, or the id."""
        return self.person

    @property
    def tags(self) -> tuple[str, ...]:
        """Empty: the content is not tagged, and may be sensitive."""
        return ()

    @property
    def person(self) -> str:
        """Name, age and occupation as far as the persona lists them, or the id."""
        return name_of(self.record.player, otherwise=self.id)

    @property
    def place(self) -> str:
        """Empty: the persona has no such field."""
        return ""

    @property
    def first_message(self) -> str:
        """The user's first message; empty in a training profile, which cannot be played."""
        return self.record.first_talk or ""

    @property
    def fingerprint(self) -> str:
        """Hash of all text in the prompts."""
        record = self.record
        return story_fingerprint(record.player, record.scene, record.task, record.first_talk)


AnyScenario = Brief | ReleasedScenario
"""A scenario of this project, complete or in the short form, or an imported one."""


def load_set(name: str = SETS[0], *, exclude_tags: Sequence[str] = ()) -> list[AnyScenario]:
    """The scenarios of a shipped set, or of a file of this project's form or an imported one.

    Raises:
        UseError: an unknown set and no such file, tags excluded from imported scenarios, which have none, or no scenario left.
        InputError: an invalid file, or a released file that was not imported.
    """
    return load_own_or_imported(
        load_any, name, ReleasedScenario, command="sage-profiles", released="player", exclude_tags=exclude_tags
    )
