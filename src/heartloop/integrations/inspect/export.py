"""A run as Inspect logs: one log per model, with every dialogue, its calls, states and thoughts.

The times of the events are made up and only keep their order: a transcript has the duration of a dialogue, not of each call. The
prompts of the other roles are not in a transcript, so their calls show answers and tokens without input. Of an imported dialogue
no call is known: each reply appears as a call of the model under test, without tokens, marked `text_only`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from inspect_ai import log as logs
from inspect_ai.event import InfoEvent, ModelEvent, ScoreEvent
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
from heartloop.core.dialogue import Call, Sampling, Transcript, Usage, total_usage, visible
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import reported
from heartloop.environments.registry import load_environment
from heartloop.evaluation.scores import options_of
from heartloop.evaluation.store import read_log, saved_settings, stored_dialogues
from heartloop.evaluation.tables import PolicyPrompts
from heartloop.integrations.inspect.models import config_of
from heartloop.integrations.inspect.samples import (
    KEY,
    SCORER,
    effect_of,
    messages_of,
    metrics_of,
    score_of,
    stored_of,
    unscored_error,
)

_STOPS = {"length": "max_tokens", "stop": "stop", "content_filter": "content_filter"}


def export_logs(run: Path, out: Path | None = None) -> list[Path]:
    """Writes one log per model, in the order of the run's models. Of a dialogue that was played again the last one counts.

    `out`: a folder, or for a run of one model a file that ends in `.eval`; by default `inspect/` in the run.
    """
    settings = saved_settings(run)
    latest = {dialogue.key: place for place, dialogue in stored_dialogues(run)}
    played = [model for model, _, _ in latest]
    models = [model for model in dict.fromkeys([*map(str, settings.get("models", [])), *played]) if model in played]
    if not models:
        raise InputError(f"{run} holds no finished dialogue; play some first")
    out = out or run / "inspect"
    single = out.suffix == ".eval"
    if single and len(models) > 1:
        raise UseError(f"{run} has {len(models)} models and a log holds one; pass a folder as --out, not {out.name}")
    written = []
    for model in models:
        target = out if single else out / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', model)}.eval"
        log = log_of([place.read() for key, place in latest.items() if key[0] == model], settings, started=_started(run))
        with reported(f"write {target}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            logs.write_eval_log(log, str(target))
        written.append(target)
    return written


def log_of(dialogues: Sequence[Transcript], settings: Mapping[str, Any], *, started: datetime) -> logs.EvalLog:
    """The dialogues of one model as a log; `started` is shown as the time of the log and its events."""
    first = dialogues[0]
    scale = load_environment(first.environment).scale
    metrics: Any = [
        EvalMetricDefinition(name=f"heartloop/{name}", options=arguments or None)
        for name, arguments in metrics_of(scale, options_of(settings)).items()
    ]
    scenarios = list(dict.fromkeys(dialogue.scenario for dialogue in dialogues))
    name = hashlib.sha256(json.dumps([dict(settings), first.model], sort_keys=True, default=str).encode()).hexdigest()[:22]
    arguments = {
        "scenarios": settings.get("scenario_set"),
        **{key: settings.get(key) for key in ("limit", "exclude_tags")},
        **options_of(settings),
    }
    others = {role: model for role, model in first.models.items() if role != "policy"}
    spec = logs.EvalSpec(
        eval_id=name,
        run_id=name,
        task_id=name,
        created=started.isoformat(),
        task=f"heartloop/{first.environment}",
        task_registry_name=f"heartloop/{first.environment}",
        task_args={key: value for key, value in arguments.items() if value is not None},
        dataset=logs.EvalDataset(name=settings.get("scenario_set"), samples=len(scenarios), sample_ids=scenarios),
        model=first.model,
        model_generate_config=_config(first.sampling.get("policy"), settings.get("seed")),
        model_roles={role: ModelConfig(model=model, config=_config(first.sampling.get(role))) for role, model in others.items()},
        config=logs.EvalConfig(
            epochs=1 + max(dialogue.repeat for dialogue in dialogues), fail_on_error=False, score_on_error=True
        ),
        packages={"heartloop": str(settings.get("heartloop_version") or heartloop.__version__)},
        metadata={"heartloop": {key: value for key, value in settings.items() if key != "scenarios"}},
        scorers=[EvalScorer(name=SCORER, metrics=metrics)],
    )
    prompts = PolicyPrompts(settings)
    samples = [_sample(dialogue, prompts.of(dialogue) or "", started) for dialogue in dialogues]
    usage = {role: total_usage(d.usage.get(role, Usage()) for d in dialogues) for role in first.models}
    log = logs.EvalLog(
        status="success",
        eval=spec,
        plan=logs.EvalPlan(steps=[logs.EvalPlanStep(solver="heartloop/dialogue", params={})]),
        results=EvalResults(total_samples=len(samples), completed_samples=sum(d.scored for d in dialogues)),
        stats=logs.EvalStats(
            started_at=started.isoformat(),
            completed_at=(started + timedelta(seconds=max(d.seconds for d in dialogues))).isoformat(),
            model_usage=_by_model(usage, first.models),
            role_usage={role: _usage(spent) for role, spent in usage.items() if role in others},
        ),
        samples=samples,
    )
    logs.recompute_metrics(log)
    return log


def _sample(dialogue: Transcript, policy_prompt: str, started: datetime) -> logs.EvalSample:
    shown = messages_of(dialogue, policy_prompt)
    failed = unscored_error(dialogue)
    score = score_of(dialogue)
    return logs.EvalSample(
        id=dialogue.scenario,
        epoch=dialogue.repeat + 1,
        input=dialogue.opening or "",
        target="",
        messages=shown,
        output=ModelOutput.from_content(model=dialogue.model, content=dialogue.turns[-1].reply if dialogue.turns else ""),
        scores={SCORER: score},
        metadata={**dialogue.facts, **{name: getattr(dialogue, name) for name in ("fingerprint", "preset", "variant")}},
        store={KEY: stored_of(dialogue)},
        events=list(_events(dialogue, shown, score, started)),
        model_usage=_by_model(dialogue.usage, dialogue.models),
        role_usage={role: _usage(usage) for role, usage in dialogue.usage.items() if role != "policy"},
        started_at=started.isoformat(),
        total_time=dialogue.seconds,
        error=logs.EvalError(message=str(failed), traceback=str(failed), traceback_ansi=str(failed)) if failed else None,
        uuid=hashlib.sha256("|".join(map(str, (*dialogue.key, dialogue.seed))).encode()).hexdigest()[:22],
    )


def _events(
    dialogue: Transcript, shown: Sequence[ChatMessage], score: Any, started: datetime
) -> Iterable[ModelEvent | InfoEvent | ScoreEvent]:
    by_turn: dict[int, list[Call]] = defaultdict(list)
    known = any(call.role == "policy" for call in dialogue.calls)
    words = () if known else (Call(role="policy", purpose="reply", turn=t.index, text=t.reply) for t in dialogue.turns)
    for call in (*words, *dialogue.calls):
        by_turn[call.turn].append(call)
    replies = [place for place, message in enumerate(shown) if message.role == "assistant"]
    moments = (started + timedelta(microseconds=number) for number in count(1))
    for turn in sorted({*by_turn, *(turn.index for turn in dialogue.turns)}):
        for call in by_turn[turn]:
            until = replies[turn] if turn < len(replies) else len(shown)
            model = dialogue.models.get(call.role, dialogue.model)
            text_only = {} if known or call.role != "policy" else {"text_only": True}
            yield ModelEvent(
                model=model,
                role=None if call.role == "policy" else call.role,
                input=list(shown[:until]) if call.role == "policy" else [],
                tools=[],
                tool_choice="none",
                config=_config(dialogue.sampling.get(call.role)),
                output=_output(call, model),
                timestamp=next(moments),
                working_start=0.0,
                metadata={"purpose": call.purpose, "turn": call.turn, "reask": call.reask, **text_only},
            )
        if turn < len(dialogue.turns):
            data = effect_of(dialogue.turns[turn])
            yield InfoEvent(source="heartloop", data=data, timestamp=next(moments), working_start=0.0)
    yield ScoreEvent(score=score, scorer=SCORER, target="", timestamp=next(moments), working_start=0.0)


def _output(call: Call, model: str) -> ModelOutput:
    text = visible(call.text) if call.role == "policy" else call.text
    hidden = call.reasoning or (call.text if text != call.text.strip() else None)
    content: str | list[Any] = [ContentReasoning(reasoning=hidden), ContentText(text=text)] if hidden else text
    message = ChatMessageAssistant(content=content, model=model, source="generate")
    stop: Any = _STOPS.get(call.finish_reason or "stop", "unknown")
    return ModelOutput(model=model, choices=[ChatCompletionChoice(message=message, stop_reason=stop)], usage=_usage(call.usage))


def _usage(usage: Usage) -> ModelUsage:
    return ModelUsage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, total_tokens=usage.total)


def _by_model(usage: Mapping[str, Usage], models: Mapping[str, str]) -> dict[str, ModelUsage]:
    found: dict[str, ModelUsage] = defaultdict(ModelUsage)
    for role, spent in usage.items():
        found[models.get(role, role)] += _usage(spent)
    return found


def _config(sampling: Sampling | None, seed: int | None = None) -> GenerateConfig:
    return config_of((sampling or Sampling()).over(Sampling(seed=seed)))


def _started(run: Path) -> datetime:
    """When the run's first process began, as its log says; else when its settings were written."""
    found = [datetime.fromisoformat(entry["started"]) for entry in read_log(run) if "started" in entry]
    return min(found) if found else datetime.fromtimestamp((run / "settings.json").stat().st_mtime, tz=UTC)
