"""What Flower's commands need to be started, and whether a SuperLink answers."""

import os
import shutil
import ssl
import sys
from pathlib import Path

import httpx

from fedse.errors import MachineError

# Flower needs each of these separately; without them it calls home or runs an installer.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}


def environment(flower_home: Path) -> dict[str, str]:
    """What Flower's commands need: themselves on PATH, this fedse, their own home, silence."""
    bin_folder = str(Path(sys.executable).parent)
    package = str(Path(__file__).resolve().parents[3])
    given = os.environ
    return {
        **given,
        **QUIET,
        "FLWR_HOME": str(flower_home),
        "PATH": os.pathsep.join([bin_folder, *filter(None, [given.get("PATH")])]),
        "PYTHONPATH": os.pathsep.join([package, *filter(None, [given.get("PYTHONPATH")])]),
    }


def guarded_environment(flower_home: Path, launchers: Path) -> dict[str, str]:
    """What a SuperNode needs; it finds our guard of the app bundle before Flower's own program."""
    env = environment(flower_home)
    return env | {"PATH": os.pathsep.join([str(launchers), env["PATH"]])}


def command(name: str) -> str:
    """The path of one of Flower's commands in this Python's environment."""
    path = shutil.which(name, path=str(Path(sys.executable).parent))
    if path is None:
        raise MachineError(
            f"{name} is not installed beside {sys.executable}",
            hint="pip install 'fed-se[flower]'",
        )
    return path


def healthy(address: str, ca: Path | None) -> bool:
    """A SuperLink answers at `address`, with a certificate of `ca` if one is given."""
    url = f"{'https' if ca else 'http'}://{address}/health"
    # Without TLS nothing is verified; httpx would read all authorities for nothing.
    verify = ssl.create_default_context(cafile=ca) if ca else False
    try:
        answer = httpx.get(url, timeout=2, verify=verify, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK
