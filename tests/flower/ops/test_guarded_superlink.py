"""A SuperLink serves with its door closed to what must not come in, or it does not serve."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

import uvicorn

from fedse.errors import MachineError
from fedse.federation.heard import read_heard
from fedse.flower.ops import guarded_superlink
from fedse.flower.ops.guarded_superlink import OTHER_WAY_IN, HeardNodes, guarded_app, main
from fedse.flower.patches.door import Door


class Start:
    """A SuperLink that is started and serves nobody."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.served, self.heard = folder, list[Any](), list[HeardNodes]()
        self.starts = True

        def run(server: uvicorn.Server) -> None:
            server.started = self.starts
            self.served.append(server.config.app)

        monkeypatch.setattr(uvicorn.Server, "run", run)
        monkeypatch.setattr(HeardNodes, "keep_writing", lambda heard: self.heard.append(heard))
        monkeypatch.setattr("sys.argv", [])
        monkeypatch.setenv(OTHER_WAY_IN, "1")

    def __call__(self) -> None:
        ours = ["--adapter-bytes", "100", "--offences", str(self.folder / "offences.jsonl")]
        ours += ["--heard", str(self.folder / "heard.json")]
        main([*ours, "--insecure", "--isolation", "process"])


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    return Start(tmp_path, monkeypatch)


def test_this_flower_serves_with_a_door_that_is_proven_without_a_trace(start: Start):
    start()
    (app,), (heard,) = start.served, start.heard
    assert app.user_middleware[-1].cls is Door
    assert app.state.linkstate_factory is app.state.runtime_state_factory
    assert OTHER_WAY_IN not in os.environ
    heard.write()
    assert read_heard(start.folder / "heard.json") == {}
    assert not (start.folder / "offences.jsonl").exists()


def test_a_server_that_could_not_start_says_so_to_who_started_it(start: Start):
    start.starts = False
    with pytest.raises(SystemExit, match="1"):
        start()


def without(app: Any) -> None:
    app.user_middleware.pop()


def before_the_signature(app: Any) -> None:
    names = [one.cls.__name__ for one in app.user_middleware]
    app.user_middleware.insert(names.index("NodeAuthMiddleware"), app.user_middleware.pop())


def before_it_is_read(app: Any) -> None:
    app.user_middleware.insert(0, app.user_middleware.pop())


def deaf(app: Any) -> None:
    app.user_middleware[-1].args[1].note = lambda *heard: None


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (without, r"\(200, 401, 500, "),
        (before_the_signature, r"\(200, 400, 400, 400\)"),
        (before_it_is_read, r"\(200, 500, 500, 500\)"),
        (deaf, r"\(200, 401, 400, 400\)"),
    ],
)
def test_a_flower_whose_door_is_elsewhere_is_not_served(
    start: Start, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None], found: str
):
    def changed(*given: Any) -> Any:
        app = guarded_app(*given)
        change(app)
        return app

    monkeypatch.setattr(guarded_superlink, "guarded_app", changed)
    with pytest.raises(MachineError, match=f"does not hold.*answered with {found}") as refused:
        start()
    assert refused.value.hint == "pip install 'fed-se[flower]'"
    assert (start.served, start.heard) == ([], [])
