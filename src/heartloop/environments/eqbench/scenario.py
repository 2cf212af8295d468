"""Scenarios of EQ-Bench3, read from the user's checkout: prompts, notes, master prompts, debrief, rubrics, sections of an answer.

Texts are in `data/`. The kind of each scenario (`utils/constants.py`), the criteria that count and the placeholder of the judge's
reasons (`core/benchmark.py`) are literals in Python source, which is not run. This project contains no text of EQ-Bench3. Invalid
text is an error with file, line and what was expected; the released code logs it or continues.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any, Literal, NamedTuple, get_args

from heartloop.core.errors import InputError, UseError
from heartloop.environments.records import read_text
from heartloop.environments.spec import Scenarios

Kind = Literal["role-play", "drafting", "conversation", "analysis"]
"""`role-play`: the model plays a role, in three sections; `drafting`: it writes a message, in three sections; `conversation`: it
answers the prompts without sections; `analysis`: one question about a given dialogue, without a debrief."""
KINDS: tuple[Kind, ...] = get_args(Kind)

VARIANTS = ("official", "repaired")
"""How prompt headers are read. `official`: as by the released parser; a malformed header is text of the prompt before it, or
dropped with the following text if there is none (in the release of May 2025 this drops scenario 409). `repaired`: a header with
the number alone is also a header."""


class Rubric(NamedTuple):
    template: str
    """For `str.format`, with blanks `transcript`, `output_format` and, except for an analysis, `debrief`."""
    criteria: tuple[str, ...]
    counted: frozenset[str]
    """Criteria that count for the score; the others describe style."""
    reasoning_hint: str

    @property
    def output_format(self) -> str:
        shown = json.dumps({REASONING: self.reasoning_hint, **dict.fromkeys(self.criteria, 0)}, indent=2)
        return shown.replace(": 0", ": 0-20")


class ScenarioForm(NamedTuple):
    kind: Kind
    master: str
    """For `str.format`: each prompt is filled in the blank `scenario_prompt`."""
    sections: tuple[str, ...]
    debrief: str | None
    """The last prompt, which asks for reflection; `None` for an analysis."""
    rubric: Rubric
    files: Mapping[str, str]
    """Hashes, by name, of all texts of the checkout that are used in prompts."""


@dataclass(frozen=True)
class EQBenchScenario:
    id: str
    category: str
    title: str
    form: ScenarioForm
    official: tuple[str, ...]
    """Prompts as read by the released parser; empty if it finds none and drops the scenario."""
    repaired: tuple[str, ...]
    notes: str = ""
    person: str = "Written prompts"
    tags: tuple[str, ...] = ()
    root: Path = Path()
    """The checkout."""

    @property
    def kind(self) -> Kind:
        return self.form.kind

    @property
    def stratum(self) -> str:
        return self.category

    def prompts(self, variant: str) -> tuple[str, ...]:
        return self.repaired if variant == "repaired" else self.official

    @property
    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of all texts that the model under test may read."""
        form = self.form
        master = None if form.master == _AS_IT_IS else form.master
        texts = [self.id, self.kind, self.official, self.repaired, master, form.debrief]
        return hashlib.sha256(json.dumps(texts, ensure_ascii=False).encode()).hexdigest()[:16]


# Reading a checkout

_AS_IT_IS = "{scenario_prompt}"
_DATA, _PROMPTS = Path("data"), Path("data") / "scenario_prompts.txt"
_MASTERS: Mapping[Kind, str] = {
    "role-play": "scenario_master_prompt",
    "drafting": "scenario_master_prompt_message_drafting",
    "analysis": "scenario_master_prompt_analysis",
}
_IDS: Mapping[Kind, str] = {
    "conversation": "NO_RP_SCENARIO_IDS",
    "drafting": "MESSAGE_DRAFTING_SCENARIO_IDS",
    "analysis": "ANALYSIS_SCENARIO_IDS",
}
REASONING = "chain_of_thought_reasoning"
_CHECKOUT = "expected an unmodified clone of https://github.com/EQ-bench/eqbench3"

_SCENARIO = re.compile(r"^########(?!#)\s*(\S+)")
_PROMPT = re.compile(r"^#######(?!#)\s*(Prompt)?(\d+)(?(1)|\s*$)")
_HEADING = re.compile(r"^# (?!#)(.+?)[ \t]*$", re.MULTILINE)


def load_scenarios(name: str | Path, *, exclude_tags: Sequence[str] = ()) -> list[EQBenchScenario]:
    root = Path(name)
    if not (root / _PROMPTS).is_file():
        raise UseError(f"{root} has no {_PROMPTS}; {_CHECKOUT} (the folder with data/)")
    if exclude_tags:
        raise UseError(f"--exclude-tag {' '.join(exclude_tags)}: scenarios of EQ-Bench3 have no tags; omit the option")
    forms = _forms(root)
    kinds = {id: kind for kind, ids in _IDS.items() for id in _strings(root / "utils" / "constants.py", ids)}
    noted = root / _DATA / "scenario_notes.txt"
    notes = read_notes(noted, read_text(noted)) if noted.is_file() else {}
    return [
        EQBenchScenario(id, category, title, forms[kinds.get(id, "role-play")], official, repaired, notes.get(id, ""), root=root)
        for id, category, title, official, repaired in read_prompts(root / _PROMPTS, read_text(root / _PROMPTS))
    ]


def read_prompts(path: Path, text: str) -> list[tuple[str, str, str, tuple[str, ...], tuple[str, ...]]]:
    """Id, category, title, and the prompts in the variants `official` and `repaired`, of every scenario.

    A scenario begins with `######## id | category | title`, each of its prompts with `####### Prompt` and its number.
    """
    found: dict[str, tuple[int, str, str, list[list[str]], list[list[str]]]] = {}
    official: list[list[str]] = []
    repaired: list[list[str]] = []
    for number, whole_line in enumerate(text.split("\n"), start=1):
        line, place = whole_line.strip(), f"{path}, line {number}"
        header = _PROMPT.match(line)
        if _SCENARIO.match(line):
            parts = [part.strip() for part in line.removeprefix("########").split("|")]
            if len(parts) != 3 or not all(parts) or len(parts[0].split()) != 1:
                raise InputError(f"{place}: {line!r}; expected `######## id | category | title`")
            id, category, title = parts
            if id in found:
                raise InputError(f"{place}: scenario {id!r} is already on line {found[id][0]}; ids must differ")
            official, repaired = [], []
            found[id] = (number, category, title, official, repaired)
        elif not found:
            if line:
                raise InputError(f"{place}: {line[:60]!r}; expected `######## id | category | title` first")
        elif header or line.startswith("#######"):
            expected = len(repaired) + 1
            if header is None or int(header[2]) != expected:
                raise InputError(f"{place}: {line!r}; expected `####### Prompt{expected}` here")
            repaired.append([])
            if header[1]:
                official.append([])
            elif official:  # a malformed header is text to the released parser
                official[-1].append(whole_line)
        elif repaired:
            for prompts in (repaired, official):
                if prompts:
                    prompts[-1].append(whole_line)
        elif line:
            raise InputError(f"{place}: {line[:60]!r}; expected `####### Prompt1` after the scenario's header")
    if not found:
        raise InputError(f"{path} holds no scenario; expected `######## id | category | title`, then `####### Prompt1`")
    scenarios = []
    for id, (number, category, title, official, repaired) in found.items():
        as_released, texts = (tuple("\n".join(prompt).strip() for prompt in prompts) for prompts in (official, repaired))
        if not texts:
            raise InputError(f"{path}, line {number}: scenario {id!r} has no prompt; expected `####### Prompt1` below it")
        if not all(texts):
            raise InputError(
                f"{path}, line {number}: prompt {texts.index('') + 1} of scenario {id!r} is empty; expected its text"
            )
        scenarios.append((id, category, title, tuple(filter(None, as_released)), texts))
    return scenarios


def read_notes(path: Path, text: str) -> dict[str, str]:
    """Notes by scenario id: `# id`, and the text below it. The scenarios need not exist."""
    notes: dict[str, list[str]] = {}
    body: list[str] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("# "):
            id = line.strip("# \n")
            if len(id.split()) != 1 or id in notes:
                raise InputError(f"{path}, line {number}: {line.strip()!r}; expected `# id` with a new id")
            body = notes[id] = []
        elif body is not None:
            body.append(line)
        elif line.strip():
            raise InputError(f"{path}, line {number}: {line.strip()[:60]!r}; expected `# id` before the first note")
    return {id: "\n".join(lines).strip() for id, lines in notes.items()}


def _forms(root: Path) -> dict[Kind, ScenarioForm]:
    benchmark = root / "core" / "benchmark.py"
    debrief = text_of(root / _DATA / "debrief_prompt.txt")
    masters = {kind: _template(root, name, {"scenario_prompt"}) for kind, name in _MASTERS.items()}
    counted = _strings(benchmark, "STANDARD_ALLOWED_RUBRIC_CRITERIA")
    hint, _ = _assigned(benchmark, rf"""["']{REASONING}["']\s*:\s*("[^"\n]*"|'[^'\n]*')""", f"text of {REASONING!r}")
    rubrics = {
        "": _rubric(root, "", {"transcript", "debrief", "output_format"}, counted, hint),
        "_analysis": _rubric(root, "_analysis", {"transcript", "output_format"}, None, hint),
    }
    texts = {_MASTERS[kind]: master for kind, master in masters.items()} | {"debrief_prompt": debrief}
    for suffix, rubric in rubrics.items():
        texts[f"rubric_scoring_prompt{suffix}"] = rubric.template
        texts[f"rubric_scoring_criteria{suffix}"] = f"{rubric.criteria} {sorted(rubric.counted)} {hint}"
    files = {name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in texts.items()}
    forms: dict[Kind, ScenarioForm] = {}
    for kind in KINDS:
        master, analysis = masters.get(kind, _AS_IT_IS), kind == "analysis"
        sections = () if analysis else tuple(_HEADING.findall(master))
        if kind in masters and not (analysis or sections):
            raise InputError(f"{root / _DATA / _MASTERS[kind]}.txt has no heading `# ...`; expected the headings of an answer")
        rubric = rubrics["_analysis" if analysis else ""]
        forms[kind] = ScenarioForm(kind, master, sections, None if analysis else debrief, rubric, files)
    return forms


def _rubric(root: Path, suffix: str, blanks: Collection[str], counted: frozenset[str] | None, hint: str) -> Rubric:
    path = root / _DATA / f"rubric_scoring_criteria{suffix}.txt"
    lines = [line.strip() for line in text_of(path).split("\n")]
    criteria = tuple(line for line in lines if line and not line.startswith("#"))
    for number, line in enumerate(lines, start=1):
        if line in criteria and (not line.isidentifier() or line == REASONING or lines.index(line) != number - 1):
            raise InputError(f"{path}, line {number}: {line!r}; expected one word, the name of a new criterion")
    counting = frozenset(criteria) if counted is None else counted & frozenset(criteria)
    if not counting:
        raise InputError(f"{path} names no criterion that counts; expected one of {', '.join(sorted(counted or ()))}")
    return Rubric(_template(root, f"rubric_scoring_prompt{suffix}", blanks), criteria, counting, hint)


def _template(root: Path, name: str, blanks: Collection[str]) -> str:
    path = root / _DATA / f"{name}.txt"
    text = text_of(path)
    wanted = ", ".join(f"{{{blank}}}" for blank in sorted(blanks))
    try:
        parts = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise InputError(f"{path}: {error}; expected the blanks {wanted}, and other braces doubled") from error
    given = {
        f"{blank}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}" for _, blank, form, conversion in parts
    }
    if given != set(blanks):
        shown = ", ".join(f"{{{blank}}}" for blank in sorted(given)) or "no blank"
        raise InputError(f"{path} has {shown}; expected {wanted}")
    return text


def text_of(path: Path) -> str:
    if not path.is_file():
        raise InputError(f"{path} is missing; {_CHECKOUT}")
    text = read_text(path)
    if not text.strip():
        raise InputError(f"{path} is empty; {_CHECKOUT}")
    return text


def _assigned(path: Path, pattern: str, what: str) -> tuple[Any, int]:
    """The literal behind the first place that fits a pattern, and its line. The file is searched, not run."""
    text = text_of(path)
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise InputError(f"{path} has no {what}; {_CHECKOUT}")
    line = text.count("\n", 0, match.start(1)) + 1
    try:
        return ast.literal_eval(match[1]), line
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        raise InputError(f"{path}, line {line}: {what} is no literal; {_CHECKOUT}") from error


def _strings(path: Path, name: str) -> frozenset[str]:
    value, line = _assigned(path, rf"\b{name}\s*=\s*(\{{[^{{}}]*\}})", f"assignment of a set to {name}")
    if not isinstance(value, set) or not all(isinstance(one, str) for one in value):
        raise InputError(f"{path}, line {line}: {name} is not a set of strings; {_CHECKOUT}")
    return frozenset(value)


# Sections of an answer, as found by the released code


def sections_of(answer: str, headings: Sequence[str]) -> dict[str, str]:
    """The stripped text of each section by its heading; empty if the heading is missing, which is no failure.

    Headings match in any case, with straight or curly apostrophes, and with hyphens or spaces. As released, a section ends at the
    next number sign, even within its text; the last one ends at the first double hyphen, so a dash typed as two hyphens cuts it.

    >>> sections_of("# what I think\\nOh no.\\n\\n# What I say\\nSit down -- please.", ["What I think", "What I say"])
    {'What I think': 'Oh no.', 'What I say': 'Sit down'}
    """
    found = {heading: _pattern(heading, last=heading == headings[-1]).search(answer) for heading in headings}
    return {heading: match[1].strip() if match else "" for heading, match in found.items()}


def as_judged(answer: str, sections: Mapping[str, str]) -> str:
    if not sections:
        return answer
    return "\n\n".join(f"# {heading}\n{text}" for heading, text in sections.items()) + "\n\n--"


@lru_cache(maxsize=64)
def _pattern(heading: str, *, last: bool) -> re.Pattern[str]:
    words = "".join({"'": "['’]", "’": "['’]", "-": "[- ]"}.get(letter, re.escape(letter)) for letter in heading)
    return re.compile(rf"#\s*{words}\s*\n(.*?)(?={'--' if last else '#'}|\Z)", re.IGNORECASE | re.DOTALL)


# Scenarios as text


def _line(s: EQBenchScenario) -> str:
    prompts = len(s.repaired)
    only = "" if s.official else " (variant repaired only: its prompt header is malformed)"
    return f"{s.id:5} {s.kind:12} {s.category}: {s.title}, {prompts} prompt{'s' if prompts > 1 else ''}{only}"


def _shown(s: EQBenchScenario) -> str:
    form, rubric = s.form, s.form.rubric
    marked = ", ".join(name if name in rubric.counted else f"({name})" for name in rubric.criteria)
    parts = [
        f"{s.title} ({s.id}; {s.kind}; {s.category})",
        *(f"Prompt {number}:\n{text}" for number, text in enumerate(s.repaired, 1)),
        f"Sections of an answer: {', '.join(form.sections)}." if form.sections else "",
        f"Debrief: {form.debrief}" if form.debrief else "",
        f"Criteria: {marked}; those in brackets do not count.",
        f"Notes for pairwise judges: {s.notes}" if s.notes else "",
    ]
    return "\n\n".join(filter(None, parts))


SCENARIOS = Scenarios(
    sets=(),
    load=load_scenarios,
    owns=lambda path, record: path.is_dir(),
    line=_line,
    text=_shown,
    written=lambda s: False,
    playable=lambda s, variant: bool(s.prompts(variant)),
)
