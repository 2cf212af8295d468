"""The laptop policy, made on the spot: words, prompts, examples, warm start, and the checkpoint as a model under test."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import ModelError, UseError
from heartloop.environments.episode import play
from heartloop.environments.perm.scenario import parse
from heartloop.training.checkpoints import CheckpointModel
from heartloop.training.laptop.corpus import (
    LONGEST_PART,
    LONGEST_REPLY,
    CorpusSettings,
    Example,
    WarmStartSettings,
    environment_for,
    examples_of,
    words_in,
)
from heartloop.training.laptop.policy import MARKERS, Exchange, build_tokenizer, chat_template, new_model, prepare, rows_of
from heartloop.training.recipe import read_recipe
from heartloop.training.rollouts import ChatFormat, TemplateFormat
from heartloop.training.verl_config import split_of

LEARN, TUNING = CorpusSettings().learn
(HELD_OUT,) = CorpusSettings().held_out
SMALL = CorpusSettings(learn=(LEARN.model_copy(update={"count": 6}),), held_out=(HELD_OUT.model_copy(update={"count": 2}),))
MICRO = WarmStartSettings(corpus=SMALL, least_count=1, width=64, layers=2, steps=20, rows=2, learning_rate=0.01)
ANSWERS = read_recipe("perm_grpo_tiny").warm_start().corpus


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return examples_of(SMALL.jobs()[0])


@pytest.fixture(scope="module")
def answers() -> list[Example]:
    return examples_of(ANSWERS.jobs()[0][:512:48])


def tokenizer_of(examples: list[Example], corpus: CorpusSettings) -> Any:
    texts = [message.content for example in examples for message in example]
    return build_tokenizer(texts, least=1, known=corpus.held_out_texts(), layout=corpus.layout)


@pytest.fixture(scope="module")
def tokenizer(examples: list[Example]) -> Any:
    return tokenizer_of(examples, SMALL)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("warm"), MICRO, processes=1)


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("It’s late – isn’t it?", "It's late – isn't it?"),
        ('She said: "half-open", at 10:30.', 'She said: "half-open", at 10:30.'),
        ("One\n\n- two  three", "One - two three"),
        ("(Nobody has spoken yet. You begin.)", "(Nobody has spoken yet. You begin.)"),
    ],
)
def test_quotes_dashes_times_and_blanks(text: str, back: str) -> None:
    tokenizer = build_tokenizer([text], least=1)
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == back


def test_what_is_quoted_is_made_of_the_same_tokens() -> None:
    tokenizer = build_tokenizer(["I have a drawer.", 'It stays with me that "I have a drawer", (and "so on").'], least=1)
    plain = tokenizer.encode("I have a drawer", add_special_tokens=False)
    quoted = tokenizer.encode('that "I have a drawer"', add_special_tokens=False)
    assert quoted[2:-1] == plain
    assert tokenizer.decode(quoted) == 'that "I have a drawer"'
    assert tokenizer.decode(quoted[:2]) == 'that "', "a reply that was cut at the mark"


def test_rare_words_are_unknown_and_stay_out_of_prompts_but_those_of_held_out_scenarios() -> None:
    texts = ["the lamp is on", "the lamp is off"]
    tokenizer = build_tokenizer(texts)
    assert tokenizer.get_vocab().keys() == {*MARKERS, "▁the", "▁lamp", "▁is"}
    ids = ChatFormat(tokenizer).prompt_ids([Message(role="user", content="the green lamp is on")])
    assert tokenizer.decode(ids) == "<user> the lamp is<end><assistant>"
    assert "▁green" in build_tokenizer(texts, known=["green"]).get_vocab()


def test_a_prompt_is_its_messages_and_the_same_with_recorded_replies(examples: list[Example], tokenizer: Any) -> None:
    form = ChatFormat(tokenizer)
    messages = examples[0][:-1]
    own = {
        place: tokenizer.encode(message.content, add_special_tokens=False) for place, message in enumerate(messages)
        if message.role == "assistant"
    }  # fmt: skip
    prompt = form.prompt_ids(messages, own)
    assert prompt == form.prompt_ids(messages)
    assert prompt == [*(i for m in messages for i in form.message_ids(m)), MARKERS.index("<assistant>")]
    whole = tokenizer.apply_chat_template([m.model_dump() for m in messages], add_generation_prompt=True, return_dict=False)
    assert prompt == whole, "the tokenizer's own template says the same"


def test_of_a_system_prompt_goal_knowledge_and_situation_remain(tokenizer: Any) -> None:
    environment = environment_for(LEARN)
    scenario = environment.scenarios[environment.scenario_ids[0]]
    prompt = environment.begin(scenario.id).policy_prompt
    text = tokenizer.apply_chat_template([{"role": "system", "content": prompt}], tokenize=False)
    assert text == f"<system>{' '.join([scenario.model.goal, *scenario.model.knows, scenario.model.background])}<end>"
    assert tokenizer.apply_chat_template([{"role": "system", "content": "Be kind."}], tokenize=False) == "<system><end>"
    assert hashlib.sha256(chat_template(SMALL.layout).encode()).hexdigest()[:12] == "ee73533d994e", "of earlier policies"


def test_no_message_can_hold_a_marker(tokenizer: Any) -> None:
    ids = ChatFormat(tokenizer).message_ids(Message(role="user", content="<end><assistant> I am <system>"))
    assert [i for i in ids if i < len(MARKERS)] == [ids[0], ids[-1]]


def test_a_prompt_that_is_too_long_loses_the_oldest_messages_but_the_system_prompt(tokenizer: Any) -> None:
    form = ChatFormat(tokenizer, longest=30)
    system = Message(role="system", content="## What you are after\nI am I am.")
    messages = [Message(role="user", content=f"I am tired of this, and so are you {number}.") for number in range(9)]
    ids = form.prompt_ids([system, *messages])
    assert ids[: len(form.message_ids(system))] == list(form.message_ids(system))
    assert ids[-len(form.message_ids(messages[-1])) - 1 : -1] == list(form.message_ids(messages[-1]))
    assert len(ids) <= 30
    whole = ChatFormat(tokenizer, longest=None).prompt_ids([system, *messages])  # as in training, where nothing is cut silently
    assert len(whole) == sum(len(form.message_ids(message)) for message in (system, *messages)) + 1


def test_the_same_settings_give_the_same_examples(examples: list[Example]) -> None:
    assert examples_of(SMALL.jobs()[0], processes=2) == examples
    assert examples_of(SMALL.model_copy(update={"seed": 1}).jobs()[0]) != examples
    replies = [m.content for example in examples for m in example if m.role == "assistant"]
    assert max(map(words_in, replies)) <= LONGEST_REPLY
    assert all(reply.rstrip('"')[-1] in ".!?…" for reply in replies)
    assert len(set(replies)) > 0.8 * len(replies)


def test_no_held_out_scenario_is_learned_from() -> None:
    split = split_of(read_recipe("perm_grpo_tiny"))
    learn, held_out = ({scenario for _, scenario, _ in jobs} for jobs in ANSWERS.jobs())
    assert learn == {scenario.id for scenario in split.train}
    assert len(learn) == 512
    assert len(held_out - learn) == 24
    overlapping = SMALL.model_copy(update={"learn": (HELD_OUT, LEARN.model_copy(update={"count": 6}))})
    assert [source for source, _, _ in overlapping.jobs()[0]] == [overlapping.learn[1]] * 6


def test_answers_have_the_form_whose_headings_are_one_token(answers: list[Example]) -> None:
    form = ChatFormat(tokenizer_of(answers, ANSWERS), longest=None)
    parts = [parse(example[-1].content) for example in answers]
    assert max(words_in(text) for part in parts for text in (part.analysis, part.response)) <= LONGEST_PART
    assert len({part.analysis.split()[0] for part in parts}) > 2, "more than one baseline"
    for example, part in zip(answers, parts, strict=True):
        ids = form.message_ids(example[-1])[1:-1]
        back = parse(form.text(ids))
        assert not part.broken
        assert not back.broken
        assert back.response == part.response.replace("’", "'")
        assert sum(form.tokenizer.decode([i]).startswith("#") for i in ids) == 1


def test_only_replies_are_learned(examples: list[Example], tokenizer: Any) -> None:
    (row,) = rows_of(examples[:1], ChatFormat(tokenizer))
    learned = tokenizer.decode([token for token, in_reply in zip(row.tokens, row.in_reply, strict=True) if in_reply])
    replies = [m.content for m in examples[0] if m.role == "assistant"]
    assert learned.count("<end>") == len(replies)
    assert " ".join(learned.split("<end>")[0].split()) == replies[0]


def test_exchanged_words_keep_their_kind_and_their_row(tokenizer: Any) -> None:
    import torch

    table = Exchange(tokenizer, set(range(len(MARKERS)))).draw(torch.Generator().manual_seed(0))
    assert sorted(table.tolist()) == list(range(len(tokenizer))), "no two words become one"
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    pairs = [(words[i], words[int(table[i])]) for i in range(len(words))]
    assert all(a[:1].isupper() == b[:1].isupper() and a.endswith("ing") == b.endswith("ing") for a, b in pairs if a != b)
    assert sum(a != b for a, b in pairs) > 0.5 * len(pairs)
    assert table[: len(MARKERS)].tolist() == list(range(len(MARKERS)))


def test_first_weights_copy_words_they_never_saw() -> None:
    import torch

    def copied(model: Any) -> float:
        half = torch.randint(len(MARKERS), 4000, (2, 120), generator=torch.Generator().manual_seed(0))
        guesses = model(torch.cat([half, half], 1)).logits[:, 120:-1].argmax(-1)
        return float((guesses == half[:, 1:]).float().mean())

    class Words:
        eos_token_id, pad_token_id = 2, 0

        def __len__(self) -> int:
            return 4000

    words: Any = Words()
    model = new_model(WarmStartSettings(), words)
    with torch.no_grad():
        assert copied(model) > 0.95
        for weights in (model.model.layers[0].self_attn.q_proj.bias, model.model.layers[1].self_attn.q_proj.weight):
            kept = weights.clone()
            weights.zero_()
            assert copied(model) < 0.1, "both layers are needed"
            weights.copy_(kept)


def test_a_warm_start_lowers_the_loss_and_is_found_again(made: Path) -> None:
    curve = made.parent / "curve.jsonl"
    *lines, last = [json.loads(line) for line in curve.read_text().splitlines()]
    losses = [line["loss"] for line in lines]
    assert len(losses) == MICRO.steps
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert last["perplexity"] > 1
    before = curve.stat().st_mtime_ns
    assert prepare(made.parents[1], MICRO) == made
    assert curve.stat().st_mtime_ns == before


def test_the_same_settings_give_the_same_weights(made: Path, tmp_path: Path) -> None:
    sources = [CheckpointModel(prepare(tmp_path, MICRO.model_copy(update={"seed": seed}))).source for seed in (0, 1)]
    assert sources[0] == CheckpointModel(made).source != sources[1]


async def test_a_checkpoint_plays_a_dialogue(made: Path) -> None:
    environment = environment_for(HELD_OUT)
    model = CheckpointModel(made)
    settings = Sampling(max_tokens=12)
    transcript = await play(environment, environment.scenario_ids[0], model, seed=3, sampling=settings)
    assert transcript.scored
    assert transcript.model == f"checkpoint:{made}"
    again = await play(environment, environment.scenario_ids[0], CheckpointModel(made), seed=3, sampling=settings)
    assert [turn.reply for turn in again.turns] == [turn.reply for turn in transcript.turns]
    other = await play(environment, environment.scenario_ids[0], model, seed=4, sampling=settings)
    assert [turn.reply for turn in other.turns] != [turn.reply for turn in transcript.turns]
    tokens = [call.usage.completion_tokens for call in transcript.calls if call.role == "policy"]
    assert max(tokens) <= 12
    assert not any("<" in turn.reply for turn in transcript.turns), "no marker is spoken"


async def test_a_prompt_without_room_for_a_reply_is_an_error(made: Path) -> None:
    model = CheckpointModel(made)
    model._loaded = model._load()._replace(longest=2)
    with pytest.raises(ModelError, match="expected fewer than 2"):
        await model.complete([Message(role="user", content="I am tired.")])


async def test_a_request_sets_the_options_of_a_checkpoints_chat_template(made: Path) -> None:
    model, messages = CheckpointModel(made), [Message(role="user", content="I am tired.")]
    tokenizer = model._load().form.tokenizer
    quiet = Sampling(max_tokens=3, top_k=1, request={"chat_template_kwargs": {"think": False}})
    with pytest.raises(UseError, match="chat_template_kwargs"):  # the laptop policy's template has none
        await model.complete(messages, sampling=quiet)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }} {% endfor %}{{ 'I am.' if think is defined and not think }}"
    model._loaded = model._load()._replace(form=TemplateFormat(tokenizer))
    replies = [await model.complete(messages, sampling=sampling) for sampling in (Sampling(max_tokens=3, top_k=1), quiet)]
    assert replies[0].usage.prompt_tokens < replies[1].usage.prompt_tokens


def test_a_directory_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UseError, match=r"no config\.json with weights"):
        CheckpointModel(tmp_path)
    for step in (5, 10):
        (tmp_path / "checkpoints" / f"global_step_{step}").mkdir(parents=True)
    with pytest.raises(UseError, match=r"such as checkpoint:.*global_step_10"):
        CheckpointModel(tmp_path)
