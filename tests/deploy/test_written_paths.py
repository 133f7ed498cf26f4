"""fedse writes below the folder it is given and the temporary one, nowhere else: a volume each."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.deploy.rendered import ROOT
from tests.needs import needs

needs("flwr")

from fedse.federation.folder import open_federation

# Runs commands and prints every path that Python was asked to write, make, move or remove.
RECORDER = """
import json, os, sys
written = set()
def note(event, given):
    if event == "open" and isinstance(given[0], (str, bytes)):
        if given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.add(os.fsdecode(given[0]))
    # A name beside an open folder (the last argument) belongs to a folder that was made before.
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir") and given[-1] == -1:
        written.add(os.fsdecode(given[0]))
    elif event == "sqlite3.connect":
        written.add(os.fsdecode(given[0]).removeprefix("file:").partition("?")[0])
sys.addaudithook(note)
from fedse.cli.app import start
codes = [start(words) for words in json.loads(sys.argv[1])]
print(json.dumps({"codes": codes, "written": sorted(map(os.path.abspath, written))}))
"""
EXPERIMENT = '[run]\nname = "a"\nrounds = 1\n[[clients]]\nname = "north"\nenv = "maze"\n'


def recorded(folder: Path, *commands: list[str]) -> list[str]:
    """What the commands wrote in a process of their own, all of which succeeded."""
    env = {**os.environ, "HOME": str(folder / "tmp"), "TMPDIR": str(folder / "tmp")}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", RECORDER, json.dumps(commands)],
        cwd=folder / "elsewhere",
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found["codes"]) == {0}, done.stderr
    written: list[str] = found["written"]
    return written


def test_everything_is_below_the_data_or_the_temporary_folder(tmp_path: Path):
    for name in ("data", "tmp", "elsewhere"):
        (tmp_path / name).mkdir()
    experiment = tmp_path / "elsewhere" / "a.toml"
    experiment.write_text(EXPERIMENT)
    federation, site = (str(tmp_path / "data" / name) for name in ("federation", "site"))
    where, home = ["--dir", federation], ["--home", site]
    made = ["federation", "create", str(experiment), "--out", federation, "--host", "localhost"]
    written = recorded(tmp_path, made, ["federation", "invite", "north", *where])
    invite = f"{federation}/invites/north.invite.json"
    trusted = open_federation(Path(federation)).card.fingerprint
    written += recorded(
        tmp_path,
        ["site", "join", invite, *home, "--env", "maze", "--fingerprint", trusted],
        ["site", "preview", *home],
        ["site", "pause", *home],
        ["site", "pause", "--end", *home],
        ["federation", "enrol", f"{site}/enrolment.json", *where],
        ["federation", "status", *where],
    )
    assert {f"{federation}/keys", f"{federation}/invites", site} <= set(written)
    inside = (f"{tmp_path}/data/", f"{tmp_path}/tmp", "/dev/null")
    assert [path for path in written if not path.startswith(inside)] == []
