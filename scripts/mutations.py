"""Do the tests notice when a law is broken? Each mutation of scripts/mutations.toml is tried.

python scripts/mutations.py [--out docs/results/mutations.json] [--jobs 2] [--only TEXT]

A mutation is one wrong line in a copy of this repository, never in place. It is killed when a test
that is named with it fails there; tests that fail without any mutation prove nothing, so they are
run first. Exits with 1 if a mutation survives or cannot be made because its text is gone.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "scripts" / "mutations.toml"
COPIED = ("fedse", "tests", "scripts", "docs", "examples", "configs", "packaging", ".ci")
FAST = "not slow and not federated and not reproduction"
SECONDS = 300
FAILED = 1
"""pytest's exit code where tests ran and some failed; any other code proves nothing."""


@dataclass(frozen=True)
class Mutation:
    law: str
    file: str
    """Below fedse/."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Below tests/."""


@dataclass(frozen=True)
class Fate:
    """What became of a mutation."""

    law: str
    file: str
    old: str
    new: str
    killed: bool
    by: str
    """The test that failed, or why none did."""


def read_table(path: Path = TABLE) -> list[Mutation]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def misfit(mutation: Mutation, root: Path = ROOT) -> str:
    """Why the mutation cannot be made; empty if it can."""
    count = (root / "fedse" / mutation.file).read_text(encoding="utf-8").count(mutation.old)
    missing = [name for name in mutation.tests if not (root / "tests" / name).is_file()]
    if missing:
        return f"there is no test {missing[0]}"
    return "" if count == 1 else f"the old text occurs {count} times, expected once"


def copy_repository(target: Path) -> Path:
    """What the tests need, without what was made beside it."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in COPIED:
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for file in (ROOT / "pyproject.toml", *ROOT.glob("*.md")):
        shutil.copy2(file, target)
    return target


@contextmanager
def mutated(copy: Path, mutation: Mutation) -> Iterator[None]:
    """The mutation is in the copy, and afterwards it is not."""
    file = copy / "fedse" / mutation.file
    sound = file.read_text(encoding="utf-8")
    file.write_text(sound.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(sound, encoding="utf-8")


def run_tests(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    """pytest's exit code and words, up to the first failure, with the copy's own package."""
    options = ["-x", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-m", FAST]
    command = [sys.executable, "-B", "-m", "pytest", *options]
    done = subprocess.run(
        [*command, *(f"tests/{name}" for name in tests)],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTEST_DEBUG_TEMPROOT": str(copy.parent)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout + done.stderr


def try_mutation(mutation: Mutation, copy: Path) -> Fate:
    reason = misfit(mutation, copy)
    told = {k: v for k, v in asdict(mutation).items() if k != "tests"}
    if reason:
        return Fate(**told, killed=False, by=reason)
    with mutated(copy, mutation):
        code, said = run_tests(copy, mutation.tests)
    failed = re.search(r"^(?:FAILED|ERROR) tests/(\S+)", said, flags=re.MULTILINE)
    if code == FAILED and failed:
        return Fate(**told, killed=True, by=failed[1])
    words = said.strip().splitlines()
    return Fate(**told, killed=False, by=f"pytest exited with {code}: {words[-1] if words else ''}")


def try_all(mutations: Sequence[Mutation], *, jobs: int) -> list[Fate]:
    """The fate of each, in order; `jobs` copies are at work side by side."""
    with tempfile.TemporaryDirectory(prefix="fedse-mutations-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(copy_repository(Path(folder) / str(number) / "repository"))

        def in_a_copy(mutation: Mutation) -> Fate:
            copy = copies.get()
            try:
                return try_mutation(mutation, copy)
            finally:
                copies.put(copy)

        require_sound(copies, sorted({test for m in mutations for test in m.tests}))
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(in_a_copy, mutations))


def require_sound(copies: "SimpleQueue[Path]", tests: Sequence[str]) -> None:
    """Without a mutation all of `tests` pass, or it is said which does not."""
    copy = copies.get()
    code, said = run_tests(copy, tests)
    copies.put(copy)
    if code:
        sys.exit(f"the tests fail without any mutation:\n{said[-3000:]}")


def table(fates: Sequence[Fate]) -> str:
    rows = [
        f"{'killed' if fate.killed else 'SURVIVED':8}  {fate.file:28}  {fate.law}\n{'':40}{fate.by}"
        for fate in fates
    ]
    killed = sum(fate.killed for fate in fates)
    return "\n".join([*rows, f"{killed} of {len(fates)} mutations are killed"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where to keep the result as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--only", default="", help="those with this in their file or law")
    given = parser.parse_args()
    chosen = [m for m in read_table() if given.only in m.file or given.only in m.law]
    fates = try_all(chosen, jobs=given.jobs)
    print(table(fates))
    if given.out:
        text = json.dumps([asdict(fate) for fate in fates], indent=1)
        given.out.write_text(text + "\n", encoding="utf-8")
    return 0 if fates and all(fate.killed for fate in fates) else 1


if __name__ == "__main__":
    sys.exit(main())
