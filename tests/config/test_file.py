"""A wrong file is told completely and at the right line; a right one survives being written."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.config.file import (
    check_command,
    dump_config,
    load_config,
    parse_config,
    parse_options,
)
from fedse.config.keys import config_keys, explain
from fedse.config.lines import toml_lines
from fedse.config.schema import ClientSection, Config
from fedse.errors import ConfigError

ONE_CLIENT = '[[clients]]\nname = "a"\nenv = "maze"\n'

FULL = dump_config(
    parse_config(
        "rollout.max_turns = 3\ntrain.max_steps = 5\n"
        + ONE_CLIENT
        + '[[clients]]\nname = "b"\nenv = "maze"\noptions = {deep = 1}\n',
        "full",
    )
)


def problems(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "my.toml", overrides)
    return str(caught.value)


def edits(word: str) -> list[str]:
    """Every word one letter away: dropped, doubled, replaced, or two swapped."""
    dropped = [word[:i] + word[i + 1 :] for i in range(len(word))]
    doubled = [word[:i] + word[i] + word[i:] for i in range(len(word))]
    replaced = [word[:i] + "x" + word[i + 1 :] for i in range(len(word))]
    swapped = [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)]
    known = {key.rpartition(".")[2] for key in config_keys()}
    return [made for made in dropped + doubled + replaced + swapped if made and made not in known]


def settings_of(text: str) -> list[tuple[tuple[str | int, ...], int]]:
    """Every section and setting in the file, without what is inside options."""
    lines = toml_lines(text).items()
    return [(key, line) for key, line in lines if isinstance(key[-1], str) and "deep" not in key]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_every_key_misspelt_is_found_and_guessed(data: st.DataObject) -> None:
    location, line = data.draw(st.sampled_from(settings_of(FULL)))
    right = str(location[-1])
    wrong = data.draw(st.sampled_from(edits(right)))
    lines = FULL.split("\n")
    lines[line - 1] = lines[line - 1].replace(right, wrong, 1)
    told = problems("\n".join(lines))
    name = ".".join(part for part in location if isinstance(part, str))
    assert f"my.toml:{line}  " in told
    assert f"did you mean {name!r}?" in told
    assert f"      {lines[line - 1].strip()}" in told


plain_values: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)  # fmt: skip


@settings(deadline=None)
@given(
    options=st.dictionaries(st.text(max_size=5), plain_values, max_size=3),
    lr=st.floats(1e-12, 1e12),
    turns=st.none() | st.integers(1, 9),
    targets=st.lists(st.text(max_size=5), max_size=3),
    base=st.text(max_size=9),
)
def test_load_of_dump_is_the_same(
    options: dict[str, Any], lr: float, turns: int | None, targets: list[str], base: str
) -> None:
    config = Config.model_validate(
        {
            "train": {"lr": lr},
            "rollout": {"max_turns": turns},
            "model": {"targets": targets, "base": base},
            "clients": [{"name": "a", "env": "maze", "options": options}],
        }
    )
    assert parse_config(dump_config(config), "dumped") == config


def test_lines_belong_to_their_table() -> None:
    text = (
        "[rollout]\nbatch = 4\n\n[train]\n# batch = 9\nbatch = 0\n"
        + ONE_CLIENT
        + '[[clients]]\nname = "B"\nenv = "maze"\n[clients.options]\nbatch = 1\n'
    )
    told = problems(text)
    assert "my.toml:6  train.batch must be a whole number > 0, got 0" in told
    assert "my.toml:11  clients.1.name must be" in told
    assert told.startswith("my.toml has 2 problems, nothing was started")


def test_lines_of_a_list_and_of_inline_tables() -> None:
    text = 'clients = [\n  # two\n  {name = "a", env = "maze"},\n  {name = "b", enw = "maze"},\n]\n'
    assert "my.toml:4  clients.1.enw is not a setting, did you mean 'clients.env'?" in problems(
        text
    )


def test_lines_after_a_long_string_and_dotted_keys() -> None:
    text = 'model.base = """\n[train]\nlr = 1\n"""\ntrain.lr = -1\n' + ONE_CLIENT
    assert "my.toml:5  train.lr must be a number > 0, got -1" in problems(text)


def test_arrays_of_tables_keep_their_index() -> None:
    lines = toml_lines("[[a]]\nx = 1\n[a.b]\ny = 1\n[[a]]\n[a.b]\ny = 2\n[[a.c]]\nz = 1\n[[a.c]]\n")
    assert lines[("a", 0, "b", "y")] == 4
    assert lines[("a", 1, "b", "y")] == 7
    assert lines[("a", 1, "c", 0, "z")] == 9
    assert lines[("a", 1, "c", 1)] == 10


def test_choices_are_listed_and_guessed() -> None:
    told = problems('[aggregate]\nclip = "medain"\n' + ONE_CLIENT)
    assert "must be one of 'none', 'median', got \"medain\", did you mean 'median'?" in told


def test_values_are_taken_as_typed() -> None:
    told = problems('[run]\nrounds = "3"\nseed = true\n' + ONE_CLIENT)
    assert 'run.rounds must be a whole number >= 0, or "open", got "3"' in told
    assert "run.seed must be a whole number, got true" in told


@pytest.mark.parametrize("value", ["nan", "inf", "2026-01-01"])
def test_values_no_experiment_can_mean(value: str) -> None:
    assert "my.toml:2  train.lr must be" in problems(f"[train]\nlr = {value}\n" + ONE_CLIENT)


def test_a_misspelt_table_is_one_problem() -> None:
    told = problems('[[client]]\nname = "a"\n')
    assert "1 problem" in told
    assert "did you mean 'clients'?" in told


def test_a_key_of_another_section() -> None:
    assert "my.toml:2  run.lr is not a setting, did you mean 'train.lr'?" in problems(
        "[run]\nlr = 1\n" + ONE_CLIENT
    )


def test_names_must_be_unique() -> None:
    assert "twice: a" in problems(ONE_CLIENT * 2)


def test_not_toml_names_the_line() -> None:
    told = problems("[run]\nrounds = = 3\n")
    assert "my.toml:2" in told
    assert "rounds = = 3" in told


def test_overrides() -> None:
    config = parse_config(
        ONE_CLIENT,
        "my.toml",
        ["train.lr=1e-3", "clients.0.env=wordle", "model.targets=['q']", "run.name=hi",
         "clients.0.options.words=small", "clients.0.options.n=3"],
    )  # fmt: skip
    assert (config.train.lr, config.run.name) == (1e-3, "hi")
    assert config.model.targets == ("q",)
    assert config.clients[0].env == "wordle"
    assert config.clients[0].options == {"words": "small", "n": 3}


def test_wrong_overrides_are_all_told() -> None:
    told = problems(ONE_CLIENT, "train.lrr=1", "clients.3.env=x", "rounds", "run.seed=x")
    assert "--set train.lrr=1  train.lrr is not a setting, did you mean 'train.lr'?" in told
    assert "--set clients.3.env=x  clients has entries 0 to 0, got '3'" in told
    assert "--set rounds  must look like section.key=value" in told
    assert '--set run.seed=x  run.seed must be a whole number, got "x"' in told


def test_a_missing_file_suggests_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "demo.toml").write_text(ONE_CLIENT)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "dmo.toml")
    assert str(tmp_path / "demo.toml") in caught.value.hint


def test_every_key_can_be_explained() -> None:
    assert {name.partition(".")[0] for name in config_keys()} == set(Config.model_fields)
    for name, key in config_keys().items():
        assert name in explain(name)
        assert key.is_section or key.about, f"{name} has no docstring in config.py"


def test_explain_suggests() -> None:
    assert explain("clients.0.env") == explain("clients.env")
    with pytest.raises(ConfigError, match=r"did you mean 'train\.lr'"):
        explain("train.lrr")


PLAIN = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
OPTIONS = st.dictionaries(
    st.from_regex(r"\A[a-z_]{1,8}\Z"),
    st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=5),
    max_size=4,
)


@settings(max_examples=200)
@given(OPTIONS)
def test_the_command_that_checks_an_environment_carries_its_options(options: dict[str, Any]):
    command = check_command(ClientSection(name="a", env="desk:Desk", options=options))
    words = shlex.split(command)
    assert words[:4] == ["fedse", "env", "check", "desk:Desk"]
    assert words[4::2] == ["--option"] * len(options)
    assert parse_options(words[5::2]) == options
