"""Every block of the page runs, on an engine that always says the same."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.needs import needs

needs("openai", "aiohttp", "transformers", "jinja2", "stdnum")

from test_service import adapter_of

from fedse.adapters.peft_folder import export_adapter
from fedse.cli.app import start
from fedse.config.file import parse_config
from fedse.ports import free_ports
from fedse_serve.settings import read_settings

PAGE = (Path(__file__).parents[3] / "docs/how-to/put-your-agent-in-service.md").read_text()
UP_SECONDS = 60.0

pytestmark = pytest.mark.slow


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, flags=re.M | re.S)


@contextmanager
def server(command: list[str], health: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", *command])
    try:
        end = time.monotonic() + UP_SECONDS
        while not _answers(health):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def test_the_page_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("my-adapter", "other-adapter")):
        export_adapter(adapter_of(number), Path(name))
    ports = dict(zip(("8000", "8080"), map(str, free_ports(2)), strict=True))

    def here(text: str) -> str:
        return re.sub("8000|8080", lambda found: ports[found[0]], text)

    (Path("my-adapter") / "service").mkdir()
    settings = Path("my-adapter/service/site.toml")
    settings.write_text(here("".join(blocks("toml")[:2])))
    lines = [here(line) for block in blocks("bash") for line in block.splitlines()]
    install, engine, serve, *others = lines
    assert install == "pip install fed-se-serve"
    told = f"http://127.0.0.1:{ports['8080']}"
    with (
        server(shlex.split(engine)[2:], f"http://127.0.0.1:{ports['8000']}/health"),
        server(shlex.split(serve), f"{told}/health"),
    ):
        for block in blocks("python"):
            exec(here(block), {})
        for line in others:
            assert start(shlex.split(line)[1:]) == 0, line
    shown = capsys.readouterr().out
    assert "Your order is on its way." in shown
    assert "forgotten: 1 sessions, 1 turns, 1 reports" in shown
    assert "base model, pinned" in shown
    assert "<h1>" in Path("service.html").read_text()


def test_the_settings_and_the_client_on_the_page_are_some(tmp_path: Path) -> None:
    *service, client = blocks("toml")
    file = tmp_path / "site.toml"
    file.write_text("".join(service))
    settings: Any = read_settings(file)
    assert settings.metrics["solved"].wait_days == 3
    assert settings.verifiers["closed"].command[0] == "python"
    assert parse_config(client, "page").clients[0].env == "service"
