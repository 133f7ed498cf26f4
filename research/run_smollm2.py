"""SmolLM2-135M-Instruct through a real vLLM: fed-se and local-evolve on the same seeds.

    FEDSE_MODELS=FOLDER python research/run_smollm2.py --python PYTHON_WITH_VLLM --seeds 0 1 \
        --out runs --result docs/results/smollm2.json

A run that was interrupted is continued; one that is finished is read. The result holds, for every
arm and seed, the held-out games won and played after each round, what was generated, and CPU
seconds of this process and of the server (of the last attempt, where a run was continued).
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

import fedse
from fedse.__main__ import end_on_sigterm
from fedse.adapters.base import base_path
from fedse.api.experiment import load_experiment
from fedse.config.schema import Config
from fedse.engine.server import running_engine
from fedse.processes.cpu_time import cpu_seconds
from fedse.store.buffer import Buffer

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "smollm2.toml"


ArmOfSeed = tuple[str, str, str | None]
"""Name of the run, method, and the only client."""


def arms(clients: list[str], seed: int, methods: list[str]) -> Iterator[ArmOfSeed]:
    """The runs of one seed, the federated one first."""
    if "fed-se" in methods:
        yield f"fed-se-{seed}", "fed-se", None
    if "local-evolve" in methods:
        for client in clients:
            yield f"local-evolve-{client}-{seed}", "local-evolve", client


def run_one(
    out: Path, name: str, method: str, only: str | None, settings: dict[str, Any]
) -> fedse.RunResult:
    """The finished run of that name."""
    if (out / name).exists():
        return fedse.resume(out / name, on_event=say, out=out)
    return fedse.run(
        CONFIG, settings=settings, method=method, only=only, out=out, name=name, on_event=say
    )


def say(event: str, facts: dict[str, Any]) -> None:
    if event in ("round.committed", "eval.recorded", "engine.ended", "train.started"):
        print(time.strftime("%H:%M:%S"), json.dumps(facts), flush=True)


def generated(config: Config, homes: Path) -> dict[str, int]:
    """Tokens the agents sampled and read in all games of the run, demonstrations not counted.

    `homes` has a folder for each client.
    """
    sampled, read = 0, 0
    for client in config.clients:
        buffer = Buffer(homes / client.name / "buffer.db")
        for game in buffer.played(config.run.name):
            turns = game.episode.turns if game.episode else ()
            sampled += sum(len(turn.action_ids) for turn in turns)
            read += sum(len(turn.context_ids) for turn in turns)
        buffer.close()
    return {"sampled": sampled, "read": read}


def won_and_played(result: fedse.RunResult) -> dict[int, dict[str, list[int]]]:
    """Round -> client -> held-out games of the adapter after it."""
    return {
        round: {client: [rate.successes, rate.n] for client, rate in by_client.items()}
        for round, by_client in result.success.items()
    }


def summary(result: fedse.RunResult, cpu: dict[str, float]) -> dict[str, Any]:
    curve = won_and_played(result)
    steps = {
        one.index: {client: stats.steps for client, stats in one.stats.items()}
        for one in result.rounds
    }
    tokens = generated(result.config, result.path / "clients")
    return {"curve": curve, "steps": steps, "tokens": tokens, "cpu_seconds": cpu}


def cpu_of_children() -> float:
    """CPU seconds of the server and all it started."""
    return sum(cpu_seconds(child.pid) for child in psutil.Process().children())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--methods", nargs="+", default=["fed-se", "local-evolve"])
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    own = {"engine.python": args.python}
    own |= dict(pair.split("=", 1) for pair in args.set)
    settings = [f"{key}={value}" for key, value in own.items()]
    config = load_experiment(CONFIG, settings=settings).config
    results: dict[str, Any] = {}
    if args.result.is_file():
        results = json.loads(args.result.read_text())["runs"]
    clients = [client.name for client in config.clients]
    base = base_path(config.model.base)
    with running_engine(config, base, args.out / "engine", tell=print):
        for seed in args.seeds:
            for name, method, only in arms(clients, seed, args.methods):
                if name in results:
                    continue
                before = time.process_time(), cpu_of_children()
                chosen = [*settings, f"run.seed={seed}"]
                result = run_one(args.out, name, method, only, chosen)
                cpu = {
                    "here": round(time.process_time() - before[0], 1),
                    "server": round(cpu_of_children() - before[1], 1),
                }
                results[name] = summary(result, cpu)
                whole = {"config": config.model_dump(mode="json"), "runs": results}
                args.result.write_text(json.dumps(whole, indent=1) + "\n")
                print(name, json.dumps(results[name]["curve"]), cpu, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    end_on_sigterm()
    main()
