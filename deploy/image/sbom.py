"""Write what an image contains as a CycloneDX document: Python packages and Debian packages.

    python deploy/image/sbom.py PYTHON DPKG_STATUS OUT

cyclonedx-py lists the packages of the environment PYTHON belongs to; DPKG_STATUS is the package
list of the image's system (/var/lib/dpkg/status).
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path
from typing import Any

from packageurl import PackageURL

DISTRIBUTION = "debian-12"


def python_packages(python: str) -> dict[str, Any]:
    """The document of cyclonedx-py, without a time: the same packages give the same document."""
    # Whether such a document is valid is tested with the whole one; here it would cost seconds.
    tool = [sys.executable, "-m", "cyclonedx_py", "environment", "--no-validate"]
    tool += ["--output-reproducible", python]
    done = subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def debian_packages(status: str) -> Iterator[dict[str, str]]:
    """One component for each package that is installed."""
    for paragraph in status.strip().split("\n\n"):
        fields = message_from_string(paragraph)
        name, version = fields["Package"], fields["Version"]
        if fields["Status"] != "install ok installed":
            continue
        qualifiers = {"arch": fields["Architecture"], "distro": DISTRIBUTION}
        purl = PackageURL("deb", "debian", name, version, qualifiers).to_string()
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
        }


def whole(document: dict[str, Any], status: str) -> dict[str, Any]:
    """The document with the Debian packages as well, in the order of their names."""
    system = sorted(debian_packages(status), key=lambda one: one["bom-ref"])
    return {**document, "components": [*document.get("components", []), *system]}


if __name__ == "__main__":
    chosen, packages, out = sys.argv[1:]
    made = whole(python_packages(chosen), Path(packages).read_text())
    Path(out).write_text(json.dumps(made, indent=2) + "\n")
