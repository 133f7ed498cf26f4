"""The function on the page plays as it says, and the client on the page is one."""

import re
from pathlib import Path
from typing import Any

from tests.needs import needs

needs("openai", "starlette", "uvicorn", "jsonschema", "transformers")

from loopback import Spelling, endpoint
from test_tools import tiny_encoder

from fedse.config.file import parse_config

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "bring-your-agent.md").read_text()


def block(kind: str) -> str:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, flags=re.M | re.S)[0]


def test_the_function_on_the_page_plays():
    names: dict[str, Any] = {}
    exec(block("python"), names)
    encoder, said = tiny_encoder(), block("text")
    with endpoint(Spelling(encoder, said, "no"), encoder=encoder) as running:
        assert names["play"](running.open()["base_url"], "train-1") == 1.0
        assert names["play"](running.open()["base_url"], "train-2") == 0.0


def test_the_client_on_the_page_is_one():
    (client,) = parse_config(block("toml"), "page").clients
    assert (client.env, client.options["play"]) == ("program", "my_agent:play")
