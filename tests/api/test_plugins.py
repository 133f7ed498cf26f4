"""A third party's package adds environments, merges, losses and select rules by being installed."""

import re
import time
from pathlib import Path

import pytest

import fedse
from fedse.aggregate.variants import AGGREGATES
from fedse.config.file import parse_config
from fedse.config.keys import explain
from fedse.drivers.run import run_local
from fedse.errors import ConfigError, MachineError
from fedse.method.select import SELECTS
from fedse.plugins import ENVS, Variants, plugin_names
from fedse.store.buffer import Buffer
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from fedse.train.loss import LOSSES

SAMPLE = Path(__file__).parents[1] / "plugins"
TEXT = """
[run]
rounds = 2
[rollout]
episodes = 12
[eval]
episodes = 0
[select]
type = "sample-short"
[aggregate]
type = "sample-first"
[[clients]]
name = "a"
env = "sample-coin"
[[clients]]
name = "b"
env = "sample-coin"
"""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `pip install fedse-sample`: its metadata and its module are on the path."""
    monkeypatch.syspath_prepend(str(SAMPLE))


def test_without_the_package_its_names_are_unknown():
    with pytest.raises(ConfigError, match=r"select\.type must be one of 'success', 'all'"):
        parse_config(TEXT, "file")
    assert "sample-coin" not in plugin_names(ENVS)


@pytest.mark.usefixtures("installed")
def test_installed_variants_are_used_by_a_run(tmp_path: Path):
    config = parse_config(TEXT, "file")
    with Run(tmp_path, config, toy_spec(), clock=time.time) as run:
        run_local(run, open_site=open_toy_site)
        results = list(run.results())
        assert [result.voters for result in results] == [("a", "b"), ("a", "b")]
        solo = parse_config(TEXT, "file").model_copy(update={"clients": config.clients[:1]})
        with Run(tmp_path / "solo", solo, toy_spec(), clock=time.time) as alone:
            run_local(alone, open_site=open_toy_site)
            # The sample's merge takes the first voter's adapter, so b changes nothing.
            assert [r.after for r in alone.results()] == [r.after for r in results]
    kept = Buffer(tmp_path / "clients" / "a" / "buffer.db")
    lengths = {len(lesson.turns) for lesson in kept.lessons("run", 2)}
    kept.close()
    assert lengths
    assert lengths <= {1, 2}


@pytest.mark.usefixtures("installed")
def test_an_installed_rule_can_look_at_the_record(tmp_path: Path):
    config = parse_config(TEXT.replace("sample-short", "sample-first-wins"), "file")
    with Run(tmp_path, config, toy_spec(), clock=time.time) as run:
        run_local(run, open_site=open_toy_site)
    kept = Buffer(tmp_path / "clients" / "a" / "buffer.db")
    lessons, won = list(kept.lessons("run", 2)), kept.tallies("run", before=3)
    kept.close()
    solved = [task for task, tally in won.items() if tally.won]
    assert sum(won[task].won for task in solved) > len(solved)
    assert sorted(lesson.task.id for lesson in lessons) == sorted(task.id for task in solved)


@pytest.mark.usefixtures("installed")
def test_installed_variants_are_listed():
    assert "sample-coin" in fedse.env_names()
    assert fedse.make_env("sample-coin", {"tasks": 3}).name == "sample-coin"
    assert list(AGGREGATES)[:2] == ["mean", "weighted"]
    assert list(AGGREGATES)[-2:] == ["sample-first", "sample-nth"]
    assert list(SELECTS)[:2] == ["success", "all"]
    assert list(SELECTS)[-2:] == ["sample-first-wins", "sample-short"]
    assert next(iter(LOSSES)) == "sft"
    assert list(LOSSES)[-1] == "sample-patient"
    assert len(LOSSES) == len({*LOSSES})


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("nth", ["sample-nth", "fedse_sample:NTH"])
def test_the_options_of_a_variant_are_its_own(tmp_path: Path, nth: str):
    """By its entry point or as module:name; they are agreed on, and checked by its own model."""
    second = TEXT.replace('"sample-first"', f'"{nth}"\noptions = {{ n = 2 }}')
    first, other = parse_config(TEXT, "file"), parse_config(second, "file")
    assert first.agreed_digest() != other.agreed_digest()
    assert other.agreed_digest() != parse_config(second.replace("2 }", "1 }"), "x").agreed_digest()
    for text, reason in (
        (second.replace("n = 2", "m = 2"), "aggregate.options.m: Extra inputs are not permitted"),
        (second.replace("n = 2", 'n = "2"'), "aggregate.options.n: Input should be a valid intege"),
        (second + '[train]\nfactors = "b"\n', f'type = "{nth}" needs train.factors = "both"'),
        (TEXT + "[train.options]\nbeta = 1\n", "train.options has no setting 'beta'"),
    ):
        with pytest.raises(ConfigError, match=re.escape(reason)):
            parse_config(text, "file")
    with Run(tmp_path, other, toy_spec(), clock=time.time) as run:
        run_local(run, open_site=open_toy_site)
        assert list(run.results())[-1].voters == ("a", "b")


@pytest.mark.parametrize("kind", ["mean", "weighted"])
def test_a_merge_function_is_named_by_its_module(tmp_path: Path, kind: str):
    """As environments, losses and select rules are; with the bits of the built-in name."""
    found = []
    for name in (kind, f"fedse.aggregate.merge:{kind}"):
        text = TEXT.replace("sample-short", "success").replace("sample-first", name)
        config = parse_config(text.replace("sample-coin", "fedse.testing:CoinWorld"), "file")
        with Run(tmp_path / name[:9], config, toy_spec(), clock=time.time) as run:
            run_local(run, open_site=open_toy_site)
            found.append([result.after for result in run.results()])
    assert found[0] == found[1]
    assert len({*found[0]}) == 2


@pytest.mark.usefixtures("installed")
def test_a_loss_gets_as_many_failures_as_it_asks_for(tmp_path: Path):
    """The toy trainer takes one step per lesson, failures included."""
    found = {}
    for asked in (0.0, 0.25, 9.0):
        loss = f'[train]\nloss = "sample-patient"\noptions = {{ failures = {asked} }}\n'
        config = parse_config(TEXT.replace("[select]", loss + "[select]"), "file")
        with Run(tmp_path / str(asked), config, toy_spec(), clock=time.time) as run:
            run_local(run, open_site=open_toy_site)
            stats = list(run.results())[-1].stats["a"]
            found[asked] = (stats.steps - stats.buffered, stats.buffered)
    assert found[0.0][0] == 0
    assert found[0.25][0] == found[0.25][1] // 4 > 0
    assert found[9.0][0] > found[0.25][0]


def test_what_cannot_be_imported_is_named():
    for name, reason in (
        ("no_such_module:merge", "No module named 'no_such_module'"),
        ("fedse.aggregate.merge:no_such", "no_such"),
    ):
        text = TEXT.replace("sample-short", "all").replace("sample-first", name)
        with pytest.raises(ConfigError, match=reason):
            parse_config(text, "file")


def test_a_built_in_name_cannot_be_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    info = tmp_path / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[fedse.aggregates]\nmean = os:system\nbroken = no_such_module:merge\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert AGGREGATES["mean"].__module__ == "fedse.aggregate.variants"
    assert list(AGGREGATES).count("mean") == 1
    with pytest.raises(MachineError, match=r"plugin 'broken' of fedse.aggregates"):
        AGGREGATES["broken"]


def test_an_unknown_variant_says_what_was_probably_meant():
    with pytest.raises(ConfigError, match="got 'maen', did you mean 'mean'"):
        Variants("fedse.none", {"mean": 1})["maen"]
    text = TEXT.replace("sample-short", "all").replace("sample-first", "maen")
    with pytest.raises(ConfigError, match=r"aggregate\.type must be one of 'mean', 'weighted'"):
        parse_config(text, "file")


def test_the_settings_say_which_variants_there_are():
    assert "one of 'mean', 'weighted'" in explain("aggregate.type")
