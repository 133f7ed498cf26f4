"""Do the tests notice when a law is broken? Each mutation of scripts/mutations.toml is tried.

python scripts/mutations.py [--out docs/results/mutations.json] [--jobs 2] [--only TEXT]

A mutation is one wrong line in a copy of this repository, never in place. It is killed when a test
that is named with it fails there. A test that fails without any mutation proves nothing, so those
that killed are run once more in the unchanged copy. Exits with 1 if a mutation survives or cannot
be made because its text is gone.
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "scripts" / "mutations.toml"
COPIED = (
    *("fedse", "tests", "scripts", "research", "docs", "examples", "configs", "packaging"),
    *("plugins", "deploy", ".ci"),
)
FAST = "not slow and not federated and not long"
SECONDS = 300
FAILED = 1
"""pytest's exit code where tests ran and some failed; any other code proves nothing."""


@dataclass(frozen=True)
class Mutation:
    law: str
    file: str
    """Below fedse/, or of a package in plugins/."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Below tests/, or of a package in plugins/."""


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
    count = _place(root, "fedse", mutation.file).read_text(encoding="utf-8").count(mutation.old)
    files = [_place(root, "tests", name.partition("::")[0]) for name in mutation.tests]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        return f"there is no test {missing[0]}"
    return "" if count == 1 else f"the old text occurs {count} times, expected once"


def _place(root: Path, folder: str, name: str) -> Path:
    return root / name if name.startswith("plugins/") else root / folder / name


def copy_repository(target: Path) -> Path:
    """What the tests need; compiled files stay valid, as times are copied too."""
    for name in COPIED:
        if not (ROOT / name).is_dir():
            continue  # until the first plug-in is here
        shutil.copytree(ROOT / name, target / name)
    for file in (ROOT / "pyproject.toml", *ROOT.glob("*.md")):
        shutil.copy2(file, target)
    return target


@contextmanager
def mutated(copy: Path, mutation: Mutation) -> Iterator[None]:
    """The mutation is in the copy, and afterwards it is not."""
    file = _place(copy, "fedse", mutation.file)
    sound = file.read_text(encoding="utf-8")
    file.write_text(sound.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(sound, encoding="utf-8")


def run_tests(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    """pytest's exit code and words, up to the first failure, with the copy's own package."""
    options = ["-x", "-rfE", "-p", "no:cacheprovider", "--tb=no", "-m", FAST]
    # Nothing is compiled into the copy: what changes back in the same second looks unchanged.
    command = [sys.executable, "-B", "-m", "pytest", *options]
    plugins = "pytest_timeout,_hypothesis_pytestplugin"
    loaded = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": plugins}
    packages = [copy, *sorted((copy / "plugins").iterdir())]
    done = subprocess.run(
        [*command, *(str(_place(Path(), "tests", name)) for name in tests)],
        cwd=copy,
        env={**os.environ, **loaded, "PYTHONPATH": os.pathsep.join(map(str, packages))},
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
    failed = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(.+?)(?: - .*)?$", said, flags=re.MULTILINE)
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
                fate = try_mutation(mutation, copy)
            finally:
                copies.put(copy)
            print(line_of(fate), flush=True)
            return fate

        with ThreadPoolExecutor(jobs) as pool:
            fates = list(pool.map(in_a_copy, mutations))
        return unless_unsound(fates, copies.get())


def unless_unsound(fates: Sequence[Fate], copy: Path) -> list[Fate]:
    """`fates`, but none counts as killed if a test that killed one fails without a mutation."""
    killers = sorted({fate.by.partition("[")[0] for fate in fates if fate.killed})
    code, said = run_tests(copy, killers) if killers else (0, "")
    if not code:
        return list(fates)
    words = said.strip().splitlines()[-3:]
    return [replace(f, killed=False, by=f"fails without it: {' '.join(words)}") for f in fates]


def line_of(fate: Fate) -> str:
    word = "killed" if fate.killed else "SURVIVED"
    return f"{word:8}  {fate.file:26}  {fate.law}\n{'':38}{fate.by}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where to keep the result as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--only", default="", help="those with this in their file or law")
    given = parser.parse_args()
    chosen = [m for m in read_table() if given.only in m.file or given.only in m.law]
    fates = try_all(chosen, jobs=given.jobs)
    survivors = [fate for fate in fates if not fate.killed]
    print("\n".join(map(line_of, survivors)))
    print(f"{len(fates) - len(survivors)} of {len(fates)} mutations are killed")
    if given.out:
        text = json.dumps([asdict(fate) for fate in fates], indent=1)
        given.out.write_text(text + "\n", encoding="utf-8")
    return 0 if fates and not survivors else 1


if __name__ == "__main__":
    sys.exit(main())
