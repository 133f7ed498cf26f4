"""How fast a fit is beside a bare PEFT loop over the same batches, in one process.

    OMP_WAIT_POLICY=PASSIVE python scripts/measure_fit.py MODEL --threads 2

MODEL is a folder with a Hugging Face model; the lessons are random tokens of 150 to 500 tokens, a
quarter of them the agent's. Prints one JSON line; seconds are those of the wall, and of the CPU.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

from fedse.adapters.base import adapter_spec, initial_adapter
from fedse.agent.loaded import prepare_torch
from fedse.config.hardware import TrainerSection
from fedse.config.schema import TrainSection
from fedse.train.lora import trainer_for
from fedse.train.speed import Pace, measure_fit, synthetic_lessons

VOCABULARY = 20_000
"""Tokens that every model in question has."""


def told(pace: Pace) -> dict[str, float]:
    return {**pace._asdict(), "tokens_per_second": round(pace.tokens_per_second, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lessons", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="CPU seconds, on a busy machine")
    args = parser.parse_args()
    prepare_torch(args.threads)
    place = TrainerSection(
        threads=args.threads, max_tokens=args.max_tokens, precision=args.precision
    )
    spec = adapter_spec(str(args.model), rank=8, alpha=16, targets=("all-linear",))
    speed = measure_fit(
        trainer_for(args.model, spec, place),
        initial_adapter(spec, seed=0),
        synthetic_lessons(args.lessons, shortest=150, longest=500, vocabulary=VOCABULARY, seed=1),
        settings=TrainSection(epochs=1, batch=args.batch),
        seed=1,
        repeats=args.repeats,
        clock=time.process_time if args.cpu_time else time.perf_counter,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    line = {
        "fit": told(speed.fit),
        "bare": told(speed.bare),
        "ratio": round(speed.ratio, 3),
        "peak_mb": peak,
        "load": os.getloadavg()[0],
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
