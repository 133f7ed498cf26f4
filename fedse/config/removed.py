"""Settings of earlier versions: at its default one is ignored, with another value it is refused."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedse.config.lines import Location


class Removed(NamedTuple):
    """A setting that fedse no longer has."""

    default: object
    """Its value in the run folders and experiments that never set it."""
    instead: str
    """What to do where it has another value."""


GONE = "no longer exists; remove it, or open the run with the fedse version that made it"

FIXED = "is no longer a setting, its value is fixed; remove it"
GATE_ASKS = "is no longer a setting: a gate with liars above 0 always asks; remove it"
WARM_LENGTH = "is no longer a setting: set warmstart.steps, the exact number of steps"
INSTEAD = "is now in the package fed-se-variants: pip install fed-se-variants, then set "
FEDEXP = Removed("fixed", INSTEAD + 'aggregate.type = "fedexp"')
OUTER = INSTEAD + 'aggregate.type = "nesterov" or "adam"'
OUTER_OPTION = INSTEAD + "{} in aggregate.options"
KTO_OPTION = INSTEAD + "{} in train.options"
FRONTIER_OPTION = INSTEAD + "{} in select.options"

REMOVED: Mapping[str, Removed] = {
    "aggregate.sum": Removed("ordered", GONE),
    "clients.region": Removed(None, GONE),
    "personal.form": Removed("further", GONE),
    "personal.explore": Removed("global", GONE),
    "train.max_grad_norm": Removed(1.0, FIXED),
    "aggregate.secure_least": Removed(3, FIXED),
    "gate.level": Removed(0.05, FIXED),
    "gate.extreme": Removed(10.0, FIXED),
    "gate.accuse": Removed(True, GATE_ASKS),
    "rollout.max_broken": Removed(0.5, FIXED),
    "warmstart.epochs": Removed(None, WARM_LENGTH),
    "warmstart.max_steps": Removed(None, WARM_LENGTH),
    "engine.key": Removed(None, "is now the environment variable FEDSE_ENGINE_KEY"),
    "engine.precision": Removed("bfloat16", 'is now engine.arguments = ["--dtype", ...]'),
    "personal.batch": Removed(None, "is no longer a setting: train.batch is used; remove it"),
    "engine.seeds": Removed(False, "is no longer a setting: vLLM fails with it; remove it"),
    "clients.step_seconds": Removed(600.0, "is now engine.patience in the site's own settings"),
    "engine.cores": Removed(None, "is now the environment variable VLLM_CPU_OMP_THREADS_BIND"),
    "aggregate.step_rule": FEDEXP,
    "aggregate.step_max": Removed(10.0, OUTER_OPTION.format("most")),
    "aggregate.outer": Removed("none", OUTER),
    "aggregate.outer_lr": Removed(None, OUTER_OPTION.format("lr")),
    "aggregate.outer_momentum": Removed(0.9, OUTER_OPTION.format("momentum")),
    "aggregate.outer_decay": Removed(0.99, OUTER_OPTION.format("decay")),
    "aggregate.outer_floor": Removed(1e-3, OUTER_OPTION.format("floor")),
    "train.failures": Removed(1.0, KTO_OPTION.format("failures")),
    "train.beta": Removed(0.1, KTO_OPTION.format("beta")),
    "train.desirable_weight": Removed(1.0, KTO_OPTION.format("desirable_weight")),
    "train.undesirable_weight": Removed(1.0, KTO_OPTION.format("undesirable_weight")),
    "train.sft_weight": Removed(1.0, KTO_OPTION.format("sft_weight")),
    "train.reference": Removed("start", KTO_OPTION.format("reference")),
    "select.tries": Removed(2, FRONTIER_OPTION.format("tries")),
    "select.per_task": Removed(None, FRONTIER_OPTION.format("per_task")),
    "clients.rank": Removed(None, INSTEAD + 'train.loss = "ranks" and train.options.ranks'),
}
"""By dotted name, without indices."""


def drop_removed(raw: dict[str, Any]) -> Iterator[tuple[Location, str]]:
    """Removed settings leave `raw`; those that would have changed something are reported."""
    for name, setting in REMOVED.items():
        section, _, key = name.partition(".")
        found = raw.get(section)
        tables = found if isinstance(found, list) else [found]
        for place, table in enumerate(tables):
            if not isinstance(table, dict) or key not in table:
                continue
            value, at = table.pop(key), (place,) if isinstance(found, list) else ()
            if value != setting.default:
                location = (section, *at, key)
                yield location, f"{'.'.join(map(str, location))} {setting.instead}"
    train = raw.get("train")
    if isinstance(train, dict) and train.get("factors") == "alternate":
        del train["factors"]
        yield ("train", "factors"), f'train.factors = "alternate" {INSTEAD}train.loss = "in-turn"'
