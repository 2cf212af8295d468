"""`heartloop talk`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from heartloop.cli import options as given

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console

    from heartloop.core.dialogue import Transcript
    from heartloop.environments.spec import EnvironmentSpec
    from heartloop.evaluation.planning import EvaluationPlan
    from heartloop.evaluation.runs import Run

__all__ = ["talk_app"]

talk_app = typer.Typer(rich_markup_mode=None)

_HELP = (
    "Type a reply and press Enter; end a line with \\ to continue on the next.\n"
    ":thoughts  what the person thought of your last reply\n"
    ":undo      take your last reply back\n"
    ":brief     what you are told about the situation\n"
    ":quit      end the dialogue and see the score"
)


@talk_app.command("talk")
def talk(
    context: typer.Context,
    environment: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="Environment, or the id of a scenario. Default: the demo's first.")
    ] = None,
    scenario: Annotated[str | None, typer.Argument(help="Scenario id. Default: one chosen by --seed.")] = None,
    user: Annotated[str, typer.Option(help="User simulator: service/model, or embedded. Plays every role.")] = "embedded",
    role: Annotated[list[str] | None, typer.Option("--role", help="Model of another role: name=MODEL; repeatable.")] = None,
    option: given.OptionValues = None,
    scenarios: Annotated[str | None, typer.Option(help="Scenario set, file or folder. Default: the environment's sets.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed: chooses the scenario and the person's lines.")] = 0,
    compare: Annotated[
        list[Path] | None, typer.Option("--compare", help="Run whose models played the same scenario; repeatable.")
    ] = None,
    sampling: Annotated[
        list[str] | None, typer.Option("--sampling", help="role.setting=value, e.g. user.temperature=0.7; repeatable.")
    ] = None,
    max_tokens: given.MaxTokens = None,
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: runs/talk-SCENARIO.")] = None,
    cache: given.Cache = None,
) -> None:
    """Talk with a simulated person yourself: you reply, the person answers and is moved. Needs no key.

    Without a terminal every line of stdin is a reply.
    """
    import tempfile

    from rich.console import Console

    from heartloop.cli import conversation
    from heartloop.cli.running import read_options
    from heartloop.core.chat import HUMAN
    from heartloop.core.text import amount
    from heartloop.evaluation.planning import plan_evaluation
    from heartloop.evaluation.playing import completed
    from heartloop.evaluation.run_directory import check_new
    from heartloop.evaluation.runs import read_run
    from heartloop.evaluation.talking import Human, converse
    from heartloop.models.baselines import baseline_group
    from heartloop.models.names import close

    spec, chosen, chosen_set = _chosen(environment, scenario, scenarios, seed)
    runs = [read_run(path) for path in compare or ()]
    with tempfile.TemporaryDirectory(prefix="heartloop-talk-") as folder:
        human = Human(lambda: "")
        asked = user != "embedded" or any(not text.endswith("=embedded") for text in role or ())
        baselines = [] if asked else baseline_group(spec.demo.baselines if spec.demo else "general")
        plan = plan_evaluation(
            spec.name, [HUMAN, *(f"heartloop/{name}" for name in baselines)], user=user, roles=role or (),
            options=read_options(context, spec, option), scenarios=chosen_set, scenario_ids=[chosen], seed=seed,
            sampling=sampling or (), max_tokens=max_tokens, opened={HUMAN: human},
            cache=(cache or Path(folder) / "answers.sqlite") if asked else cache,
        )  # fmt: skip
        path = out or _free(chosen)
        check_new(path)
        console = Console(highlight=False, soft_wrap=False)
        screen = _Screen(console, spec, plan, human)
        job = next(job for job in plan.settings.jobs if job.model == HUMAN)
        screen.begin(chosen)

        async def dialogue() -> Transcript:
            try:
                with screen.interrupt:
                    return await converse(plan.environment, chosen, human, show=screen.show, seed=job.seed)
            finally:
                await close(plan.opened.values())

        with plan.caching():
            transcript = completed(dialogue())
        if not transcript.turns:
            cause = "" if transcript.failure is None else f" ({transcript.failure.role}: {transcript.failure.detail})"
            console.print(f"\nNothing was said{cause}; no run is written.")
            raise typer.Exit(1 if transcript.failure else 0)
        screen.finish(transcript)
        played = _written(path, plan, transcript)
    rows = _standings(transcript, played, runs)
    if len(rows) > 1:
        console.print(conversation.standings(rows, conversation.name_of(transcript)))
        if transcript.stop == "cut":
            console.print("You ended the dialogue early; the others played to its end.", style="dim")
    elif asked:
        console.print("Baselines are played with the embedded user only; --compare RUN shows models of a run.", style="dim")
    for run in runs:
        if not any(_same_person(transcript, one) for one in run.transcripts):
            console.print(f"{run.path} has no dialogue with {chosen}.", style="dim")
    if asked and (spent := plan.meter.summary()):
        console.print(spent)
    others = amount(len(baselines), "baseline")
    console.print(
        f"\nRun: {path} (model {HUMAN}{f' and {others}' if baselines else ''})\nReport: heartloop report {path}", soft_wrap=True
    )
    raise typer.Exit(1 if transcript.failure else 0)


class _Screen:
    """The terminal during a dialogue: shows turns, and reads replies and commands."""

    def __init__(self, console: Console, spec: EnvironmentSpec, plan: EvaluationPlan, human: Any) -> None:
        self._console, self._spec, self._human = console, spec, human
        self.interrupt = _Interrupt()
        self._embedded = all(name == "embedded" for name in plan.settings.roles.values())
        self._prompt = ""
        self._latest: Transcript | None = None
        self._environment = plan.environment
        form = spec.training.answer_form if spec.training is not None else None
        self._parts = dict(form.headings) if form is not None else {"": ""}
        human.ask = self.ask

    def begin(self, scenario: str) -> None:
        """The lines before the dialogue."""
        from heartloop.cli.conversation import briefing

        played_by = "a small fitted model, which misreads some replies" if self._embedded else "a language model"
        self._print(
            f"You talk with a simulated person, played by {played_by}. This is not a clinical tool, and no help in a crisis.",
            style="dim",
        )
        self._print(f"{self._spec.title} · scenario {scenario}", style="bold")
        self._prompt = briefing(self._environment.begin(scenario).policy_prompt)
        tags = dict(self._environment.describe(scenario)["facts"]).get("tags", "")
        if tags not in ("", "none"):
            self._print(f"Content: {tags.replace(' ', ', ')}", style="dim")
        self._print(self._prompt)
        self._print(":help lists the commands, :quit ends.\n", style="dim")

    def show(self, transcript: Transcript) -> None:
        """The person's turn, or the opening."""
        from heartloop.cli import conversation

        self._latest = transcript
        name = conversation.name_of(transcript)
        if not transcript.turns:
            if transcript.opening is None:
                self._print("You begin.", style="bold")
            else:
                self._console.print(conversation.speech(name, transcript.opening))
            return
        message = transcript.turns[-1].message
        if message is not None:
            self._console.print(conversation.speech(name, message))
        ascii_only = self._console.options.ascii_only
        self._console.print(conversation.mood(self._spec.scale, transcript, self._console.width, ascii_only=ascii_only))
        self._console.print()

    def finish(self, transcript: Transcript) -> None:
        """The end of the dialogue, the score, and what each reply did."""
        from heartloop.cli import conversation
        from heartloop.evaluation.measures import points_of

        self._console.print(conversation.ended(transcript, conversation.name_of(transcript)), style="bold")
        self._console.print(conversation.score_line(self._spec.scale, points_of(transcript), len(transcript.turns)))
        for title, text in self._spec.report.scenario(transcript).facts:
            if text not in self._prompt and not all(line in self._prompt for line in text.split(". ")):
                self._console.print(conversation.fact(title, text))
        self._console.print()
        if conversation.is_one_answer(transcript):
            self._console.print(conversation.grades(self._spec, transcript))
        else:
            self._console.print(conversation.replies_table(self._spec.scale, transcript, self._console.width))

    def ask(self) -> str:
        """The next reply.

        Raises:
            TakenBack: `:undo`.
            EndOfDialogue: `:quit`, the end of the input, or Ctrl-C.
        """
        parts = []
        for name, heading in self._parts.items():
            parts.append(heading + self._part(name.capitalize() or "You"))
        return "".join(parts)

    def _part(self, label: str) -> str:
        from heartloop.evaluation.talking import EndOfDialogue, TakenBack

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
                from heartloop.cli.conversation import thoughts

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
        import contextlib

        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - editing and history of the line
        try:
            self.interrupt.reading = True
            if self.interrupt.pressed:
                return None
            if sys.stdin.isatty():
                return input(prompt)
            line = sys.stdin.readline()
        except (EOFError, KeyboardInterrupt):
            return None
        finally:
            self.interrupt.reading = False
        if line.strip():
            typer.echo(f"{prompt}{line.rstrip()}")
        return line.rstrip("\r\n") if line else None

    def _print(self, text: str, style: str | None = None) -> None:
        from rich.text import Text

        from heartloop.core.text import printable

        self._console.print(Text(printable(text)), style=style)


class _Interrupt:
    """Ctrl-C during a dialogue, as a context manager.

    While a line is read it ends the dialogue; while the person answers, the dialogue ends at the next line, and a second one
    stops at once. asyncio's own handling is a cancellation, which a blocking read would never see.
    """

    def __init__(self) -> None:
        self.pressed = self.reading = False
        self._before: Any = None

    def __enter__(self) -> Self:
        import signal
        import threading

        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        import signal

        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _press(self, number: int, frame: FrameType | None) -> None:
        again, self.pressed = self.pressed, True
        if self.reading:
            raise KeyboardInterrupt
        if again and callable(self._before):
            self._before(number, frame)


def _chosen(
    environment: str | None, scenario: str | None, scenarios: str | None, seed: int
) -> tuple[EnvironmentSpec, str, str | None]:
    """The environment, the scenario's id, and the set to look in.

    Raises:
        UseError: no such environment or scenario.
    """
    import random

    from heartloop.core.dialogue import HEAVY_TAGS
    from heartloop.environments.registry import (
        environment_names,
        find_scenario,
        load_environment,
        owner_of,
        scenarios_by_id,
        specs,
    )
    from heartloop.models.baselines.scripted import written_scenarios

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


def _free(scenario: str) -> Path:
    """A run directory that does not exist yet."""
    path, number = Path("runs") / f"talk-{scenario}", 2
    while path.exists():
        path, number = Path("runs") / f"talk-{scenario}-{number}", number + 1
    return path


def _written(path: Path, plan: EvaluationPlan, transcript: Transcript) -> Run:
    """The run with the human's dialogue; the baselines are played now."""
    from heartloop.core.chat import HUMAN
    from heartloop.evaluation.playing import play_run
    from heartloop.evaluation.settings import Job

    async def play(job: Job) -> Transcript:
        return transcript if job.model == HUMAN else await plan.play(job)

    return play_run(path, plan.settings, play, plan.meter, max_connections=8).run


def _same_person(transcript: Transcript, other: Transcript) -> bool:
    same = ("environment", "scenario", "fingerprint")
    return all(getattr(transcript, name) == getattr(other, name) for name in same)


def _standings(transcript: Transcript, played: Run, runs: Sequence[Run]) -> list[Any]:
    """Rows of the table of scores: the human's own run, then the models of other runs."""
    from statistics import fmean

    from heartloop.cli.conversation import Standing
    from heartloop.core.chat import HUMAN
    from heartloop.evaluation.measures import points_of
    from heartloop.evaluation.scores import latest

    rows: list[Standing] = []
    for run in (played, *runs):
        dialogues = [one for one in latest(run.transcripts) if _same_person(transcript, one)]
        for model in dict.fromkeys(one.model for one in dialogues):
            own = [one for one in dialogues if one.model == model]
            if run is not played and model.startswith("heartloop/") and any(row.model == model for row in rows):
                continue
            points = [value for one in own if (value := points_of(one)) is not None]
            notes = [] if run is played else [f"of {run.path.name}" if model == HUMAN else ""]
            if own[0].user != transcript.user:
                notes.append(f"with user {own[0].user}")
            rows.append(
                Standing(
                    model, fmean(points) if points else None, round(fmean(len(one.turns) for one in own), 1),
                    ", ".join(filter(None, notes)),
                )
            )  # fmt: skip
    return rows
