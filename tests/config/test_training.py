"""How long a round trains is said in one of two ways, and how its rate falls follows from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.config.file import dump_config, parse_config
from fedse.config.methods import with_settings
from fedse.config.schema import ClientSection, Config
from fedse.config.training import TrainSection, WarmstartSection
from fedse.course import LEVEL, Arc
from fedse.errors import ConfigError

ONE_CLIENT = '[[clients]]\nname = "a"\nenv = "maze"\n'
CONFIG = Config(clients=(ClientSection(name="a", env="maze"),))


def problems(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text + ONE_CLIENT, "my.toml", overrides)
    return str(caught.value)


def lengths(config: Config, *rounds: int) -> list[tuple[int | None, int | None, int | None]]:
    trained = [config.train_in(round) for round in rounds or (1,)]
    return [(train.epochs, train.max_steps, train.steps) for train in trained]


def parsed(text: str, *overrides: str) -> Config:
    return parse_config(text + ONE_CLIENT, "my.toml", overrides)


def test_steps_take_the_place_of_epochs_which_are_the_default():
    assert lengths(parsed("")) == [(2, None, None)]
    assert lengths(parsed("[train]\nsteps = 40\n")) == [(None, None, 40)]


@pytest.mark.parametrize("other", ["epochs", "max_steps"])
def test_both_ways_in_one_file_are_refused_by_name(other: str):
    told = problems(f"[train]\nsteps = 40\n{other} = 3\n")
    assert "train.steps = 40 already fixes the length of a round" in told
    assert f"train.{other} = 3" in told


def test_the_command_line_replaces_what_the_file_says_in_the_other_way():
    by_passes = "[train]\nepochs = 3\nmax_steps = 20\n[warmstart]\nrounds = 1\n"
    set_steps = parsed(by_passes, "train.steps=80", "warmstart.steps=8")
    assert lengths(set_steps, 1, 2) == [(None, None, 8), (None, None, 80)]
    by_steps = "[train]\nsteps = 80\n"
    assert lengths(parsed(by_steps, "train.epochs=3")) == [(3, None, None)]
    assert lengths(parsed(by_steps, "train.max_steps=9")) == [(2, 9, None)]


def test_two_ways_on_the_command_line_are_refused():
    told = problems("", "train.steps=80", "train.epochs=3")
    assert "train.steps = 80 already fixes the length of a round" in told


def test_settings_replace_each_other_as_on_the_command_line():
    bounded = with_settings(CONFIG, {"train.epochs": 3, "train.max_steps": 20})
    exact = with_settings(bounded, {"train.steps": 80})
    assert lengths(exact) == [(None, None, 80)]
    again = with_settings(exact, {"train.epochs": 3, "train.max_steps": 20})
    assert again == bounded
    with pytest.raises(ValueError, match="already fixes the length of a round"):
        with_settings(CONFIG, {"train.steps": 80, "train.epochs": 3})


@pytest.mark.parametrize(
    ("warm", "expected"),
    [
        ({"steps": 9}, (None, None, 9)),
        ({}, (None, None, 40)),
    ],
)
def test_a_warm_start_may_say_its_length_in_the_other_way(warm, expected):
    config = CONFIG.model_copy(
        update={"train": TrainSection(steps=40), "warmstart": WarmstartSection(rounds=1, **warm)}
    )
    assert lengths(config, 1, 2) == [expected, (None, None, 40)]


def test_a_warm_start_in_steps_before_rounds_in_epochs():
    config = parsed("[train]\nmax_steps = 20\n[warmstart]\nrounds = 1\nsteps = 50\n")
    assert lengths(config, 1, 2) == [(None, None, 50), (2, 20, None)]


def test_no_length_at_all_is_refused():
    with pytest.raises(ValueError, match=r"set train\.epochs or train\.steps"):
        TrainSection(epochs=None)


@pytest.mark.parametrize("train", [{}, {"steps": 40}, {"epochs": 3, "max_steps": 20}])
def test_a_length_survives_the_file(train: dict[str, int]):
    config = CONFIG.model_copy(update={"train": TrainSection(**train)})
    assert parse_config(dump_config(config), "again.toml") == config


def arcs(config: Config) -> list[Arc]:
    return [config.arc_in(round) for round in range(1, config.run.rounds + 1)]


def test_by_default_every_round_walks_the_whole_cosine():
    assert set(arcs(CONFIG)) == {Arc()}
    assert set(arcs(with_settings(CONFIG, {"train.schedule": "constant"}))) == {LEVEL}


def test_over_a_run_a_round_walks_its_share_of_the_steps():
    settings = {"run.rounds": 4, "train.schedule": "run", "warmstart.rounds": 1}
    equal = [Arc(before, 1, 4) for before in range(4)]
    assert arcs(with_settings(CONFIG, settings)) == equal
    by_steps = with_settings(CONFIG, {**settings, "train.steps": 20, "warmstart.steps": 50})
    shares = [Arc(0, 50, 110), Arc(50, 20, 110), Arc(70, 20, 110), Arc(90, 20, 110)]
    assert arcs(by_steps) == shares
    bounded = with_settings(CONFIG, {**settings, "train.max_steps": 20, "warmstart.steps": 50})
    assert arcs(bounded) == shares
    half_known = with_settings(CONFIG, {**settings, "warmstart.steps": 50})
    assert arcs(half_known) == equal


@given(
    rounds=st.integers(1, 9),
    warm=st.integers(0, 9),
    steps=st.none() | st.integers(1, 9),
    warm_steps=st.none() | st.integers(1, 9),
)
def test_the_arcs_of_a_run_follow_one_another_from_the_peak_to_zero(
    rounds, warm, steps, warm_steps
):
    config = with_settings(
        CONFIG,
        {
            "run.rounds": rounds,
            "train.schedule": "run",
            "train.max_steps": steps,
            "warmstart.rounds": warm,
            "warmstart.steps": warm_steps,
        },
    )
    walked = arcs(config)
    assert len({arc.whole for arc in walked}) == 1
    assert walked[0].before == 0
    ends = [arc.before + arc.own for arc in walked]
    assert [arc.before for arc in walked[1:]] == ends[:-1]
    assert ends[-1] == walked[0].whole


def test_a_round_beyond_the_last_one_still_has_a_rate():
    config = with_settings(CONFIG, {"run.rounds": 2, "train.schedule": "run"})
    assert config.arc_in(3) == Arc(2, 1, 3)
