"""The locks: every package has hashes, is the tested version, and none is missing or idle."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts import lock_requirements
from scripts.lock_requirements import (
    CONSTRAINTS,
    EXTRAS,
    LOCKS,
    ROOT,
    normalised,
    unknown,
    version_of,
)
from tests.needs import needs

needs("flwr", "torch", "prometheus_client", "cyclonedx_py")

NAMES = (*EXTRAS, "build")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MARKERS = {
    "platform_machine": "x86_64",
    "python_full_version": "3.11.2",
    "python_version": "3.11",
    "sys_platform": "linux",
}
each_lock = pytest.mark.parametrize("name", NAMES)


def text_of(name: str) -> str:
    return (LOCKS / f"{name}.txt").read_text()


def needed(one: Requirement, extras: set[str]) -> bool:
    given = [{**MARKERS, "extra": extra} for extra in ("", *extras)]
    return one.marker is None or any(one.marker.evaluate(each) for each in given)


def closure(first: list[str]) -> set[str]:
    """All packages that `first` need, by what the installed ones say they need themselves."""
    open_, seen = [Requirement(one) for one in first], set[tuple[str, frozenset[str]]]()
    while open_:
        one = open_.pop()
        key = (normalised(one.name), frozenset(one.extras))
        if key in seen:
            continue
        seen.add(key)
        theirs = [Requirement(each) for each in requires(one.name) or []]
        open_ += [each for each in theirs if needed(each, set(one.extras))]
    return {name for name, _ in seen}


@each_lock
def test_every_package_has_hashes(name: str):
    without_comment = re.sub(r"^#.*\n", "", text_of(name), flags=re.M)
    blocks = re.split(r"\n(?=\S)", without_comment.strip())
    assert len(blocks) == len(version_of(text_of(name))) > 10
    for block in blocks:
        assert re.fullmatch(r"\S+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", block), block


@each_lock
def test_every_version_is_the_tested_one(name: str):
    """torch's build for CPUs has the same version with +cpu behind it."""
    tested = version_of(CONSTRAINTS.read_text())
    locked = version_of(text_of(name))
    assert {one: v.partition("+")[0] for one, v in locked.items()} == {
        one: tested.get(one) for one in locked
    }


@pytest.mark.parametrize("name", EXTRAS)
def test_an_image_has_what_its_extras_need_and_nothing_else(name: str):
    first = [*PROJECT["dependencies"]]
    first += [one for extra in EXTRAS[name] for one in PROJECT["optional-dependencies"][extra]]
    assert closure(first) == set(version_of(text_of(name)))


def test_the_coordinator_has_no_model_library():
    heavy = {"torch", "transformers", "peft", "accelerate"}
    assert heavy.isdisjoint(version_of(text_of("coordinator")))
    assert version_of(text_of("site"))["torch"].endswith("+cpu")
    assert not re.search(r"^(nvidia|cuda)", text_of("site"), flags=re.M)


def test_a_package_without_a_tested_version_is_named():
    assert unknown("new-one==1.0 \\\nHttpx==0.28\n", "httpx==0.28.1\n") == {"new-one"}


def test_what_names_no_package_is_written_into_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """uv ends with 0 and a text that is no lock where it is asked for its help."""

    def helpful(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(command, 0, stdout="Usage: uv pip compile\n")

    monkeypatch.setattr(lock_requirements.subprocess, "run", helpful)
    monkeypatch.setattr(lock_requirements, "LOCKS", tmp_path)
    monkeypatch.setattr(lock_requirements, "ROOT", tmp_path.parent)
    monkeypatch.setattr(lock_requirements, "CONSTRAINTS", tmp_path.parent / "constraints.txt")
    (tmp_path.parent / "constraints.txt").write_text("")
    with pytest.raises(SystemExit, match="named no package for coordinator, site, build"):
        lock_requirements.main(["--help"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", ["scripts.lock_requirements", "research.try_images"])
def test_a_script_that_is_asked_how_it_is_used_says_so_and_does_nothing_else(script: str):
    line = [sys.executable, "-m", script, "--help"]
    asked = subprocess.run(line, cwd=ROOT, env={"PATH": ""}, capture_output=True, text=True)
    assert f"python -m {script}" in asked.stdout + asked.stderr
    assert "Traceback" not in asked.stderr
