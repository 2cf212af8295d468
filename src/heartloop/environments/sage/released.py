"""People of the authors' release (SAGE, RLVER): what their profiles hold, and how a simulator model can play them.

Covers the released record kept without loss, the form `heartloop import sage-profiles` writes, and what of it a run and
a report need: intention, first message, name. Does not cover the released files themselves (`importers`), nor
our own scenarios (`scenario`). The texts are Chinese and the authors'; none of them is part of this project.

A profile has no written lines, so rules cannot play it: a simulator model must. Prompts stay ours and English, so scores
on these people do not compare with published ones number by number.
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
from heartloop.environments.sage.scenario import SETS, Scenario, load_scenarios

__all__ = [
    "FORM",
    "AnyScenario",
    "ReleasedProfile",
    "ReleasedScenario",
    "family_of",
    "intention_of",
    "intention_text_of",
    "load_people",
    "name_of",
    "story_fingerprint",
]

FORM: Literal["sage-released/1"] = "sage-released/1"
"""Marks a line of an imported file."""

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
"""Words by which a hidden intention is told, by our key (meaning: SAGE Table 3). Chinese as released, English as printed."""


def intention_of(task: str) -> str | None:
    """Our key for a released hidden intention; `None` where no meaning fits, or more than one does.

    >>> intention_of("想要一些建议"), intention_of("想要建议，也想被倾听"), intention_of("想聊聊爱好")
    ('advice', None, None)
    """
    fitting = [key for key, words in _MEANINGS.items() if re.search(words, task, re.IGNORECASE | re.DOTALL)]
    return fitting[0] if len(fitting) == 1 else None


def intention_text_of(task: str) -> str:
    """What the person secretly wants: our wording where the meaning is known, else theirs, quoted."""
    key = intention_of(task)
    return INTENTIONS[key].text if key else f"wants this: “{task}”"


def family_of(task: str) -> Family:
    """The intention's family; a person whose intention is unknown is taken to seek support, as nearly all released ones do."""
    key = intention_of(task)
    return INTENTIONS[key].family if key else "support"


def name_of(player: str, *, otherwise: str) -> str:
    """Name, age and trade out of the persona text, as far as it lists them.

    >>> name_of("* 姓名：林一\\n* 年龄：30岁\\n* 职业：木匠", otherwise="x")
    '林一, 30岁, 木匠'
    """
    found = [re.search(rf"{slot}\**\s*[:：]\s*\**\s*([^\n]+)", player) for slot in ("姓名", "年龄", "职业")]
    return ", ".join(match[1].strip() for match in found if match) or otherwise


def story_fingerprint(player: str, scene: str, task: str, first_message: str | None) -> str:
    """16 hex digits of the SHA-256 of all a simulator is told. Profile and log of one person share it."""
    canonical = json.dumps([player, scene, task, first_message], ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class ReleasedProfile(BaseModel):
    """One line of a released profile file. Training files lack `first_talk`; a slot we do not know is kept as it is."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str = Field(min_length=1)
    player: str = Field(min_length=1)
    """Persona."""
    scene: str = Field(min_length=1)
    """Background, with reactions by mood."""
    main_cha: str
    """Type of character."""
    cha_group: tuple[str, ...]
    """Traits."""
    task: str
    """Hidden intention."""
    first_talk: str | None = None


class ReleasedScenario(BaseModel):
    """A released person as a scenario: the record as it is, and what `Sage` and a simulator model ask of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["sage-released/1"]
    source: str
    """Name of the file the record came from."""
    record: ReleasedProfile

    @property
    def id(self) -> str:
        """The record's own."""
        return self.record.id

    @property
    def family(self) -> Family:
        """`support` or `chat`."""
        return family_of(self.record.task)

    @property
    def intention(self) -> str:
        """Our key, or the released text where no key fits."""
        return intention_of(self.record.task) or self.record.task

    @property
    def stratum(self) -> str:
        """What `--limit` spreads evenly over: the hidden intention."""
        return self.intention

    @property
    def intention_text(self) -> str:
        """What the person secretly wants, as a half sentence."""
        return intention_text_of(self.record.task)

    @property
    def goal(self) -> str:
        """The hidden intention as released: a profile names no other goal."""
        return self.record.task

    @property
    def theme(self) -> str:
        """Empty: profiles name none; logs do."""
        return ""

    @property
    def title(self) -> str:
        """Name, age and trade, or the id."""
        return self.person

    @property
    def tags(self) -> tuple[str, ...]:
        """None are known; that is not the same as nothing heavy in it."""
        return ()

    @property
    def person(self) -> str:
        """Name, age and trade as far as the persona lists them, or the id."""
        return name_of(self.record.player, otherwise=self.id)

    @property
    def place(self) -> str:
        """Empty: the persona names none."""
        return ""

    @property
    def first_message(self) -> str:
        """How they begin; empty in a training profile, which cannot be played."""
        return self.record.first_talk or ""

    @property
    def fingerprint(self) -> str:
        """Changes when any word does that a simulator is told."""
        record = self.record
        return story_fingerprint(record.player, record.scene, record.task, record.first_talk)


AnyScenario = Scenario | ReleasedScenario
"""Written for this project, or one of the authors' people."""


def load_people(name: str = SETS[0], *, exclude_tags: Sequence[str] = ()) -> list[AnyScenario]:
    """Like `load_scenarios`, and imported files as well.

    Raises:
        UseError: unknown set and no such file, tags asked of imported people, who carry none, or nothing left.
        InputError: the file does not fit its schema, or is the authors' own and was not imported yet.
    """
    return load_own_or_imported(
        load_scenarios, name, ReleasedScenario, command="sage-profiles", released="player", exclude_tags=exclude_tags
    )
