"""Does a real language model learn? `python -m benchmarks.language_model_training` (extras `train`, `local`; about six hours)

Trains SmolLM2-135M-Instruct with the headline recipe (three seeds, the first of them twice, and three controls with shuffled
rewards) and one seed of the other recipes, plays held-out scenarios of every environment before and after under `embedded`,
counts what the models say, and measures how far they went from the start. `docs/decisions/0015` has the
choices, made before the runs.

Everything is a part with a name; `--list` prints them and what is done. A part that is done is not made again, one that was cut
off goes on; `--part NAME ...` makes some (a name, or its beginning: `train/headline`). After each part the results and the page
benchmarks/results/language-model-training.md are written from what there is, and the page names what is missing. `--tables` only
writes. Before and after are played by one engine, transformers, in float32, with the same scenarios, seeds and sampling.

When the headline's dialogues are played, `pairs/` in the folder has 40 pairs before and after, of the models that are there,
for two judges that do not get `key.json`; `--judgements ONE.jsonl OTHER.jsonl` puts their answers on the page. EQ-Bench3 ships no
prompts and is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.blind_pairs import PAIRS, judged, write_pairs
from benchmarks.language_model_page import PAGE, PICTURE, table
from benchmarks.language_model_parts import AGAIN, EVALUATIONS, FORMED, NEEDS, SEEDS, START, TRAININGS, Evaluation
from benchmarks.language_model_replies import counted, distance
from benchmarks.learning import found_of
from benchmarks.learning_picture import picture
from benchmarks.machine import machine
from benchmarks.page import rewrite
from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.environments.records import write_records
from heartloop.environments.registry import load_environment
from heartloop.training.checkpoints import weights_in
from heartloop.training.local_policy import learn_form, prepare_gguf
from heartloop.training.recipe import read_recipe
from heartloop.training.verl_config import RunPaths, split_of

__all__ = ["RESULTS", "make", "results_of"]

RESULTS = Path(__file__).parent / "results" / "language_model_training.json"
FOLDER = Path("build/language-model")
TEMPERATURE = 0.7
MODEL = "local/smollm2"
HEADLINES = (*(f"headline-{seed}" for seed in SEEDS), AGAIN)
"""The models that were trained with the headline recipe, and not with shuffled rewards."""


def _heartloop(*words: str) -> None:
    """One command of ours; waiting threads leave the cores to other processes."""
    command = [sys.executable, "-m", "heartloop.cli", *words]
    print("heartloop", *words, flush=True)
    environment = {**os.environ, "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    code = subprocess.run(command, env=environment, check=False).returncode
    if code:
        raise SystemExit(f"heartloop {words[0]} ended with {code}; run this script again, it goes on from there")


def _train(folder: Path, name: str) -> dict[str, Any]:
    training = TRAININGS[name]
    words = ["train", training.recipe, "--allow-embedded", "--seed", str(training.seed), "--out", str(folder / "runs" / name)]
    if training.variant is not None:
        words += ["--variant", training.variant]
    _heartloop(*words)
    found = found_of(folder / "runs" / name, {})
    assert found is not None  # the recipes evaluate at their start
    lines = [
        json.loads(line)["data"] for line in (folder / "runs" / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    steps = [line for line in lines if "dialogue/score" in line]
    return {
        **{key: found[key] for key in ("seconds_a_step", "held_out", "training", "reply_tokens", "failed")},
        "tokens_a_step": round(sum(line["perf/total_num_tokens"] for line in steps) / len(steps)),
        "reply_tokens_a_step": round(sum(line["dialogue/tokens"] for line in steps) / len(steps)),
        "kl": [round(line.get("actor/kl_loss", 0.0), 4) for line in steps],
        "entropy": [round(line["actor/entropy"], 3) for line in steps if "actor/entropy" in line],
        "group_std": [round(line["dialogue/group_std"], 4) for line in steps],
    }


def checkpoint_of(folder: Path, policy: str) -> Path:
    """The checkpoint of a policy by its name."""
    if policy in (START, FORMED):
        policies = RunPaths((folder / "runs" / START).resolve()).policies
        start = prepare_gguf(policies, MODEL, progress=print)
        recipe = read_recipe("perm_grpo_smollm2")
        return start if policy == START else learn_form(policies, start, recipe, split_of(recipe).train, progress=print)
    return RunPaths((folder / "runs" / policy).resolve()).checkpoint(read_recipe(TRAININGS[policy].recipe).batch.steps)


def _scenarios(folder: Path, where: Evaluation) -> str:
    """The set, or the file of the scenarios that a recipe holds out, written here."""
    kind, _, recipe = where.scenarios.partition(":")
    if kind != "held-out":
        return where.scenarios
    file = folder / "scenarios" / f"{recipe}.jsonl"
    if not file.is_file():
        every = read_recipe(recipe, settings=["scenarios.held_out_limit=null"])
        file.parent.mkdir(parents=True, exist_ok=True)
        held_out, kind_of = split_of(every).held_out, every.environment.spec.scenarios
        write_records(file, held_out, exclude_unset=not all(map(kind_of.written, held_out)))
    return str(file)


def _play(folder: Path, policy: str, where: str, reader: str) -> dict[str, Any]:
    how = EVALUATIONS[where]
    out = folder / "play" / policy / where / reader
    words = ["eval", how.environment, "--model", f"checkpoint:{checkpoint_of(folder, policy)}", "--user", reader]
    words += ["--scenarios", _scenarios(folder, how), "--repeats", str(how.repeats), "--out", str(out), "--yes"]
    words += [] if how.limit is None else ["--limit", str(how.limit)]
    for name, value in how.options.items():
        words += ["-E", f"{name}={value}"]
    for setting in (f"temperature={TEMPERATURE}", "top_p=1", f"max_tokens={how.max_tokens}"):
        words += ["--request", f"policy.{setting}"]
    _heartloop(*words)
    played = list(read_transcripts(out / "transcripts.jsonl"))
    points = load_environment(how.environment).scale.points
    return {
        "scores": [[t.scenario, t.repeat, None if t.score is None else round(points * t.score, 3)] for t in played],
        "counted": counted(played),
        "dialogues": [_dialogue(transcript) for transcript in sorted(played, key=lambda t: (t.scenario, t.repeat))[:2]],
    }


def _dialogue(transcript: Transcript) -> dict[str, Any]:
    return {
        "scenario": transcript.scenario,
        "opening": transcript.opening,
        "turns": [[turn.reply, turn.message] for turn in transcript.turns],
    }


def _played(folder: Path, policy: str, where: str) -> list[Transcript]:
    return list(read_transcripts(folder / "play" / policy / where / "embedded" / "transcripts.jsonl"))


def _replies(folder: Path, policy: str, home: str) -> dict[str, float]:
    how = EVALUATIONS[home]
    spec = load_environment(how.environment)
    scenarios = spec.load(_scenarios(folder, how), variant=spec.read_options(how.options).variant)
    start = TRAININGS[policy].start if policy in TRAININGS else START
    once = [transcript for transcript in _played(folder, policy, home) if transcript.repeat == 0]
    return distance(
        once,
        scenarios,
        how.options,
        trained=weights_in(checkpoint_of(folder, policy)),
        start=weights_in(checkpoint_of(folder, start)),
    )


def _pairs(folder: Path) -> dict[str, Any]:
    """A pair for each held-out scenario and repeat, until there are enough.

    The headline's models whose dialogues lie in this folder take turns, AGAIN only where no other is there.
    """
    before = {(t.scenario, t.repeat): t for t in _played(folder, START, "sage")}
    there = [name for name in HEADLINES if (folder / "play" / name / "sage" / "embedded" / "transcripts.jsonl").is_file()]
    if not there:
        raise SystemExit(f"{folder} has no dialogues of {', '.join(HEADLINES)}; make one of their parts play/.../sage/embedded")
    names = [name for name in there if name != AGAIN] or there
    after = [{(t.scenario, t.repeat): t for t in _played(folder, name, "sage")} for name in names]
    chosen = [
        (before[key], after[number % len(names)][key], names[number % len(names)])
        for number, key in enumerate(sorted(before)[:PAIRS])
    ]
    write_pairs(chosen, folder / "pairs", seed="language-model-training")
    return {"pairs": len(chosen), "from": names}


def results_of(folder: Path) -> dict[str, Any]:
    """What has been made, and where; what is committed already where the folder lacks it."""
    kept: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {"parts": {}}
    state = folder / "parts.json"
    made = json.loads(state.read_text(encoding="utf-8")) if state.is_file() else {}
    results = {**kept, "parts": {**kept["parts"], **made}}
    if (folder / "judgements.json").is_file():
        results["judgements"] = json.loads((folder / "judgements.json").read_text(encoding="utf-8"))
    return results


def write(folder: Path) -> None:
    """Results, page and curves from what there is."""
    results = results_of(folder)
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    rewrite(PAGE, "language_model_training", table(results))
    by_what: dict[str, list[Any]] = {}
    for name in TRAININGS:
        if (part := results["parts"].get(f"train/{name}")) is not None and TRAININGS[name].home == "sage":
            by_what.setdefault(name.rpartition("-")[0], []).append(part["result"])
    if "headline" in by_what:
        PICTURE.write_text(picture("GRPO with turn credit in SAGE", by_what), encoding="utf-8")


def make(names: Sequence[str], folder: Path, *, part: Callable[[Path, str], Any] | None = None) -> None:
    """Makes the parts that are not done, each when what it needs is done, and keeps each as soon as it is.

    Args:
        part: makes one by its name; a test's own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "parts.json"
    made: dict[str, Any] = json.loads(state.read_text(encoding="utf-8")) if state.is_file() else {}
    for name in names:
        lacks = [need for need in NEEDS[name] if need not in made]
        if name in made or lacks:
            print(f"{name}: {'done' if name in made else 'needs ' + ', '.join(lacks)}", flush=True)
            continue
        started = time.monotonic()
        result = (part or _make)(folder, name)
        made[name] = {
            "result": result,
            "seconds": round(time.monotonic() - started),  # of this start; what an earlier one spent is not in it
            "load": round(os.getloadavg()[0], 1),
            "machine": machine("torch", "transformers", "verl", "ray", "xllamacpp"),
        }
        text = state.with_suffix(".part")
        text.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        text.replace(state)
        print(f"{name}: {made[name]['seconds']} s", flush=True)


def _make(folder: Path, name: str) -> Any:
    kind, *where = name.split("/")
    makers: Mapping[str, Callable[..., Any]] = {"train": _train, "play": _play, "replies": _replies, "pairs": _pairs}
    return makers[kind](folder, *where)


def main() -> None:
    """Makes what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where runs and dialogues lie")
    parser.add_argument("--part", nargs="+", metavar="NAME", help="parts, or beginnings of their names")
    parser.add_argument("--list", action="store_true", help="print the parts and what is done")
    parser.add_argument("--tables", action="store_true", help="make nothing, write what there is")
    parser.add_argument("--judgements", nargs=2, type=Path, metavar="FILE", help="answers of the two judges")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    chosen = [name for name in NEEDS if arguments.part is None or any(name.startswith(start) for start in arguments.part)]
    if not chosen:
        raise SystemExit(f"no part begins with {' or '.join(arguments.part)}; --list prints them")
    if arguments.list:
        done = results_of(folder)["parts"]
        print("\n".join(f"{name}{'  done' if name in done else ''}" for name in chosen))
        return
    if arguments.judgements:
        key = json.loads((folder / "pairs" / "key.json").read_text(encoding="utf-8"))
        answers = {
            f"judge {number}": [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
            for number, file in enumerate(arguments.judgements, start=1)
        }
        (folder / "judgements.json").write_text(json.dumps(judged(key, answers), indent=1) + "\n", encoding="utf-8")
    if not (arguments.tables or arguments.judgements):
        for name in chosen:
            make([name], folder)
            write(folder)
    write(folder)


if __name__ == "__main__":
    main()
