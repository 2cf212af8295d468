"""Every item of the reference: which dialogues are played, and which of their parts are compared."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.unchanged import tree
from benchmarks.unchanged.models import (
    END,
    Draw,
    Letters,
    LettersServer,
    LongPolicy,
    OddPolicy,
    Policy,
    Scripted,
    Watched,
    requests_of,
)
from benchmarks.unchanged.reference import Items, Json, text_of

__all__ = ["ENVIRONMENTS", "QUICK", "Recorder"]

ENVIRONMENTS = ("sage", "eibench", "empa", "perm", "daily", "eqbench")
QUICK = 2
"""Items of a kind and environment in a quick comparison."""
DEFAULT = "default"


class Case(NamedTuple):
    """Options under which dialogues are played."""

    name: str
    scenarios: str
    """A set, as `tree.scenarios` reads it."""
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
}
IMPORTED = ("sage", "eibench", "perm")
"""Environments with scenarios in a released form."""
SEVERAL_TURNS = ("sage", "eibench", "empa")
SEEDS = (0, 3)
FEW = ("listener", "coach", "lecturer", "rigid")
"""Baselines in cases other than the default."""
ASKED = ("listener", "flatterer")
"""Baselines where a scripted model plays the roles."""
SAMPLING = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 300, "seed": 11}
"""Sampling settings where some are given."""
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


class Played(NamedTuple):
    """A dialogue that is rescored and rejudged."""

    key: str
    environment: str
    scenario: Any
    case: Case
    transcript: Any

    @property
    def policy(self) -> str:
        """Name of the policy, and of the model that plays the roles."""
        return self.key.split("/")[3]


def parts_of(record: Mapping[str, Json]) -> dict[str, Json]:
    """A transcript in parts: said, states, calls, judged, about."""
    turns = record["turns"]
    parts: dict[str, Json] = {part: {name: record[name] for name in names} for part, names in PARTS.items()}
    for part, names in TURN_PARTS.items():
        parts[part]["turns"] = [{name: turn[name] for name in names} for turn in turns]
    taken = {name for names in TURN_PARTS.values() for name in names}
    parts["judged"] = [{name: value for name, value in turn.items() if name not in taken} for turn in turns]
    taken = {"turns", *(name for names in PARTS.values() for name in names)}
    parts["about"] = {name: value for name, value in record.items() if name not in taken}
    return parts


def chosen(environment: str, case: Case, number: int, *, of: int) -> list[Any]:
    """Some scenarios of a case, out of a stratified choice that differs from case to case."""
    every = [one for one in tree.scenarios(environment, case.scenarios) if tree.playable(environment, one, case.options)]
    wide = tree.stratified(every, of)
    if case.name == DEFAULT:
        return wide[:: max(1, len(wide) // number)][:number]
    start = Draw(f"{environment}/{case.name}").number("start", max(1, len(wide) - number + 1))
    return wide[start:][:number]


class Recorder:
    """Makes items.

    Args:
        only: one environment; without it, also the files that belong to none.
    """

    def __init__(self, items: Items, only: str | None = None) -> None:
        self.items = items
        self.environments = [only] if only else list(ENVIRONMENTS)
        self.only = only
        self.played: list[Played] = []
        self.asked: list[Played] = []

    async def everything(self) -> None:
        """All items."""
        for environment in self.environments:
            for kind in (self.files, self.choices, self.embedded, self.models, self.stored, self.cards):
                started = time.perf_counter()
                with self.items.making(f"whole/{environment}/{kind.__name__}"):
                    await kind(environment)
                print(f"{environment:8} {kind.__name__:9} {time.perf_counter() - started:6.1f} s", file=sys.stderr)
        if self.only is None:
            await self.files("")
        with self.items.making(f"whole/{self.only}/training"):
            await self.training()

    async def files(self, environment: str) -> None:
        """Prompts, tables and scenarios; without an environment, the files that belong to none."""
        kinds = (
            ("prompt", "text", tree.prompt_files),
            ("table", "content", tree.tables),
            ("file", "sha256", tree.scenario_files),
        )
        for kind, part, read in kinds:
            for owner, name, content in read():
                if owner == environment or (not environment and owner not in ENVIRONMENTS):
                    self.items.add(f"{kind}/{owner}/{name}", {part: content})
        if not environment:
            self.items.add("catalogue/all", {"all": tree.names()})
            return
        self.items.add(f"catalogue/{environment}", {"all": tree.catalogue(environment)})
        for name in [*tree.sets(environment), *(["imported"] if environment in IMPORTED else [])]:
            if (environment, name) != ("eibench", "train"):
                for scenario in tree.scenarios(environment, name):
                    self.items.add(f"scenario/{environment}/{name}/{scenario.id}", {"fingerprint": scenario.fingerprint})
        if environment == "eibench" and self.items.wants("composed/eibench/all"):
            every = tree.scenarios("eibench", "train")
            slices = {f"{first}-{first + 9}": every[first : first + 10] for first in range(0, 100, 10)}
            for label, some in {**slices, "all": every}.items():
                parts = {"ids": [one.id for one in some], "fingerprints": [one.fingerprint for one in some]}
                self.items.add(f"composed/eibench/{label}", parts)

    async def choices(self, environment: str) -> None:
        """Stratified choices and seeds."""
        for name in tree.sets(environment):
            for limit in (1, 3, 10, 32, 100):
                if self.items.wants(f"stratified/{environment}/{name}/{limit}"):
                    ids = [one.id for one in tree.stratified(tree.scenarios(environment, name), limit)]
                    self.items.add(f"stratified/{environment}/{name}/{limit}", {"ids": ids})
            if self.items.wants(f"seed/{environment}/{name}"):
                first = tree.scenarios(environment, name)[:5]
                seeds = [tree.dialogue_seed(seed, one.id, repeat) for one in first for seed in (0, 3) for repeat in (0, 2)]
                self.items.add(f"seed/{environment}/{name}", {"seeds": seeds})

    async def embedded(self, environment: str) -> None:
        """Dialogues with the embedded user."""
        for case in CASES[environment]:
            main = case.name == DEFAULT
            for scenario in chosen(environment, case, 4 if main else 2, of=8):
                for repeat, seed in enumerate(SEEDS if main else SEEDS[:1]):
                    for name in tree.BASELINES if main else FEW:
                        sampling = SAMPLING if name == "lecturer" and not main else None
                        await self._play(case, environment, scenario, Policy(name), seed, repeat, sampling)
                await self._play(case, environment, scenario, OddPolicy(), 0)
                if main or environment not in SEVERAL_TURNS:
                    await self._play(case, environment, scenario, LongPolicy("listener"), 0)
                if main:
                    await self._play(case, environment, scenario, OddPolicy(fails=True), 0)

    async def _play(
        self,
        case: Case,
        environment: str,
        scenario: Any,
        policy: Watched,
        seed: int,
        repeat: int = 0,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        key = f"play/{environment}/{case.name}/{policy.name.split('/')[1]}/{scenario.id}/{seed}"
        if not self.items.wants(key):
            return
        with self.items.making(key):
            made = tree.make(environment, [scenario], tree.players(environment), case.options)
            played = await tree.played(made, scenario.id, policy, seed=seed, repeat=repeat, sampling=sampling)
            requests = requests_of([policy])
            requests.pop("schemas")
            self.items.add(key, {**parts_of(tree.record(played)), "policy": requests})
            self.played.append(Played(key, environment, scenario, case, played))

    async def models(self, environment: str) -> None:
        """Dialogues with scripted models in the roles."""
        cases = list(CASES[environment])
        if environment in IMPORTED:
            other = {"preset": tree.presets(environment)[-1]}
            cases += [Case("imported", "imported", {}), Case("imported-other", "imported", other)]
        for case in cases:
            main = case.name == DEFAULT
            some = chosen(environment, case, 4 if main else 2, of=16)
            for scenario in some:
                place = (case, environment, scenario)
                for repeat, seed in enumerate(SEEDS if main else SEEDS[:1]):
                    for name in ASKED:
                        sampling = SAMPLING if name == "flatterer" and not main else None
                        model = Scripted()
                        asked = await self._ask(*place, Policy(name), {"user": model}, seed, repeat, sampling=sampling)
                        if asked and main and (environment in SEVERAL_TURNS or scenario is some[0]):
                            short = Scripted(last=len(model.requests) - 1)  # the same dialogue without the last answer
                            await self._ask(*place, Policy(name), {"user": short}, seed, repeat, label="last")
                if main:
                    await self._ask(*place, Policy("coach"), {"user": Scripted("unchanged/fails", fails=True)}, 0)
                await self._ask(*place, OddPolicy(), {"user": Scripted("unchanged/heard")}, 0)
                if environment == "empa":
                    names = {"user": "person", "judge": "judge", "director": "director"}
                    roles = {role: Scripted(f"unchanged/{name}") for role, name in names.items()}
                    await self._ask(*place, Policy("fixer"), roles, 0)
        case = cases[0]
        scenario = chosen(environment, case, 1, of=16)[0]

        async def go(models: Mapping[str, Any]) -> None:
            short = {**case.options, **({"max_turns": 3} if environment in SEVERAL_TURNS else {})}
            made = tree.make(environment, [scenario], tree.players(environment, {"user": models["user"]}), short)
            await tree.played(made, scenario.id, models["policy"], seed=0)

        with self.items.making(f"cache/{environment}"):
            rows = await tree.cache_rows({"policy": Policy("listener"), "user": Scripted()}, go)
            self.items.add(f"cache/{environment}", {"rows": rows})

    async def _ask(
        self,
        case: Case,
        environment: str,
        scenario: Any,
        policy: Watched,
        models: Mapping[str, Watched],
        seed: int,
        repeat: int = 0,
        *,
        label: str | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> bool:
        """Plays with a model for every role, or models by role; whether it was wanted."""
        names = f"{policy.name.split('/')[1]}-{label or models['user'].name.split('/')[1]}"
        key = f"llm/{environment}/{case.name}/{names}/{scenario.id}/{seed}"
        if not self.items.wants(key):
            return False
        with self.items.making(key):
            made = tree.make(environment, [scenario], tree.players(environment, models, sampling), case.options)
            played = await tree.played(made, scenario.id, policy, seed=seed, repeat=repeat)
            self.items.add(key, {**parts_of(tree.record(played)), **requests_of([policy, *models.values()])})
            self.asked.append(Played(key, environment, scenario, case, played))
        return True

    async def stored(self, environment: str) -> None:
        """Stored dialogues by other options and other judges."""
        dialogues = [p for p in self.played if p.environment == environment and p.policy in ("listener", "odd", "fails", "long")]
        dialogues += [p for p in self.asked if p.environment == environment]
        for one in dialogues:
            key = f"rescored/{one.key}"
            if self.items.wants(key):
                with self.items.making(key):
                    self.items.add(key, {"all": self._rescored(one)})
            if one.policy != "fails":
                for key, preset, model, sampling in self._judges(one):
                    if self.items.wants(key):
                        with self.items.making(key):
                            self.items.add(key, await self._rejudged(one, preset, model, sampling))
        short = [p for p in dialogues if p.case.name == "eight-turns" and p.transcript.scored]
        for one in short[:3] if environment == "empa" else []:
            for name, preset in (*(("embedded", preset) for preset in tree.presets("empa")), ("llm", tree.presets("empa")[0])):
                key = f"perturbed/{one.key}/{name}-{preset}"
                if self.items.wants(key):
                    with self.items.making(key):
                        judge = Scripted("unchanged/judge") if name == "llm" else None
                        variants = await tree.perturbed_variants(one.transcript, one.scenario, judge, preset=preset)
                        parts = {variant: tree.record(played) for variant, played in variants.items()}
                        parts["questions"] = requests_of([judge] if judge else [])
                        self.items.add(key, {"all": parts})

    def _rescored(self, one: Played) -> Json:
        """A dialogue by every choice of score options: the transcript, or the type of the exception."""
        options = [*({"preset": preset} for preset in tree.presets(one.environment)), *SCORE_OPTIONS.get(one.environment, ())]
        results: dict[str, Json] = {"asked_again": tree.asked_again(one.environment, one.transcript)}
        for given in options:
            try:
                result = tree.rescored(one.environment, one.transcript, {**given, "max_turns": self._max_turns(one)})
                results[text_of(given)] = tree.record(result)
            except tree.HeartloopError as error:
                results[text_of(given)] = type(error).__name__
        return results

    def _judges(self, one: Played) -> Iterator[tuple[str, str, Scripted | None, Mapping[str, Any] | None]]:
        """Keys of rejudged dialogues with preset, model and sampling: by the rules, and a third by a model."""
        draw = Draw(one.key)
        preset = draw.pick("preset", tree.presets(one.environment))
        if one.case.scenarios != "imported":
            yield f"rejudged/{one.key}/embedded-{preset}", preset, None, None
        if draw.number("asks", 3) == 0:
            sampling = SAMPLING if draw.number("drawn", 2) else None
            yield f"rejudged/{one.key}/llm-{preset}", preset, Scripted("unchanged/judge"), sampling

    async def _rejudged(
        self, one: Played, preset: str, model: Scripted | None, sampling: Mapping[str, Any] | None
    ) -> dict[str, Json]:
        options = {"preset": preset, "max_turns": self._max_turns(one)}
        states: Json
        rest: Json
        try:
            judge = tree.judge(one.environment, model, sampling)
            result, prompts = await tree.rejudged_dialogue(one.environment, one.transcript, one.scenario, judge, options)
            rest = {**parts_of(tree.record(result)), "judged_prompts": prompts}
            states = rest.pop("states")
        except tree.HeartloopError as error:
            states, rest = type(error).__name__, {}
        requests = requests_of([] if model is None else [model])
        return {"states": states, "rest": rest, "asked": requests.pop("asked"), "keys": requests}

    def _max_turns(self, one: Played) -> int:
        return int(one.case.options.get("max_turns", tree.catalogue(one.environment)["max_turns"]))

    async def cards(self, environment: str) -> None:
        """Numbers of score cards."""
        for name, dialogues in (("embedded", self.played), ("llm", self.asked)):
            run = [p.transcript for p in dialogues if p.environment == environment and p.case.name == DEFAULT]
            settings = {
                "environment": environment,
                "models": list(dict.fromkeys(transcript.model for transcript in run)),
                "scenarios": dict.fromkeys(transcript.scenario for transcript in run),
                "repeats": 2,
                "prices": {"heartloop/listener": (1.0, 2.5), "unchanged/user": (3.0, 4.0)},
            }
            if self.items.whole:
                card = tree.card(run, settings)
                self.items.add(f"card/{environment}/{name}", {"card": {k: v for k, v in card.items() if k != "models"}})
                for row in card["models"]:
                    self.items.add(f"card/{environment}/{name}/{row['model'].split('/')[1]}", {"card": row})

    async def training(self) -> None:
        """Recipes, and what is learned from their dialogues."""
        for name, variant, recipe in tree.recipes():
            settings = tree.recipe_settings(recipe)
            environment = settings["dialogue"]["environment"]
            if environment not in self.environments:
                continue
            key = f"{environment}/{name}{f'+{variant}' if variant else ''}"
            if self.items.wants(f"recipe/{key}"):
                with self.items.making(f"recipe/{key}"):
                    verl, split = tree.recipe_for_verl(recipe), tree.recipe_scenarios(recipe)
                    self.items.add(f"recipe/{key}", {"settings": settings, "verl": verl, "scenarios": split})
            if self.items.wants(f"training/{key}"):
                made = tree.training_environment(recipe)
                for scenario in tree.stratified(list(made.scenarios.values()), 2):
                    with self.items.making(f"training/{key}/{scenario.id}"):
                        learned = await self._learned(recipe, settings["dialogue"], made, scenario)
                        self.items.add(f"training/{key}/{scenario.id}", learned)

    async def _learned(self, recipe: Any, dialogue: Mapping[str, Json], made: Any, scenario: Any) -> dict[str, Json]:
        group = []
        for name in ("listener", "coach", "garbage", "silent"):
            letters = Letters()
            server = LettersServer(letters, name, think=bool(dialogue.get("think")))
            longest = 2600 if name == "coach" else 9000
            policy = tree.token_policy(server, letters, end=END, max_prompt=longest, max_tokens=600)
            group.append((await tree.played(made, scenario.id, policy, seed=5, sampling={"seed": 9}), policy))
        return tree.learned(recipe, scenario, group)
