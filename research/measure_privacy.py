"""What differential privacy costs: success after training with and without noise, per epsilon.

    python -m research.measure_privacy privacy.json --clients babyai maze --rounds 3 --episodes 8
    python -m research.measure_privacy docs/results/privacy.json --seeds 0 1 2 --rounds 20

Five worlds and the tiny model, one client each, as in configs/five-worlds.toml. All arms take the
same number of steps per round, in batches of the same expected size. `none` trains as without
[privacy]; `clip` shortens gradients and takes random samples, with so little noise that nothing is
protected; the others are values of epsilon for the whole run. What the result has already is not
measured again.
"""

import argparse
import json
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fedse
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.privacy.accountant import epsilon_of
from fedse.privacy.plan import planned_noise
from fedse.store.buffer import Buffer

FILE = Path(__file__).parents[1] / "configs" / "five-worlds.toml"
ARMS = ("none", "clip", "8", "3", "1")
# The accountant needs some noise; this much is a hundredth of what protects anything.
HARDLY = {"privacy.epsilon": 1e12, "privacy.noise": 0.01}


def configured(arm: str, seed: int, given: argparse.Namespace) -> Config:
    """The experiment of one arm."""
    settings: dict[str, Any] = {
        "run.seed": seed,
        "run.rounds": given.rounds,
        "run.workers": 1,
        "rollout.episodes": given.episodes,
        "buffer.demonstrations": given.demonstrations,
        "train.steps": given.steps,
        "train.batch": round(given.rate * given.demonstrations),
        "train.lr": given.lr,
        "eval.episodes": given.games,
        "eval.every": given.rounds,
        "privacy.clip": given.clip,
        "privacy.rate": given.rate,
        "privacy.delta": given.delta,
        "privacy.counts": True,
    }
    if arm == "clip":
        settings |= HARDLY
    elif arm != "none":
        settings["privacy.epsilon"] = float(arm)
    config = with_settings(fedse.load_config(FILE), settings)
    chosen = tuple(one for one in config.clients if one.name in (given.clients or [one.name]))
    return config.model_copy(update={"clients": chosen})


def measured(config: Config, out: Path) -> dict[str, Any]:
    """One run: what was won before and after, and with how much noise."""
    started = time.process_time()
    result = fedse.run(config, out=out)
    last = {name: [r.successes, r.n] for name, r in result.success[config.run.rounds].items()}
    before = {name: [r.successes, r.n] for name, r in result.success[0].items()}
    units = {name: stats.buffered for name, stats in result.rounds[-1].stats.items()}
    facts: dict[str, Any] = {
        "before": before,
        "after": last,
        "success": _share(last),
        "success before": _share(before),
        "units in the last round": units,
        "cpu seconds": round(time.process_time() - started),
    }
    if config.privacy.on:
        facts |= _noise(config, result.path, units)
    return facts


def _noise(config: Config, run: Path, units: Mapping[str, int]) -> dict[str, Any]:
    noise, rate = planned_noise(config), config.privacy.rate
    client = config.clients[0].name
    with closing(Buffer(run / "clients" / client / "buffer.db")) as buffer:
        charges = buffer.outbox.privacy.charges()
    return {
        "noise": noise,
        "rate": rate,
        "expected batch": {name: round(rate * count, 1) for name, count in units.items()},
        "noise per coordinate of the mean": {
            name: round(noise * config.privacy.clip / (rate * count), 4)
            for name, count in units.items()
        },
        "steps charged": sum(charge.steps for charge in charges),
        "epsilon spent": round(epsilon_of(charges, delta=config.privacy.delta), 4),
        "delta": config.privacy.delta,
        "clip": config.privacy.clip,
    }


def _share(won: Mapping[str, list[int]]) -> float:
    """Over the worlds, each counting the same."""
    return round(sum(one[0] / one[1] for one in won.values()) / len(won), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--arms", nargs="+", default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--clients", nargs="+", default=[], help="those only; all if not given")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--demonstrations", type=int, default=64)
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.25)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--delta", type=float, default=1e-5)
    given = parser.parse_args()
    settings = {key: value for key, value in vars(given).items() if key not in ("out", "arms")}
    found = json.loads(given.out.read_text()) if given.out.is_file() else {}
    for seed in given.seeds:
        for arm in given.arms:
            shown = {**settings, "seeds": [seed]}
            name = ", ".join([arm, *(f"{key} {value}" for key, value in shown.items())])
            if name in found:
                continue
            with TemporaryDirectory() as folder:
                config = configured(arm, seed, given)
                found[name] = {"arm": arm, **measured(config, Path(folder))}
            print(name, found[name], flush=True)
            given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
