"""The public names are exactly the listed ones, and each is where it says."""

import ast
from pathlib import Path

import fedse

ROOT = Path(fedse.__file__).parent


def test_all_is_sorted_and_complete():
    assert fedse.__all__ == sorted(fedse.__all__)
    assert set(fedse.__all__) == set(fedse._MODULE_OF)


def test_every_name_resolves():
    assert len(fedse.__all__) >= 41
    for name in fedse.__all__:
        assert getattr(fedse, name) is not None


def test_no_name_hides_a_module():
    """`fedse.x` must not be a function at first and a module after somebody imported it."""
    modules = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(fedse.__all__)


def test_type_checkers_see_the_same_names():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    seen = {
        (alias.name, node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedse")
        for alias in node.names
    }
    assert seen - {("__version__", "fedse._version")} == set(fedse._MODULE_OF.items())
