"""A served agent of several roles: each block is an adapter of its own there, all at once."""

from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs

needs("torch", "uvicorn", "httpx")

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.agent.policy import Dialogue
from fedse.agent.tokens import load_encoder
from fedse.blocks import block_adapter, with_blocks
from fedse.config.file import parse_config
from fedse.config.schema import Config
from fedse.site.acting import engine_of
from fedse.types import Adapter
from tests.engine.conftest import Connect, small_server

ROLES = ("critic", "planner", "worker")
PATH = base_path("tiny")
SETTINGS = """
[run]
name = "roles"
[roles]
names = ["critic", "planner", "worker"]
policy = "isolated"
[rollout]
context = 512
new_tokens = 6
[[clients]]
name = "a"
env = "maze"
"""
ASKED = [Dialogue("", (), "goal 3, 4", role=role) for role in ROLES]


def config(engine: str = "") -> Config:
    return parse_config(f"{SETTINGS}[engine]\n{engine}", "roles")


def whole(first: int) -> Adapter:
    """Every block moves in a way of its own."""
    start = initial_adapter(spec_of(config()), seed=first)
    moved = {}
    for place, role in enumerate(ROLES):
        own = block_adapter(start, role).vector
        step = np.random.default_rng(first + place).standard_normal(own.size)
        moved[role] = (own + 0.1 * step).astype(np.float32)
    return with_blocks(start, moved)


@pytest.mark.slow
def test_every_role_is_answered_by_its_block_and_all_stay_loaded(
    tmp_path: Path, connect: Connect
) -> None:
    encoder = load_encoder(PATH)
    here = engine_of(config()).policies(PATH, spec_of(config()), encoder, tmp_path / "here")
    with small_server(tmp_path) as url:
        served = config(f'type = "vllm"\nurl = "{url}"')
        there = engine_of(served).policies(PATH, spec_of(served), encoder, tmp_path / "there")
        for given in (whole(1), whole(5)):
            replies = there(given, 0.0).act(ASKED, seed=1)
            assert replies == here(given, 0.0).act(ASKED, seed=1)
            assert len({reply.text for reply in replies if reply}) > 1
        blocks = {block_adapter(one, role).digest for one in (whole(1), whole(5)) for role in ROLES}
        assert set(connect(url).models()) == {"base", *blocks}
