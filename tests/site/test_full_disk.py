"""A site whose disk is full says so with a number that may pass, and answers when it has room."""

from pathlib import Path

import pytest

from fedse.faults import Fault
from fedse.site.socket_client import ask_site
from fedse.store import space
from fedse.types import Adapter
from tests.toys.federation import SPEC, ServeToy, first_request, toy_config
from tests.toys.small_disk import fill, free, small_disk

CONFIG = toy_config()


def test_a_request_on_a_full_disk_is_answered_after_there_is_room(
    tmp_path: Path, adapter: Adapter, serve_toy: ServeToy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(space, "SPARE_BYTES", 1 << 20)
    request = first_request(CONFIG, adapter).model_dump(mode="json")
    with small_disk(tmp_path / "alpha", 4) as disk:
        socket = serve_toy(CONFIG, "alpha")

        def answer() -> tuple[Fault, bool]:
            data = adapter.to_bytes()
            given = ask_site(
                socket, request, data, client=None, max_reply_bytes=SPEC.nbytes, timeout=20
            )
            return given.fault, given.adapter is not None

        fill(disk)
        assert answer() == (Fault.FULL_DISK, False)
        free(disk)
        first = answer()
        assert first == (Fault.NONE, True)
        fill(disk)
        assert answer() == (Fault.FULL_DISK, False)
        free(disk)
        assert answer() == first
