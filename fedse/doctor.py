"""Is this machine ready? Every check gives one finding: ok, warn or fail, and what to do about it.

Of a package only its version is read. Nothing is downloaded, and nothing is written but one empty
file that is taken away again. The environments of an experiment are made, and what they import is
imported: nothing else shows that they can be.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from fedse._version import __version__
from fedse.adapters.base import SHIPPED, base_digest, spec_of
from fedse.config.schema import ClientSection, Config
from fedse.envs.base import make_env
from fedse.errors import INSTALL_TORCH, EnvError, FedSEError, boundary, install_line
from fedse.method.site import tasks_of
from fedse.models.number_format import slowed_by
from fedse.outbound import proxy_to
from fedse.plugins import ENVS, PACKAGES
from fedse.ports import LINK_PORT, PROXY_PORT, why_not_free
from fedse.privacy.advice import advice
from fedse.store.run_folder import run_folders

Status = Literal["ok", "warn", "fail"]
GIGABYTE = 1 << 30
LEAST_DISK, LEAST_MEMORY = 2 * GIGABYTE, 2 * GIGABYTE
# Which versions were tested together is in .ci/constraints.txt of the source.
NEEDED = ("torch", "transformers", "peft")
OPTIONAL = {
    "flwr": ("flower", "federations over a network"),
    "ray": ("simulation", "Flower's simulation"),
    "cryptography": ("flower", "keys, certificates and signed ledgers"),
    "jinja2": ("report", "fedse report"),
    "pyarrow": ("parquet", "export to Parquet"),
    **{
        package: (package, ", ".join(names))
        for package, names in PACKAGES[ENVS].items()
        if "[" not in package  # an extra has no version of its own
    },
}
# Each sends something home unless told not to; our own child processes are told.
TELEMETRY = {
    "flwr": ("FLWR_TELEMETRY_ENABLED", "0"),
    "ray": ("RAY_USAGE_STATS_ENABLED", "0"),
    "transformers": ("HF_HUB_OFFLINE", "1"),
}


class Diagnosis(NamedTuple):
    status: Status
    what: str
    fix: str = ""


def examine(
    root: Path,
    environ: Mapping[str, str],
    config: Config | None = None,
    *,
    ports: Sequence[int] = (PROXY_PORT, LINK_PORT),
) -> list[Diagnosis]:
    """All findings, in the order a person would ask; `config` adds what that experiment needs."""
    findings = [_python(), *_packages(), *_coordinator(ports), *_telemetry(environ)]
    findings += _proxy(environ)
    findings += [_disk(root), _memory(), _writable(root), _base_models(), _threads(environ)]
    if config is not None:
        findings += _experiment(config)
    return findings


def _python() -> Diagnosis:
    return Diagnosis("ok", f"Python {sys.version.split()[0]}, fed-se {__version__}")


def _packages() -> list[Diagnosis]:
    needed = [_package(package, "to play and train", "fail", INSTALL_TORCH) for package in NEEDED]
    return needed + [
        _package(package, f"for {purpose}", "warn", f"if you want it: {install_line(extra)}")
        for package, (extra, purpose) in OPTIONAL.items()
    ]


def _package(package: str, purpose: str, otherwise: Status, fix: str) -> Diagnosis:
    if has := installed(package):
        return Diagnosis("ok", f"{package} {has}")
    return Diagnosis(otherwise, f"{package} is not installed, needed {purpose}", fix)


def installed(package: str) -> str:
    """The installed version, empty if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _telemetry(environ: Mapping[str, str]) -> list[Diagnosis]:
    talkative = [
        f"{name}={value}"
        for package, (name, value) in TELEMETRY.items()
        if installed(package) and environ.get(name) != value
    ]
    if not talkative:
        return [Diagnosis("ok", "usage statistics of flwr, ray and transformers are off")]
    return [
        Diagnosis(
            "warn",
            "commands of other packages may report usage (those started by fedse are told not to)",
            f"export {' '.join(talkative)}",
        )
    ]


def _proxy(environ: Mapping[str, str]) -> list[Diagnosis]:
    """Through what a site here would reach its server, if not directly."""
    proxy = proxy_to("", environ)
    if not proxy:
        return []
    if not proxy.startswith("http"):
        fix = "name an HTTP proxy: export HTTPS_PROXY=http://PROXY:PORT"
        return [Diagnosis("warn", f"a site here cannot use the proxy {proxy}", fix)]
    return [Diagnosis("ok", f"a site here reaches its server through the proxy {proxy}")]


def _coordinator(ports: Sequence[int]) -> list[Diagnosis]:
    """What a machine needs that leads a federation; a site or a laptop does not."""
    missing = "nginx is not installed, needed to lead a federation"
    fix = "if you lead one: apt-get install nginx-light"
    has = shutil.which("nginx") is not None
    found = [Diagnosis("ok", "nginx") if has else Diagnosis("warn", missing, fix)]
    taken = {port: why for port in ports if (why := why_not_free("", port))}
    options = {PROXY_PORT: "--port", LINK_PORT: "--link-port"}
    found += [
        Diagnosis(
            "warn",
            f"port {port}, which a federation uses unless told otherwise, is not free: {why}",
            f"if you lead one: fedse federation create ... {options.get(port, '--port')} PORT",
        )
        for port, why in taken.items()
    ]
    free = [str(port) for port in ports if port not in taken]
    return [*found, *([Diagnosis("ok", f"free ports: {', '.join(free)}")] if free else [])]


def _disk(root: Path) -> Diagnosis:
    here = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(here).free
    message = f"{free / GIGABYTE:.1f} GB free where runs are kept"
    if free < LEAST_DISK:
        fix = "make room, or keep runs elsewhere: export FEDSE_RUNS=..."
        return Diagnosis("fail", message, fix)
    return Diagnosis("ok", message)


def _memory() -> Diagnosis:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    message = f"{total / GIGABYTE:.1f} GB memory, {os.cpu_count()} CPUs"
    if total < LEAST_MEMORY:
        return Diagnosis("warn", message, "the demo needs about 1 GB; larger models do not fit")
    return Diagnosis("ok", message)


def _writable(root: Path) -> Diagnosis:
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=root):
            pass
    except OSError as error:
        fix = "export FEDSE_RUNS=... to a folder you may write to"
        return Diagnosis("fail", f"cannot write to {root}: {error.strerror}", fix)
    return Diagnosis("ok", f"runs are kept in {root} ({len(run_folders(root))} so far)")


def _base_models() -> Diagnosis:
    return _diagnose(
        lambda: "base models " + ", ".join(f"{n} {base_digest(p)[:8]}" for n, p in SHIPPED.items()),
        "the package is damaged: install it again",
    )


def _threads(environ: Mapping[str, str]) -> Diagnosis:
    if environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE":
        return Diagnosis("ok", "OMP_WAIT_POLICY=PASSIVE")
    return Diagnosis(
        "warn",
        "torch may be many times slower when other work shares the CPUs",
        "export OMP_WAIT_POLICY=PASSIVE",
    )


def _experiment(config: Config) -> list[Diagnosis]:
    base = config.model.base
    model = _diagnose(lambda: f"model.base {base}: {spec_of(config).nbytes / 1e6:.2f} MB adapters")
    slow = [Diagnosis("warn", *found) for found in slowed_by(config.trainer)]
    clients = [_diagnose(partial(_client, config, client)) for client in config.clients]
    costly = [Diagnosis("warn", *found) for found in advice(config)]
    return [model, *slow, *costly, *clients]


def _client(config: Config, client: ClientSection) -> str:
    env = make_env(client.env, client.options)
    count = len(tasks_of(env, client, config.splits, "train"))
    with boundary(EnvError, f"{client.env}.close"):
        env.close()
    part = f", part {client.part[0]} of {client.part[1]}" if client.part else ""
    return f"client {client.name}: {client.env} with {count} training tasks{part}"


def _diagnose(check: Callable[[], str], fix: str = "") -> Diagnosis:
    try:
        return Diagnosis("ok", check())
    except FedSEError as error:
        return Diagnosis("fail", str(error), error.hint or fix)
