"""Dialogues built value by value (three ranked models, one failure case, failures, silence, hostile text), and one report of runs
of every environment for all tests that look at whole pages."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import heartloop
from heartloop.core.dialogue import Call, Failure, StopReason, Transcript, Turn, Usage, write_line
from heartloop.environments.registry import environment_names, load_environment
from heartloop.evaluation.compare import choose_sides, compare
from heartloop.evaluation.store import read_run
from heartloop.report.site import write_site
from tests.eqbench_checkout import write_checkout
from tests.report.browser import FLAGS
from tests.report.training_bench import training_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'> & \u2028 \x00 \u202e {{ 7*7 }}"

Talk = Callable[..., Transcript]
WriteRun = Callable[..., Path]


def _talk(
    model: str,
    scenario: str,
    changes: Sequence[float | None],
    *,
    stop: StopReason = "turn_limit",
    failure: Failure | None = None,
    intention: str = "listen",
    theme: str = "work",
    tags: str = "none",
    text: str = "",
    silent: int = 0,
    repeat: int = 0,
    tokens: int = 100,
    counts: dict[str, int] | None = None,
    calls: Sequence[Call] = (),
    user: str = "embedded",
    fingerprint: str = "f",
    facts: dict[str, str] | None = None,
) -> Transcript:
    """A dialogue whose emotion starts at 40 and moves by `changes`; `None` is an unjudged reply."""
    emotion, turns = 40.0, []
    for index, change in enumerate(changes):
        emotion += change or 0.0
        said = "" if index < silent else text or f"Reply {index} of {model}."
        turns.append(
            Turn(
                index=index,
                reply=said,
                silent=index < silent,
                state=None if change is None else {"emotion": emotion},
                change=None if change is None else {"emotion": change},
                thoughts={"content": text or "heard", "feeling": "a little lighter"},
                evidence={
                    "strategies": {"B-2": 0.8, "Z-9": 0.4},
                    "aspects": {"feeling": 2.4, "pressure": 2.0, "warmth": 0.4},
                    "floor": "hostility",
                },
                message=text or f"Answer {index}.",
            )
        )
    return Transcript(
        environment="sage",
        scenario=scenario,
        fingerprint=fingerprint,
        model=model,
        repeat=repeat,
        preset="corrected",
        user=user,
        facts={
            "family": "support",
            "intention": intention,
            "intention_text": "wants someone to listen",
            "theme": theme,
            "title": text or f"The title of {scenario}",
            "person": "Nkechi Obiora, 41, pharmacist",
            "place": "Enugu",
            "tags": tags,
            **(facts or {}),
        },
        models={"policy": model, "user": user},
        prompts={"feel": "0123456789ab"},
        opening=text or f"First message of {scenario}.",
        start={"emotion": 40.0},
        turns=tuple(turns),
        stop=stop,
        failure=failure,
        score=None if failure else emotion,
        usage={"policy": Usage(prompt_tokens=10 * tokens, completion_tokens=tokens)},
        counts=counts or {},
        calls=tuple(calls),
    )


@pytest.fixture
def talk() -> Talk:
    return _talk


@pytest.fixture
def hostile() -> str:
    return HOSTILE


@pytest.fixture
def dialogues() -> list[Transcript]:
    broken = Failure(role="user", kind="AnswerError", detail="change is 'much'; expected a number")
    return [
        _talk("x/good", "s1", [10] * 6, stop="success"),
        _talk("x/good", "s2", [5, 5, 5], intention="advice", tags="death illness"),
        _talk("x/good", "s3", [5, None], tags="abuse"),
        _talk("x/plain", "s1", [0, 5]),
        _talk("x/plain", "s2", [-5, -5], intention="advice", text=HOSTILE),
        _talk("x/plain", "s3", [3], stop="failed", failure=broken),
        _talk("x/mute", "s1", [-10, -10, -10, -5], stop="failure", silent=4, tokens=0),
        _talk("x/mute", "s2", [-10, -10, -10, -5], stop="failure", intention="advice", silent=2),
        _talk("x/mute", "s3", [-10, -10], stop="goodbye"),
        _talk("heartloop/garbage", "s1", [-10, -10, -10, -5], stop="failure"),
    ]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes a run directory and returns its path; options of the environment and who plays its roles may be given by name."""

    def write(
        dialogues: Sequence[Transcript], name: str = "run", *, environment: str = "sage", user: str = "embedded", **settings: Any
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        installed = environment in environment_names()
        options: dict[str, Any] = {}
        if installed:
            fields = load_environment(environment).options.model_fields
            options = load_environment(environment).read_options({}).model_dump(mode="json")
            options |= {option: settings.pop(option) for option in fields if option in settings}
        given = {
            "environment": environment,
            "roles": dict.fromkeys(load_environment(environment).role_names if installed else ("user",), user),
            "options": {option: value for option, value in options.items() if value is not None},
            "heartloop_version": "0.1.0",
        }
        (folder / "settings.json").write_text(json.dumps({**given, **settings}))
        (folder / "transcripts.jsonl").write_text("".join(map(write_line, dialogues)), encoding="utf-8")
        return folder

    return write


def thinking(messages: Sequence[Mapping[str, str]]) -> str:
    """A policy that thinks before it replies, now and then forgets the form that it was asked for, and writes markup."""
    reply = f"I am sorry that it went like this. What was the worst of it? {HOSTILE}"
    return reply if len(messages) % 3 == 0 else f"<think>They sound tired.\n\nI should ask.</think>{reply}"


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report of every environment, of SAGE also as if by another user simulator, of two trainings, and with a
    comparison of two models."""
    folder = tmp_path_factory.mktemp("runs")
    write_checkout(folder / "checkout")
    models = ["heartloop/counsellor", "heartloop/hostile", thinking]
    changed: dict[str, dict[str, Any]] = {
        "eqbench": {"scenarios": folder / "checkout", "limit": None},
        "sage": {"limit": 6, "options": {"form": "think"}},
    }
    for name in environment_names():
        heartloop.evaluate(
            name, models, user="embedded", out=folder / name, progress=False, **{"limit": 4, **changed.get(name, {})}
        )
    (folder / "sage-other").mkdir()
    for file in ("settings.json", "transcripts.jsonl"):
        text = (folder / "sage" / file).read_text(encoding="utf-8")
        (folder / "sage-other" / file).write_text(re.sub(r'"user": ?"embedded"', '"user":"x/sim"', text), encoding="utf-8")
    for variant in ("no_floor", "control"):
        training_run(folder / variant, variants=(variant,), data={"dialogue/failed": 1})
    training_run(folder / "ppo", recipe="rlver_ppo_tiny", made=3)
    runs = sorted(path.parent for path in folder.glob("*/settings.json"))
    comparison = compare(*choose_sides(read_run(folder / "sage"), None, "heartloop/counsellor", "heartloop/hostile"))
    return write_site(runs, tmp_path_factory.mktemp("site"), comparison=comparison).parent


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a module: while it is open, no other event loop can run in this thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it drives the browser")
    installed = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_api.sync_playwright() as play:
        chromium = installed or play.chromium.executable_path
        if not Path(chromium).exists():
            pytest.skip("no Chromium is installed; `make test-browser` installs one and looks at the report in it")
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window of a phone's size, with no memory of other tests."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    yield context.new_page()
    context.close()
