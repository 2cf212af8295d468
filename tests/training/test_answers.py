"""The answers that teach the laptop policy PERM's form.

1. Each is of the form, short, its parts by baselines of different quality.
2. Whom a recipe holds out is never learned from, and a recipe that would hold out others is refused.
3. A heading is one token, line breaks and all; a prompt holds persona, scenario and query, and fits.
4. What makes them leaves the examples of the other environments, and the names of their policies, as they were.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from heartloop.cli.main import app
from heartloop.core.dialogue import Message
from heartloop.core.errors import InputError
from heartloop.environments.perm.scenario import parse
from heartloop.environments.registry import load_environment
from heartloop.training.checkpoints import CheckpointModel
from heartloop.training.laptop import corpus, policy
from heartloop.training.laptop.corpus import AnswersSettings, CorpusSettings, Example, Layout, words_in
from heartloop.training.laptop.policy import WarmStartSettings, build_tokenizer, chat_template, prepare, warm_start_of
from heartloop.training.plan import missing
from heartloop.training.recipe import read_recipe
from heartloop.training.rollouts import ChatFormat
from heartloop.training.verl_config import split_of

Examples = tuple[list[Example], list[Example]]

SETTINGS = AnswersSettings(environment="perm", answers=1, test=3)
ANSWERS, DIALOGUES = SETTINGS.layout, CorpusSettings().layout


@pytest.fixture(scope="module")
def answers() -> Examples:
    learn, _ = SETTINGS.jobs()
    apart = sorted(set(corpus._default_set("perm").scenario_ids) - set(SETTINGS.learned_scenarios()))
    return SETTINGS.made(learn[::48]), SETTINGS.made([(None, scenario, 0) for scenario in apart[:3]])


@pytest.fixture(scope="module")
def form(answers: Examples) -> ChatFormat:
    texts = [message.content for example in answers[0] for message in example.messages]
    return ChatFormat(build_tokenizer(texts, least=1, known=SETTINGS.held_out_texts(), layout=ANSWERS), longest=None)


def test_each_is_of_perms_form_and_short(answers: Examples) -> None:
    parts = [parse(example.messages[-1].content) for example in answers[0]]
    assert not any(part.broken for part in parts)
    assert max(words_in(part.analysis) for part in parts) <= SETTINGS.longest_part
    assert max(words_in(part.response) for part in parts) <= SETTINGS.longest_part
    assert len({part.analysis.split()[0] for part in parts}) > 2, "more than one baseline"


def test_whom_a_recipe_holds_out_is_never_learned_from() -> None:
    split = split_of(read_recipe("perm_grpo_tiny"))
    settings = warm_start_of(read_recipe("perm_grpo_tiny"), split.held_out).corpus
    assert isinstance(settings, AnswersSettings)
    assert set(settings.learned_scenarios()) == {scenario.id for scenario in split.train}
    assert len(split.train) == 512


def test_the_form_comes_back_from_its_tokens(answers: Examples, form: ChatFormat) -> None:
    for example in answers[0]:
        ids = form.message_ids(example.messages[-1])[1:-1]
        said, back = parse(example.messages[-1].content), parse(form.text(ids))
        assert not back.broken
        assert back.response == said.response.replace("’", "'")
        assert sum(form.tokenizer.decode([i]).startswith("#") for i in ids) == 1, "a heading is one token"


def test_a_prompt_holds_persona_scenario_and_query_and_fits(answers: Examples, form: ChatFormat) -> None:
    spec = load_environment("perm")
    environment = spec.make(spec.load(), spec.players())
    longest = read_recipe("perm_grpo_tiny").policy.max_prompt
    for scenario in environment.scenario_ids[::40]:
        sample = environment.scenarios[scenario]
        prompt = environment.begin(scenario).policy_prompt
        text = form.tokenizer.apply_chat_template([{"role": "system", "content": prompt}], tokenize=False)
        persona = f"{sample.person} ({sample.persona.gender})"
        assert text == f"<system>{' '.join(f'{persona} {sample.scenario}'.split()[:130])}<end>"
        messages = [Message(role="system", content=prompt), Message(role="user", content=sample.query)]
        words = build_tokenizer([message.content for message in messages], least=1, layout=ANSWERS)
        assert len(ChatFormat(words, longest=None).prompt_ids(messages)) <= longest


def test_the_template_of_examples_is_what_it_was() -> None:
    assert build_tokenizer(["a"]).chat_template == chat_template(Layout())
    digest = hashlib.sha256(chat_template(DIALOGUES).encode()).hexdigest()[:12]
    assert digest == "ee73533d994e"


def test_a_policy_learns_and_is_asked_in_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Examples) -> None:
    monkeypatch.setattr(policy, "examples_of", lambda settings, processes: answers)
    settings = WarmStartSettings(corpus=SETTINGS, least_count=1, width=64, layers=2, steps=4, rows=2)
    start = prepare(tmp_path, settings, processes=1)
    assert start.perplexity is not None
    form = CheckpointModel(start.model)._read().form
    assert isinstance(form, ChatFormat)
    assert form.tokenizer.chat_template == chat_template(ANSWERS)
    again = WarmStartSettings.model_validate({"corpus": {"environment": "perm", "answers": 1, "test": 3}})
    assert again.corpus == SETTINGS


def test_a_recipe_that_holds_out_others_than_the_warm_start_is_refused() -> None:
    settings = ["scenarios.held_out_share=0.3", "scenarios.held_out_limit=null"]
    recipe = read_recipe("perm_grpo_tiny", settings=settings)
    with pytest.raises(InputError, match=r"the warm start learns from \d+ held-out scenarios.*held_out_share"):
        warm_start_of(recipe, split_of(recipe).held_out)
    recipe = read_recipe("perm_grpo_tiny", settings=[*settings, "policy.warm_start.corpus.held_out_share=0.3"])
    warm_start_of(recipe, split_of(recipe).held_out)


def test_a_wrong_setting_of_the_answers_is_named_as_it_is_written() -> None:
    recipe = read_recipe("perm_grpo_tiny", settings=["policy.warm_start.corpus.answers=0"])
    with pytest.raises(InputError, match=r"policy\.warm_start\.corpus\.answers is 0"):
        warm_start_of(recipe, [])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("policy.warm_start.stepz=3", "policy.warm_start.stepz is 3"),
        ("policy.warm_start.steps=0", "policy.warm_start.steps is 0: .*greater than or equal to 1"),
        ("policy.warm_start.corpus.people=3", "policy.warm_start.corpus.people is 3"),
    ],
)
def test_a_warm_start_with_wrong_settings(setting: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        warm_start_of(read_recipe("ctc_grpo_tiny", settings=[setting]), [])


def test_nothing_that_stops_a_laptop_run_is_missing_where_the_extra_is() -> None:
    assert [item for item in missing(read_recipe("ctc_grpo_tiny")) if item.stops] == []
    done = CliRunner().invoke(app, ["train", "rlver_grpo_tiny", "--dry-run"])
    assert done.exit_code == 0, done.output
