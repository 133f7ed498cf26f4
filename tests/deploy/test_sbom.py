"""What an image contains is written down: each Python package and each installed Debian package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs

needs("cyclonedx_py")

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.image.sbom import debian_packages, python_packages, whole

STATUS = """Package: nginx-light
Status: install ok installed
Architecture: all
Version: 1.22.1-9+deb12u3
Description: small
 with a second line

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""
METADATA = "Metadata-Version: 2.1\nName: some-package\nVersion: 1.2\n"


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An environment with one package."""
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (packages,) = place.glob("lib/python3*/site-packages")
    (packages / "some_package-1.2.dist-info").mkdir()
    (packages / "some_package-1.2.dist-info" / "METADATA").write_text(METADATA)
    return str(place / "bin" / "python3")


def test_only_what_is_installed_is_named():
    (one,) = debian_packages(STATUS)
    assert one["purl"] == (
        "pkg:deb/debian/nginx-light@1.22.1-9%2Bdeb12u3?arch=all&distro=debian-12"
    )


def test_the_document_is_valid_and_has_both_kinds(python: str):
    document = whole(python_packages(python), STATUS)
    assert [one["name"] for one in document["components"]] == ["some-package", "nginx-light"]
    version = SchemaVersion.from_version(document["specVersion"])
    assert JsonStrictValidator(version).validate_str(json.dumps(document)) is None
    # The same image gives the same document.
    assert "timestamp" not in document["metadata"]
