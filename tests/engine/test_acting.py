"""A served engine acts as the in-process one does, and never under another adapter's name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch", "uvicorn", "httpx")

from fedse.adapters.base import base_path, initial_adapter
from fedse.adapters.peft_folder import export_adapter
from fedse.agent.policy import Dialogue
from fedse.agent.tokens import load_encoder
from fedse.engine.client import EngineClient, Sampling
from fedse.engine.loaded import KEPT, ActingAdapters, LoraAdapters, MergedAdapters
from fedse.engine.merged import write_merged
from fedse.engine.policy import ServedPolicy
from fedse.envs.base import make_env
from fedse.errors import RunError
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import choose_games, rollout
from fedse.types import Adapter
from tests.agent.test_hf import SPEC, adapter, policy
from tests.engine.conftest import Connect, small_server

PATH = base_path("tiny")
MAZE = partial(make_env, "maze", {"prompt": "short"})
MODES = ("lora", "merged")
Acting = Callable[[str], ActingAdapters]


@pytest.fixture
def acting(server_url: str, tmp_path: Path, connect: Connect) -> Acting:
    def make(mode: str) -> ActingAdapters:
        client = connect(server_url)
        if mode == "lora":
            return LoraAdapters(client, tmp_path)
        return MergedAdapters(client, tmp_path, partial(write_merged, PATH))

    return make


def served(
    acting: ActingAdapters, which: Adapter, temperature: float = 0.0, **options: bool
) -> ServedPolicy:
    return ServedPolicy(
        acting,
        load_encoder(PATH),
        which,
        temperature=temperature,
        context=512,
        new_tokens=6,
        seeded=True,
        **options,
    )


def loud(seed: int) -> Adapter:
    """An adapter that gives other answers than the base model."""
    start = initial_adapter(SPEC, seed=seed)
    return Adapter(SPEC, start.vector + 10 * (adapter(seed).vector - start.vector))


@pytest.mark.parametrize("mode", MODES)
def test_greedy_play_is_that_of_the_in_process_engine(acting: Acting, mode: str):
    games = choose_games(MAZE().tasks("train"), 5, seed=3)
    here = rollout(games, MAZE, policy(temperature=0.0), round=1, batch=8, seed=3)
    there = rollout_at_own_pace(
        games,
        MAZE,
        served(acting(mode), adapter(1)),
        round=1,
        batch=8,
        seed=3,
        in_flight=3,
        step_seconds=30,
    )
    assert there == here


@pytest.mark.parametrize("mode", MODES)
def test_log_probabilities_are_those_of_the_in_process_engine(acting: Acting, mode: str):
    one = served(acting(mode), adapter(1), log_chances=True)
    question = [Dialogue("", (), "goal 3, 4")]
    (there,) = one.act(question, seed=1)
    assert len(there.log_chances) == len(there.action_ids) > 0
    assert served(acting(mode), adapter(1)).act(question, seed=1)[0].log_chances == ()
    same = policy(1, 0.0, log_chances=True).act(question, seed=1)[0]
    assert same.action_ids == there.action_ids
    assert same.log_chances == pytest.approx(there.log_chances, abs=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_two_adapters_answer_differently_whatever_was_asked_before(acting: Acting, mode: str):
    both = [served(acting(mode), loud(seed)) for seed in (1, 2)]
    games = choose_games(MAZE().tasks("train"), 4, seed=1)
    question = [Dialogue("", (), MAZE().reset(game.task, seed=0).observation) for game in games]
    first, second = (one.act(question, seed=1) for one in both)
    assert first != second
    assert [one.act(question, seed=1) for one in both] == [first, second]


def test_equal_seeds_give_equal_replies_and_others_do_not(acting: Acting):
    one = served(acting("lora"), adapter(1), temperature=1.0)
    question = [Dialogue("", (), "goal 3, 4")] * 6
    assert one.act(question, seed=5) == one.act(question, seed=5)
    assert len({reply.action_ids for reply in one.act(question, seed=5) if reply}) > 1


def test_a_dialogue_that_fills_the_context_gets_no_reply(acting: Acting):
    one = served(acting("lora"), adapter(1))
    assert one.act([Dialogue("", (), "goal " * 600)], seed=1) == [None]


def test_a_server_that_lost_the_adapter_is_given_it_again(
    acting: Acting, server_url: str, connect: Connect
):
    adapters = acting("lora")
    one = served(adapters, adapter(1))
    question = [Dialogue("", (), "goal 3, 4")]
    before = one.act(question, seed=1)
    connect(server_url).unload_lora(one.name)
    assert one.act(question, seed=1) == before


def test_another_adapter_under_its_name_is_refused(
    server_url: str, tmp_path: Path, connect: Connect
):
    client, right, wrong = connect(server_url), adapter(31), adapter(32)
    client.load_lora(right.digest, str(export_adapter(wrong, tmp_path / "wrong")))
    one = served(LoraAdapters(client, tmp_path / "own"), right)
    with pytest.raises(RunError, match="with another adapter"):
        one.act([Dialogue("", (), "goal 3, 4")], seed=1)
    client.unload_lora(right.digest)


def test_weights_of_another_version_never_answer(server_url: str, connect: Connect):
    """Somebody else changes the weights after every look: no reply is taken for ours."""

    class Meddled(EngineClient):
        def weights_version(self) -> str:
            return adapter(1).digest

    adapters = MergedAdapters(connect(server_url, Meddled), Path(), lambda *_: None)
    connect(server_url)._send("POST", "/update_weight_version", {"new_version": "another"})
    how = Sampling(0.0, 4, load_encoder(PATH).end_id, 1)
    with pytest.raises(RunError, match="lost adapter"):
        adapters.sample(adapter(1), [1, 2, 3], how)


def test_only_the_last_adapters_stay_in_the_server(tmp_path: Path, connect: Connect):
    with small_server(tmp_path) as url:
        client = connect(url)
        adapters = LoraAdapters(client, tmp_path / "own")
        digests = [adapter(seed).digest for seed in range(4)]
        for seed in range(4):
            served(adapters, adapter(seed)).act([Dialogue("", (), "goal 3, 4")], seed=1)
        assert set(client.models()) == {"base", *digests[-KEPT:]}
        assert {f.name for f in (tmp_path / "own").iterdir()} == set(digests[-KEPT:])


def test_a_key_is_taken_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Connect
):
    with small_server(tmp_path, "--api-key", "sesame") as url:
        monkeypatch.setenv("FEDSE_ENGINE_KEY", "sesame")
        assert "base" in connect(url).models()
        monkeypatch.delenv("FEDSE_ENGINE_KEY")
        with pytest.raises(RunError, match="401"):
            connect(url).models()


def test_a_server_that_is_not_there_is_named_after_its_patience(connect: Connect):
    client = connect("http://127.0.0.1:9", patience=0.3)
    with pytest.raises(RunError, match=r"127\.0\.0\.1:9 did not answer /v1/models within 0\.3 s"):
        client.models()


def test_merged_weights_are_the_base_where_the_adapter_is_zero(tmp_path: Path):
    from safetensors.torch import load_file

    write_merged(PATH, initial_adapter(SPEC, seed=0), tmp_path / "merged")
    base, merged = (load_file(p / "model.safetensors") for p in (PATH, tmp_path / "merged"))
    assert base.keys() == merged.keys()
    assert all((base[name] == merged[name]).all() for name in base)
