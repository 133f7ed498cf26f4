"""A name inside Flower is replaced where Flower looks it up, or not at all."""

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.needs import needs

needs("flwr")

from fedse.errors import MachineError
from fedse.flower.patches.replace import replace

HANDLERS = "def push(): return 'plain'"
BY_MODULE = """
import handlers
def route():
    def inner(): return handlers.push()
    return inner()
"""
BY_COPY = "from handlers import push\ndef route(): return push()"
BY_ANOTHER = "import handlers\ndef route(): return handlers.other()"


@pytest.fixture
def flower(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable[[], str]]:
    """A Flower whose router is written as given; its only route."""

    def made(router: str) -> Callable[[], str]:
        for name, text in (("handlers", HANDLERS), ("router", router)):
            module = ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
            exec(text, vars(module))
        return sys.modules["router"].route

    return made


def guard(push: Callable[[], str]) -> Callable[[], str]:
    return lambda: f"guarded {push()}"


def test_what_is_proven_is_called(flower):
    route = flower(BY_MODULE)
    replace("handlers:push", guard, "router:route")
    assert route() == "guarded plain"


@pytest.mark.parametrize("router", [BY_COPY, BY_ANOTHER])
def test_a_flower_that_would_not_come_past_it_is_refused(flower, router: str):
    flower(router)
    with pytest.raises(MachineError, match="router:route would not come past handlers:push") as e:
        replace("handlers:push", guard, "router:route")
    assert e.value.hint == "pip install 'fed-se[flower]'"


@pytest.mark.parametrize("place", ["handlers:pull", "handlers:Class.push", "no_such_module:push"])
def test_a_flower_without_it_is_refused(flower, place: str):
    flower(BY_MODULE)
    with pytest.raises(MachineError, match=f"Flower has no {place}"):
        replace(place, guard, "router:route")


ALL = """
import time
from pathlib import Path
from fedse.flower.patches import bundle_guard, presence, runtime_socket
from fedse.flower.patches.line_watch import LineWatch
from fedse.flower.patches.unanswered import AnswerWatch
presence.remember(Path("node.id"))
presence.hasten_heartbeats()
LineWatch(Path("line"), clock=time.monotonic).follow()
AnswerWatch(time.monotonic).follow()
bundle_guard.guard_reading()
runtime_socket.serve_at(Path("node.sock"))
runtime_socket.ask_at(Path("node.sock"))
"""


def test_every_patch_of_a_supernode_is_called_by_this_flower():
    subprocess.run([sys.executable, "-c", ALL], check=True)
