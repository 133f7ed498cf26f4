"""Regions of real sites, each party in a network namespace of its own, each part killed once.

    python -m research.regions docs/results/regions.json --regions 3 --sites 5 --delay 20

A coordinator above, its regions and their sites are started by their own commands. While the first
two rounds are open every part of every coordinator is killed, and of each region one site's worker,
node and starter. In the last round one region signs a sum that no sites of its can have. Compared
is the adapter of every round with that of one coordinator of the same sites, whom the liar's are
missing in the last round. Needs root, ip and /dev/net/tun. Sites have no model.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedse.committed import RoundResult
from fedse.config.file import parse_config
from fedse.drivers.local import InProcess
from fedse.drivers.loop import federate
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.protocol import Delivery, Question
from fedse.store.run_folder import create_run
from tests.system.field import SHORT_ROUND, Field, maze_clients
from tests.system.namespaces import Line, parties_apart, through
from tests.system.region_field import RegionTree, region_tree
from tests.toys.light_site import open_light_site

NAMES = ("east", "north", "south", "west")
ROUNDS = 3
SETTINGS = f"""[run]
name = "regions"
rounds = {ROUNDS}
{SHORT_ROUND}
[eval]
episodes = 2
[aggregate]
deadline = 1500.0
rejoin = 300.0
"""
PATIENCE = 1500.0
LINKS = ("superlink", "nginx", "superexec")
EVENTS = {
    "root": ("aggregate.started", "regions.summed", "commit.started"),
    "region": ("region.told", "region.summed"),
}


def one_coordinator(
    path: Path, sites: Sequence[str], missing: Mapping[int, Collection[str]]
) -> list[RoundResult]:
    """What these sites come to without regions, where the votes of some are lost in some rounds."""
    text = SETTINGS + maze_clients(sites)
    config, now = parse_config(text, "experiment"), datetime.now(UTC)
    made = create_run(path, config, given=text, name="flat", now=now, clock=time.time)
    with closing(made) as run, closing(InProcess(run, time.time, open_light_site)) as ask:

        def ask_some(question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
            for delivery in ask(question, body, of=of):
                if delivery.client not in missing.get(question.round, ()):
                    yield delivery

        federate(run, ask_some, clock=time.time)
        return list(run.results())


def order_kills(tree: RegionTree) -> None:
    """Every round loop dies once at each event that is of regions."""
    for number, event in enumerate(EVENTS["root"]):
        tree.root.order("server", event, 1 + number % 2)
    for place, region in enumerate(tree.regions.values()):
        for number, event in enumerate(EVENTS["region"]):
            region.order("server", event, 1 + (place + number) % 2)


def strike(tree: RegionTree, round: int, note: Callable[..., None]) -> None:
    """While the round is open, this half of all parts is killed, one after another."""
    fields = {"root": tree.root, **tree.regions}
    for place, (name, one) in enumerate(fields.items()):
        if place % 2 == round % 2:
            for part in [*LINKS, *(["node"] if name != "root" else [])]:
                _killed(one, "server", part, note, name)
            _restarted(one, "server", one.start_server, note, name)
        elif one.sites:
            first, second, third = one.sites[:3]
            _killed(one, first, "worker", note, name)
            _killed(one, second, "node", note, name)
            _restarted(one, third, lambda one=one, third=third: one.start_site(third), note, name)


def _killed(one: Field, owner: str, part: str, note: Callable[..., None], name: str) -> None:
    def here() -> set[int]:
        return {process["pid"] for process in one.roll(owner) if process["name"] == part}

    one.wait(PATIENCE, until=lambda: bool(here()))
    before, began = here(), one.kill(owner, part)
    one.wait(PATIENCE, until=lambda: bool(here() - before))
    note(name, owner, part, round(time.time() - began, 1))


def _restarted(
    one: Field, owner: str, start: Callable[[], None], note: Callable[..., None], name: str
) -> None:
    before = {process["pid"] for process in one.roll(owner)}
    began = one.kill_starter(owner)
    start()
    one.wait(PATIENCE, until=lambda: bool({p["pid"] for p in one.roll(owner)} - before))
    note(name, owner, "starter", round(time.time() - began, 1))


@contextmanager
def apart(path: Path, partition: Mapping[str, Sequence[str]], line: Line) -> Iterator[RegionTree]:
    """The tree, every party in a namespace of its own."""
    sites = [site for inside in partition.values() for site in inside]
    with (
        parties_apart(["root", *partition, *sites], line) as hosts,
        region_tree(path, SETTINGS, partition, hosts) as tree,
    ):
        for name, one in {"root": tree.root, **tree.regions}.items():
            one.through = {"server": through(name)} | {site: through(site) for site in one.sites}
        yield tree


def run(path: Path, partition: Mapping[str, Sequence[str]], line: Line) -> dict[str, Any]:
    """What happened, and whether every round's adapter is the expected one."""
    liar = list(partition)[-1]
    began, kills = time.monotonic(), list[list[Any]]()

    def note(*kill: Any) -> None:
        kills.append([*kill])
        print(f"{time.monotonic() - began:7.0f} s  killed", *kill, flush=True)

    with apart(path, partition, line) as tree:
        order_kills(tree)
        waits = next(iter(tree.regions.values()))
        held = {n: waits.hold(waits.sites[-1], "train.started", n) for n in range(1, ROUNDS + 1)}
        tree.start()
        for number, is_held in held.items():
            waits.wait(PATIENCE, until=is_held)
            print(f"{time.monotonic() - began:7.0f} s  round {number} is open", flush=True)
            if number < ROUNDS:
                strike(tree, number, note)
            else:
                _turn(tree.regions[liar], partition[liar][0], note, liar)
            waits.let_go(round=number)
        codes = tree.wait_for_end(PATIENCE)
        spent = round(time.monotonic() - began)
        happened = [[n, *_said(k)] for n, one in _all(tree) for k in one.killed()]
        return {
            "line": line.words,
            "regions": {name: len(sites) for name, sites in partition.items()},
            "seconds": spent,
            "exit codes": codes,
            "kills of processes": kills,
            "kills of round loops at an event": happened,
            **_compared(path, tree, partition, liar),
        }


def _turn(one: Field, first: str, note: Callable[..., None], name: str) -> None:
    """From now on this region signs false sums."""
    one.armed["FEDSE_LYING_REGION"] = first
    _restarted(one, "server", one.start_server, note, name)


def _all(tree: RegionTree) -> list[tuple[str, Field]]:
    return [("root", tree.root), *tree.regions.items()]


def _said(kill: Mapping[str, Any]) -> list[Any]:
    return [kill["event"], kill["round"]]


def _compared(
    path: Path, tree: RegionTree, partition: Mapping[str, Sequence[str]], liar: str
) -> dict[str, Any]:
    sites = [site for inside in partition.values() for site in inside]
    flat = one_coordinator(path / "flat", sites, {ROUNDS: partition[liar]})
    results, bad = tree.root.results(), dict[str, str]()
    folders = [one.federation.run for _, one in _all(tree)]
    folders += [one.federation.path / "above" for one in tree.regions.values()]
    folders += [one.home(site) for one in tree.regions.values() for site in one.sites]
    ledgers = [file for where in folders for file in ledgers_in(where)]
    for file in ledgers:
        if finding := verify_ledger(file).finding:
            bad[str(file.relative_to(path))] = finding.reason
    return {
        "adapters": [one.after for one in results],
        "same adapter in every round": [one.after for one in results]
        == [one.after for one in flat],
        "regions know it": {
            name: [one.after for one in below.results()] == [one.after for one in results]
            for name, below in tree.regions.items()
        },
        "votes": [{one.region: len(one.sites) for one in r.regions} for r in results],
        "excluded": [[[one.client, one.text] for one in r.excluded] for r in results],
        "ledgers": len(ledgers),
        "ledgers with a fault": bad,
    }


def _text_of(found: Mapping[str, Any]) -> str:
    """As JSON, a kill a line."""
    lines = []
    for name, value in found.items():
        kills = ",\n".join(f"  {json.dumps(one)}" for one in value) if "kills" in name else ""
        lines.append(f" {json.dumps(name)}: " + (f"[\n{kills}\n ]" if kills else json.dumps(value)))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--regions", type=int, default=3, choices=(2, 3, 4))
    parser.add_argument("--sites", type=int, default=5, help="in each region, 3 or more")
    parser.add_argument("--delay", type=float, default=20, help="of every packet, ms")
    parser.add_argument("--loss", type=float, default=0.5, help="of packets, per cent")
    given = parser.parse_args()
    partition = {
        name: [f"{name[0]}{number}" for number in range(1, given.sites + 1)]
        for name in NAMES[: given.regions]
    }
    with tempfile.TemporaryDirectory(prefix="fedse-regions-") as folder:
        line = Line(given.delay / 1000, given.delay / 4000, given.loss / 100)
        found = run(Path(folder), partition, line)
    given.out.write_text(_text_of(found))
    print(_text_of(found))


if __name__ == "__main__":
    main()
