"""What libraries print while clients work is in the run's folder; the screen stays as it is."""

import os
import sys
import time
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from fedse.config.schema import ClientSection, Config
from fedse.drivers.run import run_local
from fedse.drivers.worker_log import LOG, warnings_to
from fedse.envs.base import Step
from fedse.errors import RunError
from fedse.store.run import Run
from fedse.testing import CoinWorld, open_toy_site, toy_spec

OTHER_PACKAGE = "/somewhere/other/package.py"


class Noisy(CoinWorld):
    """Prints as libraries do: through Python, and as C code does."""

    def step(self, action: str) -> Step:
        # A line at once: two workers write into one file.
        sys.stdout.write("to stdout\n")
        sys.stderr.write("to stderr\n")
        os.write(2, b"from C\n")
        return super().step(action)


class Dying(CoinWorld):
    """Takes its process with it, as one that runs out of memory does."""

    def step(self, action: str) -> Step:
        os.write(2, b"last words\n")
        os._exit(9)


def run_of(path: Path, world: type[CoinWorld]) -> Run:
    env = f"tests.drivers.test_worker_log:{world.__name__}"
    sections = {"run": {"rounds": 1, "workers": 2}, "rollout": {"episodes": 2}}
    clients = tuple(ClientSection(name=name, env=env) for name in "ab")
    config = Config.model_validate({**sections, "eval": {"episodes": 2}, "clients": clients})
    return Run(path, config, toy_spec(), clock=time.time)


def test_workers_print_into_a_file_and_not_on_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    with closing(run_of(tmp_path, Noisy)) as run:
        run_local(run, open_site=open_toy_site)
    assert capfd.readouterr() == ("", "")
    printed = set((tmp_path / LOG).read_text().splitlines())
    assert printed == {"to stdout", "to stderr", "from C"}


def test_the_error_names_the_file_of_a_worker_that_died(tmp_path: Path):
    with (
        closing(run_of(tmp_path, Dying)) as run,
        pytest.raises(RunError, match="ended unexpectedly") as caught,
    ):
        run_local(run, open_site=open_toy_site)
    assert str(tmp_path / LOG) in str(caught.value)
    assert "last words" in (tmp_path / LOG).read_text()


def test_a_warning_of_another_package_is_in_the_file_and_our_own_is_shown(tmp_path: Path):
    ours = str(Path(toy_spec.__code__.co_filename))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with warnings_to(tmp_path / LOG):
            warnings.warn_explicit("is deprecated", FutureWarning, OTHER_PACKAGE, 7)
            warnings.warn_explicit("the tracker failed", UserWarning, ours, 8)
        warnings.warn_explicit("afterwards", FutureWarning, OTHER_PACKAGE, 9)
    assert "FutureWarning: is deprecated" in (tmp_path / LOG).read_text()
    assert "the tracker failed" not in (tmp_path / LOG).read_text()
    assert [str(one.message) for one in shown] == ["the tracker failed", "afterwards"]
