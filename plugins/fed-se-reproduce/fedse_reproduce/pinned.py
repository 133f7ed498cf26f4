"""The tables that `fedse reproduce` can make.

All arms of a table take the same number of optimiser steps: as many in a round, and as many after
the last one where a personal adapter is compared. In one place means one trainer for all sites,
with the steps of all of them together or with as many as one site takes.
"""

from collections.abc import Mapping

from fedse_reproduce.attackers import HARMS, Attack
from fedse_reproduce.tables import Gap, PinnedTable, TableArm, Versus, World

# A fifth of what the experiment files say, for one trainer that stands for five sites.
A_SITES_STEPS = {"train.steps": 16}
# The longest updates are shortened, as they are unless a file says otherwise.
UNDER_ATTACK = {"run.rounds": 6, "aggregate.clip": "median"}
REWARD = {"train.loss": "grpo", "train.options": {"group": 8}}
NOTHING: Mapping[str, object] = {}
NOT_PERSONAL = {"personal.steps": 0}
GATE = {"splits.validation": 0.2, "gate.episodes": 40, "gate.liars": 2}
SITES = tuple(f"maze-{number}" for number in range(1, 6))


def _against(better: str, *worse: str) -> tuple[Versus, ...]:
    return tuple(Versus(better, other) for other in worse)


def _who_gains(world: World) -> tuple[TableArm, ...]:
    """Together and alone, in what nobody has and at home, with as many steps."""
    return (
        TableArm("together", world=world),
        TableArm("together, personal", world=world, record="test-personal"),
        TableArm("alone", "local-evolve", world=world),
        TableArm("alone, as many steps", "local-evolve", world=world, record="test-personal"),
        TableArm("in one place", "central-evolve", NOT_PERSONAL, world=world),
        TableArm("home: together", world=world, record="home"),
        TableArm("home: together, personal", world=world, record="home-personal"),
        TableArm("home: alone", "local-evolve", world=world, record="home"),
        TableArm("home: alone, as many steps", "local-evolve", world=world, record="home-personal"),
    )


WHO_GAINS = (
    Versus("together, personal", "alone, as many steps"),
    Versus("together", "alone"),
    Versus("in one place", "together"),
    Versus("home: together, personal", "home: alone, as many steps"),
    Versus("home: together, personal", "home: together"),
)

# After so many of its own rounds; a newcomer joins for the sixth of ten.
OWN_ROUNDS = (0, 1, 2, 3, 5)
NEWCOMER = ("site-5",)
BEFORE_JOINING = 5
# It has nothing to warm up with, and explores from its first round on, as it does with others.
NEWCOMER_ALONE = {"run.rounds": 5, "warmstart.rounds": 0}


def _newcomer(rounds: int, *, alone: bool) -> TableArm:
    many = f"after {rounds} round{'s' * (rounds > 1)}" if rounds else "at once"
    if alone:
        return TableArm(
            f"alone, {many}",
            "local-evolve",
            NEWCOMER_ALONE,
            world="newcomer",
            record="home",
            round=rounds,
            only=NEWCOMER,
        )
    return TableArm(
        f"joined, {many}",
        world="newcomer",
        record="home",
        round=BEFORE_JOINING + rounds,
        only=NEWCOMER,
    )


def _unequal(label: str, method: str, *sites: str) -> TableArm:
    record = "home-personal"
    return TableArm(label, method, world="unequal", record=record, only=sites)


def _merge(label: str, **settings: object) -> TableArm:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return TableArm(label, settings=given, world="one-world")


def _attacked(kind: str, count: int, *, gate: bool) -> TableArm:
    attackers, honest = SITES[:count], SITES[count:]
    label = f"{kind}, {count} of 5" + (", gate" if gate else "")
    settings = {**(GATE if gate else {}), **UNDER_ATTACK}
    return TableArm(
        label,
        settings=settings,
        world="one-world",
        only=honest,
        attack=Attack(kind, attackers),
    )


def _honest(
    label: str, settings: Mapping[str, object] = NOTHING, *, world: World = "one-world"
) -> TableArm:
    return TableArm(label, settings={**UNDER_ATTACK, **settings}, world=world)


ATTACKS = tuple(
    _attacked(kind, count, gate=gate)
    for kind in HARMS
    for count, gate in ((1, True), (2, True), (2, False))
)

TABLES: Mapping[str, PinnedTable] = {
    "main": PinnedTable(
        "Five worlds: does it work, and is it federation that does it?",
        (
            TableArm("fed-se"),
            TableArm("fed-se, personal", record="test-personal"),
            TableArm("fedit", "fedit", NOT_PERSONAL),
            TableArm("local-static", "local-static", NOT_PERSONAL),
            TableArm("local-evolve", "local-evolve"),
            TableArm("local-evolve, as many steps", "local-evolve", record="test-personal"),
            TableArm("central-evolve", "central-evolve"),
            TableArm("central-evolve, personal", "central-evolve", record="test-personal"),
        ),
        (
            Versus("fed-se", "fedit"),
            Versus("fed-se", "local-static"),
            Versus("fed-se, personal", "local-evolve, as many steps"),
            Versus("fed-se", "local-evolve"),
            Versus("fed-se, personal", "fed-se"),
            Versus("central-evolve", "fed-se"),
            Versus("central-evolve, personal", "fed-se, personal"),
        ),
        (
            "fed-se",
            "fed-se, personal",
            "local-evolve",
            "local-evolve, as many steps",
            "central-evolve",
        ),
    ),
    "related": PinnedTable(
        "Related sites, a maze each: does a member gain, in mazes that nobody has and at home?",
        _who_gains("related"),
        WHO_GAINS,
        ("together, personal", "alone, as many steps"),
    ),
    "levels": PinnedTable(
        "Related sites, a BabyAI level each: does a member gain, in other levels and at home?",
        _who_gains("levels"),
        WHO_GAINS,
        ("together, personal", "alone, as many steps"),
        seeds=3,
    ),
    "one-world": PinnedTable(
        "One world, tasks divided: how much of what pooling brings does federation bring?",
        (
            TableArm("fed-se", world="one-world"),
            TableArm("local-evolve", "local-evolve", world="one-world"),
            TableArm("central-evolve", "central-evolve", world="one-world"),
            TableArm(
                "central-evolve, a site's steps",
                "central-evolve",
                A_SITES_STEPS,
                world="one-world",
            ),
        ),
        (
            Versus("fed-se", "local-evolve"),
            Versus("central-evolve", "fed-se"),
            Versus("central-evolve, a site's steps", "fed-se"),
        ),
        ("fed-se", "local-evolve"),
        gaps=(
            Gap("local-evolve", "fed-se", "central-evolve"),
            Gap("local-evolve", "fed-se", "central-evolve, a site's steps"),
        ),
    ),
    "newcomer": PinnedTable(
        "A newcomer without a success of its own, and sites of unequal size: who gains?",
        (
            *(_newcomer(rounds, alone=alone) for alone in (False, True) for rounds in OWN_ROUNDS),
            _unequal("8 tasks: together", "fed-se", *SITES[1:]),
            _unequal("8 tasks: alone", "local-evolve", *SITES[1:]),
            _unequal("200 tasks: together", "fed-se", SITES[0]),
            _unequal("200 tasks: alone", "local-evolve", SITES[0]),
        ),
        (
            Versus("joined, at once", "alone, at once"),
            Versus("joined, at once", "alone, after 5 rounds"),
            Versus("joined, after 5 rounds", "alone, after 5 rounds"),
            Versus("8 tasks: together", "8 tasks: alone"),
            Versus("200 tasks: together", "200 tasks: alone"),
        ),
        ("joined, at once", "alone, at once"),
        seeds=3,
    ),
    "attack": PinnedTable(
        "Members that do harm within the rules: what does the gate stop?",
        (
            _honest("honest"),
            _honest("honest, gate", GATE),
            _honest("three honest alone")._replace(without=SITES[:2]),
            *ATTACKS,
            _honest("five worlds, honest", NOT_PERSONAL, world="five-worlds"),
            _honest("five worlds, honest, gate", {**NOT_PERSONAL, **GATE}, world="five-worlds"),
        ),
        (
            Versus("honest, gate", "honest"),
            Versus("five worlds, honest, gate", "five worlds, honest"),
            *(Versus(f"{kind}, 2 of 5, gate", "three honest alone") for kind in HARMS),
            *(Versus(f"{kind}, 2 of 5, gate", f"{kind}, 2 of 5") for kind in HARMS),
        ),
        ("honest, gate", "mislabel, 2 of 5, gate", "mislabel, 2 of 5"),
        seeds=3,
    ),
    "merge": PinnedTable(
        "One world: which rule of merging?",
        (
            _merge("mean"),
            _merge("weighted", aggregate__type="weighted"),
            _merge("step 2", aggregate__step=2.0),
            _merge("FedExP", aggregate__type="fedexp"),
            _merge("outer Nesterov", aggregate__type="nesterov"),
            _merge("outer Adam", aggregate__type="adam"),
            _merge("mean of products", aggregate__type="product"),
            _merge("B only", train__factors="b"),
            _merge("A and B in turn", train__loss="in-turn"),
        ),
        _against(
            "mean",
            "weighted",
            "step 2",
            "FedExP",
            "outer Nesterov",
            "outer Adam",
            "mean of products",
            "B only",
            "A and B in turn",
        ),
        ("mean", "step 2"),
        seeds=3,
    ),
    "learn": PinnedTable(
        "Five worlds: which experience to learn from, and how?",
        (
            TableArm("successes"),
            TableArm("all episodes", "no-filter", NOT_PERSONAL),
            TableArm("this round's successes", "no-history", NOT_PERSONAL),
            TableArm("frontier", settings={"select.type": "frontier", **NOT_PERSONAL}),
            TableArm("hindsight", settings={"select.type": "hindsight", **NOT_PERSONAL}),
            TableArm(
                "KTO",
                settings={"train.loss": "kto", "buffer.keep_played": True, **NOT_PERSONAL},
            ),
        ),
        (
            Versus("successes", "all episodes"),
            Versus("successes", "this round's successes"),
            Versus("frontier", "successes"),
            Versus("hindsight", "successes"),
            Versus("KTO", "successes"),
        ),
        ("successes", "all episodes"),
        seeds=3,
    ),
    "reward": PinnedTable(
        "Related sites: successes or rewards, with as many games and steps, together and alone?",
        (
            TableArm("successes", world="reward"),
            TableArm("GRPO", settings=REWARD, world="reward"),
            TableArm("successes, alone", "local-evolve", world="reward"),
            TableArm("GRPO, alone", "local-evolve", REWARD, world="reward"),
        ),
        (
            Versus("GRPO", "successes"),
            Versus("GRPO, alone", "successes, alone"),
            Versus("GRPO", "GRPO, alone"),
            Versus("successes", "successes, alone"),
        ),
        ("successes", "GRPO"),
    ),
}
