"""The SuperLink's database does not write zeros over what it deletes, and is Flower's otherwise."""

import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.needs import needs

needs("flwr")

# In a process of its own: what is replaced in Flower stays so.
OPEN = """
import sys
from fedse.flower.patches.link_database import keep_database_so
keep_database_so()
from flwr.superlink import config_loader
manager = config_loader.get_federation_manager(is_simulation=False)
_, states = config_loader.get_objectstore_linkstate_factories(sys.argv[1], manager)
state = states.state()
with state.session() as session:
    connection = session.connection().connection
    for name in ("secure_delete", "busy_timeout", "journal_mode"):
        print(name, connection.execute(f"PRAGMA {name}").fetchone()[0])
"""


def test_flower_opens_its_database_so(tmp_path: Path) -> None:
    file = tmp_path / "link.db"
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OPEN, str(file)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    assert [line for line in told if line.startswith(("secure", "busy", "journal"))] == [
        "secure_delete 0",
        "busy_timeout 5000",
        "journal_mode wal",
    ]
    with sqlite3.connect(file) as link:
        assert link.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
