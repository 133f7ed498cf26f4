"""A real model in a real federation on this machine: one vLLM server for all, or one each.

    FEDSE_MODELS=FOLDER python -m research.federate_real --python PYTHON_WITH_VLLM \
        --engines shared --out federated --result docs/results/smollm2-shared.json
    FEDSE_MODELS=FOLDER python -m research.federate_real --python PYTHON_WITH_VLLM \
        --experiment desk --set engine.type=vllm engine.adapters=merged trainer.precision=bfloat16 \
        --engines shared --out federated --result docs/results/desk-federated.json

Everything is done with the commands an organisation types: create, invite, join, enrol, start. Each
site has its own folder, process and `site.toml`; clients that join after the last round are left
out. The result holds the held-out games won and played after each round, who voted, and CPU seconds
of all processes. One that was interrupted is continued; its seconds are then those of the last
attempt.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import tomlkit

from fedse.__main__ import end_on_sigterm
from fedse.adapters.base import base_path
from fedse.api.experiment import load_experiment
from fedse.config.file import experiment_text
from fedse.config.methods import newcomers
from fedse.config.schema import Config
from fedse.engine.server import running_engine
from fedse.ports import free_ports
from fedse.processes.cpu_time import cpu_seconds
from fedse.results.outcome import result_of
from fedse.store.run_folder import open_run
from fedse.waiting import wait_until
from research.run_smollm2 import CONFIG, generated, won_and_played

LOOK_SECONDS = 20.0
START_SECONDS = 120.0
FEDSE = (sys.executable, "-m", "fedse")


def say(*arguments: str, folder: Path) -> str:
    """What the command printed; its failure ends the script."""
    done = subprocess.run([*FEDSE, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


def lasting(experiment: Path, settings: list[str], folder: Path) -> Path:
    """The experiment's file in `folder`, without the clients that join after the last round."""
    config = load_experiment(experiment, settings=settings).config
    card = tomlkit.parse(experiment_text(experiment))
    late = {client.name for client in newcomers(config)}
    card["clients"] = [one for one in card["clients"].unwrap() if one["name"] not in late]
    file = folder / "experiment.toml"
    file.write_text(tomlkit.dumps(card))
    return file


def found_and_join(folder: Path, file: Path, config: Config, settings: list[str]) -> None:
    """A federation in `folder/federation` and one folder per site, all enrolled."""
    port, link = map(str, free_ports(2))
    chosen = [word for pair in settings for word in ("--set", pair)]
    place = ("--host", "localhost", "--port", port, "--link-port", link)
    say("federation", "create", str(file), *place, *chosen, folder=folder)
    card = json.loads(say("federation", "status", "--json", folder=folder))
    for client in config.clients:
        say("federation", "invite", client.name, folder=folder)
        invitation = f"federation/invites/{client.name}.invite.json"
        options = [f"--option={key}={value}" for key, value in client.options.items()]
        own = ("--home", client.name, "--env", client.env, *options)
        say("site", "join", invitation, *own, "--fingerprint", card["fingerprint"], folder=folder)
        say("federation", "enrol", f"{client.name}/enrolment.json", folder=folder)


def write_own_settings(home: Path, config: Config, engine: dict[str, Any]) -> None:
    """The site's file holds this machine's engine and trainer."""
    file = home / "site.toml"
    card = tomlkit.parse(file.read_text())
    dumped = config.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    card["engine"] = {**dumped["engine"], **engine}
    card["trainer"] = dumped["trainer"]
    file.write_text(tomlkit.dumps(card))


@contextmanager
def started(*arguments: str, folder: Path, log: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command runs inside; it was ended as a service manager would."""
    with (folder / log).open("wb") as output:
        process = subprocess.Popen([*FEDSE, *arguments], cwd=folder, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def wait_for(coordinator: subprocess.Popen[bytes], folder: Path) -> None:
    while coordinator.poll() is None:
        time.sleep(LOOK_SECONDS)
        state = json.loads(say("federation", "status", "--json", folder=folder))
        last = {site["name"]: site["last"] for site in state["sites"]}
        print(time.strftime("%H:%M:%S"), "round", state["round"], last, flush=True)
    if coordinator.returncode:
        sys.exit(f"fedse federation start ended with {coordinator.returncode}")


def summary(out: Path) -> dict[str, Any]:
    with open_run(out / "federation" / "run") as opened:
        result = result_of(opened)
    rounds = {
        one.index: {
            "voters": list(one.voters),
            "excluded": [exclusion.text for exclusion in one.excluded],
            "steps": {client: stats.steps for client, stats in one.stats.items()},
        }
        for one in result.rounds
    }
    return {
        "warm": result.config.warmstart.rounds,
        "seed": result.config.run.seed,
        "tokens": generated(result.config, out),
        "curve": won_and_played(result),
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--experiment", type=Path, default=CONFIG)
    parser.add_argument("--engines", choices=("shared", "each"), required=True)
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    args = parser.parse_args()
    out = args.out.resolve()
    begun = out.exists()
    out.mkdir(parents=True, exist_ok=True)
    file = lasting(args.experiment, args.set, out)
    config = load_experiment(file, settings=[*args.set, f"engine.python={args.python}"]).config
    if not begun:
        found_and_join(out, file, config, args.set)
    began, before = time.monotonic(), cpu_seconds(os.getpid())
    with ExitStack() as stack:
        engine: dict[str, Any] = {"python": args.python}
        if args.engines == "shared":
            base = base_path(config.model.base)
            url = stack.enter_context(running_engine(config, base, out / "engine", tell=print))
            engine = {"url": url, "folder": str(out / "handed-over")}
        coordinator = stack.enter_context(
            started("federation", "start", "--plain", folder=out, log="federation.log")
        )
        # Not before it listens: a site's engine could take the port of one that is started again.
        log = out / "federation.log"
        wait_until(lambda: log.stat().st_size > 0, seconds=START_SECONDS, every=1.0)
        for number, client in enumerate(config.clients):
            if args.engines == "each":
                # Servers that compute on the same cores wait for each other's threads.
                engine["cores"] = str(number % (os.cpu_count() or 1))
            write_own_settings(out / client.name, config, engine)
            own = ("site", "start", "--home", client.name)
            stack.enter_context(started(*own, folder=out, log=f"{client.name}.log"))
        wait_for(coordinator, out)
        used = cpu_seconds(os.getpid()) - before
    spent = {"seconds": round(time.monotonic() - began), "cpu_seconds": round(used)}
    facts = {"engines": args.engines, **spent, **summary(out)}
    args.result.write_text(json.dumps(facts, indent=1) + "\n")
    print((out / "federation.log").read_text()[-1500:])


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    end_on_sigterm()
    main()
