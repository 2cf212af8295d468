"""The report site: run directories in, one folder of static pages out, to be opened from disk.

Nothing is fetched from elsewhere, and nothing a model wrote is put in as markup. Dialogues are a small list of all, and chunks
with their texts and, apart, with the prompts and answers of their calls. `fetch` does not work from disk, so each of these files
is a script that calls one function with one JSON value; the texts are made printable, and the pages insert them as text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, Environment, FunctionLoader, PackageLoader, StrictUndefined
from markupsafe import Markup

from heartloop.core.blocks import ReportPanel
from heartloop.core.dialogue import HEAVY_TAGS, Transcript, content_tags
from heartloop.core.errors import UseError
from heartloop.core.system import reported
from heartloop.core.text import money, printable, script_json, short_number
from heartloop.environments.episode import BROKEN_FORMATS, broken_formats
from heartloop.environments.registry import environment_names, load_environment, specs
from heartloop.evaluation.compare import Comparison
from heartloop.evaluation.scores import ALLOWED_UNSCORED, group_of, score_card
from heartloop.evaluation.store import StoredRun, comparable, read_run
from heartloop.reader.aspects import STRATEGIES
from heartloop.report.calls import WITH_TEXTS, CallTexts, numbers_of, replays
from heartloop.report.comparing import COMPARISON, FEW_MODELS, comparison_page, matrix_of, side_by_side, tab_labels
from heartloop.report.drawing import MOST_LINES, PALETTE, drawn, radar
from heartloop.report.markdown import nodes_of
from heartloop.report.page import Page
from heartloop.report.provenance import PROCESS, provenance_of
from heartloop.report.training import (
    ARCH_STEPS,
    SMOOTHING,
    TrainingPage,
    TrainingRun,
    is_training_run,
    pages_of,
    read_training_run,
)

_STATIC = ("report.css", "page.js", "chart.js", "views.js", "report.js", "dialogue.js")
_SIDE_BY_SIDE = "side-by-side.html"


WrittenPage = tuple[str, str, str, dict[str, Any]]
"""A page: its file, its template, its name in the links between pages (empty: none), and what the template shows."""


class Site(NamedTuple):
    """What every page shows of the others: the tabs of measurements, the other pages, and which page this is."""

    tabs: list[dict[str, str]]
    nav: list[dict[str, str]]
    here: str
    version: str
    colours: Mapping[str, int] = {}
    reload: bool = False


def write_site(
    runs: Sequence[Path | StoredRun | TrainingRun],
    out: Path,
    *,
    reload: bool = False,
    comparison: Comparison | None = None,
    min_difference: float | None = None,
    gate: str = "",
) -> Path:
    """Writes the report of some runs into `out` and returns its `index.html`.

    Runs of the same environment, user, preset, variant, prompts, sampling and kind of scenario share a page; others get a
    page of their own, since their numbers do not compare. Training runs of one environment share a page. Pages of an earlier
    report in `out` that this one does not have are removed. With `reload` the pages reload themselves every few seconds. The
    `comparison`, of two models in these runs, is on a page of its own; it was made with `min_difference`, and `gate` is the
    sentence of its gate.
    """
    if not runs:
        raise UseError("no run directory was given; expected at least one, for example runs/first")
    found = [_read(run) if isinstance(run, Path) else run for run in runs]
    measurements = comparable([run for run in found if isinstance(run, StoredRun)])
    pages = [
        Page(measurement, score_card(measurement.digests, measurement.settings), number)
        for number, measurement in enumerate(measurements, start=1)
    ]
    for page, label in zip(pages, tab_labels(pages), strict=True):
        page.label = label
    tabs = [
        {"name": page.file, "environment": page.title, "label": page.label.removeprefix(page.title), "leader": page.leader}
        for page in pages
    ]
    compared = comparison_page(comparison, pages, min_difference, gate) if comparison is not None and pages else None
    matrix = matrix_of(pages, [tab["label"].removeprefix(", ") for tab in tabs])
    written: list[WrittenPage] = [
        (page.file, "page.html", label, {**page.output.context, "page": page, "matrix": matrix if label else None})
        for page in pages
        for label in ["Report" if page.number == 1 else ""]
    ]
    if compared is not None:
        written.append((COMPARISON, COMPARISON, "Comparison", {"compared": compared}))
    trained = pages_of([run for run in found if isinstance(run, TrainingRun)], len(pages))
    with_dialogues = [*pages, *(course.held_out for course in trained if course.held_out)]
    written += _other_pages(pages, trained, [run for run in found if isinstance(run, StoredRun)])
    rows = [(row.standing == "failure case", row.rank or 99, row.model) for page in pages for row in page.card.models]
    version = (pages[0].card.heartloop_version if pages else trained[0].runs[0].settings.get("heartloop")) or ""
    site = Site(
        tabs=tabs if len(tabs) > 1 else [],
        nav=[{"name": name, "label": label} for name, _, label, _ in written if label],
        here="",
        version=str(version),
        colours=assign_colours([model for *_, model in sorted(rows, key=lambda row: row[:2])]),
        reload=reload,
    )
    with reported(f"write the report to {out}", "choose a folder that can be written"):
        copy_assets(out / "assets", _STATIC)
        for page in with_dialogues:
            for ending in ("js", "css"):
                if file := page.panel.file(f"panel.{ending}"):
                    (out / "assets" / f"{page.environment}.{ending}").write_bytes(file.read_bytes())
        _remove_stale(out, len(pages) + len(trained), {name for name, *_ in written})
        for page in with_dialogues:
            _write_data(out / "data" / str(page.number), page)
        for name, template, _, shown in written:
            html = templates().get_template(template).render(site=site._replace(here=name), **shown)
            (out / name).write_text(html, encoding="utf-8", errors="backslashreplace")
    return out / "index.html"


def assign_colours(models: Iterable[str]) -> dict[str, int]:
    """A colour for each of the first `PALETTE` models: the one that the hash of its name proposes, or the next free one."""
    colours: dict[str, int] = {}
    for name in dict.fromkeys(models):
        first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        free = (slot for step in range(PALETTE) if (slot := (first + step) % PALETTE) not in colours.values())
        colours[name] = next(free, PALETTE)
    return colours


def _read(run: Path) -> StoredRun | TrainingRun:
    return read_training_run(run) if is_training_run(run) else read_run(run)


def _other_pages(pages: Sequence[Page], trained: Sequence[TrainingPage], runs: Sequence[StoredRun]) -> Iterator[WrittenPage]:
    if tables := side_by_side(pages):
        yield _SIDE_BY_SIDE, _SIDE_BY_SIDE, "Side by side", {"tables": tables}
    for course in trained:
        suffix = f"-{course.number}" if course.number > 1 else ""
        name = f"training{suffix}.html" if pages or suffix else "index.html"
        label = f"Training: {course.environment}" if len(trained) > 1 else "Training"
        yield name, "training.html", label, {"page": course}
    if pages:
        yield "published.html", "published.html", "Published results", _published(pages, runs)
        provenance = [provenance_of(run) for run in runs]
        yield "settings.html", "settings.html", "Settings", {"runs": provenance, "process": PROCESS}
    yield "numbers.html", "numbers.html", "What the numbers mean", _meanings(pages, trained)


def _meanings(pages: Sequence[Page], trained: Sequence[TrainingPage]) -> dict[str, Any]:
    """The page of meanings; the numbers of an environment are those of its first page, or of its scale if it has none."""
    glossaries = []
    for spec in specs():
        if spec.report.file("glossary.html"):
            page, scale = next((page for page in pages if page.environment == spec.name), None), spec.scale
            html = (
                templates()
                .get_template(f"{spec.name}/glossary.html")
                .render(
                    m=templates().get_template("macros.html").module,
                    scale=scale,
                    start=page.start if page else scale.start,
                    success_at=page.card.success_at if page else scale.success_at,
                    failure_below=page.card.failure_below if page else scale.failure_below,
                    **spec.report.glossary_context,
                )
            )
            glossaries.append({"name": spec.name, "title": spec.title, "html": Markup(html)})
    metrics = {metric.entry: metric for page in trained for group in page.declared for metric in group.metrics}.values()
    return {
        "glossaries": glossaries,
        "allowed_unscored": ALLOWED_UNSCORED,
        "most_lines": MOST_LINES,
        "few_models": FEW_MODELS,
        "training": {"smoothing": SMOOTHING, "arch_steps": ARCH_STEPS, "metrics": metrics} if trained else None,
    }


def _published(pages: Sequence[Page], runs: Sequence[StoredRun]) -> dict[str, Any]:
    sections: list[dict[str, Any]] = []
    for spec in specs():
        if spec.report.published is not None:
            published = spec.report.published()
            measured = [
                (page, published.measured(page.panel_input) if published.measured else None)
                for page in pages
                if page.environment == spec.name
            ]
            sections.append({"name": spec.name, "title": spec.title, "published": published, "measured": measured})
    return {
        "sections": sections,
        "papers": list(dict.fromkeys(paper for section in sections for paper in section["published"].papers)),
        "embedded": any(page.learned for page in pages),
        "all_embedded": all(page.learned for page in pages),
        "imported": any("imported" in entry for run in runs for entry in run.log),
    }


@cache
def templates() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("heartloop.report"), FunctionLoader(_panel_file)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters["digits"] = lambda value, places: f"{round(value, places) + 0.0:.{places}f}"
    environment.filters["radar"] = radar
    environment.filters["drawn"] = lambda chart, width, height: drawn(chart, width=width, height=height)
    environment.filters["slug"] = lambda words: re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    environment.filters["headed"] = lambda words: words[:1].upper() + words[1:]
    environment.filters["money"] = money
    environment.filters["one"] = lambda value: "–" if value is None else f"{round(value, 1) + 0.0:.1f}"
    environment.filters["whole"] = lambda value: "–" if value is None else f"{round(value) + 0:,}".replace(",", " ")
    return environment


def _panel_file(name: str) -> str | None:
    environment, _, file = name.partition("/")
    found = load_environment(environment).report.file(file) if environment in environment_names() else None
    return found.read_text(encoding="utf-8") if found else None


def copy_assets(folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes((resources.files("heartloop.report") / "static" / name).read_bytes())


def _remove_stale(out: Path, count: int, pages: Collection[str]) -> None:
    """Pages and data of an earlier report with more pages; files that are not the report's own stay."""
    ours = re.compile(r"(comparison|side-by-side|published|settings|training(-[1-9]\d*)?|measurement-[1-9]\d*)\.html")
    for path in out.glob("*.html"):
        if ours.fullmatch(path.name) and path.name not in pages:
            path.unlink()
    for folder in (out / "data").glob("*"):
        if re.fullmatch(r"[1-9]\d*", folder.name) and int(folder.name) > count and folder.is_dir():
            _remove_data(folder)
            if not any(folder.iterdir()):
                folder.rmdir()


def _remove_data(folder: Path) -> None:
    for stale in (folder / "list.js", folder / "panel.js", *folder.glob("dialogues-*.js"), *folder.glob("calls-*.js")):
        stale.unlink(missing_ok=True)


def _write_data(folder: Path, page: Page) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _remove_data(folder)
    _write_script(folder / "list.js", "list", dialogue_list(page))
    if page.output.data is not None:
        _write_script(folder / "panel.js", "panel", clean(page.output.data))
    for number, first in enumerate(range(0, len(page.texts), CHUNK)):
        chunk = {"number": number, "dialogues": dialogue_chunk(page.texts[first : first + CHUNK], page.panel)}
        _write_script(folder / f"dialogues-{number}.js", "dialogues", chunk)
    calls: dict[int, tuple[CallTexts, dict[int, Any]]] = {}
    for number, played, replayed in replays(page.runs, [page.dialogues[i] for i in page.shown[:WITH_TEXTS]]):
        texts, entries = calls.setdefault(number // CHUNK, (CallTexts(), {}))
        entries[number % CHUNK] = texts.of(played, replayed)
    for number, (texts, entries) in calls.items():
        _write_script(folder / f"calls-{number}.js", "calls", {"number": number, "lines": [*texts.lines], "dialogues": entries})


def _write_script(path: Path, kind: str, value: object) -> None:
    path.write_text(f'heartloop.take("{kind}",{script_json(value)});\n', encoding="ascii")


CHUNK = 20


def dialogue_list(page: Page) -> dict[str, Any]:
    models = [row.model for row in page.card.models]
    keys = [(transcript.scenario, transcript.fingerprint) for transcript in page.texts]
    first = dict(zip(reversed(keys), reversed(page.texts), strict=True))
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    plays: dict[tuple[str, str], dict[tuple[int, int], None]] = {}
    """For each scenario its (repeat, seed) pairs, by repeat, then as they first appear: over one seed the place is the repeat."""
    for digest in sorted(page.dialogues, key=lambda one: one.repeat):
        plays.setdefault((digest.scenario, digest.fingerprint), {})[digest.repeat, digest.seed] = None
    rows = [
        [
            page.ids[place],
            models.index(digest.model),
            places[key],
            list(plays[key]).index((digest.repeat, digest.seed)),
            digest.stop,
            _short(digest.points),
            [_short(value) for value in digest.course],
            number // CHUNK,
        ]
        for number, (place, key) in enumerate(zip(page.shown, keys, strict=True))
        for digest in [page.dialogues[place]]
    ]
    return {
        "models": [printable(model) for model in models],
        "turns": page.turns,
        "scenarios": [_scenario(first[key], page.panel) for key in places],
        "rows": rows,
        "run": " or ".join(printable(name) for name in page.run_names),
        "withTexts": WITH_TEXTS,
        "chunk": CHUNK,
        "thoughts": dict(page.panel.thoughts),
        "thoughtsTitle": page.panel.thoughts_title,
        "scale": {
            **{name: getattr(page.scale, name) for name in ("low", "high", "ticks", "title")},
            "start": page.start,
            "zones": [zone._asdict() for zone in page.zones],
            "groups": [column["key"] for column in page.groups],
        },
        "strategies": {key: [entry.name, entry.group_name] for key, entry in STRATEGIES.items()},
    }


def dialogue_chunk(transcripts: Sequence[Transcript], panel: ReportPanel) -> list[dict[str, Any]]:
    return [
        {
            "turns": list(_turns(transcript, panel)),
            "failure": None if transcript.failure is None else clean(transcript.failure.model_dump()),
            "seed": transcript.seed,
            "calls": numbers_of(transcript),
            "panel": clean(panel.dialogue(transcript)) if panel.dialogue else {},
        }
        for transcript in transcripts
    ]


def _scenario(transcript: Transcript, panel: ReportPanel) -> dict[str, Any]:
    facts, view = transcript.facts, panel.scenario(transcript)
    tags, group = content_tags(transcript.facts), group_of(transcript)
    line = view.line or " · ".join(
        dict.fromkeys(filter(None, (facts.get("person"), facts.get("place"), group, facts.get("theme"), facts.get("keyword"))))
    )
    return {
        "id": printable(transcript.scenario),
        **{name: printable(facts.get(name, "")) for name in ("title", "person", "place", "theme", "keyword")},
        "group": printable(group),
        "line": printable(line),
        "facts": clean(view.facts),
        "plays": printable(view.model_plays),
        "tags": [printable(tag) for tag in tags],
        "heavy": any(tag in HEAVY_TAGS for tag in tags),
        "opening": None if transcript.opening is None else printable(facts.get("query", transcript.opening)),
    }


def _turns(transcript: Transcript, panel: ReportPanel) -> Iterator[dict[str, Any]]:
    """The turns, with the thinking of a reply, and `broken` where the prompt asks for a form that it does not have."""
    thinking = {call.turn: call.thinking for call in transcript.calls if call.role == "policy"}
    broken = broken_formats(transcript.calls) if BROKEN_FORMATS in transcript.counts else ()
    for turn in transcript.turns:
        view = panel.turn(transcript, turn)
        marks = {"silent": turn.silent, "truncated": turn.truncated, "broken": turn.index in broken}
        texts = {"reply": turn.reply, "message": turn.message, "thinking": thinking.get(turn.index) or None, "error": turn.error}
        evidence = {name: turn.evidence[name] for name in ("strategies", "aspects", "floor") if turn.evidence.get(name)}
        yield {
            **{name: True for name, holds in marks.items() if holds},
            **{name: printable(text) for name, text in texts.items() if text is not None},
            **({"nodes": nodes} if (nodes := nodes_of(turn.reply)) else {}),
            "state": {name: _short(value) for name, value in (turn.state or {}).items()},
            "change": {name: _short(value) for name, value in (turn.change or {}).items()},
            "thoughts": clean(view.thoughts),
            **{name: clean(value) for name, value in (("details", view.details), ("evidence", evidence)) if value},
        }


def _short(value: float | None) -> float | int | None:
    return None if value is None or value != value else short_number(value)


def clean(value: Any) -> Any:
    """The same value with every text printable; a number JSON does not know becomes a word."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): clean(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(entry) for entry in value]
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return str(value)
    return value
