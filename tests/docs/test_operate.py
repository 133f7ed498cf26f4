"""What docs/how-to/operate.md says: its commands run; the events it links to have these fields."""

import json
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli.app import start
from fedse.drivers.run import run_local
from fedse.federation.folder import open_federation
from fedse.ledger.writing import Ledger
from fedse.store.run import Run
from fedse.testing import open_toy_site
from tests.federation.rounds_without_sites import run_all_rounds
from tests.invariants.test_logs import SPEC, toy
from tests.packaging.shipped import PACKAGING, unknown_options

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "how-to" / "operate.md").read_text()
EVENTS = (ROOT / "docs" / "reference" / "events.md").read_text()
LINES = [
    line
    for block in re.findall(r"```bash\n(.*?)```", GUIDE, flags=re.DOTALL)
    for line in block.splitlines()
]
HERE = {"age-keygen", "fedse", "jq", "openssl"}
"""Run as they are written; the others need root or a federation that serves for ever."""
AS_ROOT = {"useradd", "install", "runuser", "cp", "systemctl", "journalctl", "curl"}
DAMAGED = {"mv", "sqlite3"}
"""Run on a damaged file by tests/invariants/test_damage.py."""
SERVES = "fedse federation start "
EXPERIMENT = """
[run]
name = "clinics"
rounds = 4
[[clients]]
name = "north"
env = "maze"
[[clients]]
name = "south"
env = "maze"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A federation after four rounds, in three of which the reply of north was cut off."""
    monkeypatch.chdir(tmp_path)
    Path("clinics.toml").write_text(EXPERIMENT)
    assert start(["federation", "create", "clinics.toml", "--host", "localhost"]) == 0
    assert start(["federation", "invite", "north"]) == 0
    federation = open_federation(Path("federation"))
    heard = ["--fingerprint", federation.card.fingerprint]
    own = ["--home", "north", "--env", "maze", "--option", "prompt=short"]
    assert start(["site", "join", "federation/invites/north.invite.json", *own, *heard]) == 0
    assert start(["federation", "enrol", "north/enrolment.json"]) == 0
    run_all_rounds(federation, broken="north")
    Ledger(Path("north"), role="client", name="north", clock=time.time)
    return tmp_path


def test_every_line_is_run_or_checked():
    assert {shlex.split(line)[0] for line in LINES} == HERE | AS_ROOT | DAMAGED


def test_the_guide_runs(folder: Path, capsys: pytest.CaptureFixture[str]):
    needs("age", "jq", "openssl")
    told = {}
    for line in LINES:
        words = shlex.split(line)
        if words[0] not in HERE or line.startswith(SERVES):
            continue
        if words[0] == "fedse":
            capsys.readouterr()
            assert start(words[1:]) == 0, line
            told[line] = capsys.readouterr().out
        else:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (line, done.stderr)
            told[line] = done.stdout
    before, restored = (out for line, out in told.items() if " federation status " in line)
    assert before == restored
    assert re.search(r"north +enrolled +excluded: quarantined: its replies of 3 rounds", before)
    (asked,) = (out for line, out in told.items() if line.startswith("jq"))
    faults = [json.loads(said)["fault"].partition(":")[0] for said in asked.splitlines()]
    assert faults == ["rejected"] * 3 + ["quarantined"]
    assert open_federation(Path("federation")).sites.members["north"].state == "revoked"


def test_what_needs_root_names_real_units_verbs_and_addresses(capsys: pytest.CaptureFixture[str]):
    units = {unit.name: unit.read_text() for unit in (PACKAGING / "systemd").iterdir()}
    copied = {words[1] for words in map(shlex.split, LINES) if words[0] == "cp"}
    assert copied == {f"packaging/systemd/{name}" for name in units}
    for line in LINES:
        words = shlex.split(line)
        if words[0] == "systemctl":
            assert f"{words[-1].replace('north', '')}.service" in units
        if words[0] == "runuser" or line.startswith(SERVES):
            program = words.index("fedse" if words[0] == "fedse" else "/opt/fedse/bin/fedse")
            assert unknown_options(words[program + 1 :], capsys) == set(), line
        if words[0] == "curl":
            address = re.search(r"http://([^/]+)/health", line)[1]
            assert f"--metrics {address}" in units["fedse-federation.service"]
    homes = {"fedse-federation.service": "/federation", "fedse-site@.service": "/north"}
    for name, text in units.items():
        home = re.search(r"--(?:dir|home) (\S+)", text)[1]
        real = home.replace("%S", "/var/lib").replace("%i", "north")
        assert real.endswith(homes[name])
        assert real in GUIDE


def fields_told(column: str) -> dict[str, set[str]]:
    """Rows of the table of which `column` is the head: event -> fields."""
    head = f"| {column} | emitted when | fields |\n| --- | --- | --- |\n"
    told = {}
    for row in EVENTS.partition(head)[2].partition("\n\n")[0].splitlines():
        event, _, fields = row.strip("| ").split(" | ")
        told[event.strip("`")] = set(fields.split(", "))
    return told


# These need a refusal, a failure or a signal. Their fields are on the page because the calls in the
# code have them; tests/docs/test_reference.py makes the page again.
RARE = {
    "agreement.proposed",
    "alarm.raised",
    "answer.abstained",
    "answer.excluded",
    "answer.joined",
    "answer.late",
    "gate.played",
    "loop.failed",
    "personal.started",
    "region.refused",
    "region.summed",
    "region.told",
    "regions.summed",
    "round.waiting",
    "run.failed",
    "run.interrupted",
    "run.resumed",
    "run.stopped",
    "site.alarm",
    "site.paused",
    "site.spent",
    "site.vetoed",
    "site.withheld",
    "sum.refused",
    "sum.stage",
    "engine.ended",
}


def test_the_tables_are_the_fields_of_a_real_run(tmp_path: Path):
    run_local(Run(tmp_path, toy(), SPEC, clock=time.time), open_site=open_toy_site)
    real: dict[str, set[str]] = {}
    for line in (tmp_path / "events.jsonl").read_text().splitlines():
        entry = json.loads(line)
        real.setdefault(entry["event"], set(entry) - {"event", "time"})
    told = fields_told("coordinator's event") | fields_told("site's event")
    assert set(told) - set(real) == RARE
    assert {name: told[name] for name in real} == real


def test_metrics_that_are_named_exist():
    needs("prometheus_client")
    import prometheus_client as prometheus

    from fedse.observers.prometheus import metrics_observer

    registry = prometheus.CollectorRegistry()
    metrics_observer(registry)
    real = {name for family in registry.collect() for name in (family.name, f"{family.name}_total")}
    assert set(re.findall(r"`(fedse_\w+)`", GUIDE)) <= real
