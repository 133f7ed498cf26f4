"""Lock what the images install: one version of every package, the tested one, and its hashes.

    python -m scripts.lock_requirements                        # needs uv and a package index
    python -m scripts.lock_requirements --torch-backend cpu    # further words are for uv

The versions are those of .ci/constraints.txt; a package that is not named there stops it. The
site's torch is the build for CPUs (+cpu), which comes from an index of its own, or from a folder of
wheels (--find-links FOLDER).
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "deploy" / "requirements"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
# Debian 12, on which the images are based, has Python 3.11 and glibc 2.36.
PYTHON, PLATFORM = "3.11", "x86_64-manylinux_2_36"
EXTRAS = {"coordinator": ("flower", "metrics"), "site": ("flower", "hf", "privacy", "secure")}
"""What each image can do, as extras of fed-se."""
HEAD = (
    "# Made by `python -m scripts.lock_requirements`; change .ci/constraints.txt, not this file.\n"
)


def version_of(text: str) -> dict[str, str]:
    """Version by normalised name, for each line NAME==VERSION."""
    pins = re.findall(r"^([\w.-]+)==([^\s\\;]+)", text, flags=re.MULTILINE)
    return {normalised(name): version for name, version in pins}


def normalised(name: str) -> str:
    """As the registry compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def lock(name: str, more: Sequence[str]) -> str:
    """The lock of one image, or of the tools that build them."""
    sources = [str((LOCKS / f"{name}.in").relative_to(ROOT))]
    if name in EXTRAS:
        sources = ["pyproject.toml", *(f"--extra={extra}" for extra in EXTRAS[name])]
    command = ["uv", "pip", "compile", *sources, "--constraint", str(CONSTRAINTS.relative_to(ROOT))]
    command += ["--generate-hashes", "--no-annotate", "--no-header", "--quiet"]
    command += ["--python-version", PYTHON, "--python-platform", PLATFORM, *more]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return HEAD + done.stdout


def unknown(text: str, constraints: str) -> set[str]:
    """The packages of a lock that the constraints do not name."""
    return set(version_of(text)) - set(version_of(constraints))


def main(more: Sequence[str]) -> None:
    """All locks are written anew, or none is and the missing packages are named."""
    locks = {name: lock(name, more) for name in (*EXTRAS, "build")}
    if empty := [name for name, text in locks.items() if not version_of(text)]:
        words = " ".join(more) or "none"
        sys.exit(f"uv named no package for {', '.join(empty)}; words given to it: {words}")
    lacking = {one for text in locks.values() for one in unknown(text, CONSTRAINTS.read_text())}
    if lacking:
        sys.exit(f"name these in {CONSTRAINTS.relative_to(ROOT)}: {', '.join(sorted(lacking))}")
    for name, text in locks.items():
        (LOCKS / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv[1:]}:
        sys.exit(__doc__)
    main(sys.argv[1:])
