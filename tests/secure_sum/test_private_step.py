"""A private step: what one unit can change in a sum, how much noise hides it, where it leads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("cryptography", "Crypto")

from fedse.config.private_step import StepSection
from fedse.config.schema import Config
from fedse.errors import AdapterRejected
from fedse.privacy.accountant import Charge, epsilon_of, noise_for
from fedse.privacy.ratio import honest_left
from fedse.secure_sum.fixed_point import LARGEST
from fedse.secure_sum.private_step import (
    FLOATS,
    MOST_UNITS,
    StepForm,
    direction,
    encode_step,
    require_bounded_sum,
    step_form,
    take_step,
)
from fedse.secure_sum.roster import sum_terms
from fedse.testing import toy_spec

SECRET = bytes(range(32))
FORM = StepForm(clip=0.1, units=1000, noise=3.602, members=5)
QUIET = FORM._replace(noise=0.0)
ZERO = np.zeros(40, dtype=np.float32)

forms = st.builds(
    StepForm,
    clip=st.floats(1e-4, 1e3),
    units=st.integers(1, 10**6),
    noise=st.just(0.0) | st.floats(1e-6, 1e4),
    members=st.integers(3, 200),
)


def on_grid(rows: np.ndarray, form: StepForm) -> np.ndarray:
    """The sum of rows as a site adds them up: shortened, and rounded towards zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    short = rows * np.minimum(1.0, form.clip / np.maximum(norms, 1e-300))
    return np.trunc(short / form.unit).astype(np.int64).sum(axis=0)


def summed(parts: list[np.ndarray]) -> np.ndarray:
    return np.add.reduce(parts, dtype=np.uint32)


row = st.lists(st.floats(-1e3, 1e3, allow_nan=False), min_size=4, max_size=4)


@pytest.mark.parametrize(
    ("members", "honest"), [(3, 3), (4, 2), (5, 3), (7, 3), (10, 4), (20, 8), (50, 18)]
)
def test_noise_is_for_the_honest_that_must_be_left(members: int, honest: int):
    """As many as answer, by the threshold of the sum, without as many as may be corrupt."""
    assert honest_left(members) == honest
    clients = [{"name": f"c{i}", "env": "maze"} for i in range(members)]
    terms = sum_terms(Config(clients=clients), toy_spec(), round=1, adapter="")
    assert terms.threshold - (math.ceil(members / 3) - 1) == honest


@given(form=forms)
def test_shares_of_the_honest_have_all_of_the_noise_and_hardly_more(form: StepForm):
    found = math.sqrt(honest_left(form.members)) * form.sigma * form.unit
    wanted = form.noise * form.clip
    assert found >= wanted * (1 + 1e-9)
    assert found <= wanted * FLOATS * (1 + 1e-12) + math.sqrt(honest_left(form.members)) * form.unit
    if form.sigma > 1000:
        # Those of one site fewer have not.
        assert math.sqrt(honest_left(form.members) - 1) * form.sigma * form.unit < wanted


@given(form=forms)
def test_a_sound_sum_stays_in_its_range_and_half_a_unit_would_not_do(form: StepForm):
    largest = form.clip * (MOST_UNITS * form.units + 12 * form.spread)
    assert largest / form.unit <= LARGEST
    assert 2 * largest / form.unit > LARGEST * (1 - 1e-9)
    assert form.sigma < 1 << 28


@given(
    rows=st.lists(
        st.lists(st.floats(-1e3, 1e3, allow_nan=False), min_size=4, max_size=4),
        min_size=1,
        max_size=6,
    ),
    form=forms,
)
def test_one_unit_more_or_less_changes_the_encoded_sum_by_no_more_than_the_clip(
    rows: list[list[float]], form: StepForm
):
    """Not even by a part of the grid: rounding towards zero makes nothing longer."""
    form = form._replace(noise=0.0)
    with_one, without = (on_grid(np.array(some).reshape(-1, 4), form) for some in (rows, rows[1:]))
    changed = encode_step(with_one, form, SECRET) - encode_step(without, form, SECRET)
    length = math.sqrt(sum(int(x) ** 2 for x in changed.view(np.int32).tolist())) * form.unit
    assert length <= form.clip * (1 + 1e-12)
    assert length <= form.clip + math.sqrt(4) * form.unit


def test_the_same_noise_hides_neighbours():
    """The difference of two encoded sums is that of the gradients, so nothing else is told."""
    rows = np.random.default_rng(1).standard_normal((20, 40))
    one, other = (on_grid(rows[n:], FORM) for n in (0, 1))
    found = encode_step(one, FORM, SECRET) - encode_step(other, FORM, SECRET)
    assert (found.view(np.int32) == one - other).all()
    assert (encode_step(one, FORM, SECRET) != encode_step(one, FORM, bytes(32))).mean() > 0.99


@given(order=st.permutations(range(5)), seed=st.integers(0, 1000))
def test_the_order_of_sites_and_of_units_changes_no_bit(order: list[int], seed: int):
    rows = np.random.default_rng(seed).standard_normal((5, 8, 40))
    secrets = [bytes([i]) * 32 for i in range(5)]
    sent = [encode_step(on_grid(rows[i], FORM), FORM, secrets[i]) for i in range(5)]
    again = [encode_step(on_grid(rows[i][::-1], FORM), FORM, secrets[i]) for i in order]
    assert summed(sent).tobytes() == summed(again).tobytes()


@given(seed=st.integers(0, 1000), sites=st.integers(1, 5))
def test_without_noise_a_step_is_that_of_all_lessons_at_one_place(seed: int, sites: int):
    """Plain descent along the mean of the shortened gradients, to half a unit per lesson."""
    draw = np.random.default_rng(seed)
    rows, start = 0.05 * draw.standard_normal((30, 40)), draw.standard_normal(40)
    start = start.astype(np.float32)
    sent = [encode_step(on_grid(rows[i::sites], QUIET), QUIET, SECRET) for i in range(sites)]
    step = StepSection(units=1000, clip=0.1, lr=2.5, noise=1.0)
    found = take_step(start, ZERO, summed(sent), QUIET, step)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    mean = (rows * np.minimum(1.0, 0.1 / norms)).sum(axis=0) / 1000
    exact = start - 2.5 / 0.1 * mean
    assert np.abs(found.end - exact).max() <= 25 * 30 * QUIET.unit / 1000 + 2.0**-22
    assert np.abs(exact - start).max() > 1e-3


def test_momentum_is_that_of_stochastic_descent():
    needs("torch")
    import torch

    step = StepSection(units=1000, clip=0.1, lr=0.5, momentum=0.75, noise=1.0)
    theirs = torch.nn.Parameter(torch.zeros(40, dtype=torch.float64))
    optimiser = torch.optim.SGD([theirs], lr=0.5, momentum=0.75)
    at, velocity = ZERO, ZERO
    for number in range(5):
        rows = np.random.default_rng(number).standard_normal((50, 40))
        total = encode_step(on_grid(rows, QUIET), QUIET, SECRET)
        at, velocity = take_step(at, velocity, total, QUIET, step)
        theirs.grad = torch.from_numpy(direction(total, QUIET))
        optimiser.step()
    assert np.abs(at - theirs.detach().numpy()).max() < 1e-8
    assert np.abs(at).max() > 1e-3


def test_the_sum_of_all_has_the_noise_that_was_planned():
    """Of five sites, each with a share for three: 1.29 times as long as what is accounted for."""
    nothing = np.zeros(40_000, dtype=np.int64)
    sent = [encode_step(nothing, FORM, bytes([i]) * 32) for i in range(5)]
    found = direction(summed(sent), FORM).std() * FORM.units
    assert found == pytest.approx(FORM.noise * math.sqrt(5 / 3) * FLOATS, rel=5 / math.sqrt(80_000))
    left = direction(summed(sent[:3]), FORM).std() * FORM.units
    assert left == pytest.approx(FORM.noise * FLOATS, rel=5 / math.sqrt(80_000))


def test_epsilon_is_that_of_the_honest_noise():
    needs("dp_accounting")
    noise = noise_for(8.0, 1e-5, rate=1.0, steps=36)
    rounds = [Charge("run", i, "episode", 1.0, noise, 1) for i in range(1, 37)]
    assert 7.9 < epsilon_of(rounds, delta=1e-5) <= 8.0
    # One release of the same noise, for one round of an epsilon of 8 needs a sixth of it.
    assert noise / noise_for(8.0, 1e-5, rate=1.0, steps=1) == pytest.approx(6, rel=0.01)


def test_a_sum_that_sound_sites_cannot_have_is_rejected():
    rows = np.ones((4000, 40))
    require_bounded_sum(encode_step(on_grid(rows, QUIET), QUIET, SECRET), QUIET)
    wild = np.full(40, int(80.0 / QUIET.unit), dtype=np.uint32)
    with pytest.raises(AdapterRejected, match="the sum of gradients has norm 505"):
        require_bounded_sum(wild, QUIET)


@pytest.mark.parametrize("size", [1, 40, 40_000])
def test_a_sum_of_noise_alone_is_sound(size: int):
    form = FORM._replace(units=1, noise=100.0)
    nothing = np.zeros(size, dtype=np.int64)
    require_bounded_sum(
        summed([encode_step(nothing, form, bytes([i]) * 32) for i in range(5)]), form
    )


def test_the_form_follows_from_what_is_agreed():
    config = Config.model_validate(
        {
            "aggregate": {"secure": True, "clip": "none"},
            "step": {"units": 7, "clip": 0.5, "noise": 2.0},
            "clients": [{"name": name, "env": "maze"} for name in "abcd"],
        }
    )
    assert step_form(config) == StepForm(0.5, 7, 2.0, 4)
