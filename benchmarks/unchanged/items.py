"""Every item of the reference: which dialogues are played, and which of their parts are compared."""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.unchanged.models import Draw, OddPolicy, Policy, Scripted, Watched, requests_of
from benchmarks.unchanged.reference import Items, Json, hash_of, text_of
from benchmarks.unchanged.training import ROOT, learned, recipe_parts, recipes, training_environment
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript, write_line
from heartloop.core.errors import HeartloopError
from heartloop.environments.empa.perturbations import ATTACKS, ORIGINAL, PERTURBATIONS, LLMDirectJudge, perturbed
from heartloop.environments.episode import play
from heartloop.environments.registry import environment_names, load_environment, stratified
from heartloop.environments.replay import judged_prompts, rejudged
from heartloop.environments.spec import EnvironmentSpec, Options
from heartloop.evaluation.scores import score_card
from heartloop.evaluation.settings import dialogue_seed
from heartloop.models.cache import AnswerCache, Cached, dialogue_scope
from tests.eqbench_checkout import write_checkout
from tests.released_eibench import record as eibench_record
from tests.released_form import profile as sage_profile

__all__ = ["ENVIRONMENTS", "QUICK", "Recorder"]

ENVIRONMENTS = ("sage", "eibench", "empa", "perm", "daily", "eqbench", "stances")
QUICK = 2
"""Items of a kind and environment in a quick comparison."""
DEFAULT = "default"


class Case(NamedTuple):
    """Options under which dialogues are played."""

    name: str
    scenarios: str
    """A set, as `scenarios` reads it."""
    options: Mapping[str, Any]


CASES: Mapping[str, Sequence[Case]] = {
    "sage": (
        Case(DEFAULT, "support", {}),
        Case("chat", "chat", {}),
        Case("released", "support", {"preset": "released"}),
        Case("challenging", "support", {"variant": "challenging"}),
        Case("released-challenging-chat", "chat", {"preset": "released", "variant": "challenging"}),
        Case("think", "support", {"max_turns": 8, "start": 30.0, "leaves_at": 0.0, "form": "think"}),
        Case("direct", "support", {"max_turns": 8, "start": 15.0, "form": "direct", "variant": "challenging"}),
        Case("plain", "chat", {"start": 80.0, "leaves_at": 50.0, "form": "plain", "preset": "released"}),
        Case("three-turns", "support", {"max_turns": 3, "preset": "released"}),
    ),
    "eibench": (
        Case(DEFAULT, "test", {}),
        Case("released", "test", {"preset": "released"}),
        Case("direct", "test", {"variant": "direct"}),
        Case("released-direct-train", "train", {"preset": "released", "variant": "direct"}),
        Case("weight-0", "test", {"relation_weight": 0.0}),
        Case("weight-1", "test", {"relation_weight": 1.0, "preset": "released"}),
        Case("three-turns", "train", {"max_turns": 3, "relation_weight": 0.25}),
    ),
    "empa": (
        Case(DEFAULT, "cases", {}),
        Case("paper", "cases", {"preset": "paper"}),
        Case("window-2", "cases", {"window": 2, "max_turns": 15}),
        Case("paper-window-5", "cases", {"window": 5, "preset": "paper", "max_turns": 23}),
        Case("eight-turns", "cases", {"max_turns": 8}),
    ),
    "perm": (
        Case(DEFAULT, "samples", {}),
        Case("unit", "samples", {"preset": "unit"}),
        Case("paper", "samples", {"variant": "paper"}),
        Case("bystander-0", "samples", {"bystander_weight": 0.0}),
        Case("unit-bystander-1", "samples", {"bystander_weight": 1.0, "preset": "unit"}),
        *(
            Case(f"without-{part}", "samples", {"without": [part]})
            for part in ("resonation", "expression", "reception", "bystander", "length")
        ),
        Case("unit-without-two", "samples", {"without": ["length", "expression"], "preset": "unit"}),
    ),
    "daily": (
        Case(DEFAULT, "instances", {}),
        Case("stated", "instances", {"preset": "paper", "variant": "plain", "max_turns": 1}),
    ),
    "eqbench": (
        Case(DEFAULT, "checkout", {}),
        Case("repaired", "checkout", {"variant": "repaired"}),
        Case("six-turns", "checkout", {"max_turns": 6}),
    ),
    "stances": (
        Case(DEFAULT, "stances", {}),
        Case("lenient", "stances", {"preset": "lenient"}),
    ),
}
IMPORTED = ("sage", "eibench", "perm")
"""Environments with scenarios in a released form."""
SEVERAL_TURNS = ("sage", "eibench", "empa")
SEEDS = (0, 3)
SAMPLING: Mapping[str, Any] = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 300, "seed": 11}
"""Sampling settings of the roles, and of the policy, where some are given."""
TABLES = (
    "eibench/manners", "eibench/pools", "eibench/scenes", "empa/perturbations", "environments/names", "environments/people",
    "sage/families", "sage/pools",
)  # fmt: skip
"""TOML tables from which scenarios, perturbations and names are made."""
SCORE_OPTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "eibench": ({"preset": "paper", "relation_weight": 0.0}, {"preset": "released", "relation_weight": 0.8}),
    "perm": (
        {"preset": "unit", "bystander_weight": 2.0, "without": []},
        {"preset": "released", "without": ["reception", "length"]},
    ),
}
"""What dialogues are rescored by, beside the presets."""
PARTS: Mapping[str, Sequence[str]] = {
    "said": ("opening", "stop", "failure"),
    "states": ("start", "score", "rewards"),
    "calls": ("calls", "usage", "counts"),
}
"""Fields of a transcript by part; what is named neither here nor in `TURN_PARTS` is in `about`, of a turn in `judged`."""
TURN_PARTS: Mapping[str, Sequence[str]] = {
    "said": ("index", "reply", "silent", "truncated", "message"),
    "states": ("state", "change"),
}


DROPPED = ("schema_version", "heartloop_version", "seconds", "notes", "simulators")
"""Fields of transcripts and score cards that are not compared."""


@cache
def scenarios(environment: str, name: str) -> Sequence[Any]:
    """The scenarios of a set; `checkout` is the tests' checkout of EQ-Bench3, `imported` are invented records."""
    with tempfile.TemporaryDirectory() as folder:
        source = name
        if name == "checkout":
            source = str(write_checkout(Path(folder) / "eqbench3"))
        elif name == "imported":
            path = Path(folder) / f"{environment}.jsonl"
            path.write_text("".join(f"{json.dumps(line)}\n" for line in _imported(environment)), encoding="utf-8")
            source = str(path)
        return list(load_environment(environment).scenarios.load(source))


def _imported(environment: str) -> list[dict[str, Any]]:
    """Lines as the importers write them."""
    if environment == "sage":
        tasks = ("想有人倾听", "想要有用的建议", "想聊聊爱好")
        profiles = (sage_profile(number, task=task) for number, task in enumerate(tasks))
        return [{"form": "sage-released/1", "source": "invented.jsonl", "record": one} for one in profiles]
    if environment == "eibench":
        opening = {"system_prompt": "你是林小舟。", "opening_line": ""}
        records = (eibench_record(1), eibench_record(2, scene_tag="charm", aggressor_profile=opening))
        return [{"form": "eibench-released/1", "source": "invented.jsonl", "record": one} for one in records]
    text = {
        "scenario": "My brother borrowed my bicycle and sold it without a word.",
        "query": "My brother sold my bicycle. I found out from the man who bought it.",
        "source": "invented.csv, hit:1_conv:2",
    }
    persona = {"name": "Ada Brandt", "age": 34, "gender": "woman", "occupation": "clerk in Ghent"}
    return [
        {"form": "perm-drawn/1", "id": "perm-furious-0a1b2c3d", "emotion": "furious", **text},
        {"form": "perm-drawn/1", "id": "perm-hopeful-1a1b2c3d", "emotion": "hopeful", "persona": persona, **text},
    ]


def chosen(spec: EnvironmentSpec, case: Case, number: int, *, of: int) -> list[Any]:
    """Some scenarios of a case, out of a stratified choice that differs from case to case."""
    variant = spec.read_options(case.options).variant
    wide = stratified([one for one in scenarios(spec.name, case.scenarios) if spec.scenarios.playable(one, variant)], of)
    if case.name == DEFAULT:
        return wide[:: max(1, len(wide) // number)][:number]
    start = Draw(f"{spec.name}/{case.name}").number("start", max(1, len(wide) - number + 1))
    return wide[start:][:number]


def record(transcript: Transcript) -> dict[str, Json]:
    """A transcript without what is not compared."""
    fields = transcript.model_dump(mode="json", exclude={"failure": {"detail"}})
    return {name: value for name, value in fields.items() if name not in DROPPED}


def parts_of(transcript: Transcript) -> dict[str, Json]:
    """A transcript in parts: said, states, calls, judged, about."""
    fields = record(transcript)
    turns = fields.pop("turns")
    parts: dict[str, Json] = {part: {name: fields.pop(name) for name in names} for part, names in PARTS.items()}
    for part, names in TURN_PARTS.items():
        parts[part]["turns"] = [{name: turn.pop(name) for name in names} for turn in turns]
    return {**parts, "judged": turns, "about": fields}


def catalogue(spec: EnvironmentSpec) -> dict[str, Json]:
    """Names and defaults of an environment."""
    defaults, options = spec.read_options({}), spec.options
    return {
        "sets": spec.scenarios.sets,
        "presets": options.choices("preset"),
        "variants": options.choices("variant"),
        "max_turns": defaults.max_turns,
        "relation_weight": getattr(defaults, "relation_weight", None),
        "windows": "window" in options.model_fields,
        "bounds": "success_at" in options.model_fields,
        "switches": options.choices("without") if "without" in options.model_fields else [],
        "policy_sampling": spec.policy_sampling.model_dump(mode="json"),
    }


class Stored(NamedTuple):
    """A dialogue that is rescored and rejudged."""

    key: str
    scenario: Any
    case: Case
    transcript: Transcript


class Recorder:
    """Makes items.

    Args:
        only: one environment; without it, also the files that belong to none.
    """

    def __init__(self, items: Items, only: str | None = None) -> None:
        self.items = items
        self.only = only
        self.stored: list[Stored] = []

    async def everything(self) -> None:
        """All items."""
        for environment in [self.only] if self.only else ENVIRONMENTS:
            self.stored.clear()
            for kind in (self.files, self.choices, self.dialogues, self.cache, self.again, self.cards):
                started = time.perf_counter()
                with self.items.making(f"whole/{environment}/{kind.__name__}"):
                    await kind(load_environment(environment))
                print(f"{environment:8} {kind.__name__:9} {time.perf_counter() - started:6.1f} s", file=sys.stderr)
        if self.only is None:
            own = sorted(name for name in environment_names() if (ROOT / "environments" / name).is_dir())
            self.items.add("catalogue/all", {"all": own})
            for owner in sorted({"environments", *(path.parts[-3] for path in ROOT.rglob("prompts/*.md"))} - {*ENVIRONMENTS}):
                self._folder(owner)
        with self.items.making(f"whole/{self.only}/training"):
            await self.training()

    def _folder(self, owner: str) -> None:
        """Prompt files, TOML tables and scenario files of a folder."""
        for path in sorted(ROOT.rglob(f"{owner}/prompts/*.md")):
            self.items.add(f"prompt/{owner}/{path.name}", {"text": path.read_text(encoding="utf-8")})
        for name in TABLES:
            if name.startswith(f"{owner}/"):
                [path] = ROOT.rglob(f"{name}.toml")
                self.items.add(f"table/{name}.toml", {"content": tomllib.loads(path.read_text(encoding="utf-8"))})
        for path in sorted(ROOT.rglob(f"{owner}/scenarios/*.jsonl")):
            self.items.add(f"file/{owner}/{path.name}", {"sha256": hash_of(path.read_bytes())})

    async def files(self, spec: EnvironmentSpec) -> None:
        """Files, names and scenarios."""
        self._folder(spec.name)
        self.items.add(f"catalogue/{spec.name}", {"all": catalogue(spec)})
        for name in [*(spec.scenarios.sets or ["checkout"]), *(["imported"] if spec.name in IMPORTED else [])]:
            if (spec.name, name) != ("eibench", "train"):
                for scenario in scenarios(spec.name, name):
                    self.items.add(f"scenario/{spec.name}/{name}/{scenario.id}", {"fingerprint": scenario.fingerprint})
        if spec.name == "eibench" and self.items.whole:
            every = scenarios("eibench", "train")
            slices = {f"{first}-{first + 9}": every[first : first + 10] for first in range(0, 100, 10)}
            for label, some in {**slices, "all": every}.items():
                parts = {"ids": [one.id for one in some], "fingerprints": [one.fingerprint for one in some]}
                self.items.add(f"composed/eibench/{label}", parts)

    async def choices(self, spec: EnvironmentSpec) -> None:
        """Stratified choices and seeds."""
        for name in spec.scenarios.sets or ["checkout"]:
            for limit in (1, 3, 10, 32, 100):
                if self.items.wants(f"stratified/{spec.name}/{name}/{limit}"):
                    ids = [one.id for one in stratified(scenarios(spec.name, name), limit)]
                    self.items.add(f"stratified/{spec.name}/{name}/{limit}", {"ids": ids})
            if self.items.wants(f"seed/{spec.name}/{name}"):
                first = scenarios(spec.name, name)[:5]
                seeds = [dialogue_seed(seed, one.id, repeat) for one in first for seed in (0, 3) for repeat in (0, 2)]
                self.items.add(f"seed/{spec.name}/{name}", {"seeds": seeds})

    async def dialogues(self, spec: EnvironmentSpec) -> None:
        """Dialogues with scripted models in the roles."""
        cases = list(CASES[spec.name])
        if spec.name in IMPORTED:
            other = {"preset": spec.options.choices("preset")[-1]}
            cases += [Case("imported", "imported", {}), Case("imported-other", "imported", other)]
        for case in cases:
            main = case.name == DEFAULT
            some = chosen(spec, case, 4 if main else 2, of=16)
            for scenario in some:
                for seed in SEEDS if main else SEEDS[:1]:
                    for name in ("policy", "other"):
                        sampling = SAMPLING if name == "other" and not main else None
                        model = Scripted()
                        await self._play(spec, case, scenario, Policy(name), model, seed=seed, sampling=sampling)
                        if model.requests and main and (spec.name in SEVERAL_TURNS or scenario is some[0]):
                            short = Scripted(last=len(model.requests) - 1)  # the same dialogue without the last answer
                            await self._play(spec, case, scenario, Policy(name), short, label=f"{name}-last", seed=seed)
                if main:
                    failing = Scripted("fails", fails=True)
                    await self._play(spec, case, scenario, Policy("policy"), failing, label="policy-fails")
                    await self._play(spec, case, scenario, OddPolicy(fails=True), Scripted())
                if main or spec.name not in SEVERAL_TURNS:
                    await self._play(spec, case, scenario, Policy("long", sentences=90), Scripted())
                await self._play(spec, case, scenario, OddPolicy(), Scripted())
                if len(spec.roles) > 1:
                    await self._play(spec, case, scenario, Policy("policy"), label="policy-roles")

    async def _play(
        self,
        spec: EnvironmentSpec,
        case: Case,
        scenario: Any,
        policy: Watched,
        user: Watched | None = None,
        *,
        label: str = "",
        seed: int = 0,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        """A dialogue with one model in all roles, or without any with a model for each."""
        key = f"play/{spec.name}/{case.name}/{label or policy.name.split('/')[1]}/{scenario.id}/{seed}"
        if not self.items.wants(key):
            return
        with self.items.making(key):
            models = {role: user or Scripted(role) for role in spec.role_names}
            transcript = await self._dialogue(spec, case.options, scenario, policy, models, seed, sampling)
            asked = requests_of({id(model): model for model in (policy, *models.values())}.values())
            self.items.add(key, {**parts_of(transcript), **asked})
            self.stored.append(Stored(key, scenario, case, transcript))

    async def _dialogue(
        self,
        spec: EnvironmentSpec,
        options: Mapping[str, Any],
        scenario: Any,
        policy: ChatModel,
        models: Mapping[str, ChatModel],
        seed: int = 0,
        given: Mapping[str, Any] | None = None,
    ) -> Transcript:
        """As `_play`; the transcript is written and read again."""
        sampling = None if given is None else Sampling(**given)
        made = spec.make([scenario], spec.players(models, dict.fromkeys(models, sampling) if sampling else {}), options)
        transcript = await play(made, scenario.id, policy, seed=seed, repeat=SEEDS.index(seed), sampling=sampling)
        return Transcript.model_validate_json(write_line(transcript))

    async def cache(self, spec: EnvironmentSpec) -> None:
        """The rows of a cache, hits and misses after a dialogue is played twice."""
        case = CASES[spec.name][0]
        scenario = chosen(spec, case, 1, of=16)[0]
        options = {"max_turns": 3} if spec.name in SEVERAL_TURNS else {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "answers.sqlite"
            with AnswerCache(path) as answers:
                policy, user = Cached(Policy("policy"), answers, "policy"), Cached(Scripted(), answers, "user")
                for _ in range(2):
                    with dialogue_scope():
                        await self._dialogue(spec, options, scenario, policy, dict.fromkeys(spec.role_names, user))
                counts = [answers.hits, answers.misses]
            columns = "hex(question), repeat, attempt, nth, model, role, text, finish_reason, prompt_tokens, completion_tokens"
            file = sqlite3.connect(path)
            rows = [list(row) for row in file.execute(f"SELECT {columns} FROM answers ORDER BY 1, 4")]
            file.close()
        self.items.add(f"cache/{spec.name}", {"rows": {"hits, misses": counts, "rows": rows}})

    async def again(self, spec: EnvironmentSpec) -> None:
        """Stored dialogues by other options and other judges."""
        presets = spec.options.choices("preset")
        for one in self.stored:
            key = f"rescored/{one.key}"
            if self.items.wants(key):
                with self.items.making(key):
                    self.items.add(key, {"all": self._rescored(spec, one)})
            draw = Draw(one.key)
            sampling = Sampling(**SAMPLING) if draw.number("drawn", 2) else None
            await self._rejudge(spec, one, draw.pick("preset", presets), sampling)
        for one in [one for one in self.stored if one.case.name == "eight-turns" and one.transcript.scored][:3]:
            for preset in presets:
                await self._perturb(spec, one, preset)

    def _options(self, spec: EnvironmentSpec, one: Stored, **given: Any) -> Options:
        return spec.read_options({"max_turns": spec.read_options(one.case.options).max_turns, **given})

    def _rescored(self, spec: EnvironmentSpec, one: Stored) -> Json:
        """A dialogue by every choice of score options: the transcript, or the type of the exception."""
        results: dict[str, Json] = {"asked_again": spec.stored.asked_again(one.transcript)}
        presets = [{"preset": preset} for preset in spec.options.choices("preset")]
        for given in [*presets, *SCORE_OPTIONS.get(spec.name, ())]:
            try:
                options = self._options(spec, one, **{**spec.stored.options(one.transcript), **given})
                results[text_of(given)] = record(spec.stored.rescored(one.transcript, options))
            except HeartloopError as error:
                results[text_of(given)] = type(error).__name__
        return results

    async def _rejudge(self, spec: EnvironmentSpec, one: Stored, preset: str, sampling: Sampling | None) -> None:
        key = f"rejudged/{one.key}/{preset}"
        if not self.items.wants(key):
            return
        with self.items.making(key):
            model = Scripted("judge")
            judge = spec.judge(model, sampling)
            states: Json
            rest: Json
            try:
                result = await rejudged(spec, one.transcript, one.scenario, judge, self._options(spec, one, preset=preset))
                rest = {**parts_of(result), "judged_prompts": judged_prompts(spec, one.transcript, judge)}
                states = rest.pop("states")
            except HeartloopError as error:
                states, rest = type(error).__name__, {}
            requests = requests_of([model])
            self.items.add(key, {"states": states, "rest": rest, "asked": requests.pop("asked"), "keys": requests})

    async def _perturb(self, spec: EnvironmentSpec, one: Stored, preset: str) -> None:
        """A dialogue of EMPA in every variant of its validity suite."""
        key = f"perturbed/{one.key}/{preset}"
        if self.items.wants(key):
            with self.items.making(key):
                model = Scripted("judge")
                judge: Any = spec.judge(model)
                results: dict[str, Transcript] = {}
                for variant in PERTURBATIONS:
                    results[variant] = await perturbed(
                        one.transcript, one.scenario, judge, LLMDirectJudge(model),
                        variant=variant, preset=preset, original=results[ORIGINAL] if variant in ATTACKS else None,
                    )  # fmt: skip
                self.items.add(key, {"all": {**{name: record(t) for name, t in results.items()}, "asked": requests_of([model])}})

    async def cards(self, spec: EnvironmentSpec) -> None:
        """Numbers of score cards."""
        if not self.items.whole:
            return
        run = [one.transcript for one in self.stored if one.case.name == DEFAULT]
        settings = {
            "environment": spec.name,
            "models": list(dict.fromkeys(transcript.model for transcript in run)),
            "scenarios": dict.fromkeys(transcript.scenario for transcript in run),
            "repeats": 2,
            "prices": {"unchanged/policy": (1.0, 2.5), "unchanged/user": (3.0, 4.0)},
        }
        card = {k: v for k, v in score_card(run, settings).model_dump(mode="json").items() if k not in DROPPED}
        for row in card.pop("models"):
            del row["said_to_others"]  # newer than the reference
            self.items.add(f"card/{spec.name}/{row['model'].split('/')[1]}", {"card": row})
        self.items.add(f"card/{spec.name}", {"card": card})

    async def training(self) -> None:
        """Recipes, and what is learned from their dialogues."""
        for name, recipe in recipes():
            if self.only not in (None, recipe.environment.name):
                continue
            key = f"{recipe.environment.name}/{name}"
            if self.items.wants(f"recipe/{key}"):
                with self.items.making(f"recipe/{key}"):
                    self.items.add(f"recipe/{key}", recipe_parts(recipe))
            if self.items.wants(f"training/{key}"):
                made = training_environment(recipe)
                for scenario in stratified(list(made.scenarios.values()), 2):
                    with self.items.making(f"training/{key}/{scenario.id}"):
                        self.items.add(f"training/{key}/{scenario.id}", await learned(recipe, made, scenario))
