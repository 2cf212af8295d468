"""What a refactoring must not change: `python -m benchmarks.unchanged record|compare [--dump DIR] [--only sage]`

`record` runs the code and writes one line of short hashes for each item to `benchmarks/results/unchanged.json`; `compare` runs
the code and says which items differ from that file (exit code 1), or PASS. `--dump DIR` writes the canonical JSON of each item
to a file, so that two trees can be compared with `diff -r`. Takes about two minutes of one core.

Covers, for all six environments (EQ-Bench3 by the invented checkout of the tests):

- `play`: every scripted supporter with the embedded user and the default settings; fewer with every other preset, variant and
  option; further a policy of broken replies, and one whose call fails;
- `llm`: the instrument roles played by a scripted model (`Scripted`), unusable answers and failed calls among its own; recorded
  are the transcript and every question in order, with schema, sampling and the digest under which the answer store keeps it;
- `store`: the rows of the answer store after such a dialogue;
- `rescored`, `rejudged`: stored dialogues by other presets and weights, and by the embedded and a scripted judge; `perturbed`:
  EMPA's dialogues in every variant of `heartloop validate`;
- `prompt`, `table`, `scenario`, `file`: prompt files and TOML tables by owner and file name, every shipped scenario by id with
  its fingerprint, scenario files; `stratified`, `composed`, `seed`, `catalogue`: choice of scenarios, EIBench's composed
  training set, seeds of dialogues, names and defaults of each environment;
- `recipe`, `training`: what each recipe and variant says of dialogues and algorithm, whom it trains on, its settings for verl;
  samples, token rewards, returns, process rewards, rewards to go and advantages of groups of dialogues under each of them;
- `card`: numbers of the score card of each environment.

Does not cover: command line, run directories and their hashes, endpoints and spending, reports and pages, other analyses than
the score card, importers and authoring (their prompt files only), Inspect and TRL, anything that needs torch or verl.

Names are canonical: `RENAMES` puts the names of the tree as it was at the start into new ones, so the reference holds those.
All use of the project's API is in `Tree`; after a change of the API that class is to be rewritten, and nothing else. Floats are
compared to 10 significant digits. Items of `llm` depend on the words of prompts, since the scripted model answers by a hash of
them; the titles in a schema do not change its answers, but count in the parts `schemas` and `keys`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import re
import sys
import tempfile
import time
import tomllib
import types
from collections import Counter, namedtuple
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import heartloop
from heartloop.analysis import score_card
from heartloop.chat import ChatModel, Reply, estimate_usage
from heartloop.dialogue import Message, Sampling, Transcript, read_transcripts, write_line
from heartloop.environments.catalogue import Entry, entry_of, environments, stratified
from heartloop.environments.eibench.scenario_sets import training as composed_training_set
from heartloop.environments.empa import LLMUser as EmpaLLMUser
from heartloop.environments.empa.direct_judge import EmbeddedDirectJudge, LLMDirectJudge
from heartloop.environments.empa.perturbations import ATTACKS, ORIGINAL, PERTURBATIONS
from heartloop.environments.empa.perturbed import perturbed
from heartloop.environments.episode import play
from heartloop.errors import HeartloopError, TransportError
from heartloop.evaluation.settings import dialogue_seed
from heartloop.replay import AnswerStore, Replayed, playing
from heartloop.scoring.credit import group_advantages, rewards_to_go, turn_advantages
from heartloop.supporters import SUPPORTERS, Supporter
from heartloop.training.dataset import cast_of, rows
from heartloop.training.dialogue_settings import DialogueSettings, group_of
from heartloop.training.perm_terms import perm_log
from heartloop.training.recipe import Recipe, read_recipe, recipe_names
from heartloop.training.verl_config import RunPaths, verl_settings
from tests.eqbench_checkout import write_checkout
from tests.released_eibench import record as eibench_record
from tests.released_form import profile as sage_profile

REFERENCE = Path(__file__).parent / "results" / "unchanged.json"
SHOWN = 40
"""Differences that `compare` names."""
KINDS = (
    "whole", "file", "scenario", "prompt", "table", "catalogue", "composed", "stratified", "seed", "recipe", "training", "play",
    "llm", "store", "rescored", "rejudged", "perturbed", "card",
)  # fmt: skip
"""Kinds of items in the order in which `compare` names them: causes first."""

RENAMES: Mapping[str, Mapping[str, str]] = {
    "field": {"simulator": "user", "simulators": "users"},
    "role": {"simulator": "user"},
}
"""Canonical names by the names that this tree writes: fields of a transcript, roles wherever one is named."""
DROPPED = ("schema_version", "seconds")
"""Fields of a transcript that are not compared."""

DIGITS = 6
"""Hex digits of a hash in the reference."""

Json = Any


class Tree:
    """The project's API as this programme uses it.

    Args:
        work: a folder for the files that scenarios are read from.
    """

    environments: Sequence[str] = ("sage", "eibench", "empa", "perm", "daily", "eqbench")

    def __init__(self, work: Path) -> None:
        self._work = work
        self._loaded: dict[tuple[str, str], list[Any]] = {}

    # scenarios

    def sets(self, environment: str) -> Sequence[str]:
        """Names of its shipped sets; `checkout` stands for the checkout that EQ-Bench3 is read from."""
        return entry_of(environment).sets or ("checkout",)

    def scenarios(self, environment: str, name: str) -> list[Any]:
        """The scenarios of a set; `imported` is invented records in a released form."""
        key = (environment, name)
        if key not in self._loaded:
            source = name
            if name == "checkout":
                source = str(write_checkout(self._work / "eqbench3"))
            elif name == "imported":
                path = self._work / f"{environment}.jsonl"
                lines = (json.dumps(line, ensure_ascii=False) for line in _imported(environment))
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                source = str(path)
            self._loaded[key] = list(entry_of(environment).load(source))
        return self._loaded[key]

    def playable(self, environment: str, scenario: Any, options: Mapping[str, Any]) -> bool:
        """Whether a scenario has what the variant among the options needs."""
        entry = entry_of(environment)
        return entry.there(scenario, options.get("variant", entry.variants[0]))

    def stratified(self, people: Sequence[Any], limit: int) -> list[Any]:
        return stratified(people, limit)

    def composed(self) -> Sequence[Any]:
        """EIBench's composed training set."""
        return composed_training_set()

    def dialogue_seed(self, seed: int, scenario: str, repeat: int) -> int:
        return dialogue_seed(seed, scenario, repeat)

    def catalogue(self, environment: str) -> dict[str, Json]:
        """Names and defaults of an environment."""
        entry = entry_of(environment)
        return {
            "sets": list(entry.sets),
            "presets": list(entry.presets),
            "variants": list(entry.variants),
            "max_turns": entry.max_turns,
            "relation_weight": entry.relation_weight,
            "windows": entry.windows,
            "bounds": entry.bounds,
            "switches": list(entry.switches),
            "policy_sampling": entry.policy_sampling.model_dump(mode="json"),
        }

    def names(self) -> list[str]:
        """The environments that there are."""
        return list(environments())

    def presets(self, environment: str) -> Sequence[str]:
        return entry_of(environment).presets

    # dialogues

    def build(self, environment: str, people: Sequence[Any], user: Any, options: Mapping[str, Any]) -> Any:
        """An environment that can be played; `options` has preset, variant, max_turns and those of the environment."""
        entry: Entry = entry_of(environment)
        if {"start", "leaves_at", "form"} & options.keys():  # settings of training, which `Entry.build` does not take
            given = {"preset": entry.presets[0], "variant": entry.variants[0], "max_turns": entry.max_turns, **options}
            return entry.new(people, user, **given)
        return entry.build(people, user, **options)

    def embedded(self, environment: str) -> Any:
        """The embedded user, who is also the embedded judge."""
        return entry_of(environment).person(None)

    def llm(
        self,
        environment: str,
        model: ChatModel,
        judge: ChatModel | None = None,
        director: ChatModel | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> Any:
        """The user that a model plays; in EMPA with other models as judge and director."""
        settings = None if sampling is None else Sampling(**sampling)
        if judge is not None or director is not None:
            return EmpaLLMUser(model, judge=judge, director=director, sampling=settings)
        return entry_of(environment).person(model, settings)

    def judge(self, environment: str, model: ChatModel | None = None, sampling: Mapping[str, Any] | None = None) -> Any:
        """Who judges stored replies: a model, or the rules without one."""
        return entry_of(environment).judge(model, None if sampling is None else Sampling(**sampling))

    def policies(self) -> Sequence[str]:
        """Names of the scripted supporters."""
        return tuple(SUPPORTERS)

    def policy(self, name: str) -> ChatModel:
        return Supporter(name)

    async def play(
        self,
        environment: Any,
        scenario: str,
        policy: ChatModel,
        *,
        seed: int,
        repeat: int = 0,
        sampling: Mapping[str, Any] | None = None,
    ) -> Any:
        """One dialogue as a stored transcript is read again."""
        settings = None if sampling is None else Sampling(**sampling)
        played = await play(environment, scenario, policy, seed=seed, repeat=repeat, sampling=settings)
        path = self._work / "transcripts.jsonl"
        path.write_text(write_line(played), encoding="utf-8")
        return next(iter(read_transcripts(path)))

    def rescored(self, environment: str, played: Any, options: Mapping[str, Any]) -> Any:
        """A stored dialogue by other rules; `options` has preset, max_turns and the weights."""
        return entry_of(environment).rescored(played, **options)

    def asked_again(self, environment: str, played: Any) -> bool:
        """Whether an answer was refused for a change that another preset clamps."""
        return entry_of(environment).asked_again(played)

    async def rejudged(self, environment: str, played: Any, person: Any, judge: Any, *, preset: str, max_turns: int) -> Any:
        return await entry_of(environment).rejudged(played, person, judge, preset=preset, max_turns=max_turns)

    def judged_prompts(self, environment: str, played: Any, judge: Any) -> dict[str, str]:
        """Prompts by hash of a rejudged dialogue."""
        return dict(entry_of(environment).judged_prompts(played, judge))

    async def perturbed(self, played: Any, person: Any, model: ChatModel | None, *, preset: str) -> dict[str, Any]:
        """A dialogue of EMPA in every variant of `heartloop validate`, by name; by rules without a model."""
        judge = self.judge("empa", model)
        direct = EmbeddedDirectJudge() if model is None else LLMDirectJudge(model)
        found: dict[str, Any] = {}
        for variant in PERTURBATIONS:
            original = found[ORIGINAL] if variant in ATTACKS else None
            found[variant] = await perturbed(played, person, judge, direct, variant=variant, preset=preset, original=original)
        return found

    def record(self, played: Transcript) -> dict[str, Json]:
        """A transcript with canonical names, without what is not compared."""
        found = {RENAMES["field"].get(name, name): value for name, value in played.model_dump(mode="json").items()}
        for name in ("models", "sampling", "usage"):
            found[name] = _roles(found[name])
        found["calls"] = [{**call, "role": _role(call["role"])} for call in found["calls"]]
        if found["failure"] is not None:
            # the sentence names the private class of an answer
            detail = re.sub(r"expected JSON for \w+", "expected JSON", found["failure"]["detail"])
            found["failure"] = {**found["failure"], "role": _role(found["failure"]["role"]), "detail": detail}
        return {name: value for name, value in found.items() if name not in DROPPED}

    # models

    def reply(self, text: str, messages: Sequence[Any], *, finish_reason: str = "stop", reasoning: str | None = None) -> Reply:
        """What a model returns."""
        return Reply(text, reasoning, finish_reason, estimate_usage(messages, text))

    def failed_call(self) -> Exception:
        """What a model raises where a call failed for good."""
        return TransportError("the line is dead")

    def expected_errors(self) -> tuple[type[Exception], ...]:
        """What the project raises on purpose."""
        return (HeartloopError,)

    def key(self, model: ChatModel, messages: Sequence[Any], schema: Mapping[str, Any] | None, sampling: Any) -> str:
        """The digest of a question under which the answer store keeps the answer."""
        asking = Replayed(model, AnswerStore(self._work / "unused.sqlite"), "role")
        return asking._question(messages, schema, sampling or Sampling()).hex()

    async def stored(self, models: Mapping[str, ChatModel], go: Callable[[Mapping[str, ChatModel]], Awaitable[Any]]) -> Json:
        """The rows of an answer store that these models, by role, were asked through; `go` plays with them, twice."""
        import sqlite3

        path = self._work / "answers.sqlite"
        path.unlink(missing_ok=True)
        with AnswerStore(path) as store:
            through = {role: Replayed(model, store, role) for role, model in models.items()}
            for _ in range(2):
                with playing(0, 0):
                    await go(through)
            told = [store.replayed, store.asked]
        columns = "hex(question), repeat, attempt, nth, model, role, text, finish_reason, prompt_tokens, completion_tokens"
        file = sqlite3.connect(path)
        found = [list(row) for row in file.execute(f"SELECT {columns} FROM answers ORDER BY 1, 4")]
        file.close()
        return {"replayed, asked": told, "rows": [[*row[:5], _role(row[5]), *row[6:]] for row in found]}

    # files

    def prompt_files(self) -> Iterator[tuple[str, str, str]]:
        """Owner (an environment, or `authoring`), file name and text of every prompt."""
        for path in sorted(self._root().rglob("prompts/*.md")):
            yield path.parent.parent.name, path.name, path.read_text(encoding="utf-8")

    def tables(self) -> Iterator[tuple[str, str, Json]]:
        """Owner, file name and content of every TOML table."""
        for path in sorted(self._root().rglob("*.toml")):
            yield path.parent.name, path.name, tomllib.loads(path.read_text(encoding="utf-8"))

    def scenario_files(self) -> Iterator[tuple[str, str, bytes]]:
        """Environment, file name and content of every file of scenarios."""
        for path in sorted(self._root().rglob("scenarios/*.jsonl")):
            yield path.parent.parent.name, path.name, path.read_bytes()

    def _root(self) -> Path:
        return Path(str(resources.files(heartloop)))

    # training

    def recipes(self) -> Iterator[tuple[str, str, Recipe]]:
        """Every shipped recipe, itself and in each variant; the variant's name is empty for the recipe itself."""
        for name in recipe_names():
            recipe = read_recipe(name)
            yield name, "", recipe
            for variant in recipe.variants:
                yield name, variant, read_recipe(name, variants=[variant])

    def recipe_settings(self, recipe: Recipe) -> dict[str, Json]:
        """What a recipe says of dialogues, algorithm, optimiser and batch; a setting that is not set is left out."""
        told = recipe.model_dump(mode="json", include={"seed", "people", "dialogue", "algorithm", "optimiser", "batch"})
        dialogue = {name: value for name, value in told.pop("dialogue").items() if value is not None and name != "scenarios"}
        return {**told, "dialogue": dialogue}

    def recipe_for_verl(self, recipe: Recipe) -> Json:
        """verl's settings, with the checkout's own path left out."""
        text = json.dumps(_plain(verl_settings(recipe, RunPaths(Path("run")), model="model", train_rows=120)))
        return json.loads(text.replace(str(self._root()), "HEARTLOOP").replace(str(Path.cwd()), "."))

    def recipe_people(self, recipe: Recipe) -> Json:
        """Ids that a recipe trains on and holds out, and its rows; `None` where it needs a file of the user's."""
        if recipe.people.train.endswith(".jsonl"):
            return None
        cast = cast_of(recipe)
        dealt = [*rows(cast.train, recipe, split="train"), *rows(cast.held_out, recipe, split="val")]
        return {"train": [one.id for one in cast.train], "held_out": [one.id for one in cast.held_out], "rows": dealt}

    def training_environment(self, recipe: Recipe) -> Any:
        """The environment of a recipe with the embedded user, over those who are held out."""
        given = recipe.dialogue.model_dump(mode="json", exclude={"transcripts", "transcripts_every"})
        settings = {**given, "scenarios": [recipe.people.held_out], "user": "embedded", "seed": recipe.seed}
        return DialogueSettings.model_validate(settings).build()[0]

    def people_of(self, environment: Any) -> list[Any]:
        return list(environment.scenarios.values())

    def token_policy(self, server: Any, form: Any, *, end: int, max_prompt: int, max_tokens: int) -> Any:
        """A policy that draws tokens and keeps them."""
        rollouts = _rollouts()
        return rollouts.TokenPolicy(server, form, ends={end}, max_prompt=max_prompt, max_tokens=max_tokens)

    def generated(self, tokens: list[int], logprobs: list[float], stop: str) -> Any:
        """What a token server returns."""
        _rollouts()
        return sys.modules["heartloop.training.generation"].Generated(tokens, logprobs, stop)

    def learned(self, recipe: Recipe, group: Sequence[tuple[Any, Any]]) -> dict[str, Json]:
        """What a group of rollouts of one scenario is learned from: (transcript, token policy) each; unscored ones left out."""
        rollouts, dialogue, algorithm = _rollouts(), recipe.dialogue, recipe.algorithm
        found = []
        for played, policy in group:
            if not played.scored:
                continue
            worth = rollouts.worth_of(played, policy.spoken, kind=dialogue.reward, think=dialogue.think, rules=dialogue.rules)
            parts = rollouts.samples(policy.spoken, per=dialogue.sample, max_response=8 * recipe.policy.max_response)
            found.append((worth, parts))
        outcomes, process = [worth.outcome for worth, _ in found], [worth.process for worth, _ in found]
        settings: dict[str, Any] = {"sigma_min": algorithm.sigma_min, "ddof": algorithm.ddof}
        return {
            "worth": [_plain(worth._asdict()) for worth, _ in found],
            "to_go": [_plain(rewards_to_go(worth.rewards)) for worth, _ in found],
            "group": _plain(group_advantages(outcomes, **settings)),
            "turns": _plain(turn_advantages(outcomes, process, alpha=algorithm.alpha, centre=algorithm.centre, **settings)),
            "samples": [_plain([part._asdict() for part in parts]) for _, parts in found],
            "token_rewards": [
                [rollouts.token_rewards(part, worth, credit=dialogue.credit) for part in parts] for worth, parts in found
            ],
            "dialogues": {
                "told": [[played.score, played.stop, policy.overflows] for played, policy in group],
                "logged": [perm_log(played) for played, _ in group if played.scored] if dialogue.environment == "perm" else [],
            },
        }

    def group_of(self, person: Any) -> str:
        """By what a person's numbers are logged in training."""
        return group_of(person)

    # analysis

    def card(self, played: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, Json]:
        """Numbers of a run's score card, in all and by model."""
        card = score_card(played, settings).model_dump(mode="json")
        for name in ("notes", "heartloop_version", *DROPPED):
            card.pop(name, None)
        for row in card["models"]:
            row["roles"] = _roles(row["roles"])
            row["causes"] = [{**cause, "role": _role(cause["role"])} for cause in row["causes"]]
        return {RENAMES["field"].get(name, name): value for name, value in card.items()}


def _role(name: str) -> str:
    return RENAMES["role"].get(name, name)


def _roles(by_role: Mapping[str, Any]) -> dict[str, Any]:
    return {_role(name): value for name, value in by_role.items()}


def _rollouts() -> Any:
    """`training.rollouts`; without torch a stand-in takes the place of the module that it has the type of a token server from."""
    name = "heartloop.training.generation"
    if name not in sys.modules:
        try:
            __import__(name)
        except ModuleNotFoundError:
            module: Any = types.ModuleType(name)
            module.TokenServer = object
            vars(module)["Generated"] = namedtuple("Generated", ["tokens", "logprobs", "stop"])
            sys.modules[name] = module
    from heartloop.training import rollouts

    return rollouts


def _imported(environment: str) -> list[dict[str, Any]]:
    """Lines as the importers write them, from invented records."""
    if environment == "sage":
        tasks = ("想有人倾听", "想要有用的建议", "想聊聊爱好")
        profiles = (sage_profile(number, task=task) for number, task in enumerate(tasks))
        return [{"form": "sage-released/1", "source": "invented.jsonl", "record": one} for one in profiles]
    if environment == "eibench":
        opening = {"system_prompt": "你是林小舟。", "opening_line": ""}
        records = (eibench_record(1), eibench_record(2, scene_tag="charm", aggressor_profile=opening))
        return [{"form": "eibench-released/1", "source": "invented.jsonl", "record": one} for one in records]
    told = {
        "scenario": "My brother borrowed my bicycle and sold it without a word.",
        "query": "My brother sold my bicycle. I found out from the man who bought it.",
        "source": "invented.csv, hit:1_conv:2",
    }
    someone = {"name": "Ada Brandt", "age": 34, "gender": "woman", "occupation": "clerk in Ghent"}
    return [
        {"form": "perm-drawn/1", "id": "perm-furious-0a1b2c3d", "emotion": "furious", **told},
        {"form": "perm-drawn/1", "id": "perm-hopeful-1a1b2c3d", "emotion": "hopeful", "persona": someone, **told},
    ]


# canonical JSON and hashes


def _plain(value: Any) -> Json:
    """A value as JSON has it: arrays as lists, floats to 10 significant digits."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return float(f"{value:.10g}") + 0.0
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, Iterable):
        return [_plain(part) for part in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON here")


def _text(value: Json, *, indent: int | None = None) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, indent=indent)


def _hash(text: str | bytes) -> str:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()


class Items:
    """Hashes of what was found, by key: `kind/environment/...`.

    Args:
        dump: a folder for the canonical JSON of every item.
    """

    def __init__(self, dump: Path | None) -> None:
        self._dump = dump
        self.parts: dict[str, list[str]] = {}
        self.hashes: dict[str, list[str]] = {}

    def add(self, key: str, parts: Mapping[str, Json]) -> None:
        """One item; all of a kind have the same parts."""
        if key in self.hashes:
            raise ValueError(f"two items are called {key}")
        names = self.parts.setdefault(key.split("/")[0], list(parts))
        if names != list(parts):
            raise ValueError(f"{key} has the parts {list(parts)}; others of its kind have {names}")
        self.hashes[key] = [_hash(_text(part))[:DIGITS] for part in parts.values()]
        if self._dump is not None:
            path = self._dump / f"{key}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_text(parts, indent=1) + "\n", encoding="utf-8", errors="surrogatepass")

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[None]:
        """What makes one item; an error that nobody expects is recorded in its place, so that the others are made."""
        try:
            yield
        except Exception as error:
            print(f"{key}: {error!r}", file=sys.stderr)
            self.hashes[key] = [f"{RAISED}{type(error).__name__}"]


# models that answer by rule


RAISED = "raised:"
"""How the hash of an item begins that could not be made: what was raised follows."""


class Draw:
    """Numbers that follow from a text."""

    def __init__(self, text: str) -> None:
        self._digest = _hash(text)

    def number(self, tag: str, below: int) -> int:
        """From 0 on."""
        return int(_hash(f"{self._digest}|{tag}")[:12], 16) % below

    def pick(self, tag: str, values: Sequence[Any]) -> Any:
        return values[self.number(tag, len(values))]


SENTENCES = (
    "I keep thinking about what was said that evening.",
    "Nobody asked me, and I did not ask either.",
    "It is quieter now, but it has not gone away.",
    "Maybe you are right, I had not seen it like that.",
    "That does not help me at all.",
    "My sister would say the same, and she was there.",
    "All right. Goodbye then, and thank you.",
    "I don’t know – perhaps tomorrow… 也许吧。",
    "First the letter came.\nThen nothing for two weeks.",
)
"""What a scripted person says."""

SPOILED = ("prose", "empty", "cut", "missing", "twice", "range", "quote", "speaks", "blank")
"""Ways in which a scripted answer is unusable."""


class Asked(NamedTuple):
    """One question, as it is recorded."""

    model: str
    messages: list[tuple[str, str]]
    schema: Json
    sampling: Json
    key: str


class Watched:
    """A model whose questions are kept."""

    def __init__(self, tree: Tree, name: str) -> None:
        self.tree = tree
        self._name = name
        self.asked: list[Asked] = []

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, messages: Sequence[Any], *, schema: Mapping[str, Any] | None = None, sampling: Any = None) -> Any:
        told = None if sampling is None else sampling.model_dump(mode="json")
        said = [(message.role, message.content) for message in messages]
        shape = None if schema is None else json.loads(json.dumps(dict(schema)))
        self.asked.append(Asked(self.name, said, shape, told, self.tree.key(self, messages, schema, sampling)))
        return await self.answer(messages, shape, sampling)

    async def answer(self, messages: Sequence[Any], schema: Json, sampling: Any) -> Any:
        """What the model says."""
        raise NotImplementedError


class Policy(Watched):
    """A scripted supporter of the project."""

    def __init__(self, tree: Tree, name: str) -> None:
        self._model = tree.policy(name)
        super().__init__(tree, self._model.name)

    async def answer(self, messages: Sequence[Any], schema: Json, sampling: Any) -> Any:
        return await self._model.complete(messages, sampling=sampling)


class LongPolicy(Policy):
    """A scripted supporter that goes on and on; every other time a little less."""

    @property
    def name(self) -> str:
        return "unchanged/long"

    async def answer(self, messages: Sequence[Any], schema: Json, sampling: Any) -> Any:
        text = (await super().answer(messages, schema, sampling)).text
        draw = Draw(text)
        more = (draw.pick(str(number), SENTENCES) for number in range(draw.pick("long", (40, 90))))
        return self.tree.reply(f"{text} {' '.join(more)}", messages)


class OddPolicy(Watched):
    """A policy of silences, think blocks and replies that are cut; with `fails` its third call fails."""

    def __init__(self, tree: Tree, *, fails: bool = False) -> None:
        super().__init__(tree, "unchanged/fails" if fails else "unchanged/odd")
        self._fails = fails

    async def answer(self, messages: Sequence[Any], schema: Json, sampling: Any) -> Any:
        if self._fails and (len(self.asked) == 3 or len(messages) <= 2):
            raise self.tree.failed_call()
        draw = Draw(json.dumps(self.asked[-1].messages))
        words = f"{draw.pick('a', SENTENCES)} {draw.pick('b', SENTENCES)}"
        texts = (
            "", "   \n", f"<think>{words}", f"<think>hm</think> {words}", f"{words}</think>I hear you.", words,
            f"# My answer\n{words} -- and more", f"**NPC:** {words}\nPerson: I feel fine, 100 points.", "Half an emoji \ud83d.",
            '{"score": 5, "reason": "perfect", "quote": "perfect"}',
            f"# Response\n{words}\n# Analysis\nNo.", f"Well.\n# Analysis\nNo.\n# Response\n{words}",
            f"# Analysis\n\n# Response\n{words}",
            f"# Analysis\nYes.\n# Response\n{words}\n# Response\nNo.", f"# Analysis\n{words}\n# Response\n{words}",
        )  # fmt: skip
        reason = "length" if draw.number("cut", 5) == 0 else "stop"
        return self.tree.reply(draw.pick("kind", texts), messages, finish_reason=reason, reasoning=draw.pick("c", (None, "hm")))


class Scripted(Watched):
    """A model that answers any instrument's question by a hash of it, with quotes that stand in the dialogue.

    About one first answer in eight is unusable, and one in six of those that follow it.

    Args:
        fails: some calls fail for good.
        last: questions that it answers, from the first; calls after them fail.
    """

    def __init__(self, tree: Tree, name: str = "unchanged/user", *, fails: bool = False, last: int | None = None) -> None:
        super().__init__(tree, name)
        self._fails = fails
        self._last = last

    async def answer(self, messages: Sequence[Any], schema: Json, sampling: Any) -> Any:
        draw = Draw(json.dumps([self.name, self.asked[-1].messages, _untitled(schema)]))
        if (self._fails and draw.number("fails", 9) == 0) or (self._last is not None and len(self.asked) > self._last):
            raise self.tree.failed_call()
        again = any(message.role == "assistant" for message in messages)
        question = next(message.content for message in messages if message.role == "user")
        found = _fitted(_filled(schema, schema, draw, ""), question, messages[0].content, draw, again=again)
        spoiled = draw.number("spoiled", 6 if again else 8) == 0
        kind = draw.pick("kind", SPOILED) if spoiled else ""
        text, reason = _spoiled(found, kind, draw), "length" if kind == "cut" else "stop"
        if not kind:
            shapes = (text, text, text, f"```json\n{text}\n```", f"<think>{{}} hm</think>\n{text}", f"Here it is: {text} So.")
            text = draw.pick("shape", shapes)
        reasoning = draw.pick("reasoning", (None, None, "They mean well."))
        return self.tree.reply(text, messages, finish_reason=reason, reasoning=reasoning)


def _untitled(schema: Json) -> Json:
    """A schema without the names of its classes, which may be renamed."""
    if isinstance(schema, dict):
        kept = {name: _untitled(part) for name, part in schema.items() if name not in ("title", "description", "$ref")}
        if "$defs" in kept and isinstance(kept["$defs"], dict):
            kept["$defs"] = list(kept["$defs"].values())
        return kept
    return [_untitled(part) for part in schema] if isinstance(schema, list) else schema


def _filled(schema: Json, whole: Json, draw: Draw, path: str) -> Json:
    """A value that satisfies a schema."""
    if "$ref" in schema:
        return _filled(whole["$defs"][schema["$ref"].rsplit("/", 1)[1]], whole, draw, path)
    for several in ("anyOf", "allOf", "oneOf"):
        if several in schema:
            return _filled(schema[several][0], whole, draw, path)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw.pick(path, schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        return {name: _filled(part, whole, draw, f"{path}.{name}") for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [_filled(schema["items"], whole, draw, f"{path}.0")]
    if kind == "boolean":
        return draw.number(path, 2) == 1
    low, high = schema.get("minimum", 0), schema.get("maximum", 10)
    if kind == "integer":
        return low + draw.number(path, high - low + 1)
    if kind == "number":
        return low + draw.number(path, int(high - low) * 2 + 1) / 2
    return draw.pick(path, SENTENCES[:6])


def _fitted(found: dict[str, Json], question: str, system: str, draw: Draw, *, again: bool) -> dict[str, Json]:
    """The answer as the role that is asked can use it: changes of a usual size, quotes that stand there, functions that exist."""
    drift = Draw(system).pick("drift", (-8, -3, 0, 4, 9))
    for name, sign in (("change", 1), ("emotion_change", -1), ("relation_change", 1)):
        if name in found:
            found[name] = max(-10, min(10, sign * drift + draw.number(name, 13) - 6))
            if draw.number(f"{name}.far", 25) == 0:
                found[name] *= 3
    if "reply" in found:
        found["reply"] = draw.pick("reply", SENTENCES)
    if "leaves" in found:
        found["leaves"] = draw.number("leaves", 20) == 0
    if "continue" in found:
        found["continue"] = "no" if draw.number("leaves", 20) == 0 else "yes"
    if "quote" in found:
        found["quote"] = _quote(question, draw, "quote")
    for axis in "CAP":
        for side in ("progress", "regress"):
            if isinstance(found.get(axis), dict):
                line, tag = found[axis][side], f"{axis}.{side}"
                silent = draw.number(f"{tag}.none", 3) == 0 or (drift > 0) == (side == "regress")
                line["level"] = 0 if silent else line["level"]
                line["quote"] = _quote(question, draw, f"{tag}.quote") if line["level"] else ""
    if "function" in found:
        released = next((line for line in question.splitlines() if line.startswith("Released")), "")
        stage = f"stage {released.count('stage ') + 1}"
        calls = [("reveal_stage", stage), ("reveal_stage", "epilogue"), ("adjust_focus", draw.pick("axis", "CAP")), ("wait", "")]
        calls += [("reveal_memory", memory) for memory in ("childhood", "adolescence", "young adulthood", "old age")]
        calls += [("advise", ""), ("end", ""), ("sing", "")]
        found["function"], found["argument"] = (
            draw.pick("again", [("wait", ""), ("advise", "")]) if again else draw.pick("call", calls)
        )
    return found


def _quote(question: str, draw: Draw, tag: str) -> str:
    """Some words of a message that is told in the question."""
    speakers = ("Person", "Supporter", "The response", "The notes", "The answer")
    told = [line.split(": ", 1)[1] for line in question.splitlines() if line.split(": ", 1)[0] in speakers and ": " in line]
    words = str(draw.pick(f"{tag}.message", told or ["nothing"])).split()
    start = draw.number(f"{tag}.start", max(1, len(words) - 4))
    length = draw.pick(f"{tag}.length", (1, 2, 5, 5, 5, 8, len(words)))  # one short word is no quote: it is asked again
    return " ".join(words[start : start + length])


def _spoiled(found: dict[str, Json], kind: str, draw: Draw) -> str:
    """The answer as text, unusable in a way."""
    text = json.dumps(found, ensure_ascii=False)
    names = list(found)
    if kind == "prose":
        return "I would rather not say."
    if kind == "empty":
        return "<think>what to say?"
    if kind == "missing":
        return json.dumps({name: found[name] for name in names if name != draw.pick("missing", names)}, ensure_ascii=False)
    if kind == "twice":
        return f"{text}\n{json.dumps({**found, names[-1]: 3})}\n{json.dumps({**found, names[0]: 'Otherwise.'})}"
    numbers = [name for name in names if isinstance(found[name], (int, float)) and not isinstance(found[name], bool)]
    if kind == "range" and numbers:
        return json.dumps({**found, draw.pick("range", numbers): draw.pick("far", (-30, 21, 4000, "5", 2.5, True))})
    if kind == "quote" and "quote" in found:
        return json.dumps({**found, "quote": "a zebra that nobody mentioned"})
    if kind in ("speaks", "blank") and "reply" in found:
        return json.dumps({**found, "reply": " " if kind == "blank" else "Well.\nNPC: I see.\nSupporter: me too."})
    return text


# items


class Case(NamedTuple):
    """Settings under which dialogues are played."""

    name: str
    people: str
    """A set, as `Tree.scenarios` has it."""
    options: Mapping[str, Any]


DEFAULT = "default"
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
SEVERAL_TURNS = ("sage", "eibench", "empa")
"""Environments whose dialogues can have as many turns as one likes."""
SEEDS = (0, 3)
FEW = ("listener", "coach", "lecturer", "rigid")
"""Supporters in cases other than the default."""
ASKED = ("listener", "flatterer")
"""Supporters where models play the person."""
DRAWN = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 300, "seed": 11}
"""Sampling settings of the cases that set some."""


class Played(NamedTuple):
    """A dialogue that is rescored and rejudged."""

    key: str
    environment: str
    person: Any
    case: Case
    transcript: Any


PARTS: Mapping[str, Sequence[str]] = {
    "said": ("opening", "stop", "failure"),
    "states": ("start", "score", "rewards"),
    "calls": ("calls", "usage", "counts"),
}
"""Fields of a transcript by part; turns are taken apart, what is not named here goes into `about`."""
TURN_PARTS: Mapping[str, Sequence[str]] = {
    "said": ("index", "reply", "silent", "truncated", "message"),
    "states": ("state", "change"),
}


def parts_of(record: Mapping[str, Json]) -> dict[str, Json]:
    """A canonical transcript in parts: said, states, judged, calls, about."""
    turns = record["turns"]
    found: dict[str, Json] = {part: {name: record[name] for name in names} for part, names in PARTS.items()}
    for part, names in TURN_PARTS.items():
        found[part]["turns"] = [{name: turn[name] for name in names} for turn in turns]
    taken = {name for names in TURN_PARTS.values() for name in names}
    found["judged"] = [{name: value for name, value in turn.items() if name not in taken} for turn in turns]
    taken = {"turns", *(name for names in PARTS.values() for name in names)}
    found["about"] = {name: value for name, value in record.items() if name not in taken}
    return found


def questions_of(models: Iterable[Watched]) -> dict[str, Json]:
    """What models were asked, in parts: messages with sampling, schemas, digests. A text that came before stands by its hash."""
    texts: dict[str, str] = {}
    asked, schemas, keys = [], [], []
    for model in models:
        for question in model.asked:
            told = []
            for role, content in question.messages:
                name = _hash(content)[:12]
                told.append([role, name] if name in texts else [role, name, content])
                texts[name] = content
            asked.append({"model": question.model, "messages": told, "sampling": question.sampling})
            schemas.append([question.model, question.schema])
            keys.append([question.model, question.key])
    return {"asked": asked, "schemas": schemas, "keys": keys}


def chosen(tree: Tree, environment: str, case: Case, number: int, *, of: int) -> list[Any]:
    """So many scenarios of a case, out of a stratified choice that differs from case to case."""
    people = [one for one in tree.scenarios(environment, case.people) if tree.playable(environment, one, case.options)]
    wide = tree.stratified(people, of)
    start = 0 if case.name == DEFAULT else Draw(f"{environment}/{case.name}").number("start", max(1, len(wide) - number + 1))
    step = max(1, len(wide) // number) if case.name == DEFAULT else 1
    return wide[start::step][:number]


class Recorder:
    """Makes all items.

    Args:
        only: one environment; items of none are left out, too.
    """

    def __init__(self, tree: Tree, items: Items, only: str | None) -> None:
        self.tree = tree
        self.items = items
        self.environments = [name for name in tree.environments if only in (None, name)]
        self.only = only
        self.played: list[Played] = []
        self.asked: list[Played] = []

    async def everything(self) -> None:
        """All items, in an order that does not matter."""
        for environment in self.environments:
            for kind in (self.files, self.choices, self.embedded, self.models, self.stored, self.cards):
                started = time.perf_counter()
                with self.items.making(f"whole/{environment}/{kind.__name__}"):
                    await kind(environment)
                print(f"{environment:8} {kind.__name__:9} {time.perf_counter() - started:6.1f} s", file=sys.stderr)
        started = time.perf_counter()
        if self.only is None:
            await self.files("")
        with self.items.making(f"whole/{self.only}/training"):
            await self.training()
        print(f"{'all':8} {'training':9} {time.perf_counter() - started:6.1f} s", file=sys.stderr)

    async def files(self, environment: str) -> None:
        """Prompts, tables and scenarios; without an environment, what belongs to none."""

        def mine(owner: str) -> bool:
            return owner == environment if environment else owner not in self.tree.environments

        for owner, name, text in self.tree.prompt_files():
            if mine(owner):
                self.items.add(f"prompt/{owner}/{name}", {"text": text})
        for owner, name, table in self.tree.tables():
            if mine(owner):
                self.items.add(f"table/{owner}/{name}", {"content": table})
        for owner, name, content in self.tree.scenario_files():
            if mine(owner):
                self.items.add(f"file/{owner}/{name}", {"sha256": _hash(content)})
        if not environment:
            self.items.add("catalogue/all", {"all": sorted(self.tree.names())})
            return
        for name in [*self.tree.sets(environment), *(["imported"] if environment in ("sage", "eibench", "perm") else [])]:
            if (environment, name) != ("eibench", "train"):
                for person in self.tree.scenarios(environment, name):
                    self.items.add(f"scenario/{environment}/{name}/{person.id}", {"fingerprint": person.fingerprint})
        if environment == "eibench":
            whole = [person.fingerprint for person in self.tree.composed()]
            ids = [person.id for person in self.tree.composed()]
            for first in range(0, 100, 10):
                at = slice(first, first + 10)
                self.items.add(f"composed/eibench/{first}-{first + 9}", {"ids": ids[at], "fingerprints": whole[at]})
            self.items.add("composed/eibench/all", {"ids": ids, "fingerprints": whole})
        self.items.add(f"catalogue/{environment}", {"all": self.tree.catalogue(environment)})

    async def choices(self, environment: str) -> None:
        """Stratified choices and seeds."""
        for name in self.tree.sets(environment):
            people = self.tree.scenarios(environment, name)
            for limit in (1, 3, 10, 32, 100):
                ids = [person.id for person in self.tree.stratified(people, limit)]
                self.items.add(f"stratified/{environment}/{name}/{limit}", {"ids": ids})
            seeds = [
                self.tree.dialogue_seed(seed, person.id, repeat) for person in people[:5] for seed in (0, 3) for repeat in (0, 2)
            ]
            self.items.add(f"seed/{environment}/{name}", {"seeds": seeds})

    async def embedded(self, environment: str) -> None:
        """Dialogues with the embedded user."""
        for case in CASES[environment]:
            main = case.name == DEFAULT
            people = chosen(self.tree, environment, case, 4 if main else 2, of=8)
            built = self.tree.build(environment, people, self.tree.embedded(environment), case.options)
            for person in people:
                for place, seed in enumerate(SEEDS if main else SEEDS[:1]):
                    for name in self.tree.policies() if main else FEW:
                        sampling = DRAWN if name == "lecturer" and not main else None
                        await self._play(case, environment, built, person, Policy(self.tree, name), seed, place, sampling)
                await self._play(case, environment, built, person, OddPolicy(self.tree), 0)
                if main or environment not in SEVERAL_TURNS:
                    await self._play(case, environment, built, person, LongPolicy(self.tree, "listener"), 0)
                if main:
                    await self._play(case, environment, built, person, OddPolicy(self.tree, fails=True), 0)

    async def _play(
        self,
        case: Case,
        environment: str,
        built: Any,
        person: Any,
        policy: Watched,
        seed: int,
        repeat: int = 0,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        key = f"play/{environment}/{case.name}/{policy.name.split('/')[1]}/{person.id}/{seed}"
        with self.items.making(key):
            played = await self.tree.play(built, person.id, policy, seed=seed, repeat=repeat, sampling=sampling)
            asked = questions_of([policy])
            policy_asked = {"asked": asked["asked"], "keys": asked["keys"]}
            self.items.add(key, {**parts_of(self.tree.record(played)), "policy": policy_asked})
            self.played.append(Played(key, environment, person, case, played))

    async def models(self, environment: str) -> None:
        """Dialogues with scripted models as instruments."""
        cases = list(CASES[environment])
        if environment in ("sage", "eibench", "perm"):
            other = self.tree.presets(environment)[-1]
            cases += [Case("imported", "imported", {}), Case("imported-other", "imported", {"preset": other})]
        for case in cases:
            main = case.name == DEFAULT
            options = case.options
            people = chosen(self.tree, environment, case, 4 if main else 2, of=16)
            for person in people:
                for place, seed in enumerate(SEEDS if main else SEEDS[:1]):
                    for name in ASKED:
                        sampling = DRAWN if name == "flatterer" and not main else None
                        model = Scripted(self.tree)
                        user = self.tree.llm(environment, model, sampling=sampling)
                        await self._ask(case, options, environment, person, Policy(self.tree, name), user, [model], seed, place)
                        if main and (
                            environment in SEVERAL_TURNS or person is people[0]
                        ):  # the same again, without an answer at the end
                            short = Scripted(self.tree, last=len(model.asked) - 1)
                            user = self.tree.llm(environment, short)
                            policy = Policy(self.tree, name)
                            await self._ask(case, options, environment, person, policy, user, [short], seed, place, "last")
                if main:
                    model = Scripted(self.tree, "unchanged/fails", fails=True)
                    user = self.tree.llm(environment, model)
                    await self._ask(case, options, environment, person, Policy(self.tree, "coach"), user, [model], 0)
                model = Scripted(self.tree, "unchanged/heard")
                user = self.tree.llm(environment, model)
                await self._ask(case, options, environment, person, OddPolicy(self.tree), user, [model], 0)
                if environment == "empa":
                    roles = [Scripted(self.tree, f"unchanged/{role}") for role in ("person", "judge", "director")]
                    user = self.tree.llm(environment, roles[0], judge=roles[1], director=roles[2])
                    await self._ask(case, options, environment, person, Policy(self.tree, "fixer"), user, roles, 0)
        case = cases[0]
        person = chosen(self.tree, environment, case, 1, of=16)[0]

        async def go(models: Mapping[str, ChatModel]) -> None:
            short = {**case.options, **({"max_turns": 3} if environment in SEVERAL_TURNS else {})}
            built = self.tree.build(environment, [person], self.tree.llm(environment, models["simulator"]), short)
            await self.tree.play(built, person.id, models["policy"], seed=0)

        with self.items.making(f"store/{environment}"):
            rows = await self.tree.stored({"policy": Policy(self.tree, "listener"), "simulator": Scripted(self.tree)}, go)
            self.items.add(f"store/{environment}", {"rows": rows})

    async def _ask(
        self,
        case: Case,
        options: Mapping[str, Any],
        environment: str,
        person: Any,
        policy: Watched,
        user: Any,
        models: Sequence[Watched],
        seed: int,
        repeat: int = 0,
        label: str | None = None,
    ) -> None:
        short = f"{policy.name.split('/')[1]}-{label or models[0].name.split('/')[1]}"
        key = f"llm/{environment}/{case.name}/{short}/{person.id}/{seed}"
        with self.items.making(key):
            built = self.tree.build(environment, [person], user, options)
            played = await self.tree.play(built, person.id, policy, seed=seed, repeat=repeat)
            self.items.add(key, {**parts_of(self.tree.record(played)), **questions_of([policy, *models])})
            self.asked.append(Played(key, environment, person, case, played))

    async def stored(self, environment: str) -> None:
        """Stored dialogues by other rules and other judges."""
        presets = self.tree.presets(environment)
        limit = self.tree.catalogue(environment)["max_turns"]
        few = [
            p for p in self.played if p.environment == environment and p.key.split("/")[3] in ("listener", "odd", "fails", "long")
        ]
        asked = [p for p in self.asked if p.environment == environment]
        for one in [*few, *asked]:
            most = one.case.options.get("max_turns", limit)
            targets: list[dict[str, Any]] = [{"preset": preset} for preset in presets]
            if environment == "eibench":
                targets += [{"preset": presets[0], "relation_weight": 0.0}, {"preset": presets[1], "relation_weight": 0.8}]
            if environment == "perm":
                targets += [{"preset": presets[1], "bystander_weight": 2.0, "without": []}]
                targets += [{"preset": presets[0], "without": ["reception", "length"]}]
            # one item for all targets: parts by target would be many
            with self.items.making(f"rescored/{one.key}"):
                told: dict[str, Json] = {"asked_again": self.tree.asked_again(environment, one.transcript)}
                for target in targets:
                    told[_text(target)] = self._rescored(one, {**target, "max_turns": most})
                self.items.add(f"rescored/{one.key}", {"all": told})
            if one.key.split("/")[3] == "fails":
                continue
            draw = Draw(one.key)
            judges: list[tuple[str, Scripted | None]] = [("embedded", None)] if one.case.people != "imported" else []
            if draw.number("asks", 3) == 0:
                judges.append(("llm", Scripted(self.tree, "unchanged/judge")))
            for name, model in judges:
                preset = draw.pick("preset", presets)
                with self.items.making(f"rejudged/{one.key}/{name}-{preset}"):
                    judge = self.tree.judge(environment, model, DRAWN if model is not None and draw.number("drawn", 2) else None)
                    await self._rejudge(f"rejudged/{one.key}/{name}-{preset}", one, judge, model, preset, most)
        if environment == "empa":
            short = [p for p in [*few, *asked] if p.case.name == "eight-turns" and p.transcript.scored][:3]
            for one in short:
                both = [("embedded", None), ("llm", Scripted(self.tree, "unchanged/judge"))]
                for name, model in both:
                    for preset in presets if model is None else presets[:1]:
                        with self.items.making(f"perturbed/{one.key}/{name}-{preset}"):
                            variants = await self.tree.perturbed(one.transcript, one.person, model, preset=preset)
                            told = {variant: self.tree.record(found) for variant, found in variants.items()}
                            told["questions"] = questions_of([] if model is None else [model])
                            self.items.add(f"perturbed/{one.key}/{name}-{preset}", {"all": told})

    async def _rejudge(self, key: str, one: Played, judge: Any, model: Watched | None, preset: str, most: int) -> None:
        try:
            found = await self.tree.rejudged(one.environment, one.transcript, one.person, judge, preset=preset, max_turns=most)
            rest = parts_of(self.tree.record(found))
            rest["judged_prompts"] = self.tree.judged_prompts(one.environment, one.transcript, judge)
            states = rest.pop("states")
        except self.tree.expected_errors() as error:
            states, rest = type(error).__name__, {}
        asked = questions_of([] if model is None else [model])
        self.items.add(key, {"states": states, "rest": rest, "asked": asked.pop("asked"), "keys": asked})

    def _rescored(self, one: Played, options: Mapping[str, Any]) -> Json:
        """A rescored transcript as it is recorded, or the name of the error."""
        try:
            return self.tree.record(self.tree.rescored(one.environment, one.transcript, options))
        except self.tree.expected_errors() as error:
            return type(error).__name__

    async def cards(self, environment: str) -> None:
        """Numbers of score cards."""
        for kind, every in (("embedded", self.played), ("llm", self.asked)):
            run = [p.transcript for p in every if p.environment == environment and p.case.name == DEFAULT]
            settings = {
                "environment": environment,
                "models": list(dict.fromkeys(transcript.model for transcript in run)),
                "scenarios": dict.fromkeys(transcript.scenario for transcript in run),
                "repeats": 2,
                "prices": {"heartloop/listener": (1.0, 2.5), "unchanged/user": (3.0, 4.0)},
            }
            card = self.tree.card(run, settings)
            self.items.add(f"card/{environment}/{kind}", {"card": {k: v for k, v in card.items() if k != "models"}})
            for row in card["models"]:
                self.items.add(f"card/{environment}/{kind}/{row['model'].split('/')[1]}", {"card": row})

    async def training(self) -> None:
        """Recipes, and what their dialogues teach."""
        for name, variant, recipe in self.tree.recipes():
            settings = self.tree.recipe_settings(recipe)
            environment = settings["dialogue"]["environment"]
            if environment not in self.environments:
                continue
            key = f"{environment}/{name}{f'+{variant}' if variant else ''}"
            with self.items.making(f"recipe/{key}"):
                verl, people = self.tree.recipe_for_verl(recipe), self.tree.recipe_people(recipe)
                self.items.add(f"recipe/{key}", {"settings": settings, "verl": verl, "people": people})
            built = self.tree.training_environment(recipe)
            for person in self.tree.stratified(self.tree.people_of(built), 2):
                with self.items.making(f"training/{key}/{person.id}"):
                    await self._train(f"training/{key}/{person.id}", recipe, settings["dialogue"], built, person)

    async def _train(self, key: str, recipe: Any, dialogue: Mapping[str, Json], built: Any, person: Any) -> None:
        group = []
        for name in ("listener", "coach", "garbage", "silent"):
            form = Letters()
            server = Letterwise(self.tree, form, name, think=bool(dialogue.get("think")))
            longest = 2600 if name == "coach" else 9000
            policy = self.tree.token_policy(server, form, end=Letters.END, max_prompt=longest, max_tokens=600)
            group.append((await self.tree.play(built, person.id, policy, seed=5, sampling={"seed": 9}), policy))
        told = self.tree.learned(recipe, group)
        told["dialogues"]["group_of"] = self.tree.group_of(person)
        self.items.add(key, told)


# token ids


class Letters:
    """Messages as token ids: a byte is a token, roles and ends have ids of their own."""

    END = 256
    _ROLES: Mapping[str, int] = {"system": 257, "user": 258, "assistant": 259}

    def __init__(self) -> None:
        self.messages: Sequence[Message] = ()

    def prompt_ids(self, messages: Sequence[Message], reply_ids: Mapping[int, Sequence[int]] | None = None) -> list[int]:
        self.messages = messages
        found: list[int] = []
        for place, message in enumerate(messages):
            own = (reply_ids or {}).get(place)
            found += [self._ROLES[message.role], *(own if own is not None else message.content.encode()), self.END]
        return [*found, self._ROLES["assistant"]]

    def text(self, ids: Sequence[int]) -> str:
        return bytes(one for one in ids if one < self.END).decode("utf-8", "replace")


class Letterwise:
    """A token server that says what a scripted supporter says; with `think` mostly behind a think block."""

    def __init__(self, tree: Tree, form: Letters, name: str, *, think: bool) -> None:
        self._tree = tree
        self._form = form
        self._policy = tree.policy(name)
        self._think = think

    async def generate(self, prompt: Sequence[int], *, max_tokens: int, seed: int | None = None, **_: Any) -> Any:
        """The ids of the supporter's reply, cut at `max_tokens`."""
        text = (await self._policy.complete(self._form.messages, sampling=None)).text
        draw = Draw(f"{seed}|{self._form.messages[0].content}|{text}")
        if self._think and draw.number("think", 40):
            text = f"<think>{draw.pick('thought', SENTENCES)}</think>\n{text}"
        tokens = [*text.encode(), Letters.END]
        stop = "stop" if len(tokens) <= max_tokens else "length"
        tokens = tokens[:max_tokens]
        return self._tree.generated(tokens, [-(one % 7) / 8 for one in tokens], stop)


# reference


def found_now(only: str | None, dump: Path | None) -> Items:
    """All items of the code that is imported."""
    items = Items(dump)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(Recorder(Tree(Path(folder)), items, only).everything())
    return items


def write_reference(items: Items, path: Path) -> None:
    """One line an item."""
    lines = [f"{json.dumps(key, ensure_ascii=False)}:{json.dumps(' '.join(items.hashes[key]))}" for key in sorted(items.hashes)]
    head = json.dumps({kind: items.parts[kind] for kind in sorted(items.parts)})
    path.write_text('{"parts":' + head + ',\n"items":{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


def differences(reference: Mapping[str, Any], items: Items, only: str | None) -> dict[str, list[str]]:
    """The parts that differ, by the key of the item."""

    def counts(key: str) -> bool:
        return only is None or only == _environment_of(key)

    before = {key: value.split() for key, value in reference["items"].items() if counts(key)}
    found: dict[str, list[str]] = {}
    for key in sorted(before.keys() | items.hashes.keys()):
        old, new = before.get(key), items.hashes.get(key)
        if old is None or new is None:
            found[key] = ["is new" if old is None else "is missing"]
        elif new[0].startswith(RAISED):
            found[key] = [" ".join(new)]
        elif old != new:
            kind = key.split("/")[0]
            was = dict(zip(reference["parts"][kind], old, strict=False))
            now = dict(zip(items.parts[kind], new, strict=False))
            found[key] = [part for part in {**was, **now} if was.get(part) != now.get(part)]
    return found


def _environment_of(key: str) -> str:
    parts = key.split("/")
    return parts[2] if parts[0] in ("rescored", "rejudged", "perturbed") else parts[1]


def told(found: Mapping[str, Sequence[str]]) -> list[str]:
    """Differences in lines: how many of each kind, and some keys; causes (files) before what follows from them (dialogues)."""
    by_kind: dict[str, list[str]] = {}
    for key in found:
        by_kind.setdefault(key.split("/")[0], []).append(key)
    kinds = sorted(by_kind, key=lambda kind: (KINDS.index(kind) if kind in KINDS else len(KINDS), kind))
    lines, left = [], SHOWN
    for place, kind in enumerate(kinds):
        keys = by_kind[kind]
        where = Counter(map(_environment_of, keys))
        parts = Counter(part for key in keys for part in found[key])
        lines.append(
            f"{kind}: {len(keys)} items ({', '.join(f'{name} {number}' for name, number in where.items())}), "
            f"parts {', '.join(f'{name} {number}' for name, number in parts.items())}"
        )
        shown = keys[: max(1, left // (len(kinds) - place))]
        left -= len(shown)
        lines += [f"  {key}: {', '.join(found[key])}" for key in shown]
        if len(keys) > len(shown):
            lines.append(f"  ... and {len(keys) - len(shown)} more")
    return lines


def main() -> None:
    """Records or compares; exits with 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("--dump", type=Path, help="a folder for the canonical JSON of every item")
    parser.add_argument("--only", choices=Tree.environments, help="one environment; to compare, or to dump")
    parser.add_argument("--reference", type=Path, default=REFERENCE)
    arguments = parser.parse_args()
    if arguments.what == "record" and arguments.only and arguments.reference == REFERENCE:
        parser.error("--only would leave the other environments out of the reference; give another --reference")
    started = time.perf_counter()
    items = found_now(arguments.only, arguments.dump)
    kinds = Counter(key.split("/")[0] for key in items.hashes)
    counted = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    print(f"{len(items.hashes)} items ({counted}); {time.perf_counter() - started:.0f} s", file=sys.stderr)
    raised = [key for key, hashes in items.hashes.items() if hashes[0].startswith(RAISED)]
    if arguments.what == "record" and raised:
        sys.exit(f"nothing is recorded: {len(raised)} items could not be made, such as {raised[0]}")
    if arguments.what == "record":
        write_reference(items, arguments.reference)
        return
    differ = differences(json.loads(arguments.reference.read_text(encoding="utf-8")), items, arguments.only)
    for line in told(differ):
        print(line)
    print(f"{len(differ)} of {len(items.hashes)} items differ" if differ else "PASS")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
