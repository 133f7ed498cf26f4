"""What the tests of deploy/ share: charts as Helm renders them, and compose files."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.needs import lacking, needs

needs("yaml")

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
HEALTH = "from urllib.request import urlopen; urlopen('http://127.0.0.1:9464/health', timeout=8)"
COORDINATOR_HEALTH = ["python3", "-c", HEALTH]
SITE_HEALTH = ["fedse", "site", "status", "--home", "/data/site"]
DIGEST = f"sha256:{'0' * 64}"

Document = dict[str, Any]

FIRST = {
    "coordinator": ("host=fed.example.org", "experiment=[run]"),
    "site": ("join.inviteSecret=north", "join.fingerprint=12ab-34cd", "join.env=maze"),
}
"""The least that each chart must be given."""
MUCH = {
    "coordinator": (
        "mode=run",
        f"image.digest={DIGEST}",
        "image.pullSecrets[0].name=pull",
        "service.type=LoadBalancer",
        "service.loadBalancerSourceRanges[0]=192.0.2.0/24",
        "metrics.scraped=true",
        "metrics.fromNamespaces[0]=monitoring",
        "networkPolicy.sites[0]=192.0.2.0/24",
        "storage.className=fast",
    ),
    "site": (
        "mode=run",
        f"image.digest={DIGEST}",
        "join.options[0]=prompt=short",
        "join.base=my-base",
        "environment.configMap=my-env",
        "models.existingClaim=models",
        "engine.keySecret.name=vllm",
        "engine.keySecret.key=key",
        "engine.adaptersClaim=adapters",
        "networkPolicy.coordinator.addresses[0]=192.0.2.7/32",
        "networkPolicy.engine.podLabels.app=vllm",
        "storage.existingClaim=mine",
    ),
}
"""As much as it can be given."""
CASES = [
    *((side, FIRST[side]) for side in FIRST),
    *((side, (*FIRST[side], "mode=run")) for side in FIRST),
    *((side, (*FIRST[side], *MUCH[side])) for side in FIRST),
]


def program(name: str) -> str:
    """Its path beside this Python, where the wheels that bring it put it."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    return found or lacking(f"{name} is not installed: pip install 'fed-se[dev]'")


def helm(
    verb: str, side: str, values: Sequence[str], *more: str
) -> "subprocess.CompletedProcess[str]":
    """The outcome of `helm VERB` for the chart of one side."""
    release = ["north"] if verb == "template" else []
    chosen = [word for value in values for word in ("--set", value)]
    command = [program("helm"), verb, *release, str(DEPLOY / "charts" / f"fedse-{side}")]
    return subprocess.run([*command, *chosen, *more], capture_output=True, text=True, check=False)


@cache
def rendered(side: str, values: tuple[str, ...]) -> tuple[Document, ...]:
    """The manifests of a release."""
    done = helm("template", side, values)
    assert done.returncode == 0, done.stderr
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one)


def of_kind(documents: Sequence[Document], *kinds: str) -> list[Document]:
    return [one for one in documents if one["kind"] in kinds]


def pod_of(documents: Sequence[Document]) -> Document:
    """The pod of the one workload there is."""
    (workload,) = of_kind(documents, "Job", "StatefulSet")
    pod: Document = workload["spec"]["template"]["spec"]
    return pod


def compose(name: str) -> Document:
    read: Document = yaml.safe_load((DEPLOY / "compose" / f"{name}.yaml").read_text())
    return read
