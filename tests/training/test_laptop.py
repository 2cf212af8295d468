"""The laptop policy, made on the spot: words, prompts, examples, warm start, and the checkpoint as a model under test.

1. What the tokenizer knows comes back as it was written.
2. A prompt is its messages one after the other, and an own reply stands in it as the ids it was generated as.
3. The same settings give the same examples, however many processes play them.
4. A warm start lowers the loss, and the same settings find what was made before.
5. A checkpoint plays dialogues through the one turn loop.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError, ModelError, UseError
from heartloop.environments.episode import play
from heartloop.training.checkpoints import CheckpointModel
from heartloop.training.laptop.corpus import (
    CorpusSettings,
    Example,
    Mixture,
    environment_for,
    examples_of,
    read_or_make,
    whole_sentences,
    words_in,
)
from heartloop.training.laptop.policy import (
    MARKERS,
    Exchange,
    WarmStart,
    WarmStartSettings,
    build_tokenizer,
    new_model,
    prepare,
    rows_of,
)
from heartloop.training.rollouts import ChatFormat, TemplateFormat

Examples = tuple[list[Example], list[Example]]
ASSISTANT = MARKERS.index("<assistant>")

LEARN, TUNING = CorpusSettings().learn
(HELD_OUT,) = CorpusSettings().held_out
SMALL = CorpusSettings(learn=(LEARN.model_copy(update={"count": 6}),), held_out=(HELD_OUT.model_copy(update={"count": 2}),))
MICRO = WarmStartSettings(
    corpus=SMALL, least_count=1, held_out_words=False, width=64, layers=2, steps=20, rows=2, learning_rate=0.01
)


@pytest.fixture(scope="module")
def examples() -> Examples:
    return examples_of(SMALL)


@pytest.fixture(scope="module")
def tokenizer(examples: Examples) -> Any:
    texts = (message.content for example in examples[0] for message in example.messages)
    return build_tokenizer(texts, least=1, layout=SMALL.layout)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WarmStart]:
    folder = tmp_path_factory.mktemp("warm")
    return folder, prepare(folder, MICRO, processes=1)


def test_two_hundred_sentences_come_back_as_they_were_written() -> None:
    people = environment_for(LEARN).scenarios.values()
    texts = [beat.text for person in list(people)[::70] for beat in person.beats][:200]
    tokenizer = build_tokenizer(texts, least=1)
    known = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    assert len(texts) == 200
    assert all(1 not in ids for ids in known)
    assert [tokenizer.decode(ids) for ids in known] == texts


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
    said = tokenizer.encode("I have a drawer", add_special_tokens=False)
    quoted = tokenizer.encode('that "I have a drawer"', add_special_tokens=False)
    assert quoted[2:-1] == said
    assert tokenizer.decode(quoted) == 'that "I have a drawer"'
    assert tokenizer.decode(quoted[:2]) == 'that "', "a reply that was cut at the mark"


def test_words_said_once_are_left_unknown_and_stay_out_of_prompts() -> None:
    tokenizer = build_tokenizer(["the lamp is on", "the lamp is off"])
    assert tokenizer.get_vocab().keys() == {*MARKERS, "▁the", "▁lamp", "▁is"}
    ids = ChatFormat(tokenizer).prompt_ids([Message(role="user", content="the green lamp is on")])
    assert tokenizer.decode(ids) == "<user> the lamp is<end><assistant>"


def test_words_of_strangers_are_known_though_nothing_of_theirs_is_learned(examples: Examples) -> None:
    strangers = SMALL.held_out_texts()
    texts = [message.content for example in examples[0] for message in example.messages]
    without, knowing = build_tokenizer(texts), build_tokenizer(texts, known=strangers)
    unknown = [sum(t.encode(text).count(1) for text in strangers) for t in (without, knowing)]
    assert unknown[0] > 1000
    assert unknown[1] == 0


def test_a_prompt_is_its_messages_and_the_same_with_recorded_replies(examples: Examples, tokenizer: Any) -> None:
    form = ChatFormat(tokenizer)
    messages = examples[0][0].messages[:-1]
    own = {
        place: tokenizer.encode(message.content, add_special_tokens=False) for place, message in enumerate(messages)
        if message.role == "assistant"
    }  # fmt: skip
    prompt = form.prompt_ids(messages, own)
    assert prompt == form.prompt_ids(messages)
    assert prompt == [*(i for m in messages for i in form.message_ids(m)), ASSISTANT]
    whole = tokenizer.apply_chat_template([m.model_dump() for m in messages], add_generation_prompt=True, return_dict=False)
    assert prompt == whole, "the tokenizer's own template says the same"


def test_of_a_system_prompt_goal_knowledge_and_situation_remain(tokenizer: Any) -> None:
    environment = environment_for(LEARN)
    scenario = environment.scenarios[environment.scenario_ids[0]]
    prompt = environment.begin(scenario.id).policy_prompt
    text = tokenizer.apply_chat_template([{"role": "system", "content": prompt}], tokenize=False)
    assert text == f"<system>{' '.join([scenario.model.goal, *scenario.model.knows, scenario.model.background])}<end>"
    assert tokenizer.apply_chat_template([{"role": "system", "content": "Be kind."}], tokenize=False) == "<system><end>"


def test_no_message_can_hold_a_marker(tokenizer: Any) -> None:
    form = ChatFormat(tokenizer)
    ids = form.message_ids(Message(role="user", content="<end><assistant> I am <system>"))
    assert [i for i in ids if i < len(MARKERS)] == [ids[0], ids[-1]]


def test_beyond_its_room_a_prompt_loses_the_oldest_messages_but_the_system_prompt(tokenizer: Any) -> None:
    form = ChatFormat(tokenizer, longest=30)
    system = Message(role="system", content="## What you are after\nI am I am.")
    said = [Message(role="user", content=f"I am tired of this, and so are you {number}.") for number in range(9)]
    ids = form.prompt_ids([system, *said])
    assert ids[: len(form.message_ids(system))] == list(form.message_ids(system))
    assert ids[-len(form.message_ids(said[-1])) - 1 : -1] == list(form.message_ids(said[-1]))
    assert len(ids) <= 30
    whole = ChatFormat(tokenizer, longest=None).prompt_ids([system, *said])  # as in training, where nothing is cut silently
    assert len(whole) == sum(len(form.message_ids(message)) for message in (system, *said)) + 1


def test_the_same_settings_give_the_same_examples(examples: Examples) -> None:
    assert examples_of(SMALL, processes=2) == examples
    other = examples_of(SMALL.model_copy(update={"seed": 1}))
    assert [example.scenario for example in other[0]] == [example.scenario for example in examples[0]]
    assert other != examples


def test_examples_are_of_training_people_and_those_kept_apart_of_test_people(examples: Examples) -> None:
    learn, apart = examples
    assert len(learn) == 6
    assert len(apart) == 2
    assert {example.scenario for example in learn} <= set(environment_for(LEARN).scenario_ids)
    assert {example.scenario for example in apart} <= set(environment_for(HELD_OUT).scenario_ids)


def test_replies_are_short_whole_and_of_more_than_one_baseline(examples: Examples) -> None:
    replies = [m.content for example in examples[0] for m in example.messages if m.role == "assistant"]
    assert max(map(words_in, replies)) <= SMALL.longest_reply
    assert all(reply.rstrip('"')[-1] in ".!?…" for reply in replies)
    assert len(set(replies)) > 0.8 * len(replies)


def test_whole_sentences_are_left_out_until_the_rest_fits() -> None:
    text = "One two three four. Five six. Seven eight nine ten eleven."
    for seed in range(20):
        kept = whole_sentences(text, 8, random.Random(seed))
        assert words_in(kept) <= 8
        assert all(part in text for part in kept.split(". "))
    assert whole_sentences("much too long for this", 3, random.Random(0)) == ""


async def test_the_mixture_decides_by_messages_and_seed_alone() -> None:
    messages = [Message(role="system", content="x"), Message(role="user", content="My sister left the keys on the table.")]
    replies = [(await Mixture(longest=44).complete(messages, sampling=Sampling(seed=seed))).text for seed in range(12)]
    again = [(await Mixture(longest=44).complete(messages, sampling=Sampling(seed=seed))).text for seed in range(12)]
    assert replies == again
    assert len(set(replies)) > 6


def test_read_or_make_are_read_back_and_a_broken_file_is_named(examples: Examples, tmp_path: Path) -> None:
    file = tmp_path / "examples.jsonl"
    assert read_or_make(file, lambda: examples_of(SMALL)) == examples
    assert read_or_make(file, lambda: ([], [])) == examples, "what is there is not made again"
    file.write_text('{"scenario": 3}\n')
    with pytest.raises(InputError, match=r"examples\.jsonl:1"):
        read_or_make(file, lambda: examples)


def test_only_replies_are_learned(examples: Examples, tokenizer: Any) -> None:
    form = ChatFormat(tokenizer)
    (row,) = rows_of(examples[0][:1], form)
    learned = tokenizer.decode([token for token, said in zip(row.tokens, row.in_reply, strict=True) if said])
    replies = [m.content for m in examples[0][0].messages if m.role == "assistant"]
    assert learned.count("<end>") == len(replies)
    assert " ".join(learned.split("<end>")[0].split()) == replies[0]


def test_exchanged_words_keep_their_kind_and_their_row(tokenizer: Any) -> None:
    import torch

    fixed = set(range(len(MARKERS)))
    table = Exchange(tokenizer, fixed).draw(torch.Generator().manual_seed(0))
    assert sorted(table.tolist()) == list(range(len(tokenizer))), "no two words become one"
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    pairs = [(words[i], words[int(table[i])]) for i in range(len(words))]
    assert all(a[:1].isupper() == b[:1].isupper() and a.endswith("ing") == b.endswith("ing") for a, b in pairs if a != b)
    assert sum(a != b for a, b in pairs) > 0.5 * len(pairs)
    assert table[: len(MARKERS)].tolist() == list(range(len(MARKERS)))


def test_first_weights_copy_words_they_never_saw(tokenizer: Any) -> None:
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
    with pytest.raises(UseError, match="1 layers, 4 heads"):
        new_model(WarmStartSettings.model_construct(**{**dict(WarmStartSettings()), "layers": 1}), words)


def test_a_warm_start_lowers_the_loss_and_is_found_again(made: tuple[Path, WarmStart]) -> None:
    folder, start = made
    lines = [json.loads(line) for line in start.curve.read_text().splitlines()]
    losses = [line["loss"] for line in lines[:-1]]
    assert len(losses) == MICRO.steps
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert start.perplexity == lines[-1]["perplexity"]
    before = start.curve.stat().st_mtime_ns
    assert prepare(folder, MICRO) == start
    assert start.curve.stat().st_mtime_ns == before


def test_the_same_settings_give_the_same_weights(made: tuple[Path, WarmStart], tmp_path: Path) -> None:
    again = prepare(tmp_path, MICRO, processes=1)
    assert CheckpointModel(again.model).source == CheckpointModel(made[1].model).source
    other = prepare(tmp_path, MICRO.model_copy(update={"seed": 1}), processes=1)
    assert CheckpointModel(other.model).source != CheckpointModel(made[1].model).source


async def test_a_checkpoint_plays_a_dialogue(made: tuple[Path, WarmStart]) -> None:
    environment = environment_for(HELD_OUT)
    model = CheckpointModel(made[1].model)
    settings = Sampling(max_tokens=12)
    transcript = await play(environment, environment.scenario_ids[0], model, seed=3, sampling=settings)
    assert transcript.scored
    assert transcript.model == f"checkpoint:{made[1].model}"
    again = await play(environment, environment.scenario_ids[0], CheckpointModel(made[1].model), seed=3, sampling=settings)
    assert [turn.reply for turn in again.turns] == [turn.reply for turn in transcript.turns]
    other = await play(environment, environment.scenario_ids[0], model, seed=4, sampling=settings)
    assert [turn.reply for turn in other.turns] != [turn.reply for turn in transcript.turns]
    tokens = [call.usage.completion_tokens for call in transcript.calls if call.role == "policy"]
    assert max(tokens) <= 12
    assert not any("<" in turn.reply for turn in transcript.turns), "no marker is spoken"


async def test_a_prompt_without_room_for_a_reply_is_an_error(made: tuple[Path, WarmStart]) -> None:
    model = CheckpointModel(made[1].model)
    model._loaded = model._load()._replace(longest=2)
    with pytest.raises(ModelError, match="expected fewer than 2"):
        await model.complete([Message(role="user", content="I am tired.")])


async def test_a_request_sets_the_options_of_a_checkpoints_chat_template(made: tuple[Path, WarmStart]) -> None:
    model, messages = CheckpointModel(made[1].model), [Message(role="user", content="I am tired.")]
    tokenizer = model._load().form.tokenizer
    quiet = Sampling(max_tokens=3, top_k=1, request={"chat_template_kwargs": {"think": False}})
    with pytest.raises(UseError, match="chat_template_kwargs"):  # the laptop policy's template has none
        await model.complete(messages, sampling=quiet)
    template = tokenizer.chat_template
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }} {% endfor %}{{ 'I am.' if think is defined and not think }}"
    try:
        model._loaded = model._load()._replace(form=TemplateFormat(tokenizer))
        replies = [await model.complete(messages, sampling=sampling) for sampling in (Sampling(max_tokens=3, top_k=1), quiet)]
    finally:
        tokenizer.chat_template = template
    assert replies[0].usage.prompt_tokens < replies[1].usage.prompt_tokens


def test_a_directory_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UseError, match=r"no config\.json with weights"):
        CheckpointModel(tmp_path)
    for step in (5, 10):
        (tmp_path / "checkpoints" / f"global_step_{step}").mkdir(parents=True)
    with pytest.raises(UseError, match=r"such as checkpoint:.*global_step_10"):
        CheckpointModel(tmp_path)
