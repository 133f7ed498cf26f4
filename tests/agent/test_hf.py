"""The in-process engine: what it records is what it sampled, and its memory changes nothing."""

from collections.abc import Sequence
from functools import partial

from tests.needs import needs

needs("torch")

import pytest
import torch

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.hf import HFPolicy, common_prefix, engine_for
from fedse.agent.loaded import load_base, prepare_torch
from fedse.agent.policy import Dialogue
from fedse.envs.base import make_env
from fedse.method.rollout import choose_games, rollout
from fedse.types import Adapter, Turn

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))
MAZE = partial(make_env, "maze", {"prompt": "short"})
OPTIONS = {"context": 512, "new_tokens": 6}


def adapter(seed: int) -> Adapter:
    """An adapter that really changes the model: B is not zero."""
    start = initial_adapter(SPEC, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(SPEC.size, generator=generator).numpy()
    return Adapter(SPEC, (start.vector + 0.02 * noise).astype("float32"))


def policy(seed: int = 1, temperature: float = 1.0, **options: int) -> HFPolicy:
    prepare_torch(1)
    engine = engine_for(PATH, SPEC)
    return HFPolicy(engine, adapter(seed), temperature=temperature, **{**OPTIONS, **options})


class Forgetful(HFPolicy):
    """The same policy with no memory between turns."""

    def _recall(self, past: list[tuple[int, ...]]) -> None:
        return None


def play(acting: HFPolicy, count: int = 12):
    games = choose_games(MAZE().tasks("train"), count, seed=3)
    return rollout(games, MAZE, acting, round=1, batch=8, seed=3)


def test_what_is_recorded_is_what_the_model_was_given_and_said():
    """Greedy play can be checked from the record: each token is the likeliest after the others."""
    acting = policy(temperature=0.0)
    episode = max(play(acting), key=lambda e: len(e.turns))
    assert len(episode.turns) > 2
    engine = engine_for(PATH, SPEC)
    engine.merge(adapter(1))
    ids = torch.tensor([episode.token_ids])
    with torch.inference_mode():
        likeliest = engine.model(input_ids=ids).logits[0].argmax(-1)
    checked = 0
    for place, sampled in enumerate(episode.loss_mask):
        if sampled:
            assert int(likeliest[place - 1]) == episode.token_ids[place]
            checked += 1
    assert checked >= 2 * len(episode.turns)


def test_log_probabilities_are_those_of_the_model_and_recording_them_changes_nothing():
    """Those that one pass over the whole episode finds; at temperature 1, whatever was sampled."""
    for temperature in (1.0, 0.5):
        played = play(policy(temperature=temperature, log_chances=True))
        bare = [e.model_copy(update={"turns": forgotten(e.turns)}) for e in played]
        assert bare == play(policy(temperature=temperature)) != played
        episode = max(played, key=lambda e: len(e.turns))
        engine = engine_for(PATH, SPEC)
        engine.merge(adapter(1))
        with torch.inference_mode():
            found = engine.model(input_ids=torch.tensor([episode.token_ids])).logits[0]
        told = iter(chance for turn in episode.turns for chance in turn.log_chances)
        for place, sampled in enumerate(episode.loss_mask):
            if sampled:
                expected = found[place - 1].log_softmax(-1)[episode.token_ids[place]]
                assert abs(next(told) - expected) < 1e-4
        assert next(told, None) is None


def forgotten(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return tuple(turn.model_copy(update={"log_chances": ()}) for turn in turns)


def test_the_text_is_the_sampled_tokens_and_the_context_is_the_observation():
    tokenizer = load_base(PATH).tokenizer
    played = play(policy())
    assert len(played) == 12
    for episode in played:
        assert episode.turns
        for turn in episode.turns:
            assert tokenizer.decode(turn.action_ids, skip_special_tokens=True) == turn.action
            given = tokenizer.decode(turn.context_ids, skip_special_tokens=True)
            assert turn.observation in given


def test_remembering_earlier_turns_changes_nothing_but_the_time():
    prepare_torch(1)
    engine = engine_for(PATH, SPEC)
    remembering = play(HFPolicy(engine, adapter(1), temperature=0.0, **OPTIONS))
    forgetting = play(Forgetful(engine, adapter(1), temperature=0.0, **OPTIONS))
    assert [e.turns for e in remembering] == [e.turns for e in forgetting]


def test_a_prefix_that_is_read_once_changes_nothing_but_the_time():
    prepare_torch(1)
    engine = engine_for(PATH, SPEC)
    options = {"temperature": 0.0, **OPTIONS}
    each = play(HFPolicy(engine, adapter(1), **options))
    once = play(HFPolicy(engine, adapter(1), shared_prefix=True, **options))
    assert [e.turns for e in once] == [e.turns for e in each]


@pytest.mark.parametrize(
    ("rows", "shared"),
    [(["abc", "abd"], 2), (["abc", "abc"], 2), (["a", "abc"], 0), (["xa", "ya"], 0), (["abc"], 2)],
)
def test_every_row_keeps_a_token_of_its_own(rows: list[str], shared: int):
    assert common_prefix([tuple(map(ord, row)) for row in rows]) == shared


def test_equal_seeds_sample_equally_and_others_do_not():
    actions = [[t.action for e in play(policy()) for t in e.turns] for _ in range(2)]
    assert actions[0] == actions[1]
    first, second = (policy().act([Dialogue("maze", (), "at 1 1")] * 40, seed=s) for s in (1, 2))
    assert first != second


def test_rows_of_one_batch_are_sampled_independently():
    replies = policy().act([Dialogue("maze", (), "at 1 1 goal down 1 open down up")] * 40, seed=1)
    assert len({reply.text for reply in replies if reply}) > 1


def test_the_context_cap_ends_an_episode():
    played = play(policy(context=60))
    assert {e.outcome for e in played} <= {"truncated", "success"}
    assert all(len(e.token_ids) <= 60 for e in played)
    assert any(e.outcome == "truncated" for e in played)


def test_to_the_end_an_end_token_does_not_end_an_action():
    """And nothing but that changes: what both drew until then is the same."""
    seen = [Dialogue("maze", (), "at 1 1 goal down 1 open down up")] * 20
    ended, whole = (policy(to_the_end=e).act(seen, seed=1) for e in (False, True))
    eos = load_base(PATH).tokenizer.eos_token_id
    assert any(reply.action_ids[-1] == eos for reply in ended if reply)
    for short, full in zip(ended, whole, strict=True):
        assert len(full.action_ids) == OPTIONS["new_tokens"]
        assert full.action_ids[: len(short.action_ids)] == short.action_ids


def test_merged_weights_are_peft_in_other_words():
    """W + scaling * B A gives the logits of the un-merged PEFT model."""
    from fedse.train.lora import load_adapter, trainer_for

    ids = torch.tensor([load_base(PATH).tokenizer.encode("at 1 1 goal down 3 open down up")])
    engine, model = engine_for(PATH, SPEC), trainer_for(PATH, SPEC).model()
    load_adapter(model, adapter(7))
    with torch.inference_mode():
        beside = model(input_ids=ids).logits
        engine.merge(adapter(7))
        merged = engine.model(input_ids=ids).logits
    assert 0 < (beside - merged).abs().max() < 1e-4


def test_merging_leaves_no_trace_of_earlier_adapters():
    engine = engine_for(PATH, SPEC)
    weights: list[Sequence[float]] = []
    for seed in (1, 2, 1):
        engine.merge(adapter(seed))
        weights.append(engine.model.model.layers[0].mlp.up_proj.weight.flatten().tolist())
    assert weights[0] == weights[2] != weights[1]


def test_in_bfloat16_the_output_layer_computes_all_rows_in_one_product():
    """Torch does that only for contiguous rows; else it copies the layer for each of them."""
    prepare_torch(1)
    engine, seen = engine_for(PATH, SPEC, precision="bfloat16"), []
    hook = engine.model.get_output_embeddings().register_forward_pre_hook(
        lambda _, given: seen.append(given[0])
    )
    try:
        play(HFPolicy(engine, adapter(1), temperature=1.0, **OPTIONS))
    finally:
        hook.remove()
    assert max(len(rows) for rows in seen) == 8
    assert all(rows.shape[1] == 1 and rows.is_contiguous() for rows in seen)
