"""A sweep is every combination of what was typed, under every seed, as `fedse run` would run it."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.api.experiment import load_experiment
from fedse.errors import ConfigError
from fedse_reproduce.jobs import key_of
from fedse_reproduce.sweep.grid import axes_of, cells_of, jobs_of_cells, seeds_of
from fedse_reproduce.sweep.tell import letter
from fedse_reproduce.tables import Job

VALUES = st.lists(st.integers(0, 99).map(str), min_size=1, max_size=4, unique=True)
FILE = """
[run]
rounds = 1
workers = 2
[[clients]]
name = "a"
env = "maze"
[[clients]]
name = "b"
env = "maze"
"""


@given(st.lists(VALUES, max_size=4))
def test_the_cells_are_the_product_of_the_axes(values: list[list[str]]):
    axes = axes_of([f"s.k{i}={','.join(own)}" for i, own in enumerate(values)], None)
    cells = cells_of(axes)
    assert [*axes.values()] == [tuple(own) for own in values]
    assert len(cells) == len({cell.label for cell in cells}) == prod(map(len, values))
    assert list(cells[0].values.values()) == [own[0] for own in values]
    assert all(cell.values[f"s.k{i}"] in own for cell in cells for i, own in enumerate(values))


def test_methods_are_an_axis_and_no_setting():
    cells = cells_of(axes_of(["train.lr=1e-4,2e-4"], "fed-se,local-evolve"))
    assert [cell.label for cell in cells] == [
        "method=fed-se, train.lr=1e-4",
        "method=fed-se, train.lr=2e-4",
        "method=local-evolve, train.lr=1e-4",
        "method=local-evolve, train.lr=2e-4",
    ]
    assert cells[3].settings == ["train.lr=2e-4"]
    assert [cell.label for cell in cells_of(axes_of([], None))] == ["as in the file"]


def test_a_comma_inside_quotes_or_brackets_separates_nothing():
    axes = axes_of(["""model.targets=["q","v"],['a, b'],"x,y",{ n = 1, m = 2 }"""], None)
    assert axes["model.targets"] == ('["q","v"]', "['a, b']", '"x,y"', "{ n = 1, m = 2 }")


@pytest.mark.parametrize(
    ("grid", "methods", "wrong"),
    [
        (["train.lr"], None, "must look like"),
        (["train.lr=1,,2"], None, "values separated by commas, got '1,,2'"),
        (["train.lr=1,"], None, "values separated by commas"),
        (["train.lr="], None, "values separated by commas"),
        (["train.lr=1,2,1"], None, "train.lr has the value 1 twice"),
        (["train.lr=1", "train.lr=2"], None, "--grid train.lr is given twice"),
        (["run.seed=1,2"], None, "seeds are no cells"),
        ([], "fed-see", "there is no method 'fed-see'"),
    ],
)
def test_what_is_typed_wrongly_is_refused(grid: list[str], methods: str | None, wrong: str):
    with pytest.raises(ConfigError, match=wrong):
        axes_of(grid, methods)


def test_seeds_are_spans_and_single_ones():
    assert seeds_of("0-4") == (0, 1, 2, 3, 4)
    assert seeds_of("7, 0-1,1") == (7, 0, 1)
    for wrong in ("", "3-1", "a", "-1", "0-", "1;2"):
        with pytest.raises(ConfigError, match="--seeds must look like 0-4 or 0,3,7"):
            seeds_of(wrong)


def test_an_experiment_is_the_one_that_fedse_run_would_run(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text(FILE)
    cells = cells_of(axes_of(["train.lr=1e-4,2e-4", "aggregate.step=1.5"], "fed-se,local-evolve"))
    jobs = jobs_of_cells(FILE, "my.toml", cells, (3, 5), ["eval.episodes=7"])
    # Together it is one experiment, alone it is one for each of the two sites.
    assert len(jobs) == 2 * (2 * 1 + 2 * 2)
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    for job in jobs:
        cell = next(cell for cell in cells if cell.label == job.arm)
        method, names = cell.values["method"], [client.name for client in job.config.clients]
        settings = [*cell.settings, "eval.episodes=7", f"run.seed={job.seed}"]
        only = names[0] if len(names) == 1 else None
        run = load_experiment(file, settings=settings, method=method, only=only).config
        assert key_of(job) == key_of(Job("", job.seed, run))
        assert (job.config.eval.episodes, job.config.run.workers) == (7, 1)


def test_a_sweep_that_would_measure_nothing_is_refused():
    with pytest.raises(ConfigError, match="nothing to compare"):
        jobs_of_cells(FILE, "my.toml", cells_of({}), (0,), ["eval.episodes=0"])


def test_every_cell_has_its_letters():
    names = [letter(number) for number in range(800)]
    assert names[:2] + names[25:28] == ["A", "B", "Z", "AA", "AB"]
    assert len(set(names)) == 800
