"""Rounds in which the server takes a private step: where it leads, and what it goes on with."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs

needs("cryptography", "Crypto", "dp_accounting")

from fedse.committed import RoundResult
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.drivers.local import InProcess
from fedse.drivers.loop import federate
from fedse.drivers.stages import introduce
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.messages import masked_from_bytes
from fedse.secure_sum.private_step import direction, step_form
from fedse.store.buffer import Buffer
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from tests.drivers.test_secure_merge import Lines, homes
from tests.drivers.test_secure_merge import config as summing

SPEC = toy_spec()
B = SPEC.slices[SPEC.tensors[1].name]


def config(**settings: object) -> Config:
    steps = {
        "train.factors": "b",
        "step.units": 20,
        "step.noise": 1.0,
        "step.lr": 0.5,
        "privacy.epsilon": 100.0,
    }
    return with_settings(summing(), {**steps, **settings})


def new_run(path: Path, settings: Config) -> Run:
    run = Run(path, settings, SPEC, clock=lambda: 0.0)
    introduce(settings, path, homes(path))
    return run


def stepped(path: Path, settings: Config, passes=lambda *_: True) -> tuple[Run, list[RoundResult]]:
    run = new_run(path, settings)
    with closing(Lines(run, passes)) as ask:
        federate(run, ask, clock=lambda: 0.0)
    return run, list(run.results())


def sent(path: Path, round: int, names: str = "abcde") -> Whole:
    """The sum of what these sites put into a round, below their masks."""
    parts = []
    for name in names:
        with closing(Buffer(path / "clients" / name / "buffer.db")) as buffer:
            kept = buffer.sums.encoded("toy", round)
        assert kept
        parts.append(masked_from_bytes(kept, B.stop - B.start))
    return np.add.reduce(parts, dtype=np.uint32)


def moved(run: Run, round: int) -> np.ndarray:
    """How far the learned part went, in multiples of the rate."""
    before, after = (run.adapter(number).vector[B] for number in (round - 1, round))
    return (before.astype(np.float64) - after) / run.config.step.lr


@pytest.mark.parametrize("away", ["", "e"])
def test_the_adapter_moves_against_the_sum_of_those_who_are_in_it(tmp_path: Path, away: str):
    """Divided by what was expected of all, whoever is away."""
    settings = config(**{"run.rounds": 1})
    run, (only,) = stepped(tmp_path, settings, lambda name, stage, round: name != away)
    names = "abcde".replace(away, "") if away else "abcde"
    assert only.voters == tuple(names)
    expected = direction(sent(tmp_path, 1, names), step_form(settings))
    np.testing.assert_allclose(moved(run, 1), expected, atol=1e-6)
    assert np.abs(expected).min() > 1e-4
    # What is not learned stays, and nothing is remembered without momentum.
    assert (run.adapter(0).vector[: B.start] == run.adapter(1).vector[: B.start]).all()
    assert only.moments == ()


def test_what_is_kept_of_the_velocity_is_stored_with_the_round(tmp_path: Path):
    settings = config(**{"step.momentum": 0.75, "run.rounds": 3})
    run, results = stepped(tmp_path, settings)
    velocities = [run.moments(one.index)[0].vector for one in results]
    for number, velocity in enumerate(velocities, start=1):
        np.testing.assert_allclose(moved(run, number), velocity[B], atol=1e-6)
        assert (velocity[: B.start] == 0).all()
    last = direction(sent(tmp_path, 3), step_form(settings))
    np.testing.assert_allclose(velocities[2][B], 0.75 * velocities[1][B] + last, atol=1e-7)


def test_a_round_without_a_sum_keeps_adapter_and_velocity(tmp_path: Path):
    settings = config(**{"step.momentum": 0.5, "run.rounds": 3})
    _, (first, second, third) = stepped(
        tmp_path, settings, lambda name, stage, round: round != 2 or name in "ab"
    )
    assert (second.after, second.moments) == (first.after, first.moments)
    assert second.voters == ()
    assert third.after != third.before
    assert third.moments != second.moments


def test_a_sum_that_no_sound_sites_have_changes_nothing(tmp_path: Path):
    """A site that ignores the clip can waste a round, and goes no further."""
    settings, told = config(**{"run.rounds": 2}), []
    run = Run(
        tmp_path,
        settings,
        SPEC,
        clock=lambda: 0.0,
        observers=[lambda event, facts: told.append(event)],
    )
    introduce(settings, tmp_path, homes(tmp_path))

    def wild(data: bytes) -> bytes:
        return (masked_from_bytes(data, B.stop - B.start) + np.uint32(2**31 - 2**28)).tobytes()

    with closing(InProcess(run, lambda: 0.0, open_toy_site)) as ask:

        def lying(question, body, *, of):
            for one in ask(question, body, of=of):
                lies = (one.client, question.kind, question.round) == ("c", "masked", 1)
                yield one._replace(adapter=wild(one.adapter)) if lies else one

        federate(run, lying, clock=lambda: 0.0)
    first, second = run.results()
    assert (first.before, first.voters) == (first.after, tuple("abcde"))
    assert told.count("sum.refused") == 1
    assert second.after != second.before
