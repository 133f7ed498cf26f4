"""How does it scale with the number of sites? Two, four and eight kitchens, as many steps each.

    FEDSE_MODELS=FOLDER python -m research.kitchen_scale SWEEP docs/results/kitchens-scale.json \
        --seeds 0 1 --sites 2 4 8

SWEEP is the folder of a sweep of research/kitchens.toml. What its four kitchens did is not done
again: neither the federation of four, nor the first round of a kitchen in another one. The eight
kitchens have the same eight kinds of recipes, each of which two of them have. The result holds the
held-out games of the two kitchens that are in every federation, which play the same in each.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from fedse.config.file import experiment_text, parse_config
from fedse.config.schema import ClientSection, Config
from fedse.store.files import write_durably
from fedse_reproduce.jobs import Found, key_of
from fedse_reproduce.progress import Plan, do_all
from fedse_reproduce.tables import Job
from research.kitchen_cases import DETAILS, EXPERIMENT
from research.verdicts import HALF_A_BILLION, Case, Cases

ALWAYS = 2
"""Kitchens that are in every federation."""
OTHERS = {"cafe": (0, 3), "pub": (2, 5), "bakery": (4, 7), "brasserie": (6, 1)}
"""Name -> its two of the kinds of recipes that the four kitchens have, in their order."""
TESTED = {"test": "kinds of recipes that no kitchen has", "home": "new recipes of its own kinds"}
"""Record -> what it is."""


def config_of(sites: int, seed: int) -> Config:
    """The experiment with so many of the eight kitchens."""
    changed = [f"run.seed={seed}", "run.workers=1"]
    config = parse_config(experiment_text(EXPERIMENT), str(EXPERIMENT), changed)
    kitchens = [*config.clients, *_others(config.clients)]
    return config.model_copy(update={"clients": tuple(kitchens[:sites])})


def _others(clients: tuple[ClientSection, ...]) -> Iterator[ClientSection]:
    kinds = [kind for client in clients for kind in client.options["games"]]
    for name, chosen in OTHERS.items():
        options = {**clients[0].options, "games": [kinds[number] for number in chosen]}
        yield clients[0].model_copy(update={"name": name, "options": options})


def cases_of(jobs: list[Job], found: dict[str, Found]) -> Cases:
    """More kitchens against the fewest, in the games of those that are in every federation."""
    cases = []
    for record, tested in TESTED.items():
        games: dict[str, dict[int, dict[str, str]]] = {}
        for job in jobs:
            rounds = found[key_of(job)].games[record]
            last = rounds[max(rounds)]
            always = {client.name: last[client.name] for client in job.config.clients[:ALWAYS]}
            games.setdefault(job.arm, {})[job.seed] = always
        fewest, *more = games
        cases += [
            Case(
                where=f"a kitchen, as one of {sites}; {tested}",
                together=games[sites],
                other=games[fewest],
                against=f"as one of {fewest}",
            )
            for sites in more
        ]
    return Cases(
        model=HALF_A_BILLION,
        command="python -m research.kitchen_scale SWEEP docs/results/kitchens-scale.json",
        details=DETAILS,
        cpu_hours=round(sum(one.cpu_seconds for one in found.values()) / 3600, 2),
        cases=cases,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--sites", type=int, nargs="+", default=[2, 4, 8])
    args = parser.parse_args()
    jobs = [Job(str(n), seed, config_of(n, seed)) for seed in args.seeds for n in args.sites]
    size = f"{len(args.sites)} federations, {len(args.seeds)} seeds"
    found = do_all(Plan("kitchens", size, str(args.out), 1, None), jobs, args.sweep)
    write_durably(args.out, f"{cases_of(jobs, found).model_dump_json(indent=1)}\n".encode())


if __name__ == "__main__":
    main()
