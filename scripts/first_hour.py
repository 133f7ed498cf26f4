"""Play the first hour of three new users with the built wheel, without a network.

    python -m scripts.first_hour docs/results/first-hour.json
    python -m scripts.first_hour OUT --short --borrow .venv     # as CI does

The wheel is installed into an environment of its own, with its packages; with --borrow a .pth file
lends it the packages of another environment, and only the wheel itself is installed. Then every
step runs in an empty home, in a network namespace that has nothing but a loopback interface; where
none can be made, every Python process refuses other addresses. That this holds is tried first.
A step fails by its exit code, or if its user did not see what must be seen; it is named, and the
exit code is 1.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from scripts.cpu_time import children_cpu_seconds
from scripts.first_hour_steps import Step, files, steps

ROOT = Path(__file__).parents[1]
EXTRAS = "demo"
BESIDE = tuple(str(ROOT / "plugins" / name) for name in ("fed-se-reproduce", "fed-se-worlds"))
"""What the extra brings of the packages in this checkout, which no index has yet."""
PIP = (sys.executable, "-m", "pip", "--quiet")
SHOWN_LINES = 3
WIDTHS = {"who": 17, "command": 60, "CPU-s": 5, "exit": 4, "last line": 36}
# In a new namespace the loopback interface is down. 0x8914 is SIOCSIFFLAGS, 0x41 is up and running.
LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
    fcntl.ioctl(door, 0x8914, struct.pack("16sH14s", b"lo", 0x41, b""))
os.execvp(sys.argv[1], sys.argv[1:])
"""
REFUSAL = """
import sys

SPEAKS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
ASKS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
HERE = ("127.", "::1", "localhost")

def refuse(event, args):
    if event in SPEAKS and isinstance(args[1], tuple):
        host = args[1][0]
    elif event in ASKS:
        host = args[0]
    else:
        return
    if host and not str(host).startswith(HERE):
        raise OSError(101, f"{event} {host}: there is no network here")

sys.addaudithook(refuse)
"""
# 192.0.2.1 is reserved for documents (RFC 5737). Naming a peer sends nothing, but needs a route.
PROBE = """
import socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("192.0.2.1", 9))
    print("outside reached")
except OSError:
    print("outside refused")
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
print("loopback reached")
"""
CONFINED = "outside refused\nloopback reached\n"


class Confinement(NamedTuple):
    """How a command is kept from the network."""

    about: str
    prefix: tuple[str, ...]


class Took(NamedTuple):
    """What came of one step."""

    step: Step
    printed: str
    exit_code: int
    cpu_seconds: float
    missing: tuple[str, ...]
    """Patterns of what the user had to see and did not."""

    @property
    def ok(self) -> bool:
        return self.exit_code == self.step.exit_code and not self.missing


def namespaces(python: Path) -> list[Confinement]:
    """For root, and for a user who may make a user namespace."""
    up = (str(python), "-c", LOOPBACK_UP)
    return [
        Confinement("network namespace with a loopback interface only", (*unshare, *up))
        for unshare in (("unshare", "--net"), ("unshare", "--net", "--map-root-user"))
    ]


def confines(confinement: Confinement, python: Path) -> bool:
    """Whether a command behind it reaches this machine and no other."""
    try:
        command = [*confinement.prefix, str(python), "-c", PROBE]
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return False
    return done.stdout == CONFINED


def confine(python: Path) -> Confinement:
    """A namespace if one can be made, else a hook in every Python of this environment."""
    for confinement in namespaces(python):
        if confines(confinement, python):
            return confinement
    packages = packages_of(python.parents[1])
    (packages / "first_hour_refusal.py").write_text(REFUSAL)
    (packages / "first_hour_refusal.pth").write_text("import first_hour_refusal\n")
    hook = Confinement("audit hook in every Python process", ())
    if not confines(hook, python):
        raise SystemExit("the steps could reach a network: no namespace, and the hook fails")
    return hook


def packages_of(venv: Path) -> Path:
    """The folder of an environment in which packages are installed."""
    place = {"base": str(venv), "platbase": str(venv)}
    return Path(sysconfig.get_path("purelib", "venv", place))


def install(folder: Path, wheel: Path | None, borrow: Path | None) -> Path:
    """An environment in `folder` with the wheel, which is built here if none is given."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    if wheel is None:
        building = ["wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
        subprocess.run([*PIP, *building], check=True)
        (wheel,) = folder.glob("fed_se-*.whl")
    if borrow:
        lend(venv, borrow)
        add(venv, *BESIDE, str(wheel))
    else:
        pinned = ["-c", str(ROOT / ".ci" / "constraints.txt"), "torch==2.13.0"]
        subprocess.run([*_into(venv), *pinned, *BESIDE, f"{wheel}[{EXTRAS}]"], check=True)
    return venv


def _into(venv: Path) -> list[str]:
    return [*PIP, "--python", str(venv / "bin" / "python"), "install"]


def add(venv: Path, *packages: str) -> None:
    """The environment has these of its own, and none of what they need."""
    subprocess.run([*_into(venv), "--no-deps", "--ignore-installed", *packages], check=True)


def lend(venv: Path, borrow: Path) -> None:
    """Packages of `borrow` can be imported in `venv`, but not ours; its own come first."""
    lent = venv.resolve() / "lent"
    lent.mkdir()
    for entry in packages_of(borrow.resolve()).iterdir():
        # A checkout and its plug-ins are there too; their names would promise what is not lent.
        if not entry.name.lstrip("_").startswith(("fed_se", "editable")):
            (lent / entry.name).symlink_to(entry)
    # A folder in a .pth file is searched, but .pth files in it are not read.
    (packages_of(venv) / "lent.pth").write_text(f"{lent}\n")


def require_wheel(venv: Path) -> None:
    """What is imported in this environment is the wheel, not a checkout."""
    code = "import fedse; print(fedse.__file__)"
    command = [str(venv / "bin" / "python"), "-c", code]
    clean = {"PATH": os.defpath}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=clean, cwd=venv)
    if not Path(done.stdout.strip()).is_relative_to(packages_of(venv)):
        raise SystemExit(f"expected fedse in {packages_of(venv)}, got {done.stdout}")


def play(
    todo: Sequence[Step], home: Path, prefix: Sequence[str], environ: Mapping[str, str]
) -> list[Took]:
    """What came of the steps, in their order, up to and with the first that failed."""
    known: dict[str, str] = {}
    results: list[Took] = []
    for step in todo:
        before = children_cpu_seconds()
        done = subprocess.run(
            [*prefix, *shlex.split(step.command.format(**known))],
            cwd=home / step.folder,
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        cpu = children_cpu_seconds() - before
        found = {name: seen(pattern, done.stdout) for name, pattern in step.takes.items()}
        known |= {name: match[1] for name, match in found.items() if match}
        wanted = (*step.sees, *step.takes.values())
        missing = tuple(pattern for pattern in wanted if not seen(pattern, done.stdout))
        results.append(Took(step, done.stdout, done.returncode, cpu, missing))
        print(f"{'ok' if results[-1].ok else 'FAILED':<6} {cpu:6.1f} CPU-s  {step.command}")
        if not results[-1].ok:
            break
    return results


def seen(pattern: str, printed: str) -> re.Match[str] | None:
    return re.search(pattern, printed, flags=re.MULTILINE)


def as_json(results: Sequence[Took], home: Path) -> list[dict[str, object]]:
    """Each step with the first and last lines it printed; the home is `~`."""
    told = []
    for took in results:
        text = took.printed.replace(str(home), "~")
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        told.append(
            {
                "who": took.step.who,
                "command": took.step.command,
                "folder": took.step.folder,
                "exit_code": took.exit_code,
                "expected_exit_code": took.step.exit_code,
                "cpu_seconds": round(took.cpu_seconds, 1),
                "first": lines[:SHOWN_LINES],
                "last": lines[SHOWN_LINES:][-SHOWN_LINES:],
                "missing": took.missing,
            }
        )
    return told


def show(told: Sequence[Mapping[str, object]]) -> None:
    """The steps are on the screen as a table."""
    table = Table()
    for head, width in WIDTHS.items():
        table.add_column(head, no_wrap=True, width=width)
    for row in told:
        last = [*row["first"], *row["last"]][-1:]  # type: ignore[misc]
        numbers = (str(row["cpu_seconds"]), str(row["exit_code"]))
        table.add_row(str(row["who"]), str(row["command"]), *numbers, *last)
    Console(markup=False, highlight=False, width=140).print(table)


def first_hour(home: Path, venv: Path, *, short: bool) -> tuple[list[Took], str]:
    """All steps were played in `home`; what came of them, and how the network was shut out."""
    home.mkdir()
    for name, text in files(short=short).items():
        (home / name).write_text(text)
    confinement = confine(venv / "bin" / "python")
    path = os.pathsep.join([str(venv / "bin"), os.defpath, "/usr/sbin"])
    environ = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "COLUMNS": "100"}
    return play(steps(short=short), home, confinement.prefix, environ), confinement.about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--short", action="store_true", help="the least of everything, for CI")
    parser.add_argument("--wheel", type=Path, help="instead of one built from this checkout")
    parser.add_argument("--venv", type=Path, help="has the wheel already; it is changed")
    parser.add_argument("--borrow", type=Path, help="an environment whose packages are lent")
    args = parser.parse_args()
    with TemporaryDirectory(prefix="fedse-") as folder:
        venv = args.venv.resolve() if args.venv else install(Path(folder), args.wheel, args.borrow)
        if args.venv and args.borrow:
            lend(venv, args.borrow)
            add(venv, *BESIDE)
        require_wheel(venv)
        home = Path(folder) / "home"
        results, network = first_hour(home, venv, short=args.short)
        told = as_json(results, home)
    total = round(sum(took.cpu_seconds for took in results), 1)
    packages = "lent by another environment" if args.borrow else "installed with the wheel"
    head = {"form": "short" if args.short else "whole", "network": network, "packages": packages}
    args.out.write_text(json.dumps({**head, "cpu_seconds": total, "steps": told}, indent=1) + "\n")
    show(told)
    print(f"{len(results)} steps, {total} CPU-s; {network}; packages {packages}")
    if not results[-1].ok:
        failed = results[-1]
        print(failed.printed)
        missing = f", not seen: {', '.join(failed.missing)}" if failed.missing else ""
        raise SystemExit(f"failed: {failed.step.command}: exit {failed.exit_code}{missing}")


if __name__ == "__main__":
    main()
