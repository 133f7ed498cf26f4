"""Setting the machine's clock changes dates and nothing else: no duration, no deadline, no vote."""

import ast
import json
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fedse.drivers.run import run_local
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from tests.toys.federation import toy_config

PACKAGE = Path(__file__).parents[2] / "fedse"
# Who may ask for the date, each with what it dates.
DATES = {
    "api/auditing.py": "the ledger",
    "api/measuring.py": "events",
    "cli/agreement.py": "amendments, security events, the ledger",
    "cli/approvals.py": "security events, the ledger",
    "cli/backup.py": "security events",
    "cli/coordinator_keys.py": "certificates, the ledger",
    "cli/forget.py": "the ledger",
    "cli/export.py": "the run it opens, the export",
    "cli/federation.py": "invitations, certificates, the ledger",
    "cli/federation_create.py": "invitations, certificates, the ledger",
    "cli/federation_status.py": "the status",
    "cli/federation_view.py": "the status, the run it opens",
    "cli/gc.py": "the run it opens",
    "cli/ledger.py": "security events",
    "cli/privacy_report.py": "the report",
    "cli/report.py": "the report",
    "cli/site.py": "invitations, the ledger",
    "drivers/local.py": "events, the ledger",
    "drivers/run.py": "events, the ledger",
    "federation/keys.py": "certificates",
    "flower/ops/resubmit.py": "events",
    "flower/ops/serve_federation.py": "warnings about certificates",
    "flower/ops/serve_site.py": "warnings about certificates",
    "flower/ops/serve_region.py": "security events",
    "flower/ops/guarded_superlink.py": "when a site was heard",
    "flower/patches/quick_heartbeats.py": "how old a signature is",
    "flower/server/above.py": "events, the ledger",
    "flower/server_app.py": "events, the ledger",
    "fedse_reproduce/jobs.py": "events, the run's name",
    "fedse_agents/endpoint.py": "what a chat client is told",
    "fedse_serve/command.py": "records, the ledger, the page",
    "fedse_serve/harvest.py": "which labels are there",
    "fedse_serve/own_engine.py": "what a chat client is told",
    "live/shops.py": "where simulated days begin",
    "site/worker.py": "the ledger",
    "store/run_folder.py": "the run's name and events",
}
WALL = {("time", "time"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}


def asks_the_date(file: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in WALL
        for node in ast.walk(ast.parse(file.read_text()))
    )


def test_only_those_ask_for_the_date_that_date_something():
    found = {str(f.relative_to(PACKAGE)) for f in PACKAGE.rglob("*.py") if asks_the_date(f)}
    beside = PACKAGE.parent / "plugins"
    found |= {
        f.parent.name + "/" + f.name for f in beside.glob("*/fedse_*/**/*.py") if asks_the_date(f)
    }
    assert found == set(DATES)


class Jumping:
    """A clock that is set back by a day, then forward by a year, every time it is asked."""

    def __init__(self) -> None:
        self.now, self._back = time.time(), False

    def __call__(self) -> float:
        self._back = not self._back
        self.now += -86400.0 if self._back else 365 * 86400.0
        return self.now


@pytest.mark.parametrize("jumping", [False, True], ids=["steady", "jumping"])
def test_a_run_under_a_jumping_clock_is_the_same_run(tmp_path: Path, jumping: bool):
    clock = Jumping() if jumping else time.time
    began = time.monotonic()
    with closing(Run(tmp_path / "run", toy_config(), toy_spec(), clock=clock)) as run:
        adapter = run_local(run, clock=clock, open_site=open_toy_site)
        results = list(run.results())
    took = time.monotonic() - began
    for result in results:
        assert 0 <= result.seconds <= took
        for stats in result.stats.values():
            assert 0 <= stats.rollout_seconds + stats.train_seconds <= took
    for ledger in ledgers_in(run.path):
        assert verify_ledger(ledger).finding is None
    events = (run.path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in events][-1] == "run.finished"
    assert adapter.digest == expected()


@cache
def expected() -> str:
    """The adapter of the same experiment, when nobody asks for the time."""
    with (
        TemporaryDirectory() as folder,
        closing(Run(Path(folder) / "run", toy_config(), toy_spec(), clock=lambda: 0.0)) as run,
    ):
        return run_local(run, clock=lambda: 0.0, open_site=open_toy_site).digest
