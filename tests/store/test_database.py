"""Files that several connections of several processes have open."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from fedse.store.database import open_durable

WRITER = """
import sys
from pathlib import Path
from fedse.store.database import open_durable

one = open_durable(Path(sys.argv[1]))
one.execute("CREATE TABLE said (word TEXT)")
other = open_durable(Path(sys.argv[1]))
for word in sys.stdin:
    other.execute("INSERT INTO said VALUES (?)", (word.strip(),))
    print("committed", flush=True)
"""


def test_what_is_committed_outlives_whoever_reads_meanwhile_and_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "said.db"
    command = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as writer:
        assert writer.stdin
        assert writer.stdout
        for word in ("first", "second", "third"):
            print(word, file=writer.stdin)
            assert writer.stdout.readline() == "committed\n"
            with closing(open_durable(file)) as reader:
                assert reader.execute("SELECT count(*) FROM said").fetchone()[0]
        writer.kill()
    with closing(open_durable(file)) as reader:
        words = [word for (word,) in reader.execute("SELECT word FROM said")]
    assert words == ["first", "second", "third"]
    assert file.stat().st_mode & 0o777 == 0o600
