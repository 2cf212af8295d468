"""The Python interface: `evaluate` plays an evaluation as `heartloop eval` does, `load_run` reads one; both return a `Run`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import amount
from heartloop.evaluation.compare import Agreement, Comparison, agreement, choose_sides
from heartloop.evaluation.compare import compare as compared
from heartloop.evaluation.leaderboard import leaderboard
from heartloop.evaluation.plan import Function, plan_evaluation, sampling_from
from heartloop.evaluation.progress import ProgressLine
from heartloop.evaluation.remote import close_all, local, new, with_urls
from heartloop.evaluation.runner import play_run
from heartloop.evaluation.scores import ALLOWED_UNSCORED, ScoreCard, latest, score_card
from heartloop.evaluation.store import StoredRun, read_run, stored_transcripts
from heartloop.evaluation.tables import rows_of
from heartloop.models.client import TIMEOUT

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Run:
    """A run directory, finished or not. Each part is read when it is first used."""

    path: Path

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        return self._stored.settings

    @cached_property
    def transcripts(self) -> tuple[Transcript, ...]:
        """One transcript per finished dialogue, with every raw answer; of a dialogue that was played again, the last."""
        return tuple(latest(stored_transcripts(self.path)))

    @cached_property
    def scores(self) -> ScoreCard:
        """The leaderboard's numbers: the fields of `scores.json`, computed from the transcripts."""
        return score_card(self._stored.digests, self.settings)

    @cached_property
    def _stored(self) -> StoredRun:
        return read_run(self.path)

    def table(self, name: str = "dialogues") -> list[dict[str, Any]]:
        """The rows of a table: `dialogues`, `turns` or `calls` (`heartloop.evaluation.tables`)."""
        return rows_of(name, self.transcripts)

    def to_pandas(self, name: str = "dialogues") -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame(self.table(name))

    def compare(
        self,
        other: Run | None = None,
        *,
        model_a: str | None = None,
        model_b: str | None = None,
        min_difference: float | None = None,
    ) -> Comparison:
        """Compares `other` (B) with this run (A), or two models of this run, as `heartloop compare`; `print` shows the result.

        A model needs no name if it is the only one of its run, or the only one in both. `min_difference` is the smallest
        difference that matters, in points.
        """
        _require("other", other, other is None or isinstance(other, Run), _A_RUN)
        try:
            a, b = choose_sides(self._stored, other._stored if other is not None else None, model_a, model_b)
        except UseError as error:
            raise UseError(_OPTION.sub(_argument, str(error))) from error
        return compared(a, b, min_difference=min_difference)

    def agreement(self, other: Run) -> Agreement:
        """How well the judge of `other`, a run that was rejudged, agrees with the judge of this one; `print` shows it."""
        _require("other", other, isinstance(other, Run), _A_RUN)
        return agreement(self._stored.digests, other._stored.digests)

    def __repr__(self) -> str:
        return f"heartloop.Run({str(self.path)!r})"

    def __str__(self) -> str:
        console = Console(width=100, force_terminal=False, force_jupyter=False, no_color=True)
        with console.capture() as text:
            console.print(leaderboard(self.scores))
        return text.get()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def load_run(path: str | PathLike[str]) -> Run:
    run = Run(local(path))
    _ = run.settings  # read now, so that a wrong path fails here
    return run


def evaluate(
    environment: str,
    models: str | Function | Sequence[str | Function],
    *,
    user: str | None = None,
    judge: str | None = None,
    roles: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    scenarios: str | PathLike[str] | None = None,
    scenario_ids: Sequence[str] = (),
    tags: Sequence[str] = (),
    exclude_tags: Sequence[str] = (),
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    shard: str | None = None,
    sampling: Mapping[str, Sampling | Mapping[str, Any]] | None = None,
    policy_prompt: str | None = None,
    max_connections: int = 32,
    timeout: float = TIMEOUT,
    retries: int = 6,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    prices: str | PathLike[str] | None = None,
    yes: bool = False,
    retry_failed: bool = False,
    out: str | PathLike[str] | None = None,
    cache: str | PathLike[str] | None = None,
    progress: bool = True,
) -> Run:
    """Evaluates models, as `heartloop eval`. The same call again resumes the run, and a finished one is only read.

    It works in scripts and in notebooks, where an event loop runs already. Warns (`RuntimeWarning`) if dialogues are missing, or
    more than the allowed share is unscored. Arguments that are not listed are those of the command.

    Args:
        models: names as for `heartloop eval --model`, or functions, sync or async, that take the messages (a list of dicts with
            `role` and `content`) and return a text. A plain function is called from several threads at a time. A function is
            named `python:module:name`; a changed one gets another run.
        user: user simulator, a model's name or `embedded`; plays every role without a model of its own.
        roles: models of other roles, by role.
        options: of the environment, by name.
        scenarios: set, file or folder; by default the environment's first set.
        scenario_ids: only these scenarios, of one set; without `tags`, `exclude_tags` and `limit`.
        limit: maximum number of scenarios, stratified.
        shard: `i/n`, part i of n of the scenarios.
        sampling: settings by role, e.g. `{"policy": {"temperature": 0.7}}`; further fields of the request under `request`.
        policy_prompt: system prompt of the models under test in place of the environment's; baselines do not read it.
        yes: call paid models without a limit.
        out: run directory; by default `runs/ENVIRONMENT-HASH`.
        cache: file of answers; by default `$HEARTLOOP_CACHE`.
        progress: show a progress bar, in a terminal or notebook.

    Raises:
        UseError: wrong use, for example an unknown name, a function given twice, or paid models without a limit; or an endpoint
            refuses a first small request, which is sent to each before anything is written.
        SettingsMismatch: `out` holds a run with other settings.
        InputError: a file that cannot be read.
    """
    for name, texts in (("scenario_ids", scenario_ids), ("tags", tags), ("exclude_tags", exclude_tags)):
        _require(name, texts, _is_list(texts, str), "a list of texts")
    numbers = {"limit": (limit, 1), "repeats": (repeats, 1), "max_connections": (max_connections, 1), "retries": (retries, 0)}
    for name, (number, least) in numbers.items():
        fits = (number is None and name == "limit") or (_is_number(number, int) and int(number or 0) >= least)
        _require(name, number, fits, f"a whole number from {least}")
    _require("seed", seed, _is_number(seed, int), "a whole number")
    _require("timeout", timeout, _is_number(timeout, (int, float)) and timeout > 0, "seconds above 0")
    try:
        plan = plan_evaluation(
            environment, _models(models), user=user, judge=judge, roles=roles, options=options,
            scenario_set=None if scenarios is None else fspath(scenarios), scenario_ids=scenario_ids, tags=tags,
            exclude_tags=exclude_tags, limit=limit, repeats=repeats, seed=seed, shard=shard,
            sampling={role: _sampling(role, one) for role, one in (sampling or {}).items()}, policy_prompt=policy_prompt,
            max_connections=max_connections, timeout=timeout, retries=retries, max_tokens=max_tokens, max_cost=max_cost,
            prices=None if prices is None else Path(prices), cache=None if cache is None else Path(cache),
        )  # fmt: skip
        if plan.paid and not yes and not plan.models.meter.limited:
            raise UseError(
                f"{', '.join(plan.paid)} may cost money; pass max_tokens=..., max_cost=... with prices=..., or yes=True"
            )
        path = plan.path if out is None else new(out)
        line = ProgressLine(plan.models.meter, speed=plan.models.speed) if progress else None
        played = play_run(  # `pilot`: a paid run of which the first dialogues all fail stops
            path, plan, line=line, tell=_warn, pilot=(lambda estimate: True) if plan.paid else None, agreed=True,
            max_connections=max_connections, retry_failed=retry_failed,
        )  # fmt: skip
    except (UseError, InputError) as error:
        raise type(error)(_OPTION.sub(_argument, with_urls(error))) from error
    finally:
        for sentence in close_all(out or ""):
            _warn(sentence)
    ended = played.ended
    if ended.stopped is not None:
        _warn(f"Stopped early: {ended.stopped}. {ended.missing} of {amount(ended.planned, 'dialogue')} not played.")
    for sentence in filter(None, (played.failed_replies, played.thinking_only)):
        _warn(_OPTION.sub(_argument, f"{sentence}."))
    if played.unscored > ALLOWED_UNSCORED:
        causes = "; ".join(f"{n} x {role}: {detail}" for (role, _), (n, detail) in list(played.failures.items())[:3])
        finished = amount(ended.planned - ended.missing, "dialogue")
        _warn(f"{ended.failed} of {finished} unscored ({causes}); fix the cause, then pass retry_failed=True.")
    return Run(path)


_OPTION = re.compile(r"(?<!\S)(?:--([a-z][a-z-]*)|-E)(?![\w-])")
_ARGUMENTS = {
    "model": "models", "role": "roles", "scenario": "scenario_ids", "tag": "tags", "exclude-tag": "exclude_tags",
    "request": "sampling",
}  # fmt: skip


def _argument(option: re.Match[str]) -> str:
    """The argument of `evaluate` in place of the command's option, in messages that both share."""
    return _ARGUMENTS.get(option[1], option[1].replace("-", "_")) if option[1] else "options"


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=3)


_A_RUN = "a Run, as heartloop.load_run(path) returns it"


def _require(name: str, given: object, fits: bool, expected: str) -> None:
    if not fits:
        raise UseError(f"{name} is {given!r}; expected {expected}")


def _is_number(given: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(given, kind) and not isinstance(given, bool)


def _is_list(given: object, kind: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(one, kind) for one in given)


def _models(models: str | Function | Sequence[str | Function]) -> list[str | Function]:
    given = [models] if isinstance(models, str) or callable(models) else models
    listed = _is_list(given, (str, Callable)) and len(given) > 0
    _require("models", models, listed, "a list of names (heartloop/reflector) and functions that take messages, at least one")
    return list(given)


def _sampling(role: str, given: Sampling | Mapping[str, Any]) -> Sampling:
    if not isinstance(given, (Sampling, Mapping)):
        raise UseError(f"sampling of {role} is {given!r}; expected settings by name, e.g. {{'temperature': 0.7}}")
    return given if isinstance(given, Sampling) else sampling_from(role, given)
