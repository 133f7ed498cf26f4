"""An audit whose strongest attack is blind says so, where all its figures are quiet."""

from collections.abc import Callable

import numpy as np
import pytest

from fedse.audit import attacks
from fedse.audit.attacks import likelihood_ratio
from fedse.audit.conduct import AuditPlan, conduct_audit
from fedse.audit.game import AuditSubject
from fedse.audit.verdict import CONTROL_WORDS, AuditResult, AuditRules
from fedse.config.training import TrainSection
from fedse.seeds import seed_of
from fedse.types import Trajectory
from tests.audit.test_game import lesson

# In place of an adapter: what it knows by heart.
Known = frozenset[tuple[int, ...]]
RULES = AuditRules()


class Probe:
    """What is known by heart has a lower loss; the rest differs by chance."""

    def losses(self, known: Known, lessons: list[Trajectory]) -> np.ndarray:
        draws = [seed_of(sorted(known).__repr__(), repr(one.token_ids)) for one in lessons]
        noise = [np.random.default_rng(seed).normal(0, 0.1) for seed in draws]
        return np.array(noise) - [one.token_ids in known for one in lessons]

    def cosines(self, start: Known, replies: list[Known], lessons: list[Trajectory]) -> np.ndarray:
        return np.zeros((len(replies), len(lessons)))

    def tail_losses(self, known: Known, head: tuple[int, ...], tails: list) -> np.ndarray:
        return np.array([-float(any(set(tail) <= set(one) for one in known)) for tail in tails])


def audited() -> AuditResult:
    """Of a site whose replies give nothing away."""

    def tokenized(episode: Trajectory) -> Trajectory:
        # A number of its own for each letter at each place.
        letters = tuple(200 * i + ord(c) for i, c in enumerate(episode.turns[0].action))
        observed = int(episode.task.id) + 100_000
        ids = {"context_ids": (observed,), "action_ids": letters}
        return episode.model_copy(update={"turns": (episode.turns[0].model_copy(update=ids),)})

    def by_heart(lessons: list[Trajectory], settings: TrainSection, seed: int) -> Known:
        return frozenset(one.token_ids for one in lessons)

    def protected(lessons: list[Trajectory], settings: TrainSection, seed: int) -> Known:
        return frozenset()

    pool = [tokenized(lesson(number)) for number in range(RULES.min_episodes)]
    own = (TrainSection(), protected, Probe(), tokenized, by_heart)
    subject = AuditSubject(frozenset(), pool, *own)
    return conduct_audit(subject, AuditPlan(canaries=2, candidates=64))


def test_an_audit_that_works_passes_what_gives_nothing_away():
    result = audited()
    assert list(result.objections(RULES)) == []
    assert {one.control: one.succeeded for one in result.controls} == dict.fromkeys(
        CONTROL_WORDS, True
    )


@pytest.mark.parametrize(
    "broken",
    [
        lambda gained, shadows, members: np.zeros_like(gained),
        lambda gained, shadows, members: -likelihood_ratio(gained, shadows, members),
        lambda gained, shadows, members: likelihood_ratio(gained, shadows, members[:, ::-1]),
        lambda gained, shadows, members: likelihood_ratio(gained[:, ::-1], shadows, members),
    ],
    ids=["blind", "upside down", "members mixed up", "lessons mixed up"],
)
def test_one_whose_shadow_adapters_find_no_planted_leak_does_not(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[..., np.ndarray]
):
    monkeypatch.setattr(attacks, "likelihood_ratio", broken)
    assert list(audited().objections(RULES)) == [
        "the audit did not work: not true that lessons learned by heart are recognised by shadow "
        "adapters"
    ]
