"""Does joining still pay with a preset for private data? Sites in related mazes, and in one world.

    python -m research.preset_pays docs/results/preset-pays.json --out RUNS

The federated arms of two tables of `fedse reproduce` under `privacy.preset = "customer-data"`: a
secure sum, and redaction of what has a known form. They are compared with the published games of
sites that work alone, and with the published ones of the federation without the preset. What is
done is not done again.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedse_reproduce.command import expected
from fedse_reproduce.jobs import do_jobs
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.results import TableResult, answers, gather, lines
from fedse_reproduce.tables import arms_of, jobs_of

QUESTIONS = {
    "related": {
        "together, personal": "alone, as many steps",
        "home: together, personal": "home: alone, as many steps",
    },
    "one-world": {"fed-se": "local-evolve"},
}
"""Table -> arm under the preset -> the published arm that it is compared with."""
UNPROTECTED = "{}, without the preset"


def compared(table: str, preset: str, seeds: range, out: Path, jobs: int) -> dict[str, Any]:
    """The table's answers, its federated arms played again under the preset."""
    questions = QUESTIONS[table]
    wanted = [arm for arm in arms_of(TABLES[table], quick=False) if arm.label in questions]
    todo = jobs_of(wanted, seeds, [f"privacy.preset={preset}"])
    done = gather(todo, do_jobs(todo, out, workers=jobs, tell=lambda *_: None))
    published = expected(table)
    assert published is not None, table
    others = {
        **{other: published.arms[other] for other in questions.values()},
        **{UNPROTECTED.format(arm): published.arms[arm] for arm in questions},
    }
    chosen = {arm: {seed: found[seed] for seed in seeds} for arm, found in others.items()}
    # In a federation without the preset sites are in the same worlds.
    worlds = published.worlds | {
        UNPROTECTED.format(arm): published.worlds[arm] for arm in questions
    }
    asked = [*questions.items(), *((arm, UNPROTECTED.format(arm)) for arm in questions)]
    return dict(
        told(
            published.model_copy(
                update={"arms": {**done, **chosen}, "worlds": worlds, "questions": asked}
            )
        )
    )


def told(result: TableResult) -> Iterator[tuple[str, Any]]:
    """Success of every arm, and the answers."""
    for line in lines(result):
        yield line.arm, {"won": [*line.after], "cpu_seconds": line.cpu_seconds}
    for answer in answers(result):
        difference = answer.found.micro._asdict()
        yield " minus ".join(answer.question), {**difference, "p": answer.p_holm}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--preset", default="customer-data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    found: Mapping[str, Any] = {"preset": args.preset, "seeds": args.seeds}
    for table in QUESTIONS:
        seeds = range(args.seeds)
        found = {**found, table: compared(table, args.preset, seeds, args.out, args.jobs)}
        args.result.write_text(json.dumps(found, indent=1) + "\n")
        print(table, json.dumps(found[table]), flush=True)


if __name__ == "__main__":
    main()
