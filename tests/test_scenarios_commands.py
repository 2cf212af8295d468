"""`heartloop scenarios`, and a scenario of one's own from the template to the report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from heartloop.authoring.checks import problems_of_set
from heartloop.cli.main import app
from heartloop.core.chat import ScriptedChat
from heartloop.core.errors import InputError, UseError
from heartloop.environments.episode import play
from heartloop.environments.records import Problem, Source, sources
from heartloop.environments.registry import environment_names, load_environment, specs, template_of
from heartloop.models.baselines import Baseline

ENVIRONMENTS = [name for name in environment_names() if load_environment(name).scenarios.template]


def heartloop(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def written(folder: Path, environment: str, *, short: bool = False) -> Path:
    path = folder / f"{environment}.yaml"
    path.write_text(template_of(load_environment(environment), path.name, short=short))
    return path


def edited(path: Path, *changes: tuple[str, str]) -> Path:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return path


def test_an_environment_without_a_schema_of_its_own_has_no_template() -> None:
    with pytest.raises(UseError, match="eqbench has no scenarios of its own form"):
        template_of(load_environment("eqbench"), "my.yaml")


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_template_is_valid_and_breaks_no_rule(environment: str, short: bool, tmp_path: Path) -> None:
    kind = load_environment(environment).scenarios
    (scenario,) = kind.load(str(written(tmp_path, environment, short=short)))
    assert type(scenario).__name__.endswith("Brief" if short else "Scenario")
    shipped = [] if short else kind.load(kind.sets[0])
    assert problems_of_set(kind, [*shipped, scenario]) == []
    assert scenario.title in kind.text(scenario)
    assert scenario.id in kind.line(scenario)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_from_new_to_the_report(environment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert heartloop("scenarios", "new", environment).exit_code == 0
    path = f"my-{environment}.yaml"
    assert isinstance(heartloop("scenarios", "new", environment).exception, UseError)
    edited(tmp_path / path, ("-90", "-91") if environment in ("perm", "daily") else ("9001", "9002"))
    assert heartloop("scenarios", "check", path).exit_code == 0
    done = heartloop("eval", environment, "--scenarios", path, "--user", "embedded", "--model", "heartloop/reflector")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_embedded_role_refuses_the_short_form_and_says_what_to_do(environment: str, tmp_path: Path) -> None:
    spec = load_environment(environment)
    scenarios = spec.load(str(written(tmp_path, environment, short=True)))
    with pytest.raises(InputError, match=r"has no .*(--user|--judge) MODEL"):
        spec.make(scenarios, spec.players())


PERSON = {"sage": "Bereczki", "eibench": "Nerys", "empa": "Belhadj", "perm": "Sangaré", "daily": "Grabiec"}
SAGE_ANSWERS = [
    json.dumps({"meant": "a", "fit": "b", "thoughts": "c", "feeling": "d", "change": 6}),
    json.dumps({"attitude": "near", "aim": "tell", "tone": "dry", "matter": "it", "reply": "Goodbye."}),
]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
async def test_a_model_is_asked_as_the_person_of_the_short_form(environment: str, tmp_path: Path) -> None:
    spec = load_environment(environment)
    (scenario,) = spec.load(str(written(tmp_path, environment, short=True)))
    model = ScriptedChat(lambda asked: SAGE_ANSWERS['"attitude"' in asked[-1].content] if environment == "sage" else "no JSON")
    ready = spec.make([scenario], spec.players(dict.fromkeys(spec.role_names, model)))
    done = await play(ready, scenario.id, Baseline("reflector"))
    assert PERSON[environment] in "".join(message.content for message in model.asked[0])
    assert done.score == (100.0 if environment == "sage" else None)


def test_all_errors_are_named_at_once_with_line_and_field(tmp_path: Path) -> None:
    changes = (
        ("intention: empathy", "intention: emphaty"),
        ("  age: 58", "  age: 300"),
        ("tags: [none]", "tags: [grief]"),
        ("temperament: slow", "temperment: slow"),
        ('goal: "That somebody feels what it was to put the comma into line four."', "goal: 12"),
    )
    path = edited(written(tmp_path, "sage"), *changes)
    lines = path.read_text().split("\n")
    done = heartloop("scenarios", "check", str(path))
    assert done.exit_code == 2
    named = {line.split(", ", 1)[1].split(":")[0]: line for line in done.output.splitlines() if line.startswith("line ")}
    assert set(named) == {"intention", "persona.age", "tags.0", "persona.temperament", "persona.temperment", "goal"}
    for field, text in {"intention": "emphaty", "persona.age": "age: 300", "tags.0": "grief", "goal": "goal: 12"}.items():
        assert text in lines[int(named[field].split()[1].rstrip(",")) - 1]
    assert "at most 100" in named["persona.age"]
    assert "nearest is 'temperament'" in named["persona.temperment"]


def test_a_broken_rule_exits_with_1_and_names_the_line(tmp_path: Path) -> None:
    path = edited(written(tmp_path, "sage"), ("Good evening.", "Can you understand me?"))
    done = heartloop("scenarios", "check", str(path))
    assert done.exit_code == 1
    assert "support-empathy-9001: first message gives the intention away" in done.output
    assert done.output.startswith("line ")


def read(text: str) -> list[Source | Problem]:
    return list(sources(Path("x.yaml"), text))


def test_yaml_is_read_as_json_with_comments() -> None:
    (one,) = read("# a comment\nwhen: 12:30\nday: 2026-03-14\nno: no\nn: 012\nreal: 0.5\nnothing:\nyes: true\n")
    assert isinstance(one, Source)
    assert json.loads(one.text) == {
        "when": "12:30", "day": "2026-03-14", "no": "no", "n": 12, "real": 0.5, "nothing": None, "yes": True,
    }  # fmt: skip


def test_records_of_yaml_stand_in_documents_or_a_list() -> None:
    assert [one.line for one in read("id: a\n---\n# nothing\n---\nid: b\n")] == [1, 5]
    assert [one.line for one in read("- id: a\n- id: b\n  x: 1\n")] == [1, 2]


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("id: a\nid: b\n", 2, "twice"),
        ("id: a\ntext: b: c\n", 2, "not YAML"),
        ("a: &x 1\nb: *x\n", 2, "alias"),
        ("a: [1\n", 2, "not YAML"),
        ("a: !!python/object:os.system x\n", 1, "not YAML"),
        ("a: \x00\n", 1, "not YAML"),
        ("[" * 500, 1, ""),
    ],
)
def test_what_is_no_record_is_named_with_its_line(text: str, line: int, word: str) -> None:
    problem = next(one for one in read(text) if isinstance(one, Problem))
    assert problem.line == line
    assert word in str(problem)


def test_list_and_show_take_an_environment_and_name_the_nearest_id() -> None:
    assert "support-listen-01" in heartloop("scenarios", "list", "sage").output
    assert "hallway" in heartloop("scenarios", "show", "sage", "support-listen-01").output
    for words in (("sage", "support-lisen-01"), ("support-lisen-01",)):
        missed = heartloop("scenarios", "show", *words)
        assert isinstance(missed.exception, UseError)
        assert "'support-listen-01'" in str(missed.exception)
    wrong: list[tuple[str, ...]] = [("list", "eqbench"), ("show", "eqbench", "1"), ("show", "sage"), ("show", "a", "b", "c")]
    for line in wrong:
        assert isinstance(heartloop("scenarios", *line).exception, UseError)


def scenarios(*words: str) -> str:
    done = CliRunner().invoke(app, ["scenarios", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_sets_are_listed_with_their_environment_and_scenarios_by_set() -> None:
    sets = {tuple(line.split()) for line in scenarios("list").splitlines()}
    assert sets == {(name, spec.name) for spec in specs() for name in spec.scenarios.sets}
    assert len(scenarios("list", "cases").splitlines()) == 30


def test_check_of_an_environment_checks_each_of_its_sets() -> None:
    support, chat, training = scenarios("check", "sage").splitlines()
    assert support.startswith("support: 100 scenarios")
    assert chat.startswith("chat: 40 scenarios")
    assert training.startswith("support-training: 200 scenarios")


@pytest.mark.parametrize("name", [name for spec in specs() for name in spec.scenarios.sets if name != "train"])
def test_a_saved_set_is_read_back_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / "saved.jsonl"
    scenarios("save", name, "--out", str(path))
    spec = next(spec for spec in specs() if name in spec.scenarios.sets)
    assert list(spec.scenarios.load(str(path))) == list(spec.scenarios.load(name))
    with pytest.raises(UseError, match="exists; choose"):
        scenarios("save", name, "--out", str(path))


def test_a_file_without_marks_needs_its_environment(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"id": "x"}) + "\n")
    with pytest.raises(UseError, match=r"mine\.jsonl"):
        scenarios("list", str(path))
    with pytest.raises(InputError, match=r"line 1, id: is 'x'; expected a text that matches .*more errors"):
        scenarios("list", str(path), "--environment", "perm")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("requests") / "run")
    words = ("--model", "heartloop/reflector", "--limit", "2", "--out", path, "--no-report")
    heartloop("eval", "sage", "--user", "embedded", *words)
    return path


class TestRequests:
    def test_the_first_to_each_role_or_to_one_with_options(self) -> None:
        both = heartloop("scenarios", "show", "support-listen-01", "--prompt").output
        assert [line.split(",")[0] for line in both.splitlines() if line.startswith("===")] == [
            "=== policy: reply", "=== user: feel", "=== user: speak",
        ]  # fmt: skip
        one = heartloop(
            "scenarios", "show", "sage", "support-listen-01", "--prompt", "--role", "policy", "-E", "form=think"
        ).output
        assert one.count("===") == 1
        assert "<think>" in one

    def test_of_a_run_by_dialogue_and_turn(self, run: str) -> None:
        shown = heartloop("scenarios", "show", "support-advice-01", "--run", run, "--turn", "3")
        assert (shown.output.count("--- user"), shown.stderr) == (3, "")
        assert "turn 3" in heartloop("scenarios", "show", "--run", run, "--dialogue", "advice-01", "--turn", "3").output
        assert "No request to the user" in heartloop("scenarios", "show", "advice-01", "--run", run, "--role", "user").output

    @pytest.mark.parametrize(
        ("words", "named"),
        [
            (("support-listen-01", "--prompt", "--role", "judge"), "policy, user"),
            (("--run", "RUN", "--dialogue", "support"), "2 dialogues"),
            (("support-advice-01", "--run", "RUN", "--turn", "99"), "turn is 99"),
            (("--prompt",), "expected a scenario id"),
            (("support-advice-01", "--run", "EMPTY"), "fits 0 dialogues"),
        ],
    )
    def test_what_is_not_there_is_refused(self, words: tuple[str, ...], named: str, run: str, tmp_path: Path) -> None:
        shutil.copy(Path(run, "settings.json"), tmp_path)
        refused = heartloop(
            "scenarios", "show", *({"RUN": run, "EMPTY": str(tmp_path)}.get(word, word) for word in words)
        ).exception
        assert isinstance(refused, UseError)
        assert named in str(refused)
