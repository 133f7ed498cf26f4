"""What a server does before it serves."""

import pytest

from tests.needs import needs

needs("flwr")

from fedse.flower.ops import serve_federation
from fedse.flower.ops.serve_federation import Server, serving
from fedse.store.next_round import ask_to_stop, is_to_stop
from tests.federation.scene import Scene


def test_a_stop_asked_of_an_earlier_server_is_over_and_one_asked_of_this_one_is_kept(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    run, seen = scene.federation.run, []

    def start(federation: object, server: Server) -> None:
        seen.append(is_to_stop(run))
        ask_to_stop(run)

    monkeypatch.setattr(serve_federation, "_start_superlink", start)
    monkeypatch.setattr(serve_federation, "register_enrolled", lambda *given: None)
    monkeypatch.setattr(serve_federation, "_require_ports", lambda *given, proxy: None)
    ask_to_stop(run)
    with serving(scene.federation, proxy=False):
        assert (seen, is_to_stop(run)) == ([False], True)
