"""The terminal during `heartloop talk`: the human as a model, the screen, and the tables at the end. It fits 40 columns."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Self

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from heartloop.core.chat import EMBEDDED, HUMAN, Reply, Schema, estimate_usage
from heartloop.core.dialogue import HEAVY_TAGS, LEFT, Message, Sampling, Transcript
from heartloop.core.text import amount, printable
from heartloop.environments.episode import Environment, play
from heartloop.environments.registry import environment_names, find_scenario, load_environment, owner_of, scenarios_by_id, specs
from heartloop.environments.report import evidence_in_words, reply_in_words, unread_in_words
from heartloop.environments.spec import EnvironmentSpec, Scale
from heartloop.evaluation.plan import EvaluationPlan, plan_evaluation
from heartloop.evaluation.remote import with_urls
from heartloop.evaluation.runner import completed, play_run
from heartloop.evaluation.scores import SILENT, points_of
from heartloop.evaluation.settings import Job
from heartloop.evaluation.store import check_new
from heartloop.models.baselines import baseline_group
from heartloop.models.baselines.scripted import written_scenarios
from heartloop.models.budget import is_baseline
from heartloop.models.cache import dialogue_scope
from heartloop.models.names import close
from heartloop.models.recorded import READER, recordings

WIDEST = 72  # columns of text
_BETTER = 0.05  # share of the scale by which a better dialogue is above the human's, at least (ours)
_ENDS = {
    "success": "The dialogue ended: success.",
    "failure": "The dialogue ended: failure.",
    "turn_limit": "The dialogue ended: that was the last turn.",
    "cut": "You ended the dialogue.",
}
_HELP = (
    "Type a reply and press Enter; end a line with \\ to continue on the next.\n"
    ":thoughts  what the person thought of your last reply\n"
    ":undo      take your last reply back\n"
    ":brief     the situation again\n"
    ":quit      end the dialogue and see the score"
)


class TakenBack(Exception):
    """The last reply is taken back."""


class EndOfDialogue(Exception):
    """The human ends the dialogue; its turns so far count."""


class Screen:
    """The human as a `ChatModel`, and the terminal during the dialogue: shows turns, and reads replies and commands."""

    name = HUMAN

    def __init__(self, console: Console, spec: EnvironmentSpec, roles: Mapping[str, str]) -> None:
        self._console, self._spec, self._roles = console, spec, roles
        self._embedded = set(roles.values()) <= {EMBEDDED}
        self._interrupt = Interrupt()
        self._replies: list[str] = []
        self._prompt = ""
        self._latest: Transcript | None = None
        form = spec.training.answer_form if spec.training is not None else None
        self._parts = dict(form.headings) if form is not None else {"": ""}

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        index = sum(message.role == "assistant" for message in messages)
        if index == len(self._replies):
            parts = (heading + self._part(name.capitalize() or "You") for name, heading in self._parts.items())
            self._replies.append("".join(parts))
        text = self._replies[index]
        return Reply(text, usage=estimate_usage(messages, text))

    async def converse(self, environment: Environment, scenario: str, *, seed: int) -> Transcript:
        """Plays a dialogue until it ends, or the human or Ctrl-C ends it; its `stop` is `cut` then.

        A reply is taken back by playing again with those before it: the same seed, or a model's cache, gives the same answers.
        """

        shown = -1

        def watch(transcript: Transcript) -> None:
            self._latest = transcript
            if len(transcript.turns) == len(self._replies):
                self._show(transcript, again=len(transcript.turns) == shown)

        with self._interrupt:
            while True:
                try:
                    with dialogue_scope():
                        return await play(environment, scenario, self, seed=seed, watch=watch)
                except TakenBack:
                    self._replies.pop()
                    shown = len(self._replies)
                except (EndOfDialogue, asyncio.CancelledError):
                    if self._latest is None:
                        raise
                    return self._latest

    def begin(self, environment: Environment, scenario: str) -> None:
        about = f"You talk with a simulated person{players(self._roles)}. This is not a clinical tool, and no help in a crisis."
        self._print(about, style="dim")
        self._print(f"{self._spec.title} · scenario {scenario}", style="bold")
        prompt = environment.begin(scenario).policy_prompt
        # without the sections about the form of an answer
        self._prompt = re.sub(r"(?ms)^## How (?:to|you) .*?(?=^## |\Z)", "", prompt).strip()
        if (tags := dict(environment.describe(scenario)["facts"]).get("tags", "")) not in ("", "none"):
            self._print(f"Content: {tags.replace(' ', ', ')}", style="dim")
        self._print(self._prompt)
        self._print(":help lists the commands, :quit ends.\n", style="dim")

    def _show(self, transcript: Transcript, *, again: bool) -> None:
        if transcript.turns and not again and (why := unread_in_words(transcript.turns[-1].evidence)):
            self._print(f"{why} :undo takes it back.", style="yellow")
        message = transcript.turns[-1].message if transcript.turns else transcript.opening
        if message is not None:
            self._console.print(labelled(name_of(transcript), message, "bold cyan"))
        elif not transcript.turns:
            self._print("You begin.", style="bold")
        if transcript.turns:
            ascii_only = self._console.options.ascii_only
            self._console.print(mood(self._spec.scale, transcript, self._console.width, ascii_only=ascii_only))
            self._console.print()

    def finish(self, transcript: Transcript) -> None:
        scale, points = self._spec.scale, points_of(transcript)
        end = _ENDS.get(transcript.stop, f"The dialogue ended: {transcript.stop}.")
        if transcript.failure is not None:
            end = f"The dialogue failed and is unscored: {transcript.failure.role}, {transcript.failure.detail}"
        elif transcript.stop in LEFT:
            end = f"{name_of(transcript)} ended the dialogue."
        self._console.print(end, style="bold")
        replies = amount(len(transcript.turns), "reply", "replies")
        of = f" after {replies} ({scale.title}, {scale.low:g} to {scale.high:g})"
        self._console.print("Score: none." if points is None else f"Score: {_number(points)}{of}.")
        for title, text in self._spec.report.scenario(transcript).facts:
            if text not in self._prompt and not all(line in self._prompt for line in text.split(". ")):
                self._console.print(labelled(title, text))
        self._console.print()
        if len(transcript.turns) == 1 and not transcript.turns[0].state and transcript.stop != "cut":  # one answer, with grades
            self._console.print(grades(self._spec, transcript))
        else:
            self._console.print(replies_table(scale, transcript, self._console.width))

    def _part(self, label: str) -> str:
        while True:
            text = self._line(f"{label}: ")
            if text is None:
                self._print("")
                raise EndOfDialogue
            while text.endswith("\\"):
                text = text[:-1].rstrip() + "\n" + (self._line("... ") or "")
            word = text.strip()
            if word in (":quit", ":q"):
                raise EndOfDialogue
            if word == ":undo":
                if self._latest is None or not self._latest.turns:
                    self._print("There is no reply to take back.", style="dim")
                    continue
                asked = "" if self._embedded else " What the model answered before is not asked again."
                self._print(f"Your last reply is taken back.{asked}\n", style="dim")
                raise TakenBack
            if word == ":thoughts" and self._latest is not None:
                self._console.print(thoughts(self._spec, self._latest))
            elif word == ":brief":
                self._print(self._prompt)
            elif word == ":help":
                self._print(_HELP)
            elif word.startswith(":"):
                self._print(f"Unknown command {word.split()[0]}; :help lists them.", style="dim")
            elif not word:
                if sys.stdin.isatty():
                    self._print("An empty reply is not sent; type something, or :quit.", style="dim")
            else:
                return word

    def _line(self, prompt: str) -> str | None:
        """A line of the terminal or of stdin, which is echoed; `None` at the end of the input and on Ctrl-C."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - editing and history of the line
        try:
            self._interrupt.reading = True
            if self._interrupt.pressed:
                return None
            if sys.stdin.isatty():
                return input(prompt)
            line = sys.stdin.readline()
        except (EOFError, KeyboardInterrupt):
            return None
        finally:
            self._interrupt.reading = False
        if line.strip():
            typer.echo(f"{prompt}{line.rstrip()}")
        return line.rstrip("\r\n") if line else None

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(Text(printable(text)), style=style)


class Interrupt:
    """Ctrl-C ends the dialogue at the line that is read, or at the next one if the person answers; a second one stops at once."""

    def __init__(self) -> None:
        self.pressed = self.reading = False
        self._before: Any = None

    def __enter__(self) -> Self:  # asyncio's own handling is a cancellation, which a blocking read would never see
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _press(self, number: int, frame: FrameType | None) -> None:
        again, self.pressed = self.pressed, True
        if self.reading:
            raise KeyboardInterrupt
        if again and callable(self._before):
            self._before(number, frame)


def run_talk(
    environment: str | None, scenario: str | None, scenarios: str | None, seed: int,
    options: Callable[[EnvironmentSpec], Mapping[str, Any]], *, out: Path | None, user: str, roles: Mapping[str, str],
    cache: Path | None, **how: Any,
) -> int:  # fmt: skip
    spec, chosen, chosen_set = _chosen(environment, scenario, scenarios, seed)
    with tempfile.TemporaryDirectory(prefix="heartloop-talk-") as folder:
        asked = user != EMBEDDED or any(model != EMBEDDED for model in roles.values())
        baselines = [] if asked else baseline_group(spec.demo.baselines if spec.demo else "general")
        console = Console(highlight=False, soft_wrap=False)
        screen = Screen(console, spec, dict.fromkeys(spec.role_names, user) | dict(roles))
        plan = plan_evaluation(
            spec.name, [HUMAN, *(f"heartloop/{name}" for name in baselines)], user=user, roles=roles,
            options=options(spec), scenario_set=chosen_set, scenario_ids=[chosen], seed=seed,
            opened={HUMAN: screen},
            cache=(cache or Path(folder) / "answers.sqlite") if asked else cache, **how,
        )  # fmt: skip
        path, number = out or Path("runs") / f"talk-{chosen}", 1
        while out is None and path.exists():
            number += 1
            path = Path("runs") / f"talk-{chosen}-{number}"
        check_new(path)
        job = next(job for job in plan.settings.jobs if job.model == HUMAN)
        screen.begin(plan.environment, chosen)

        async def dialogue() -> Transcript:
            try:
                return await screen.converse(plan.environment, chosen, seed=job.seed)
            finally:
                await close(plan.models.opened.values())

        with plan.models.cache or contextlib.nullcontext():
            transcript = completed(dialogue())
        if not transcript.turns:
            cause = "" if transcript.failure is None else f" ({transcript.failure.role}: {transcript.failure.detail})"
            console.print(f"\nNo reply was given{cause}; no run is written.")
            return int(transcript.failure is not None)
        screen.finish(transcript)

        async def play(job: Job) -> Transcript:
            return transcript if job.model == HUMAN else await plan.play(job)

        run = play_run(path, replace(plan, play=play, check=None), max_connections=8).run
        played = [digest.read() for digest in run.digests]
    if len(played) > 1:
        console.print(standings(played, name_of(transcript)))
        if transcript.stop == "cut":
            console.print("You ended the dialogue early; the others played to its end.", style="dim")
    elif asked:
        console.print("Baselines are played with the embedded user only.", style="dim")
    if (better := better_than(transcript, recorded_dialogues(spec.name, chosen) or played, spec.scale)) is not None:
        console.print(better_one(spec, better, recorded=better.user != transcript.user))
    if asked and (spent := plan.models.meter.summary()):
        console.print(spent)
    others = f" and {amount(len(baselines), 'baseline')}" if baselines else ""
    console.print(with_urls(f"\nRun: {path} (model {HUMAN}{others})\nReport: heartloop report {path}"), soft_wrap=True)
    return int(transcript.failure is not None)


def _chosen(
    environment: str | None, scenario: str | None, scenarios: str | None, seed: int
) -> tuple[EnvironmentSpec, str, str | None]:
    if environment is not None and environment not in environment_names() and scenario is None:
        spec, found = find_scenario(environment, scenarios)
        return spec, str(found.id), scenarios
    if environment is not None:
        spec = load_environment(environment)
    elif scenarios is not None:
        spec = owner_of(scenarios)
    else:
        spec = min((one for one in specs() if one.demo is not None), key=lambda one: one.demo.place if one.demo else 0)
    if scenario is not None:
        scenarios_by_id(spec, [scenario], scenarios)
        return spec, scenario, scenarios
    loaded = spec.load(scenarios)
    gentle = [one for one in loaded if not HEAVY_TAGS & set(one.tags)] or loaded
    written = written_scenarios()
    return spec, str(random.Random(seed).choice([one for one in gentle if one.id in written] or gentle).id), scenarios


def players(roles: Mapping[str, str]) -> str:
    """Who plays the person and judges, by the models of the roles.

    >>> players({"user": "openai/gpt-6-luna", "judge": "embedded"})
    ', played by openai/gpt-6-luna; judge: the embedded user, a small fitted model that misreads some replies'
    """
    embedded = "the embedded user, a small fitted model that misreads some replies"
    first, *others = roles.items()
    named = [f"{role}: {embedded if model == EMBEDDED else model}" for role, model in others if model != first[1]]
    verb = ", played by" if first[0] == "user" else "; your reply is judged by"
    return "; ".join([f"{verb} {embedded if first[1] == EMBEDDED else first[1]}", *named])


def recorded_dialogues(environment: str, scenario: str) -> list[Transcript]:
    """The recorded dialogues of language models with a scenario; no model is called."""
    for one in recordings():
        if one.environment == environment and scenario in one.scenarios:
            models = [name for name in one.policies if not is_baseline(name)]
            plan = plan_evaluation(environment, models, user=READER, scenario_ids=[scenario], options=one.options)

            async def replay(plan: EvaluationPlan = plan) -> list[Transcript]:
                return [await plan.play(job) for job in plan.settings.jobs]

            return completed(replay())
    return []


def better_than(mine: Transcript, others: Sequence[Transcript], scale: Scale) -> Transcript | None:
    """The dialogue with the highest score, if that is clearly above the human's; never one of silence."""
    shown = (one for one in others if one.turns and one.model != SILENT)
    scored = [(points, one) for one in shown if (points := points_of(one)) is not None]
    points, best = max(scored, key=lambda row: row[0], default=(0.0, None))
    own = points_of(mine)
    return best if own is None or points >= own + _BETTER * (scale.high - scale.low) else None


def better_one(spec: EnvironmentSpec, transcript: Transcript, *, recorded: bool) -> RenderableType:
    """The reply of a better dialogue that gained most, with what the person answered before and after it."""
    course = spec.scale.course(transcript)
    gains = [after - before for before, after in pairwise(course)] if len(course) == len(transcript.turns) + 1 else [0.0]
    best = max(range(len(gains)), key=gains.__getitem__)
    turn, name = transcript.turns[best], name_of(transcript)
    before = transcript.turns[best - 1].message if best else transcript.opening
    whose = f"{transcript.model}, score {_number(points_of(transcript) or 0.0)}"
    lines = [Text("\nWhat a better one did", "bold"), Text(whose)]
    if recorded:
        player = "a language model played and judged, so its score is not comparable with yours."
        lines.append(Text(f"Recorded dialogue of the same scenario; {player}", "dim"))
    lines += [labelled(name, before, "bold cyan")] if before else []
    lines.append(labelled(f"{transcript.model} ({gains[best]:+.1f})" if len(gains) > 1 else transcript.model, turn.reply))
    lines += [labelled(name, turn.message, "bold cyan")] if turn.message else []
    return Group(*lines)


def name_of(transcript: Transcript) -> str:
    first = transcript.facts.get("person", "").split(",")[0].split()
    return printable(first[0]) if first else "Person"


def labelled(label: str, text: str, style: str = "bold") -> Text:
    return Text.assemble((f"{printable(label)}: ", style), printable(text))


def mood(scale: Scale, transcript: Transcript, width: int, *, ascii_only: bool = False) -> RenderableType:
    course = scale.course(transcript)
    if len(course) < 2:
        return Text("This reply is not judged.", style="dim")
    start, before, now = course[0], course[-2], course[-1]
    line = Text.assemble(
        (f"{scale.now or scale.title} {_number(now)}", "bold"), "  ", _change(before, now),
        (f"  (start {start:g}, {scale.low:g} to {scale.high:g})", "dim"),
    )  # fmt: skip
    parts: list[RenderableType] = [line, _bar(scale, start, now, min(width, WIDEST), ascii_only)]
    turn = transcript.turns[-1]
    if len(scale.states) > 1 and turn.state is not None:
        change_of = turn.change or {}
        named = [f"{words} {turn.state[key]:g} ({change_of.get(key, 0.0):+.1f})" for key, words in scale.states.items()
                 if key in turn.state]  # fmt: skip
        parts.append(Text(" · ".join(named), style="dim"))
    return Group(*parts)


def _bar(scale: Scale, start: float, now: float, width: int, ascii_only: bool) -> Text:
    places = ((points - scale.low) / (scale.high - scale.low) for points in (start, now))
    first, last = (round(min(1.0, max(0.0, place)) * (width - 1)) for place in places)
    empty, full, mark, here = ("-", "=", "|", "o") if ascii_only else ("─", "━", "│", "●")
    style = "green" if now > start else "red" if now < start else "bold"
    cells = [(full, style) if min(first, last) <= cell <= max(first, last) else (empty, "dim") for cell in range(width)]
    cells[first] = (mark, "")
    cells[last] = (here, style)
    return Text.assemble(*cells)


def thoughts(spec: EnvironmentSpec, transcript: Transcript) -> RenderableType:
    if not transcript.turns:
        return Text("No reply has been given yet.", style="dim")
    turn, panel = transcript.turns[-1], spec.report
    view = panel.turn(transcript, turn)
    named = {**{key: view.thoughts[key] for key in panel.thoughts if key in view.thoughts}, **view.thoughts}
    lines = [labelled(panel.thoughts.get(key, key.capitalize()), text) for key, text in named.items()]
    course = spec.scale.course(transcript)
    rose = len(course) > 1 and course[-1] > course[-2]
    lines += [Text(sentence, style="dim") for sentence in evidence_in_words(turn.evidence, rose=rose)]
    if isinstance(reasons := turn.evidence.get("reasons"), Mapping):
        lines += [labelled(str(key), reason) for key, reason in reasons.items() if isinstance(reason, str) and reason]
    if view.details or (not lines and turn.thoughts):
        return grades(spec, transcript)
    return Group(*lines) if lines else Text("Nothing is recorded for this reply.", style="dim")


def grades(spec: EnvironmentSpec, transcript: Transcript) -> Table:
    turn = transcript.turns[-1]
    rows = [row for detail in spec.report.turn(transcript, turn).details for row in detail.rows]
    if not rows:
        split = {key: re.fullmatch(r"(?s)(-?[\d.]+): (.*)", text) or ("", "", text) for key, text in turn.thoughts.items()}
        rows = [(key.capitalize(), parts[1], parts[2]) for key, parts in split.items()]
    table = _table(None, "grade", "", "reason", numbers=("",))
    for name, level, reason in rows:
        table.add_row(*(Text(printable(text)) for text in (name, level, reason.split(" “")[0])))
    return table


def replies_table(scale: Scale, transcript: Transcript, width: int) -> Table:
    table = _table("What each reply did", "#", "reply", "change", "after", numbers=("#", "change", "after"))
    table.columns[0].style, table.columns[1].ratio = "dim", 1
    judged = (turn.index for turn in transcript.turns if turn.state is not None)
    after = dict(zip(judged, pairwise(scale.course(transcript)), strict=False))
    shown = max(12, min(width, WIDEST) - 22)
    for turn in transcript.turns:
        words = " ".join(turn.reply.split())
        first = Text(printable(words if len(words) <= shown else words[: shown - 1].rsplit(" ", 1)[0] + "…"))
        points = after.get(turn.index)
        if did := reply_in_words(turn.evidence, rose=points is not None and points[1] > points[0]):
            first.append(f"\n{did}", "dim")
        cells: tuple[Text | str, ...] = ("–", "–")
        if points is not None:
            cells = (_change(*points), _number(points[1]))
        table.add_row(str(turn.index + 1), first, *cells)
    return table


def standings(transcripts: Sequence[Transcript], name: str) -> Table:
    table = _table(f"Others with {name}", "model", "score", "replies", numbers=("score", "replies"))
    rows = [(one, points_of(one)) for one in transcripts]
    for one, points in sorted(rows, key=lambda row: -1e9 if row[1] is None else row[1], reverse=True):
        label = Text("you" if one.model == HUMAN else printable(one.model))
        shown = "unscored" if points is None else _number(points)
        table.add_row(label, shown, str(len(one.turns)), style="bold" if one.model == HUMAN else None)
    return table


def _table(title: str | None, *heads: str, numbers: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, title=title, title_justify="left")
    for head in heads:
        table.add_column(head, justify="right" if head in numbers else "left", no_wrap=head in numbers)
    return table


def _number(points: float) -> str:
    return f"{round(points, 1) + 0.0:.1f}"  # no -0


def _change(before: float, after: float) -> Text:
    change = round(after - before, 1) + 0.0
    return Text(f"{change:+.1f}", "green" if change > 0 else "red" if change < 0 else "dim")
