"""A finished run as Inspect logs: one log a model, with every dialogue, its calls, moods and thoughts.

Covers what `inspect view` and `inspect_ai.analysis` open. Does not cover reading a log back, nor reports of our own
(`analysis`).

What a log holds that the run does not: nothing. What is made up: the moments of the events, which only keep their order
(a transcript knows how long a dialogue took, not when each call was). The simulator's prompts are not in a transcript, so
its calls show answers and tokens without their input. Of an imported dialogue no call is known: each reply stands as a call of
the model under test, without tokens, and is marked `words_only`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from inspect_ai.event import InfoEvent, ModelEvent, ScoreEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalPlan,
    EvalPlanStep,
    EvalSample,
    EvalSpec,
    EvalStats,
    recompute_metrics,
    write_eval_log,
)
from inspect_ai.log._log import EvalMetricDefinition, EvalResults, EvalScorer
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelConfig,
    ModelOutput,
    ModelUsage,
)

import heartloop
from heartloop.core.dialogue import Call, Sampling, Transcript, Usage, read_transcripts, total_usage, visible
from heartloop.core.errors import HeartloopError, InputError, PromptError, UseError
from heartloop.core.prompts import load_prompt
from heartloop.environments.catalogue import Person, entry_of
from heartloop.environments.registry import load_environment
from heartloop.evaluation.run_directory import saved_settings
from heartloop.integrations.inspect.samples import KEY, facts_of, felt_of, kept_of, messages_of, score_of, unscored_error
from heartloop.integrations.inspect.scorer import METRICS, SCORERS

__all__ = ["export_run", "log_of"]

_STOPS = {"length": "max_tokens", "stop": "stop", "content_filter": "content_filter"}


def export_run(run: Path, out: Path | None = None) -> list[Path]:
    """Writes one log a model and returns their paths, in the order of the run's models.

    Args:
        run: a run directory; it may still be unfinished. Of a dialogue played again the last playing counts.
        out: a folder, or for a run of one model a file that ends in `.eval`; by default `inspect/` in the run.

    Raises:
        InputError: no run directory, no finished dialogue, or a record that does not fit.
        UseError: an unknown environment, a file named for several models, or a place that cannot be written.
    """
    settings = saved_settings(run)
    entry_of(str(settings.get("environment", "sage")))
    latest = {dialogue.key: dialogue for dialogue in read_transcripts(run / "transcripts.jsonl")}
    models = list(dict.fromkeys([*map(str, settings.get("models", [])), *(model for model, _, _ in latest)]))
    models = [model for model in models if any(key[0] == model for key in latest)]
    if not models:
        raise InputError(f"{run} holds no finished dialogue; play it first")
    out = out or run / "inspect"
    single = out.suffix == ".eval"
    if single and len(models) > 1:
        raise UseError(f"{run} has {len(models)} models and a log holds one; name a folder with --out, not {out.name}")
    written = []
    for model in models:
        target = out if single else out / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', model)}.eval"
        log = log_of([dialogue for key, dialogue in latest.items() if key[0] == model], settings, started=_started(run))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_eval_log(log, str(target))
        except OSError as error:
            raise UseError(f"cannot write {target}: {error.strerror}; choose another --out") from error
        written.append(target)
    return written


def log_of(dialogues: Sequence[Transcript], settings: Mapping[str, Any], *, started: datetime) -> EvalLog:
    """The dialogues of one model as a log; `settings` are the run's, `started` is shown as its moment."""
    first = dialogues[0]
    scenarios = list(dict.fromkeys(dialogue.scenario for dialogue in dialogues))
    name = hashlib.sha256(json.dumps([dict(settings), first.model], sort_keys=True, default=str).encode()).hexdigest()[:22]
    asked = ("preset", "variant", "max_turns", "relation_weight", "window", "bystander_weight", "limit", "user", "exclude_tags")
    arguments = {"scenarios": settings.get("scenario_set"), **{key: settings.get(key) for key in asked}}
    others = {role: model for role, model in first.models.items() if role != "policy"}
    spec = EvalSpec(
        eval_id=name,
        run_id=name,
        task_id=name,
        created=started.isoformat(),
        task=f"heartloop/{first.environment}",
        task_registry_name=f"heartloop/{first.environment}",
        task_args={key: value for key, value in arguments.items() if value is not None},
        dataset=EvalDataset(name=settings.get("scenario_set"), samples=len(scenarios), sample_ids=scenarios),
        model=first.model,
        model_generate_config=_config(first.sampling.get("policy"), settings.get("seed")),
        model_roles={role: ModelConfig(model=model, config=_config(first.sampling.get(role))) for role, model in others.items()},
        config=EvalConfig(epochs=1 + max(dialogue.repeat for dialogue in dialogues), fail_on_error=False, score_on_error=True),
        packages={"heartloop": str(settings.get("heartloop_version") or heartloop.__version__)},
        metadata={"heartloop": {key: value for key, value in settings.items() if key != "scenarios"}},
        scorers=[
            EvalScorer(
                name=SCORERS[first.environment],
                metrics=[
                    EvalMetricDefinition(name=f"heartloop/{name}", options=options or None)
                    for name, options in METRICS[first.environment].items()
                ],
            )
        ],
    )
    people = _people(first.environment, settings)
    samples = [_sample(dialogue, people.get(dialogue.scenario), started) for dialogue in dialogues]
    usage = {role: total_usage(d.usage.get(role, Usage()) for d in dialogues) for role in first.models}
    log = EvalLog(
        status="success",
        eval=spec,
        plan=EvalPlan(steps=[EvalPlanStep(solver="heartloop/dialogue", params={})]),
        results=EvalResults(total_samples=len(samples), completed_samples=sum(d.scored for d in dialogues)),
        stats=EvalStats(
            started_at=started.isoformat(),
            completed_at=(started + timedelta(seconds=max(d.seconds for d in dialogues))).isoformat(),
            model_usage=_by_model(usage, first.models),
            role_usage={role: _usage(found) for role, found in usage.items() if role in others},
        ),
        samples=samples,
    )
    recompute_metrics(log)
    return log


def _sample(dialogue: Transcript, person: Person | None, started: datetime) -> EvalSample:
    shown = messages_of(dialogue, _policy_prompt(dialogue, person))
    failed = unscored_error(dialogue)
    score = score_of(dialogue)
    others = {role: usage for role, usage in dialogue.usage.items() if role != "policy"}
    last = dialogue.turns[-1].reply if dialogue.turns else ""
    return EvalSample(
        id=dialogue.scenario,
        epoch=dialogue.repeat + 1,
        input=dialogue.opening or "",
        target="",
        messages=shown,
        output=ModelOutput.from_content(model=dialogue.model, content=last),
        scores={SCORERS[dialogue.environment]: score},
        metadata=facts_of(dialogue),
        store={KEY: kept_of(dialogue)},
        events=list(_events(dialogue, shown, score, started)),
        model_usage=_by_model(dialogue.usage, dialogue.models),
        role_usage={role: _usage(usage) for role, usage in others.items()},
        started_at=started.isoformat(),
        total_time=dialogue.seconds,
        error=EvalError(message=str(failed), traceback=str(failed), traceback_ansi=str(failed)) if failed else None,
        uuid=hashlib.sha256("|".join(map(str, (*dialogue.key, dialogue.seed))).encode()).hexdigest()[:22],
    )


def _events(
    dialogue: Transcript, shown: Sequence[ChatMessage], score: Any, started: datetime
) -> Iterable[ModelEvent | InfoEvent | ScoreEvent]:
    """Calls, then what the reply did, turn by turn."""
    by_turn: dict[int, list[Call]] = {}
    known = any(call.role == "policy" for call in dialogue.calls)
    words = () if known else (Call(role="policy", purpose="reply", turn=t.index, text=t.reply) for t in dialogue.turns)
    for call in (*words, *dialogue.calls):
        by_turn.setdefault(call.turn, []).append(call)
    replies = [place for place, message in enumerate(shown) if message.role == "assistant"]
    number = 0

    def moment() -> tuple[datetime, float]:
        nonlocal number
        number += 1
        return started + timedelta(microseconds=number), 0.0

    for turn in sorted({*by_turn, *(turn.index for turn in dialogue.turns)}):
        for call in by_turn.get(turn, ()):
            until = replies[turn] if turn < len(replies) else len(shown)
            when, working = moment()
            yield ModelEvent(
                model=dialogue.models.get(call.role, dialogue.model),
                role=None if call.role == "policy" else call.role,
                input=list(shown[:until]) if call.role == "policy" else [],
                tools=[],
                tool_choice="none",
                config=_config(dialogue.sampling.get(call.role)),
                output=_output(call, dialogue.models.get(call.role, dialogue.model)),
                timestamp=when,
                working_start=working,
                metadata=_about(call, words_only=not known and call.role == "policy"),
            )
        if turn < len(dialogue.turns):
            when, working = moment()
            yield InfoEvent(source="heartloop", data=felt_of(dialogue.turns[turn]), timestamp=when, working_start=working)
    when, working = moment()
    yield ScoreEvent(score=score, scorer=SCORERS[dialogue.environment], target="", timestamp=when, working_start=working)


def _about(call: Call, *, words_only: bool) -> dict[str, Any]:
    found = {"purpose": call.purpose, "turn": call.turn, "reask": call.reask}
    return {**found, "words_only": True} if words_only else found


def _output(call: Call, model: str) -> ModelOutput:
    text = visible(call.text).text if call.role == "policy" else call.text
    hidden = call.reasoning or (call.text if text != call.text.strip() else None)
    content: str | list[Any] = [ContentReasoning(reasoning=hidden), ContentText(text=text)] if hidden else text
    message = ChatMessageAssistant(content=content, model=model, source="generate")
    stop: Any = _STOPS.get(call.finish_reason or "stop", "unknown")
    return ModelOutput(model=model, choices=[ChatCompletionChoice(message=message, stop_reason=stop)], usage=_usage(call.usage))


def _usage(usage: Usage) -> ModelUsage:
    return ModelUsage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, total_tokens=usage.total)


def _by_model(usage: Mapping[str, Usage], models: Mapping[str, str]) -> dict[str, ModelUsage]:
    """Tokens by model; a model of two roles has both."""
    found: dict[str, ModelUsage] = {}
    for role, spent in usage.items():
        name = models.get(role, role)
        found[name] = found[name] + _usage(spent) if name in found else _usage(spent)
    return found


def _config(sampling: Sampling | None, seed: int | None = None) -> GenerateConfig:
    given = sampling or Sampling()
    seed = given.seed if given.seed is not None else seed
    return GenerateConfig(temperature=given.temperature, top_p=given.top_p, max_tokens=given.max_tokens, seed=seed)


def _people(environment: str, settings: Mapping[str, Any]) -> Mapping[str, Person]:
    """The run's people by id, as this version knows them; empty where their set or file is not there."""
    try:
        return {person.id: person for person in entry_of(environment).load(str(settings.get("scenario_set")))}
    except HeartloopError:
        return {}


def _policy_prompt(dialogue: Transcript, person: Person | None) -> str:
    """The system prompt the policy had, if this version still has it word for word; else none is shown."""
    asked = {name: digest for name, digest in dialogue.prompts.items() if name.startswith("policy")}
    try:
        prompts = [load_prompt(f"heartloop.environments.{dialogue.environment}", name) for name in asked]
    except PromptError:
        return ""
    if not asked or any(prompt.hash != asked[prompt.name] for prompt in prompts):
        return ""
    spec = load_environment(dialogue.environment)
    if not spec.briefs_by_scenario:
        return prompts[0].text
    same = person is not None and person.fingerprint == dialogue.fingerprint
    return spec.briefing(person, spec.read_options(spec.stored.options(dialogue))) if same else ""


def _started(run: Path) -> datetime:
    """When the run's first process began, as its log says; else when its settings were written."""
    try:
        lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
        found = [datetime.fromisoformat(json.loads(line)["started"]) for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, TypeError):
        found = []
    return min(found) if found else datetime.fromtimestamp((run / "settings.json").stat().st_mtime, tz=UTC)
