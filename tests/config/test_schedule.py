"""When rounds begin, and which settings a run without an end refuses."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.config.file import dump_config, parse_config
from fedse.config.rounds import ENDLESS, out_of
from fedse.config.schedule import DAY, ScheduleSection
from fedse.config.schema import Config
from fedse.errors import ConfigError

NOW = datetime(2026, 11, 18, 23, 30, tzinfo=UTC).timestamp()
clock_times = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.integers(0, 59))


def made(**sections: Any) -> Config:
    clients = [{"name": name, "env": "maze"} for name in ("a", "b", "c")]
    return Config.model_validate({**sections, "clients": clients})


@pytest.mark.parametrize(
    ("at", "date"),
    [
        (["02:00"], (19, 2, 0)),
        (["23:31", "02:00"], (18, 23, 31)),
        (["23:30"], (19, 23, 30)),
        (["00:00"], (19, 0, 0)),
    ],
)
def test_the_next_time_of_day_is_in_utc_and_later(at: list[str], date: tuple[int, int, int]):
    day, hour, minute = date
    found = ScheduleSection(at=tuple(at)).next(NOW)
    assert datetime.fromtimestamp(found, UTC) == datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@given(st.lists(clock_times, min_size=1, max_size=4), st.floats(0, 4e9))
def test_a_day_has_each_time_once(at: list[str], after: float):
    """From any moment on, the times of the next day are those of the list, and no others."""
    schedule, found = ScheduleSection(at=tuple(at)), [after]
    while (one := schedule.next(found[-1])) <= after + DAY:
        found.append(one)
    named = sorted(f"{datetime.fromtimestamp(one, UTC):%H:%M}" for one in found[1:])
    assert named == sorted({*at})
    assert all(one % 60 == 0 for one in found[1:])


def test_every_counts_from_the_beginning_and_nothing_set_is_at_once():
    assert ScheduleSection(every=90).next(1000) == ScheduleSection(every=90).again(1000) == 1090
    assert ScheduleSection().next(1000) == 1000
    assert ScheduleSection(news=1).again(1000) == 1060


@pytest.mark.parametrize("given", ["-1", '"opn"', "true", "2.5"])
def test_other_numbers_of_rounds_are_refused_in_one_line(given: str):
    text = f'[run]\nrounds = {given}\n[[clients]]\nname = "a"\nenv = "maze"\n'
    with pytest.raises(ConfigError, match=r'must be a whole number >= 0, or "open", got') as caught:
        parse_config(text, "x.toml")
    assert "1 problem" in str(caught.value)


def test_an_open_experiment_is_read_back_as_it_was():
    config = made(run={"rounds": "open"}, schedule={"at": ["02:00"], "news": 2})
    assert parse_config(dump_config(config), "x") == config
    assert (config.run.last, config.run.open) == (ENDLESS, True)
    assert [out_of(5, rounds) for rounds in (20, "open")] == ["5 of 20", "5"]


REFUSED: dict[str, dict[str, Any]] = {
    "train.schedule": {"run": {"rounds": "open"}, "train": {"schedule": "run"}},
    "privacy.rounds": {"run": {"rounds": "open"}, "privacy": {"epsilon": 3.0}},
    "personal.every": {"run": {"rounds": "open"}, "personal": {"steps": 2}},
    "exclude each other": {"schedule": {"every": 3.0, "at": ["02:00"]}},
    'times like "02:00", got "24:00"': {"schedule": {"at": ["24:00"]}},
    "needs 4 clients": {"schedule": {"news": 4}},
    "schedule.news above 2": {
        "schedule": {"news": 2}, "gate": {"episodes": 4}, "splits": {"validation": 0.2}
    },
    "aggregate.secure needs schedule.news of 3": {
        "schedule": {"news": 2}, "aggregate": {"secure": True, "clip": "none"}
    },
    "buffer.pooled": {"schedule": {"news": 1}, "buffer": {"pooled": True}},
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_what_needs_an_end_or_more_sites_is_refused(reason: str):
    with pytest.raises(ValueError, match=reason):
        made(**REFUSED[reason])


def test_members_agree_on_a_schedule():
    assert made().agreed_digest() != made(schedule={"at": ["02:00"]}).agreed_digest()


@given(st.integers(1, 50))
def test_the_learning_rate_of_a_round_does_not_depend_on_the_end(round: int):
    assert made(run={"rounds": "open"}).arc_in(round) == made(run={"rounds": 60}).arc_in(round)
