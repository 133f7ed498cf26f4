"""The tests of a room are where the room is."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "fedse"
# Not of one room: what is beside the package, laws across rooms, whole federations.
ELSEWHERE = {"deploy", "docs", "examples", "invariants", "packaging", "research", "system"}
SUPPORT = {"toys"}
"""Worlds and sites that tests of several rooms share."""


def test_a_folder_of_tests_is_a_room():
    tests = {file.relative_to(TESTS) for file in TESTS.rglob("test_*.py")}
    folders = {file.parent for file in tests if file.parts[0] not in ELSEWHERE}
    assert len(folders) > 15
    assert {str(folder) for folder in folders if not (PACKAGE / folder).is_dir()} == set()
    assert SUPPORT.isdisjoint({file.parts[0] for file in tests})


def test_a_test_beside_the_folders_is_of_a_module():
    single = {file.stem.removeprefix("test_") for file in TESTS.glob("test_*.py")} - {"needs"}
    assert single
    assert {name for name in single if not (PACKAGE / f"{name}.py").is_file()} == set()
