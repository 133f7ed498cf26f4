"""Who judges for all: everybody where they are few, a drawn majority of honest ones where not."""

from hypothesis import given
from hypothesis import strategies as st

from fedse.aggregate.panel import PANEL, panel_of, size_of_panel

MANY = st.integers(1, 300).map(lambda count: [f"s{number:03d}" for number in range(count)])


@given(MANY, st.integers(0, 40), st.integers(0, 2**32))
def test_a_panel_has_its_size_and_outvotes_all_liars(names: list[str], liars: int, seed: int):
    panel = panel_of(names, liars=liars, seed=seed)
    assert panel <= {*names}
    assert len(panel) == min(len(names), size_of_panel(liars))
    assert size_of_panel(liars) > 2 * (2 * liars)


@given(MANY.flatmap(st.permutations), st.integers(0, 2**32))
def test_it_does_not_depend_on_the_order_of_the_members(names: list[str], seed: int):
    assert panel_of(names, liars=1, seed=seed) == panel_of(sorted(names), liars=1, seed=seed)


def test_another_round_has_another_panel():
    names = [str(number) for number in range(4 * PANEL)]
    panels = {panel_of(names, liars=1, seed=seed) for seed in range(20)}
    assert len(panels) == 20
    assert len(frozenset.union(*panels)) == len(names), "everybody judges once in a while"
