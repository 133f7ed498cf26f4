"""When a worker opens its sites, and that a site that cannot be opened is told at the start."""

import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from fedse.adapters.base import base_path, spec_of
from fedse.config.file import dump_config
from fedse.config.schema import Config
from fedse.errors import MachineError
from fedse.method.site import Site
from fedse.site import worker
from fedse.site.listening import SocketAddress
from fedse.site.served import ServedSites
from fedse.site.trial import Opening, opening_as, require_opens
from fedse.testing import open_toy_site
from fedse.types import Clock
from tests.needs import needs
from tests.toys.federation import toy_config

CONFIG = toy_config()


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_worker_that_opens_later_tries_it_with_its_own_arguments():
    given = ["config.toml", "--client", "north", "--open", "later"]
    assert opening_as("now", given) == Opening()
    assert opening_as("only", given) == Opening(only=True)
    trial = opening_as("later", given).trial
    assert list(trial[-7:]) == [*given, "--open", "only"]
    read = worker._arguments([*trial[4:], "--socket", "s", "--home", "h"])
    assert (read.open, read.client) == ("only", ["north"])


def test_the_trial_ends_as_the_worker_would_have():
    require_opens(python(""))
    with pytest.raises(SystemExit) as end:
        require_opens(python("raise SystemExit(5)"))
    assert end.value.code == 5


def test_a_trial_that_is_killed_is_named():
    with pytest.raises(MachineError, match="ended by SIGKILL") as killed:
        require_opens(python("import os; os.kill(os.getpid(), 9)"))
    assert "memory" in killed.value.hint


HANGS = """
import faulthandler, os, signal, time
faulthandler.register(signal.SIGUSR1)
os.kill(os.getppid(), signal.SIGUSR1)
time.sleep(1)
"""
ASKED = f"""
import os, signal, sys
from fedse.site.trial import require_opens, tell_where
tell_where()
require_opens([sys.executable, "-c", {HANGS!r}])
os.kill(os.getpid(), signal.SIGUSR1)
"""


def test_whoever_asks_the_worker_where_it_is_hears_it_of_the_trial():
    """As the watchdog asks, before it kills one that hangs; afterwards it is told as before."""
    done = subprocess.run(python(ASKED), capture_output=True, text=True, check=True)
    traces = done.stderr.split("most recent call first")[1:]
    assert len(traces) == 2
    assert "line 6 in <module>" in traces[1]


@pytest.mark.federated
@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_told_at_the_start(tmp_path: Path):
    """Also by a worker that loads it later."""
    needs("torch")
    base = tmp_path / "base"
    shutil.copytree(base_path("tiny"), base)
    (base / "tokenizer.json").write_text("{")
    model = toy_config().model.model_copy(update={"base": str(base)})
    config = toy_config().model_copy(update={"model": model})
    (tmp_path / "config.toml").write_text(dump_config(config))
    where = ["--client", "alpha", "--socket", str(tmp_path / "s"), "--home", str(tmp_path / "home")]
    command = [sys.executable, "-m", "fedse.site.worker", str(tmp_path / "config.toml"), *where]
    done = subprocess.run(
        [*command, "--open", "later"], capture_output=True, text=True, check=False
    )
    assert done.returncode == MachineError.exit_code
    assert "error: tokenizer of the base model" in done.stderr
    assert done.stderr.count("error: ") == 1


def begun(monkeypatch: pytest.MonkeyPatch, home: Path, opening: Opening) -> list[bool]:
    """Whether a site was open each time its worker began to listen."""
    opened: list[str] = []

    def open_one(config: Config, name: str, own: Path, *, clock: Clock, **more: object) -> Site:
        opened.append(name)
        return open_toy_site(config, name, own, clock=clock)

    began: list[bool] = []
    monkeypatch.setattr(worker, "open_site", open_one)
    monkeypatch.setattr(worker, "listen", lambda address: nullcontext())
    monkeypatch.setattr(worker, "serve_forever", lambda *given: began.append(bool(opened)))
    monkeypatch.setattr(signal, "signal", lambda number, handler: signal.SIG_DFL)
    worker.run_worker(CONFIG, ["alpha"], SocketAddress(home / "s"), home, opening=opening)
    return began


def test_when_a_worker_opens_its_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fine = [sys.executable, "-c", ""]
    assert begun(monkeypatch, tmp_path / "now", Opening()) == [True]
    assert begun(monkeypatch, tmp_path / "later", Opening(fine)) == [False]
    assert begun(monkeypatch, tmp_path / "only", Opening(only=True)) == []


def test_a_site_is_not_opened_to_know_how_long_a_message_may_be():
    def refuse(name: str) -> Site:
        raise AssertionError("opened")

    frame = b'{"request": {"kind": "train"}}'
    sites = ServedSites(CONFIG, ["alpha"], refuse, spec_in=spec_of)
    assert worker.largest_body(frame, sites) > spec_of(CONFIG).nbytes // 2
