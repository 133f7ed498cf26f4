"""`fedse demo` as a newcomer runs it, on a machine without any network."""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.slow


def without_network() -> list[str]:
    """A prefix that runs a command where not even the loopback interface is up."""
    prefix = ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") and subprocess.run([*prefix, "true"], check=False).returncode == 0:
        return prefix
    pytest.skip("this machine cannot make a network namespace")


def test_success_rises_without_a_network_within_the_budget(tmp_path: Path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [*without_network(), sys.executable, "-m", "fedse", "demo", "--json"]
    told = subprocess.run(
        [*command, "--seed", "0", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert told.returncode == 0, told.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(told.stdout.splitlines()[-1])
    assert result["clients"] == 5
    assert result["all"]["change"]["low"] > 0
    # 120 s on two free cores; CPU seconds do not depend on what else the machine does.
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used <= 240
    assert (Path(result["adapter"]) / "adapter_model.safetensors").is_file()
