"""The answers that teach the laptop policy PERM's form.

1. Each is of the form, short, its parts by baselines of different quality.
2. Whom a recipe holds out is never learned from, and a recipe that would hold out others is refused.
3. A heading is one token, line breaks and all; a prompt holds persona, scenario and query, and fits.
4. What makes them leaves the talks of the other environments, and the names of their policies, as they were.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from heartloop.core.dialogue import Message
from heartloop.core.errors import InputError
from heartloop.environments.catalogue import entry_of
from heartloop.environments.perm.format import parse
from heartloop.training import launch
from heartloop.training.chat_format import ChatFormat
from heartloop.training.checkpoints import CheckpointModel
from heartloop.training.dataset import cast_of
from heartloop.training.laptop import answers as room
from heartloop.training.laptop.answers import AnswersSettings, people_learned, words_of_held_out
from heartloop.training.laptop.corpus import CorpusSettings, Talk, words_in
from heartloop.training.laptop.tokenizer import ANSWERS, TALKS, build_tokenizer, chat_template
from heartloop.training.laptop.warm_start import WarmStartSettings, prepare
from heartloop.training.recipe import read_recipe

Talks = tuple[list[Talk], list[Talk]]

SETTINGS = AnswersSettings(answers=1, test=3)


@pytest.fixture(scope="module")
def answers() -> Talks:
    jobs = [(name, 0) for name in people_learned(SETTINGS)[::48]]
    apart = [name for name in room._stage().scenario_ids if name not in people_learned(SETTINGS)][:3]
    return room._answered(jobs, SETTINGS), room._answered([(name, 0) for name in apart], SETTINGS)


@pytest.fixture(scope="module")
def form(answers: Talks) -> ChatFormat:
    texts = [message.content for talk in answers[0] for message in talk.messages]
    return ChatFormat(build_tokenizer(texts, least=1, known=words_of_held_out(SETTINGS), layout=ANSWERS), longest=None)


def test_each_is_of_perms_form_and_short(answers: Talks) -> None:
    parts = [parse(talk.messages[-1].content) for talk in answers[0]]
    assert not any(part.broken for part in parts)
    assert max(words_in(part.analysis) for part in parts) <= SETTINGS.longest_analysis
    assert max(words_in(part.response) for part in parts) <= SETTINGS.longest_response
    assert len({part.analysis.split()[0] for part in parts}) > 2, "more than one baseline"


def test_whom_a_recipe_holds_out_is_never_learned_from() -> None:
    cast = cast_of(read_recipe("perm_grpo_tiny"))
    settings = WarmStartSettings.model_validate(dict(read_recipe("perm_grpo_tiny").policy.warm_start)).corpus
    assert isinstance(settings, AnswersSettings)
    assert set(people_learned(settings)) == {person.id for person in cast.train}
    assert len(cast.train) == 512
    assert not set(people_learned(settings)) & {person.id for person in cast.held_out}


def test_the_form_comes_back_from_its_tokens(answers: Talks, form: ChatFormat) -> None:
    for talk in answers[0]:
        ids = form.message_ids(talk.messages[-1])[len(form.opening) : -1]
        said, back = parse(talk.messages[-1].content), parse(form.text(ids))
        assert not back.broken
        assert back.response == said.response.replace("’", "'")
        assert sum(form.tokenizer.decode([i]).startswith("#") for i in ids) == 1, "a heading is one token"


def test_a_prompt_holds_persona_scenario_and_query_and_fits(answers: Talks, form: ChatFormat) -> None:
    environment = entry_of("perm").build(entry_of("perm").load("samples"), entry_of("perm").person(None))
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


def test_the_template_of_talks_is_what_it_was() -> None:
    assert build_tokenizer(["a"]).chat_template == chat_template(TALKS)
    digest = hashlib.sha256(chat_template(TALKS).encode()).hexdigest()[:12]
    assert digest == "ee73533d994e"


def test_the_names_of_policies_are_what_they_were() -> None:
    """Runs that are gone on with find their policy by this hash."""
    assert WarmStartSettings().hash == "b208af061d3c"
    assert hashlib.sha256(CorpusSettings().model_dump_json().encode()).hexdigest()[:12] == "8952078ca812"


def test_a_policy_learns_and_is_asked_in_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Talks) -> None:
    monkeypatch.setattr("heartloop.training.laptop.warm_start.answers_of", lambda settings, processes: answers)
    settings = WarmStartSettings(corpus=SETTINGS, least_count=1, width=64, layers=2, steps=4, rows=2)
    start = prepare(tmp_path, settings, processes=1)
    assert start.perplexity is not None
    form = CheckpointModel(start.model)._read().form
    assert isinstance(form, ChatFormat)
    assert form.tokenizer.chat_template == chat_template(ANSWERS)
    again = WarmStartSettings.model_validate({"corpus": {"answers": 1, "test": 3}})
    assert again.corpus == SETTINGS


def test_a_recipe_that_holds_out_others_than_the_warm_start_is_refused() -> None:
    recipe = read_recipe("perm_grpo_tiny", settings=["people.held_out_share=0.3", "people.held_out_limit=null"])
    start = launch._warm_start(recipe)
    with pytest.raises(InputError, match=r"\d+ people are held out whom the warm start learns from.*held_out_share"):
        launch._check_strangers(cast_of(recipe), start)
    recipe = read_recipe(
        "perm_grpo_tiny",
        settings=["people.held_out_share=0.3", "people.held_out_limit=null", "policy.warm_start.corpus.held_out_share=0.3"],
    )
    launch._check_strangers(cast_of(recipe), launch._warm_start(recipe))


def test_a_wrong_setting_of_the_answers_is_named_as_it_is_written() -> None:
    recipe = read_recipe("perm_grpo_tiny", settings=["policy.warm_start.corpus.answers=0"])
    with pytest.raises(InputError, match=r"policy\.warm_start\.corpus\.answers is 0"):
        launch._warm_start(recipe)
