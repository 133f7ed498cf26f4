"""Two commands that change the list of sites at the same time: neither undoes the other."""

import threading
from collections.abc import Callable
from functools import partial

import pytest

from fedse.federation import folder, renewal
from fedse.federation.enrolment import Enrolment, write_list
from fedse.federation.rotation import begin_rotation, read_either
from tests.federation.scene import NOW, Scene

# Long enough for the other command to end, if nothing makes it wait.
MOMENT = 0.5


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], threading.Thread]:
    """Runs another command between the reading and the writing of the next one."""

    def run(other: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=other)

        def write(*given: object) -> None:
            if not thread.ident:
                thread.start()
                thread.join(MOMENT)
            write_list(*given)  # type: ignore[arg-type]

        for module in (folder, renewal):
            monkeypatch.setattr(module, "write_list", write)
        return thread

    return run


def states(scene: Scene) -> dict[str, str]:
    list_: Enrolment = scene.federation.sites
    return {name: member.state for name, member in list_.members.items()}


def test_a_revocation_outlives_an_enrolment_at_the_same_time(scene: Scene, between):
    request = scene.request(scene.join())
    other = between(partial(folder.revoke, scene.federation, "beta"))
    scene.enrol(request)
    other.join()
    assert states(scene) == {"alpha": "enrolled", "beta": "revoked"}


def test_a_revocation_outlives_an_invitation_at_the_same_time(scene: Scene, between):
    other = between(partial(folder.revoke, scene.federation, "beta"))
    folder.invite(scene.federation, "alpha", nonce="0" * 16, now=NOW, hours=1)
    other.join()
    assert states(scene) == {"alpha": "invited", "beta": "revoked"}


def test_a_revocation_outlives_a_rotation_at_the_same_time(scene: Scene, between):
    home = scene.join()
    scene.enrol(scene.request(home))
    rotation = read_either(begin_rotation(home))
    other = between(partial(folder.revoke, scene.federation, "alpha"))
    renewal.rotate(scene.federation, rotation)
    other.join()
    alpha = scene.federation.sites.members["alpha"]
    assert alpha.state == "revoked"
    assert alpha.former_keys == (rotation.old_key, rotation.new_key)


def test_an_enrolment_outlives_a_revocation_at_the_same_time(scene: Scene, between):
    request = scene.request(scene.join())
    other = between(partial(scene.enrol, request))
    folder.revoke(scene.federation, "beta")
    other.join()
    assert states(scene) == {"alpha": "enrolled", "beta": "revoked"}
