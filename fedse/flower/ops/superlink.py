"""Flower's server side on this machine: a SuperLink, its SuperExec, and the app given to them.

The server's app runs in a process tree apart from the SuperLink's (`--isolation process`), so a
SuperLink that restarts within a minute does not end a run.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomlkit

from fedse.adapters.base import spec_of
from fedse.config.rounds import out_of
from fedse.config.schema import Config
from fedse.errors import RunError
from fedse.federation.keys import Identity
from fedse.flower.messages.bounds import largest_reply
from fedse.flower.messages.bundle import write_app
from fedse.flower.messages.offences import FILE as OFFENCES
from fedse.flower.ops.commands import command, healthy
from fedse.flower.ops.resubmit import progress_of
from fedse.processes.group import Processes
from fedse.store.files import write_whole
from fedse.store.run_folder import newest_config, run_config

START_SECONDS = 120.0
CONNECTION = "fedse"
# Beyond the rounds themselves: starting the app, waiting for nodes, exporting.
SPARE_SECONDS = 600.0


def write_connection(flower_home: Path, address: str, ca: Path | None) -> None:
    """Flower's own commands reach the SuperLink at `address` under the name CONNECTION."""
    link = {"root-certificates": str(ca)} if ca else {"insecure": True}
    settings = {"superlink": {"default": CONNECTION, CONNECTION: {"address": address, **link}}}
    flower_home.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(flower_home / "config.toml", tomlkit.dumps(settings).encode())


def superlink_command(
    address: str,
    options: Sequence[str],
    identity: Identity | None,
    run: Path | None = None,
    heard: Path | None = None,
) -> list[str]:
    """Starts a SuperLink that listens at `address`, without TLS only if there is no identity.

    It takes no larger replies than those of `run`, and notes there who sent one; without a run,
    which is a simulation, it is Flower's own and has no nodes. With `heard` that file says when
    each node was heard.
    """
    program = [command("flower-superlink")]
    if run:
        module = [sys.executable, "-P", "-m", "fedse.flower.ops.guarded_superlink"]
        program = [*module, *run_arguments(run), *(["--heard", str(heard)] if heard else [])]
    return [*program, *superlink_arguments(address, options, identity)]


def run_arguments(run: Path) -> list[str]:
    """How large a reply in this run can be, of how many sites, and where offences are noted."""
    config = run_config(run)
    most = largest_reply(config, spec_of(config))
    sites = ["--sites", str(len(newest_config(run).clients))]
    return ["--adapter-bytes", str(most), *sites, "--offences", str(run / OFFENCES)]


def superlink_arguments(
    address: str, options: Sequence[str], identity: Identity | None
) -> list[str]:
    """What `flower-superlink`, or ours in its place, is started with."""
    host, _, port = address.partition(":")
    security = ["--insecure"]
    if identity:
        names = ("--ssl-ca-certfile", "--ssl-certfile", "--ssl-keyfile")
        security = [part for pair in zip(names, map(str, identity), strict=True) for part in pair]
    place = ["--host", host, "--port", port, "--isolation", "process"]
    return [*security, *place, *options]


def superexec_command(address: str, identity: Identity | None) -> list[str]:
    """Starts a SuperExec that runs the server's app for the SuperLink at `address`."""
    trust = ["--root-certificates", str(identity.ca)] if identity else ["--insecure"]
    return [command("flower-superexec"), "--runtime-api-address", address, *trust]


def start_superlink(
    processes: Processes,
    address: str,
    options: Sequence[str],
    identity: Identity | None,
    run: Path | None = None,
) -> None:
    """A SuperLink answers at `address` and a SuperExec waits to run the server's app."""
    processes.start("superlink", superlink_command(address, options, identity, run))
    ca = identity.ca if identity else None
    processes.wait_for("superlink", lambda: healthy(address, ca), seconds=START_SECONDS)
    processes.start("superexec", superexec_command(address, identity))


def submit(
    processes: Processes,
    folder: Path,
    settings: Mapping[str, str | float],
    *,
    options: Sequence[str] = (),
    seconds: float,
) -> Path:
    """The app ended after running with these settings; the log of what it printed.

    How far the run got is in its folder: Flower's own exit code does not show it.
    """
    flwr = [*submit_command(folder, settings), "--stream", *options]
    (log,) = processes.succeed({"run": flwr}, seconds=seconds)
    return log


def submit_command(folder: Path, settings: Mapping[str, str | float]) -> list[str]:
    """Submits the app, which is in `folder`, to run with these settings."""
    app, chosen = write_app(folder / "app"), folder / "run-config.toml"
    write_whole(chosen, tomlkit.dumps(dict(settings)).encode())
    return [command("flwr"), "run", str(app), CONNECTION, "--run-config", str(chosen)]


def run_seconds(config: Config) -> float:
    """The longest a run can take: every round to its deadline, and the last evaluation."""
    return config.aggregate.deadline * (config.run.last + 1) + SPARE_SECONDS


def final_digest(run_dir: Path, log: Path) -> str:
    """Digest of the newest adapter of a run that is over; any other says where to look."""
    done, digest = progress_of(run_dir)
    if not digest:
        rounds = run_config(run_dir).run.rounds
        raise RunError(
            f"the run ended after round {out_of(done, rounds)}{cause_in(log)}",
            hint=f"less {log}; submit it again: the run continues after its last round",
        )
    return digest


def cause_in(log: Path, *, start: int = 0) -> str:
    """The last line that looks like an error in what the server's app printed from `start` on."""
    text = log.read_bytes()[start:].decode(errors="replace") if log.exists() else ""
    lines = text.splitlines()
    errors = [line.strip() for line in lines if "Error" in line]
    return f": {errors[-1]}" if errors else ""
