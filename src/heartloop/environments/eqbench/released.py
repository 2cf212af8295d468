"""A user's checkout of EQ-Bench3 as scenarios: prompts, notes, master prompts, debrief and rubrics, as they lie there.

Covers the text files of `data/`, and what the released code keeps in Python: which ids are of which kind
(`utils/constants.py`), which criteria count and how the answer's form asks for reasons (`core/benchmark.py`). Those are read as
text, by their syntax tree; no line of the checkout is run. Does not cover the pairwise comparison, nor the published results.

Prompt headers are read twice, as `scenario.VARIANTS` has it: in the release of May 2025 the one of scenario 409 lacks its word,
so the released parser finds no prompt there, says nothing and leaves the scenario out. Everything else that does not fit the
form is an error with file, line and what was expected, where the released code logs a line or goes on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from heartloop.core.errors import InputError, UseError
from heartloop.environments.eqbench.scenario import KINDS, Form, Kind, Rubric, Scenario, Template
from heartloop.environments.records import read_text

__all__ = ["PROMPTS_FILE", "is_checkout", "load_scenarios", "read_notes", "read_prompts"]

PROMPTS_FILE = Path("data") / "scenario_prompts.txt"
"""By which a folder is known as a checkout."""

_NOTES, _DEBRIEF = Path("data") / "scenario_notes.txt", Path("data") / "debrief_prompt.txt"
_CONSTANTS, _BENCHMARK = Path("utils") / "constants.py", Path("core") / "benchmark.py"
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
_COUNTED = "STANDARD_ALLOWED_RUBRIC_CRITERIA"
_REASONING = "chain_of_thought_reasoning"
_CHECKOUT = "give a checkout of https://github.com/EQ-bench/eqbench3 as it was cloned"

_SCENARIO = re.compile(r"^########(?!#)\s*(\S+)")
_PROMPT = re.compile(r"^#######(?!#)\s*Prompt(\d+)")
_BARE_PROMPT = re.compile(r"^#######(?!#)\s*(\d+)\s*$")
_HEADING = re.compile(r"^# (?!#)(.+?)[ \t]*$", re.MULTILINE)


def is_checkout(path: str | Path) -> bool:
    """Whether a path is a folder that holds the scenario prompts."""
    return (Path(path) / PROMPTS_FILE).is_file()


def load_scenarios(name: str | Path, *, exclude_tags: Sequence[str] = ()) -> list[Scenario]:
    """All scenarios of a checkout, in the file's order; one that only the variant `repaired` has is among them.

    Raises:
        UseError: no such folder, one that is no checkout, or a tag to exclude: the release has none.
        InputError: a file that is missing or does not fit, with its line and what was expected.
    """
    root = Path(name)
    if not is_checkout(root):
        raise UseError(f"{root} holds no {PROMPTS_FILE}; {_CHECKOUT} (the folder that has data/ in it)")
    if exclude_tags:
        raise UseError(f"--exclude-tag {' '.join(exclude_tags)}: scenarios of EQ-Bench3 carry no tags; leave it out")
    forms = _forms(root)
    kinds = {scenario: kind for kind, ids in _ids(root).items() for scenario in ids}
    notes = read_notes(root / _NOTES, read_text(root / _NOTES)) if (root / _NOTES).is_file() else {}
    return [
        Scenario(id, category, title, forms[kinds.get(id, "role-play")], official, repaired, notes.get(id, ""))
        for id, category, title, official, repaired in read_prompts(root / PROMPTS_FILE, read_text(root / PROMPTS_FILE))
    ]


def read_prompts(path: Path, text: str) -> list[tuple[str, str, str, tuple[str, ...], tuple[str, ...]]]:
    """Id, category, title, and the prompts as the variants `official` and `repaired` read them, of every scenario.

    A scenario begins with `######## id | category | title`, each of its prompts with `####### Prompt` and its number.

    Raises:
        InputError: with the line, for a header of another form, an id that stands twice, prompts that do not count from 1, an
            empty prompt, text before the first header, or no scenario at all.
    """
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _SCENARIO.match(line.strip())]
    for number, line in enumerate(lines[: starts[0]] if starts else lines, start=1):
        if line.strip():
            raise InputError(f"{path}, line {number}: {line.strip()[:60]!r}; expected `######## id | category | title` first")
    if not starts:
        raise InputError(f"{path} holds no scenario; expected `######## id | category | title`, then `####### Prompt1`")
    found: list[tuple[str, str, str, tuple[str, ...], tuple[str, ...]]] = []
    seen: dict[str, int] = {}
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        parts = [part.strip() for part in lines[start].strip().removeprefix("########").split("|")]
        if len(parts) != 3 or not all(parts) or len(parts[0].split()) != 1:
            raise InputError(f"{path}, line {start + 1}: {lines[start].strip()!r}; expected `######## id | category | title`")
        id, category, title = parts
        if id in seen:
            raise InputError(f"{path}, line {start + 1}: scenario {id!r} stands on line {seen[id]} already; ids must differ")
        seen[id] = start + 1
        found.append((id, category, title, *_both_readings(path, lines, start + 1, end)))
    return found


def _both_readings(path: Path, lines: Sequence[str], start: int, end: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The prompts of one scenario, whose lines run from `start` to before `end`, by the released parser and mended."""
    official: list[list[str]] = []
    repaired: list[list[str]] = []
    for number in range(start, end):
        line = lines[number].strip()
        well, bare = _PROMPT.match(line), _BARE_PROMPT.match(line)
        if line.startswith("#######") and not well and not bare:
            raise InputError(f"{path}, line {number + 1}: {line!r}; expected `####### Prompt{len(repaired) + 1}`")
        header = well or bare
        if header is not None:
            if int(header[1]) != len(repaired) + 1:
                raise InputError(f"{path}, line {number + 1}: {line!r}; expected `####### Prompt{len(repaired) + 1}` here")
            repaired.append([])
        elif repaired:
            repaired[-1].append(lines[number])
        elif line:
            raise InputError(f"{path}, line {number + 1}: {line[:60]!r}; expected `####### Prompt1` after the scenario's header")
        if well:
            official.append([])
        elif official:  # a malformed header is text to the released parser
            official[-1].append(lines[number])
    mended = _texts(repaired)
    for place, text in enumerate(mended, start=1):
        if not text:
            raise InputError(f"{path}, scenario on line {start}: its prompt {place} is empty; expected text under its header")
    if not mended:
        raise InputError(f"{path}, line {start}: {lines[start - 1].strip()!r} has no prompt; expected `####### Prompt1` under it")
    return tuple(filter(None, _texts(official))), mended


def _texts(prompts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple("\n".join(prompt).strip() for prompt in prompts)


def read_notes(path: Path, text: str) -> dict[str, str]:
    """Notes by the id of their scenario: `# id`, and the text below it. There may be notes of scenarios that are not there.

    Raises:
        InputError: with the line, for text before the first header, a header without one id, or an id that stands twice.
    """
    notes: dict[str, list[str]] = {}
    body: list[str] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("# "):
            id = line.strip("# \n")
            if len(id.split()) != 1 or id in notes:
                raise InputError(f"{path}, line {number}: {line.strip()!r}; expected `# id` with an id that is not there yet")
            body = notes[id] = []
        elif body is not None:
            body.append(line)
        elif line.strip():
            raise InputError(f"{path}, line {number}: {line.strip()[:60]!r}; expected `# id` before the first note")
    return {id: "\n".join(lines).strip() for id, lines in notes.items()}


def _forms(root: Path) -> dict[Kind, Form]:
    """What scenarios of each kind share."""
    debrief = _text(root / _DEBRIEF)
    masters = {kind: _template(root, name, {"scenario_prompt"}) for kind, name in _MASTERS.items()}
    tree = _tree(root / _BENCHMARK)
    counted, hint = _counted(root / _BENCHMARK, tree), _hint(root / _BENCHMARK, tree)
    rubrics = {
        "": _rubric(root, "", {"transcript", "debrief", "output_format"}, counted, hint),
        "_analysis": _rubric(root, "_analysis", {"transcript", "output_format"}, None, hint),
    }
    texts = [*masters.values(), Template(_DEBRIEF.stem, debrief), *(rubric.template for rubric in rubrics.values())]
    criteria = [
        Template(f"rubric_scoring_criteria{suffix}", f"{rubric.criteria} {sorted(rubric.counted)} {hint}")
        for suffix, rubric in rubrics.items()
    ]
    files = {template.name: template.hash for template in (*texts, *criteria)}
    found: dict[Kind, Form] = {}
    for kind in KINDS:
        master = masters.get(kind)
        analysis = kind == "analysis"
        sections = () if analysis or master is None else _sections(root, master)
        rubric = rubrics["_analysis" if analysis else ""]
        found[kind] = Form(kind, master, sections, None if analysis else debrief, rubric, files)
    return found


def _sections(root: Path, master: Template) -> tuple[str, ...]:
    """The headings that a master prompt asks for: its lines that begin with one number sign."""
    found = tuple(_HEADING.findall(master.text))
    if not found:
        raise InputError(f"{root / 'data' / master.name}.txt has no heading `# ...`; expected those of the sections of an answer")
    return found


def _rubric(root: Path, suffix: str, blanks: Collection[str], counted: frozenset[str] | None, hint: str) -> Rubric:
    path = root / "data" / f"rubric_scoring_criteria{suffix}.txt"
    lines = [line.strip() for line in _text(path).split("\n")]
    criteria = tuple(line for line in lines if line and not line.startswith("#"))
    for number, line in enumerate(lines, start=1):
        if line in criteria and (not line.isidentifier() or line == _REASONING or lines.index(line) != number - 1):
            raise InputError(f"{path}, line {number}: {line!r}; expected the name of a criterion, in one word, once")
    counting = frozenset(criteria) if counted is None else counted & frozenset(criteria)
    if not counting:
        raise InputError(f"{path} names no criterion that counts; expected one of {', '.join(sorted(counted or ()))}")
    return Rubric(_template(root, f"rubric_scoring_prompt{suffix}", blanks), criteria, counting, hint)


def _template(root: Path, name: str, blanks: Collection[str]) -> Template:
    path = root / "data" / f"{name}.txt"
    found = Template(name, _text(path))
    wanted = ", ".join(f"{{{blank}}}" for blank in sorted(blanks))
    try:
        given = found.blanks
    except ValueError as error:
        raise InputError(f"{path}: {error}; expected the blanks {wanted}, and other braces doubled") from error
    if given != frozenset(blanks):
        shown = ", ".join(f"{{{blank}}}" for blank in sorted(given)) or "no blank"
        raise InputError(f"{path} has {shown}; expected {wanted}")
    return found


def _text(path: Path) -> str:
    """A file of the checkout, as it is.

    Raises:
        InputError: it is missing, unreadable or empty.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing; {_CHECKOUT}")
    text = read_text(path)
    if not text.strip():
        raise InputError(f"{path} is empty; {_CHECKOUT}")
    return text


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(_text(path))
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InputError(f"{path}{line}: it is no Python that can be read; {_CHECKOUT}") from error


def _ids(root: Path) -> dict[Kind, frozenset[str]]:
    """Ids of every kind but role-play, which is all the others."""
    path = root / _CONSTANTS
    tree = _tree(path)
    return {kind: _strings(path, tree, name) for kind, name in _IDS.items()}


def _counted(path: Path, tree: ast.Module) -> frozenset[str]:
    return _strings(path, tree, _COUNTED)


def _strings(path: Path, tree: ast.Module, name: str) -> frozenset[str]:
    """The set of strings that a name is given, wherever it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            value = _literal(node.value)
            if isinstance(value, set) and all(isinstance(one, str) for one in value):
                return frozenset(value)
            raise InputError(f"{path}, line {node.lineno}: {name} is no set of strings; expected one, {_CHECKOUT}")
    raise InputError(f"{path} gives {name} no value; expected a set of strings, {_CHECKOUT}")


def _hint(path: Path, tree: ast.Module) -> str:
    """What the answer's form says where the judge is to reason."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and _literal(key) == _REASONING and isinstance(said := _literal(value), str):
                    return said
    raise InputError(f"{path} has no {_REASONING!r} in a form of an answer; {_CHECKOUT}")


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return None
