"""Success after training on episodes as they were, and as redaction leaves them.

    python -m research.compare_redaction docs/results/redaction-training.json

The world is a front desk: a visitor names a person, a list says in which room each person is, and
the action is that room. Names matter, and all of them are on the site's own list. The tiny model
learns from the expert's games: as they are; with stand-ins, as redaction leaves them; with marks
in brackets; and, as a control in which the lesson cannot survive, with the same mark for every
name. All then play the same games with real names, in arrangements that no lesson had.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.hf import HFPolicy, engine_for
from fedse.agent.loaded import prepare_torch
from fedse.agent.tokens import load_encoder
from fedse.config.training import TrainSection
from fedse.envs.base import Step
from fedse.method.rollout import choose_games, demonstrate, rollout
from fedse.redact.episode import Redactor
from fedse.redact.own import word_finder
from fedse.redact.pseudonyms import plan_redaction
from fedse.redact.spans import PSEUDONYM
from fedse.seeds import seed_of
from fedse.stats.rates import Rate
from fedse.stats.rates import change as interval_of_change
from fedse.train.lora import trainer_for
from fedse.types import Split, Task, Trajectory

NAMES = ("Ann", "Bo", "Cem", "Dee", "Eli", "Fay", "Gus", "Hal", "Ida", "Jo", "Kim", "Lea")
PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=8, alpha=16, targets=("all-linear",))
CONTEXT, NEW_TOKENS = 256, 8
Change = Callable[[Trajectory], Trajectory]


class FrontDesk:
    """Send the visitor to the room of the person they name."""

    def __init__(self, rooms: int = 3, tasks: int = 600) -> None:
        self.name, self.system_prompt, self.max_turns = "desk", "", 1
        self._rooms, self._count, self._right = rooms, tasks, ""

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(env="desk", id=f"{split}-{i}", split=split) for i in range(self._count)]

    def reset(self, task: Task, *, seed: int) -> Step:
        random = Random(seed_of("desk", task.id))
        there = random.sample(NAMES, self._rooms)
        room = random.randrange(self._rooms)
        self._right = str(room + 1)
        listed = ", ".join(f"{name} {place}" for place, name in enumerate(there, 1))
        return Step(f"{listed}. {there[room]}?")

    def step(self, action: str) -> Step:
        won = action.strip() == self._right
        return Step("done", reward=float(won), done=True, success=won)

    def actions(self) -> Sequence[str]:
        return [str(room) for room in range(1, self._rooms + 1)]

    def expert(self) -> str:
        return self._right

    def close(self) -> None:
        pass


def changes(folder: Path) -> dict[str, Change]:
    """What becomes of an episode before it is learned from, by the name of the arm."""
    (folder / "staff.txt").write_text("\n".join(NAMES), encoding="utf-8")
    find = word_finder(folder / "staff.txt")

    def marked(episode: Trajectory) -> Trajectory:
        """With marks, as secrets have them."""
        texts, task = [turn.observation for turn in episode.turns], episode.task.id
        plan = plan_redaction(texts, find, identity=task)
        return _reworded(episode, plan.apply)

    def one_mark(episode: Trajectory) -> Trajectory:
        return _reworded(marked(episode), lambda text: PSEUDONYM.sub("[STAFF]", text))

    return {
        "as it was": lambda episode: episode,
        "stand-ins": Redactor(find).episode,
        "marks": marked,
        "one mark": one_mark,
    }


def _reworded(episode: Trajectory, change: Callable[[str], str]) -> Trajectory:
    """What the agent says here is a number."""
    turns = [t.model_copy(update={"observation": change(t.observation)}) for t in episode.turns]
    return episode.model_copy(update={"turns": tuple(turns)})


def success(change: Change, *, lessons: int, steps: int, games: int, seed: int) -> Rate:
    """Of an adapter that learned from changed lessons, in unchanged games."""
    encoder, env = load_encoder(PATH), FrontDesk()
    shown = demonstrate(choose_games(env.tasks("train"), lessons, seed=seed), FrontDesk)
    prepared = [encoder.tokenized(env.system_prompt, change(episode)) for episode in shown]
    batch = 16
    epochs = -(-steps * batch // len(prepared))
    settings = TrainSection(lr=2e-3, batch=batch, epochs=epochs, max_steps=steps)
    start = initial_adapter(SPEC, seed=seed)
    fitted = trainer_for(PATH, SPEC).fit(
        start, prepared, settings=settings, context=CONTEXT, seed=seed
    )
    policy = HFPolicy(
        engine_for(PATH, SPEC),
        fitted.adapter,
        temperature=0.0,
        context=CONTEXT,
        new_tokens=NEW_TOKENS,
    )
    held_out = choose_games(env.tasks("test"), games, seed=seed)
    played = rollout(held_out, FrontDesk, policy, round=1, batch=50, seed=seed)
    return Rate(sum(episode.success for episode in played), len(played))


def compared(rates: dict[str, list[Rate]]) -> dict[str, Any]:
    """Each arm over all seeds, and its difference from the episodes as they were."""
    summed = {
        name: Rate(sum(r.successes for r in each), sum(r.n for r in each))
        for name, each in rates.items()
    }
    before, figures = summed["as it was"], {}
    for name, rate in summed.items():
        figures[name] = {
            "won": rate.successes,
            "of": rate.n,
            "success": round(rate.value, 4),
            "interval": [round(end, 4) for end in rate.interval],
            "by seed": [round(r.value, 3) for r in rates[name]],
            "difference": round(rate.value - before.value, 4),
            "difference interval": [round(end, 4) for end in interval_of_change(before, rate)],
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lessons", type=int, default=400)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--games", type=int, default=200)
    given = parser.parse_args()
    prepare_torch(1)
    with TemporaryDirectory() as folder:
        arms = changes(Path(folder))
    rates: dict[str, list[Rate]] = {name: [] for name in arms}
    size = {"lessons": given.lessons, "steps": given.steps, "games": given.games}
    for seed in range(given.seeds):
        for name, arm in arms.items():
            rates[name].append(success(arm, **size, seed=seed))
            print(seed, name, rates[name][-1], flush=True)
        result = {**size, "seeds": seed + 1, "arms": compared(rates)}
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
