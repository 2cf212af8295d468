"""The project's API as the comparison uses it. After a change of the API this module is rewritten, and no other.

What it returns is canonical: transcripts without `DROPPED` and without error sentences, paths without the checkout's.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import tomllib
import types
from collections import namedtuple
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import heartloop
from benchmarks.unchanged.reference import Json, hash_of, plain
from heartloop.analysis import score_card
from heartloop.chat import ChatModel, Reply, estimate_usage
from heartloop.dialogue import Sampling, Transcript, write_line
from heartloop.environments.catalogue import entry_of, environments, stratified
from heartloop.environments.empa import LLMUser as EmpaLLMUser
from heartloop.environments.empa.direct_judge import EmbeddedDirectJudge, LLMDirectJudge
from heartloop.environments.empa.perturbations import ATTACKS, ORIGINAL, PERTURBATIONS
from heartloop.environments.empa.perturbed import perturbed
from heartloop.environments.episode import play
from heartloop.errors import HeartloopError, TransportError
from heartloop.evaluation.settings import dialogue_seed
from heartloop.replay import AnswerStore, Replayed, playing
from heartloop.scoring.credit import group_advantages, rewards_to_go, turn_advantages
from heartloop.supporters import SUPPORTERS as BASELINES
from heartloop.supporters import Supporter as Baseline
from heartloop.training.dataset import cast_of, rows
from heartloop.training.dialogue_settings import DialogueSettings, group_of
from heartloop.training.perm_terms import perm_log
from heartloop.training.recipe import Recipe, read_recipe, recipe_names
from heartloop.training.verl_config import RunPaths, verl_settings
from tests.eqbench_checkout import write_checkout
from tests.released_eibench import record as eibench_record
from tests.released_form import profile as sage_profile

__all__ = [
    "BASELINES",
    "Baseline",
    "HeartloopError",
    "TransportError",
    "asked_again",
    "cache_rows",
    "card",
    "catalogue",
    "dialogue_seed",
    "generated",
    "judge",
    "key",
    "learned",
    "make",
    "names",
    "perturbed_variants",
    "playable",
    "played",
    "players",
    "presets",
    "prompt_files",
    "recipe_for_verl",
    "recipe_scenarios",
    "recipe_settings",
    "recipes",
    "record",
    "rejudged_dialogue",
    "reply",
    "rescored",
    "scenario_files",
    "scenarios",
    "sets",
    "stratified",
    "tables",
    "token_policy",
    "training_environment",
]

DROPPED = ("schema_version", "heartloop_version", "seconds", "notes", "simulators")
"""Fields of transcripts and score cards that are not compared."""
ROOT = Path(str(resources.files(heartloop)))


# Scenarios and names


def sets(environment: str) -> Sequence[str]:
    """The shipped sets; `checkout` stands for the checkout that EQ-Bench3 is read from."""
    return entry_of(environment).sets or ("checkout",)


@cache
def scenarios(environment: str, name: str) -> Sequence[Any]:
    """The scenarios of a set; those of `imported` are invented records in a released form."""
    with tempfile.TemporaryDirectory() as folder:
        source = name
        if name == "checkout":
            source = str(write_checkout(Path(folder) / "eqbench3"))
        elif name == "imported":
            path = Path(folder) / f"{environment}.jsonl"
            path.write_text("".join(f"{json.dumps(line)}\n" for line in _imported(environment)), encoding="utf-8")
            source = str(path)
        return list(entry_of(environment).load(source))


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


def playable(environment: str, scenario: Any, options: Mapping[str, Any]) -> bool:
    entry = entry_of(environment)
    return entry.there(scenario, options.get("variant", entry.variants[0]))


def names() -> list[str]:
    return sorted(environments())


def presets(environment: str) -> Sequence[str]:
    return entry_of(environment).presets


def catalogue(environment: str) -> dict[str, Json]:
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


def _moved(owner: str, name: str) -> tuple[str, str]:
    """Folder and name of a file in the new tree."""
    first = name.split("_")[0]
    if owner == "authoring" and name.endswith(".md"):
        new = {"distil": "empa", "enrich.md": "perm", "enricher.md": "perm", "audit": name[6:-3]}.get(first, first)
        return (new if new in ("sage", "eibench", "empa", "perm") else owner), name
    moved = {
        ("authoring", "names.toml"): ("environments", "names.toml"),
        ("authoring", "sage_pools.toml"): ("sage", "pools.toml"),
        ("eibench", "people.toml"): ("environments", "people.toml"),
        ("supporters", "phrases.toml"): ("baselines", "phrases.toml"),
    }
    return moved.get((owner, name), (owner, name))


def prompt_files() -> Iterator[tuple[str, str, str]]:
    """Folder, file name and text of every prompt."""
    for path in sorted(ROOT.rglob("prompts/*.md")):
        yield *_moved(path.parent.parent.name, path.name), path.read_text(encoding="utf-8")


def tables() -> Iterator[tuple[str, str, Json]]:
    """Folder, file name and content of every TOML table."""
    for path in sorted(ROOT.rglob("*.toml")):
        yield *_moved(path.parent.name, path.name), tomllib.loads(path.read_text(encoding="utf-8"))


def scenario_files() -> Iterator[tuple[str, str, str]]:
    """Environment, file name and SHA-256 of every scenario file."""
    for path in sorted(ROOT.rglob("scenarios/*.jsonl")):
        yield path.parent.parent.name, path.name, hash_of(path.read_bytes())


# Dialogues


def make(environment: str, some: Sequence[Any], player: Any, options: Mapping[str, Any]) -> Any:
    entry = entry_of(environment)
    if {"start", "leaves_at", "form"} & options.keys():
        given = {"preset": entry.presets[0], "variant": entry.variants[0], "max_turns": entry.max_turns, **options}
        return entry.new(some, player, **given)
    return entry.build(some, player, **options)


def players(environment: str, models: Mapping[str, ChatModel] | None = None, sampling: Mapping[str, Any] | None = None) -> Any:
    if not models:
        return entry_of(environment).person(None)
    settings = None if sampling is None else Sampling(**sampling)
    if len(models) > 1:
        return EmpaLLMUser(models["user"], judge=models["judge"], director=models["director"], sampling=settings)
    return entry_of(environment).person(models["user"], settings)


def judge(environment: str, model: ChatModel | None, sampling: Mapping[str, Any] | None) -> Any:
    return entry_of(environment).judge(model, None if sampling is None else Sampling(**sampling))


async def played(
    environment: Any,
    scenario: str,
    policy: ChatModel,
    *,
    seed: int,
    repeat: int = 0,
    sampling: Mapping[str, Any] | None = None,
) -> Transcript:
    """One dialogue, written and read again."""
    settings = None if sampling is None else Sampling(**sampling)
    transcript = await play(environment, scenario, policy, seed=seed, repeat=repeat, sampling=settings)
    return Transcript.model_validate_json(write_line(transcript))


def _roles(by_role: Mapping[str, Any]) -> dict[str, Any]:
    return {_role(name): value for name, value in by_role.items()}


def _role(name: str) -> str:
    return "user" if name == "simulator" else name


def record(transcript: Transcript) -> dict[str, Json]:
    fields = transcript.model_dump(mode="json", exclude={"failure": {"detail"}})
    fields["user"] = fields.pop("simulator")
    for name in ("models", "sampling", "usage"):
        fields[name] = _roles(fields[name])
    fields["calls"] = [{**call, "role": _role(call["role"])} for call in fields["calls"]]
    if fields["failure"] is not None:
        fields["failure"]["role"] = _role(fields["failure"]["role"])
    return {name: value for name, value in fields.items() if name not in DROPPED}


def rescored(environment: str, transcript: Transcript, options: Mapping[str, Any]) -> Transcript:
    return entry_of(environment).rescored(transcript, **options)


def asked_again(environment: str, transcript: Transcript) -> bool:
    return entry_of(environment).asked_again(transcript)


async def rejudged_dialogue(
    environment: str, transcript: Transcript, scenario: Any, judge: Any, options: Mapping[str, Any]
) -> tuple[Transcript, Mapping[str, str]]:
    entry = entry_of(environment)
    result = await entry.rejudged(transcript, scenario, judge, **options)
    if environment == "sage":  # the plain policy prompt was named where a dialogue had another form, which never used it
        unused = {"policy"} - transcript.prompts.keys()
        result = result.model_copy(update={"prompts": {n: h for n, h in result.prompts.items() if n not in unused}})
    return result, entry.judged_prompts(transcript, judge)


async def perturbed_variants(
    transcript: Transcript, scenario: Any, model: ChatModel | None, *, preset: str
) -> dict[str, Transcript]:
    """A dialogue of EMPA in every variant of its validity suite; judged by the rules without a model."""
    judge: Any = entry_of("empa").judge(model)
    direct = EmbeddedDirectJudge() if model is None else LLMDirectJudge(model)
    results: dict[str, Transcript] = {}
    for variant in PERTURBATIONS:
        original = results[ORIGINAL] if variant in ATTACKS else None
        results[variant] = await perturbed(transcript, scenario, judge, direct, variant=variant, preset=preset, original=original)
    return results


def card(transcripts: Sequence[Transcript], settings: Mapping[str, Any]) -> dict[str, Json]:
    fields = score_card(transcripts, settings).model_dump(mode="json")
    for row in fields["models"]:
        row["roles"] = _roles(row["roles"])
        row["causes"] = [{**cause, "role": _role(cause["role"])} for cause in row["causes"]]
    return {name: value for name, value in fields.items() if name not in DROPPED}


# Models and the cache


def reply(text: str, messages: Sequence[Any], *, finish_reason: str = "stop", reasoning: str | None = None) -> Reply:
    """What a model returns."""
    return Reply(text, reasoning, finish_reason, estimate_usage(messages, text))


def key(model: ChatModel, messages: Sequence[Any], schema: Mapping[str, Any] | None, sampling: Sampling | None) -> str:
    """The cache key of a request."""
    return Replayed(model, AnswerStore(Path("unused")), "role")._question(messages, schema, sampling or Sampling()).hex()


async def cache_rows(models: Mapping[str, ChatModel], play_with: Callable[[Mapping[str, ChatModel]], Awaitable[None]]) -> Json:
    """The rows of a cache, hits and misses after a dialogue is played with these models twice."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.sqlite"
        with AnswerStore(path) as answers:
            cached = {role: Replayed(model, answers, role) for role, model in models.items()}
            for _ in range(2):
                with playing(0, 0):
                    await play_with(cached)
            counts = [answers.replayed, answers.asked]
        columns = "hex(question), repeat, attempt, nth, model, role, text, finish_reason, prompt_tokens, completion_tokens"
        file = sqlite3.connect(path)
        lines = [list(row) for row in file.execute(f"SELECT {columns} FROM answers ORDER BY 1, 4")]
        file.close()
    return {"hits, misses": counts, "rows": lines}


# Training


def recipes() -> Iterator[tuple[str, str, Recipe]]:
    """Every shipped recipe by itself (with an empty text) and in each variant."""
    for name in recipe_names():
        recipe = read_recipe(name)
        yield name, "", recipe
        for variant in recipe.variants:
            yield name, variant, read_recipe(name, variants=[variant])


def recipe_settings(recipe: Recipe) -> dict[str, Json]:
    settings = recipe.model_dump(mode="json", include={"seed", "people", "dialogue", "algorithm", "optimiser", "batch"})
    dialogue, people = settings.pop("dialogue"), settings.pop("people")
    entry = entry_of(dialogue["environment"])
    defaults = {
        "preset": entry.presets[0], "variant": entry.variants[0], "max_turns": entry.max_turns, "start": 40.0, "leaves_at": None,
        "form": "plain", "without": [], "bystander_weight": 0.5,
    }  # fmt: skip
    given = {name: dialogue.pop(name) for name in defaults}
    options = {name: value for name, value in given.items() if value is not None and value != defaults[name]}
    for name in ("scenarios", "transcripts", "transcripts_every", "seed"):
        dialogue.pop(name)
    people["train"] = "train" if people["train"] == "composed" else people["train"]
    return {**settings, "scenarios": people, "dialogue": {**dialogue, "options": options}}


def recipe_for_verl(recipe: Recipe) -> Json:
    """verl's settings without the recipe's hash."""
    text = json.dumps(plain(verl_settings(recipe, RunPaths(Path("run")), model="model", train_rows=120)))
    return json.loads(text.replace(recipe.hash, "HASH").replace(str(ROOT), "HEARTLOOP").replace(str(Path.cwd()), "."))


def recipe_scenarios(recipe: Recipe) -> Json:
    if recipe.people.train.endswith(".jsonl"):
        return None
    split = cast_of(recipe)
    dealt = [*rows(split.train, recipe, split="train"), *rows(split.held_out, recipe, split="val")]
    return {"train": [one.id for one in split.train], "held_out": [one.id for one in split.held_out], "rows": dealt}


def training_environment(recipe: Recipe) -> Any:
    given = recipe.dialogue.model_dump(mode="json", exclude={"transcripts", "transcripts_every"})
    settings = {**given, "scenarios": [recipe.people.held_out], "user": "embedded", "seed": recipe.seed}
    return DialogueSettings.model_validate(settings).build()[0]


def _rollouts() -> Any:
    """`training.rollouts`; without torch a stand-in takes the place of the module of token servers."""
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


def token_policy(server: Any, prompt_format: Any, *, end: int, max_prompt: int, max_tokens: int) -> Any:
    """A policy that samples tokens and records them."""
    return _rollouts().TokenPolicy(server, prompt_format, ends={end}, max_prompt=max_prompt, max_tokens=max_tokens)


def generated(tokens: list[int], logprobs: list[float], stop: str) -> Any:
    """What a token server returns."""
    _rollouts()
    return sys.modules["heartloop.training.generation"].Generated(tokens, logprobs, stop)


def learned(recipe: Recipe, scenario: Any, group: Sequence[tuple[Transcript, Any]]) -> dict[str, Json]:
    rollouts, dialogue, algorithm = _rollouts(), recipe.dialogue, recipe.algorithm
    scored = [(transcript, policy.spoken) for transcript, policy in group if transcript.scored]
    rewards, samples = [], []
    for transcript, spoken in scored:
        rewards.append(
            rollouts.worth_of(transcript, spoken, kind=dialogue.reward, think=dialogue.think, rules=dialogue.rules)
        )
        samples.append(rollouts.samples(spoken, per=dialogue.sample, max_response=8 * recipe.policy.max_response))
    outcomes, process = [one.outcome for one in rewards], [one.process for one in rewards]
    settings: dict[str, Any] = {"sigma_min": algorithm.sigma_min, "ddof": algorithm.ddof}
    return {
        "rewards": [one._asdict() for one in rewards],
        "to_go": [rewards_to_go(one.rewards) for one in rewards],
        "group": group_advantages(outcomes, **settings),
        "turns": turn_advantages(outcomes, process, alpha=algorithm.alpha, centre=algorithm.centre, **settings),
        "samples": [[sample._asdict() for sample in some] for some in samples],
        "token_rewards": [
            [rollouts.token_rewards(sample, one, credit=dialogue.credit) for sample in some]
            for one, some in zip(rewards, samples, strict=True)
        ],
        "dialogues": {
            "scores": [[transcript.score, transcript.stop, policy.overflows] for transcript, policy in group],
            "logged": [perm_log(transcript) for transcript, _ in scored] if dialogue.environment == "perm" else [],
            "group_of": group_of(scenario),
        },
    }


