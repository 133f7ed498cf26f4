"""docs/tutorials/five-sites.md is run as it is written; the run and the ledgers tell what came."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs

needs("flwr", "torch", "jinja2", "nginx", "jq", "pgrep")

from fedse.committed import RoundResult
from fedse.ledger.verifying import verify_ledger
from fedse.ports import free_ports
from fedse.store.run import Run
from fedse.store.run_folder import open_run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorials" / "five-sites.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
STEADY, KILLED, HOSTILE = ("east", "north", "west"), "south", "rogue"
ROUNDS, STRIKES = 16, 3
# Nine minutes on two free cores; this only ends what hangs.
SECONDS = 1800
MARK = "FEDSE_TUTORIAL"
END_ALL = "trap 'kill $(jobs -pr) 2> /dev/null || true; wait' EXIT\n"


def environment(mark: str) -> dict[str, str]:
    """That of a reader with an activated virtual environment; `mark` tells who was started here."""
    port, link = map(str, free_ports(2))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PATH": path, "PORT": port, "LINK_PORT": link, "REPOSITORY": str(ROOT), MARK: mark}
    return {**os.environ, **own}


def marked(mark: str) -> Iterator[int]:
    """Processes that were started with `mark` in their environment and have not ended."""
    for folder in Path("/proc").glob("[0-9]*"):
        # It may end while it is looked at.
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def follow(folder: Path, script: str) -> None:
    """The script ended well, in `folder`; nothing that it started runs any more."""
    mark, output = str(folder), folder / "output.txt"
    command = ["bash", "-euo", "pipefail", "-c", END_ALL + script]
    try:
        with output.open("wb") as said:
            done = subprocess.run(
                command, cwd=folder, env=environment(mark), stdout=said, stderr=said,
                stdin=subprocess.DEVNULL, timeout=SECONDS,
            )  # fmt: skip
        assert done.returncode == 0, output.read_text()[-4000:]
        assert list(marked(mark)) == []
    finally:
        for process in marked(mark):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
def test_the_tutorial_runs(tmp_path: Path):
    follow(tmp_path, "".join(BLOCKS))
    place = tmp_path / "five-sites"
    with closing(open_run(place / "federation" / "run", clock=time.time)) as run:
        results = list(run.results())
        assert [result.index for result in results] == list(range(1, ROUNDS + 1))
        the_hostile_site_never_counts(results)
        the_killed_site_comes_back(results)
        the_adapter_has_moved(run)
    for result in results:
        assert set(STEADY) <= set(result.voters)
    for owner in ("federation/run", *STEADY, KILLED):
        verdict = verify_ledger(place / owner / "ledger.jsonl")
        assert verdict.finding is None, owner
        assert verdict.compared, owner


def test_the_wait_ends_with_a_site_that_ended(tmp_path: Path):
    (wait,) = (block.partition("\nwait_for")[0] for block in BLOCKS if "wait_for()" in block)
    ended = 'false & RUNNING=$! COORDINATOR=$$ SOUTH=; wait "$RUNNING" || echo why > east.log\n'
    lines = ["fedse() { echo '{\"round\": 0}'; }", wait, ended, "wait_for '.round >= 3'"]
    script = ["bash", "-c", "\n".join(lines)]
    found = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (1, "why\n")


def the_hostile_site_never_counts(results: list[RoundResult]) -> None:
    """Named as rejected in as many rounds as it has strikes, in quarantine in all others."""
    assert not any(HOSTILE in (*r.voters, *r.abstained, *r.absent) for r in results)
    reasons = [e.text for r in results for e in r.excluded if e.client == HOSTILE]
    opening = [reason.partition(":")[0] for reason in reasons]
    assert opening == ["rejected"] * STRIKES + ["quarantined"] * (ROUNDS - STRIKES)
    assert len(set(reasons[:STRIKES])) == STRIKES, "each poison is found by what it is"


def the_killed_site_comes_back(results: list[RoundResult]) -> None:
    voted = [KILLED in result.voters for result in results]
    assert voted[0]
    assert False in voted
    assert True in voted[voted.index(False) :]
    away = [e.text for r in results for e in r.excluded if e.client == KILLED]
    assert not any(reason.startswith(("rejected", "quarantined")) for reason in away)


def the_adapter_has_moved(run: Run) -> None:
    first, last = run.adapter(0), run.adapter(ROUNDS)
    assert np.isfinite(last.vector).all()
    assert first.digest != last.digest
    assert set(run.evals(ROUNDS)) == {*STEADY, KILLED}
