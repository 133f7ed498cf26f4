"""Run a federation of two sites in containers, with the rights that the compose files give.

    python -m research.try_images          # needs podman, fedse-coordinator and fedse-site

The containers have one network with nothing but a loopback address, so whatever calls anybody else
fails. Prints what happened as one JSON object; volumes and containers are removed.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

COMPOSE = Path(__file__).parents[1] / "deploy" / "compose"
SITES = ("north", "south")
EXPERIMENT = """
[run]
name = "try"
rounds = 2
[rollout]
episodes = 8
context = 512
new_tokens = 8
[buffer]
demonstrations = 8
[eval]
episodes = 4
[[clients]]
name = "north"
env = "maze"
[[clients]]
name = "south"
env = "maze"
"""
STOP_SECONDS = "60"


def podman(*words: str, given: str = "", fails: bool = False) -> str:
    """What the command printed; unless it may fail, it did not."""
    done = subprocess.run(["podman", *words], input=given, capture_output=True, text=True)
    if done.returncode and not fails:
        raise SystemExit(f"podman {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def rights(service: dict[str, Any]) -> list[str]:
    """The compose file's limits as options of podman; its volumes are given apart."""
    plain = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", yaml.safe_dump(service))
    chosen = yaml.safe_load(plain)
    options = ["--user", chosen["user"], "--memory", str(chosen["mem_limit"])]
    options += ["--pids-limit", str(chosen["pids_limit"])]
    options += ["--read-only"] if chosen["read_only"] else []
    options += [word for one in chosen["cap_drop"] for word in ("--cap-drop", one)]
    options += [word for one in chosen["security_opt"] for word in ("--security-opt", one)]
    options += [word for one in chosen["tmpfs"] for word in ("--tmpfs", one)]
    return options


def options_of(side: str, volume: str) -> list[str]:
    service = yaml.safe_load((COMPOSE / f"{side}.yaml").read_text())["services"][side]
    return [*rights(service), "--volume", f"{volume}:/data"]


def once(side: str, volume: str, *words: str, given: str = "", mount: str = "") -> str:
    """A command of fedse in a container of its own, without any network."""
    more = ["--volume", mount] if mount else []
    options = ["--rm", "--interactive", "--network", "none", *options_of(side, volume), *more]
    return podman("run", *options, f"fedse-{side}", *words, given=given)


def text_of(side: str, volume: str, path: str) -> str:
    options = ["--rm", "--network", "none", *options_of(side, volume), "--entrypoint", "cat"]
    return podman("run", *options, f"fedse-{side}", path) + "\n"


@contextmanager
def volumes() -> Iterator[str]:
    """Volumes of this try; they and the containers on them are gone afterwards."""
    prefix = f"fedse-try-{time.time_ns()}"
    names = [f"{prefix}-{name}" for name in ("federation", *SITES)]
    for name in names:
        podman("volume", "create", name)
    try:
        yield prefix
    finally:
        for name in reversed(names):
            podman("rm", "--force", "--time", "20", name, fails=True)
        for name in names:
            podman("volume", "rm", name, fails=True)


def prepare(prefix: str, folder: Path) -> dict[str, str]:
    """The federation is made and both sites have joined; their requests, not yet enrolled."""
    folder.chmod(0o755)
    (folder / "try.toml").write_text(EXPERIMENT)
    place, where = f"{prefix}-federation", ["--dir", "/data/federation"]
    made = ["federation", "create", "/try.toml", "--out", where[1], "--host", "localhost"]
    told = once("coordinator", place, *made, mount=f"{folder / 'try.toml'}:/try.toml:ro")
    fingerprint = re.findall(r"fingerprint +(\S+)", told)[0]
    requests = {}
    for site in SITES:
        once("coordinator", place, "federation", "invite", site, *where)
        invite = text_of("coordinator", place, f"/data/federation/invites/{site}.invite.json")
        own = ["--home", "/data/site", "--env", "maze", "--option", "prompt=short"]
        words = ["site", "join", "/dev/stdin", *own, "--fingerprint", fingerprint]
        once("site", f"{prefix}-{site}", *words, given=invite)
        requests[site] = text_of("site", f"{prefix}-{site}", "/data/site/enrolment.json")
    return requests


def federate(prefix: str, requests: dict[str, str]) -> dict[str, Any]:
    """All rounds have run, with sites enrolled on the way; what each container said of itself."""
    server, began = f"{prefix}-federation", time.monotonic()
    start = ["--detach", "--name", server, "--network", "none", "--stop-timeout", STOP_SECONDS]
    podman("run", *start, *options_of("coordinator", server), "fedse-coordinator")
    for site in SITES:
        name, shared = f"{prefix}-{site}", ["--network", f"container:{server}"]
        start = ["--detach", "--name", name, *shared, "--stop-timeout", STOP_SECONDS]
        podman("run", *start, *options_of("site", name), "fedse-site")
    enrol = ["fedse", "federation", "enrol", "/dev/stdin", "--dir", "/data/federation"]
    told = [podman("exec", "-i", server, *enrol, given=requests[site]) for site in SITES]
    health = "healthy"
    seen: dict[str, set[str]] = {server: set(), **{f"{prefix}-{site}": set() for site in SITES}}
    while podman("inspect", "--format", "{{.State.Running}}", server) == "true":
        for name in seen:
            state = podman("healthcheck", "run", name, fails=True)
            seen[name].add(state or health)
        time.sleep(5)
    code = int(podman("wait", server))
    ended = podman("logs", server).splitlines()[-1:]
    return {
        "enrolled": told,
        "exit_code": code,
        "seconds": round(time.monotonic() - began),
        "health": {name.removeprefix(f"{prefix}-"): sorted(said) for name, said in seen.items()},
        "result": ended,
    }


def stop_sites(prefix: str) -> dict[str, list[float]]:
    """Each site was stopped; its exit code and the seconds it took."""
    outcome = {}
    for site in SITES:
        began = time.monotonic()
        podman("stop", f"{prefix}-{site}")
        code = int(podman("wait", f"{prefix}-{site}"))
        outcome[site] = [code, round(time.monotonic() - began, 1)]
    return outcome


def main() -> None:
    with TemporaryDirectory(prefix="fedse-") as folder, volumes() as prefix:
        found = federate(prefix, prepare(prefix, Path(folder)))
        found["stopped"] = stop_sites(prefix)
        found["changed outside volumes"] = {
            name: podman("diff", f"{prefix}-{name}").splitlines() for name in ("federation", *SITES)
        }
        status = ["federation", "status", "--dir", "/data/federation", "--json"]
        found["status"] = json.loads(once("coordinator", f"{prefix}-federation", *status))["sites"]
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    if shutil.which("podman") is None:
        sys.exit("podman is not installed here: apt-get install podman")
    main()
