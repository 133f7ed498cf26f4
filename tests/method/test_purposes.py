"""Every task of a client has one purpose, the same at every client, and nothing reads another's."""

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.config.judging import SplitsSection
from fedse.config.schema import ClientSection
from fedse.envs.base import make_env
from fedse.errors import EnvError
from fedse.method.site import purpose_of, tasks_of
from fedse.testing import CoinWorld
from fedse.types import Purpose

MAZE = make_env("maze", {"prompt": "short"})
OWN: tuple[Purpose, ...] = ("train", "validation", "home")
shares = st.tuples(st.floats(0, 0.45), st.floats(0, 0.45))


def tasks(purpose: Purpose, splits: SplitsSection, part: tuple[int, int] | None = None):
    return tasks_of(MAZE, ClientSection(name="a", env="maze", part=part), splits, purpose)


def test_without_shares_all_training_tasks_are_for_training_in_their_order():
    splits = SplitsSection()
    assert list(tasks("train", splits)) == list(make_env("maze").tasks("train"))
    assert list(tasks("train", splits, (2, 5))) == list(make_env("maze").tasks("train"))[1::5]
    with pytest.raises(EnvError, match="none for home"):
        tasks("home", splits)


@given(shares)
def test_the_purposes_divide_the_training_tasks(pair: tuple[float, float]):
    splits = SplitsSection(validation=pair[0], home=pair[1])
    whole = CoinWorld(tasks=400).tasks("train")
    by_purpose = {p: [t for t in whole if purpose_of(t, splits) == p] for p in OWN}
    assert sorted(t.id for p in OWN for t in by_purpose[p]) == sorted(t.id for t in whole)
    # Five standard deviations of a share of 400.
    for share, purpose in zip(pair, ("validation", "home"), strict=True):
        assert abs(len(by_purpose[purpose]) / 400 - share) < 5 * (0.25 / 400) ** 0.5


def test_a_larger_share_takes_tasks_from_training_only():
    def chosen(share: float) -> set[str]:
        return {t.id for t in tasks("validation", SplitsSection(validation=share, home=0.2))}

    assert chosen(0.1) < chosen(0.3)


@pytest.mark.parametrize("part", [(1, 3), (2, 3), (3, 3)])
def test_a_task_has_the_same_purpose_at_every_client(part: tuple[int, int]):
    splits = SplitsSection(validation=0.2, home=0.2)
    everywhere = {p: {t.id for t in tasks(p, splits)} for p in OWN}
    for purpose in OWN:
        assert {t.id for t in tasks(purpose, splits, part)} <= everywhere[purpose]


@pytest.mark.parametrize("count", [1, 8, 31])
def test_a_small_client_learns_from_so_many_tasks_spread_over_all_it_has(count: int):
    splits = SplitsSection(home=0.2)
    small = ClientSection(name="a", env="maze", tasks=count)
    whole = list(tasks("train", splits))
    chosen = list(tasks_of(MAZE, small, splits, "train"))
    places = [whole.index(task) for task in chosen]
    gaps = {later - earlier for earlier, later in pairwise(places)}
    assert len(chosen) == count
    assert places[0] == 0
    assert len(gaps) <= 2
    assert tasks_of(MAZE, small, splits, "home") == tasks("home", splits)


def test_a_client_that_has_fewer_tasks_learns_from_all():
    many = ClientSection(name="a", env="maze", tasks=10**6)
    assert tasks_of(MAZE, many, SplitsSection(), "train") == tasks("train", SplitsSection())


def test_all_clients_share_the_test():
    splits = SplitsSection(validation=0.2, home=0.2)
    test = partial(tasks, "test", splits)
    assert list(test(None)) == list(test((1, 3))) == list(make_env("maze").tasks("test"))


def test_shares_that_leave_nothing_to_learn_from_are_refused():
    with pytest.raises(ValueError, match="leave tasks to learn from"):
        SplitsSection(validation=0.6, home=0.4)
