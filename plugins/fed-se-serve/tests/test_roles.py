"""An agent of several roles in service: each role is answered by its block, and is on record."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.needs import needs

needs("aiohttp", "cryptography", "openai", "langgraph", "langchain_openai")

from aiohttp.test_utils import TestClient, TestServer
from test_gateway import ASKED, Kept

from fedse.adapters.peft_folder import export_adapter
from fedse.blocks import block_adapter, in_blocks
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter
from fedse_serve.engine import Engine
from fedse_serve.gateway import Gateway, make_app
from fedse_serve.instant_engine import InstantEngine
from fedse_serve.keys import read_keys
from fedse_serve.place import open_place
from fedse_serve.recorder import turn_record
from fedse_serve.registry import Registry, digest_in
from fedse_serve.roles import Blocks, block_folder
from fedse_serve.rows import NO_GUARDS, StoredTurn
from fedse_serve.serving import Served
from fedse_serve.trajectories import demonstrations_of, episodes_of

ROLES = ("planner", "critic", "worker")
SPEC = in_blocks(toy_spec(), ("planner+critic", "worker"))


@pytest.fixture
def whole() -> Adapter:
    return toy_adapter(SPEC, 1)


@pytest.fixture
def blocks(whole: Adapter, tmp_path: Path) -> Blocks:
    registry = Registry(tmp_path / "service", name="desk", clock=lambda: 0.0)
    source = export_adapter(whole, tmp_path / "exported")
    assert registry.offer_folder(source, reason="told") == whole.digest
    return Blocks(registry.folder_of)


def test_a_role_is_answered_by_its_block(whole: Adapter, blocks: Blocks) -> None:
    names = {role: blocks.name(whole.digest, role) for role in ROLES}
    assert names["planner"] == names["critic"] == block_adapter(whole, "planner+critic").digest
    assert names["worker"] == block_adapter(whole, "worker").digest
    assert sorted(blocks.names(whole.digest)) == sorted(set(names.values()))
    folder = blocks.folder(names["worker"])
    assert folder is not None
    assert digest_in(folder) == names["worker"]
    assert (folder / "adapter_config.json").is_file()
    assert blocks.name(whole.digest, "") == whole.digest


def test_an_adapter_without_blocks_answers_for_all_roles(tmp_path: Path) -> None:
    one = toy_adapter(toy_spec(), 1)
    folder = export_adapter(one, tmp_path / "exported")
    assert block_folder(folder, "planner") is None
    blocks = Blocks(lambda digest: folder)
    assert blocks.name(one.digest, "planner") == one.digest
    assert blocks.names(one.digest) == [one.digest]


def test_the_model_of_a_request_is_the_role(whole: Adapter, blocks: Blocks, tmp_path: Path) -> None:
    async def play() -> tuple[InstantEngine, Kept, list[int], dict[str, Any]]:
        engine, kept, codes = InstantEngine(), Kept(), []
        async with engine.running() as url:
            behind = Engine(url, blocks.folder, seconds=5)
            async with behind.open():
                gateway = Gateway(
                    behind,
                    kept,
                    lambda asked: Served(asked.session, "stable", whole.digest),
                    read_keys(tmp_path),
                    clock=lambda: 0.0,
                    roles=ROLES,
                    name_of=blocks.name,
                )
                async with TestClient(TestServer(make_app(gateway))) as client:
                    for role in (*ROLES, "any"):
                        said = {**ASKED, "model": role}
                        answer = await client.post("/v1/chat/completions", json=said)
                        codes.append(answer.status)
                    told = (await answer.json())["error"]
                    models = await (await client.get("/v1/models")).json()
        assert [model["id"] for model in models["data"]] == list(ROLES)
        return engine, kept, codes, told

    engine, kept, codes, told = asyncio.run(play())
    assert codes == [200, 200, 200, 404]
    assert told["code"] == "model_not_found"
    assert "planner, critic, worker" in told["message"]
    assert [name for name, _ in engine.loaded] == blocks.names(whole.digest), "once for each block"
    recorded = [turn_record(taken, "", None) for taken in kept.turns]
    assert [turn.sampling["role"] for turn in recorded] == list(ROLES)
    assert {turn.adapter for turn in recorded} == {whole.digest}


def stored(number: int, role: str, ids: tuple[int, ...], parent: int | None = None) -> StoredTurn:
    return StoredTurn(
        inference=f"turn-{number}",
        session="s",
        number=number,
        at=0.0,
        arm="stable",
        adapter="a" * 64,
        template="",
        finish="stop",
        guards=NO_GUARDS,
        prompt_tokens=1,
        sampled_tokens=1,
        parent=parent,
        redacted=False,
        learned=True,
        sampling={"role": role} if role else {},
        observation=f"asked {number}",
        reply=f"said {number}",
        given_ids=ids,
        sampled_ids=(number,),
        log_probs=(),
    )


def test_a_session_of_roles_is_one_episode_with_all_conversations() -> None:
    turns = [
        stored(1, "planner", (10,)),
        stored(2, "worker", (20,)),
        stored(3, "worker", (20,)),
        stored(4, "planner", (11,), parent=1),
        stored(5, "planner", (12,), parent=1),
    ]
    (episode,) = episodes_of(turns, task="t", success=True, round=1)
    told = [(turn.role, turn.thread, turn.action_ids[0], turn.learned) for turn in episode.turns]
    assert sorted(told, key=lambda one: one[:3]) == [
        ("planner", 0, 1, True),
        ("planner", 0, 4, True),
        ("planner", 1, 1, False),
        ("planner", 1, 5, True),
        ("worker", 0, 2, True),
        ("worker", 1, 3, True),
    ]
    assert episode.policy == "a" * 64
    assert demonstrations_of(turns, [], None, task="t", round=1) == []  # type: ignore[arg-type]


def test_a_session_without_roles_is_what_it_was() -> None:
    turns = [stored(1, "", (10,)), stored(2, "", (20,))]
    assert len(episodes_of(turns, task="t", success=True, round=1)) == 2
    assert all(
        "role" not in turn.model_dump()
        for turn in episodes_of([replace(turns[0])], task="t", success=True, round=1)[0].turns
    )


def test_an_exported_adapter_knows_its_roles(whole: Adapter, tmp_path: Path) -> None:
    tiny = Adapter(SPEC.model_copy(update={"base": "tiny"}), np.array(whole.vector))
    place = open_place(export_adapter(tiny, tmp_path / "exported"), {})
    assert place.roles == ("critic", "planner", "worker")
