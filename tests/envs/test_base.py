"""A name that stands for no environment is told from an environment that is broken."""

from pathlib import Path

import pytest

from fedse.cli.app import start
from fedse.envs.base import MEMBERS, Env, env_class, make_env
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError, EnvError
from fedse.testing import CoinWorld


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an environment of the user's own, in which the command is given."""
    (tmp_path / "refund_desk.py").write_text(
        "from fedse.testing import CoinWorld\nclass Desk(CoinWorld): ...\n"
    )
    (tmp_path / "needy_desk.py").write_text("import there_is_no_such_package\n")
    (tmp_path / "noisy_desk.py").write_text("raise RuntimeError('closed')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


NOT_FOUND = [
    (
        "mazze",
        "environment 'mazze' is unknown; known are agentgym, babyai, desk,",
        "did you mean 'maze'?",
    ),
    ("refnd_desk:Desk", "there is no module 'refnd_desk' here", "did you mean 'refund_desk'?"),
    ("refund_desk:Dsek", "refund_desk has no 'Dsek'", "did you mean 'Desk'?"),
    ("refund_desk:", "refund_desk has no class named after the colon", ""),
    ("refund_desk.py:Desk", "'refund_desk.py' is not the name of a module", ""),
    ("./refund_desk:Desk", "'./refund_desk' is not the name of a module", ""),
    (":Desk", "'' is not the name of a module", ""),
]


@pytest.mark.parametrize(("name", "said", "asked"), NOT_FOUND)
def test_what_cannot_be_found_is_named_and_nothing_is_checked(
    desk: Path, capsys: pytest.CaptureFixture[str], name: str, said: str, asked: str
):
    with pytest.raises(ConfigError) as caught:
        check_env(name)
    assert said in str(caught.value)
    assert str(caught.value).endswith(asked)
    assert caught.value.hint
    assert start(["env", "check", name]) == ConfigError.exit_code
    told = capsys.readouterr()
    assert told.out == ""
    assert "contract" not in told.err


def test_a_module_of_another_folder_names_the_folder_to_go_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        make_env("clinic.worlds:Ward")
    assert str(caught.value) == "environment 'clinic.worlds:Ward': there is no module 'clinic' here"
    assert caught.value.hint == "run the command in the folder that holds clinic.py, or install it"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("needy_desk:Desk", "No module named 'there_is_no_such_package'"),
        ("noisy_desk:Desk", "RuntimeError: closed"),
    ],
)
def test_a_module_that_cannot_be_imported_is_the_environments_fault(
    desk: Path, name: str, said: str
):
    with pytest.raises(EnvError, match=said):
        make_env(name)
    report = check_env(name, hash_seeds=())
    assert report.failed == ("interface",)
    assert said in report.checks[0].detail


def test_members_that_are_lacking_are_named():
    with pytest.raises(EnvError, match=r"dict lacks name, system_prompt, .*, close of fedse.Env"):
        make_env("builtins:dict")


def test_the_members_are_those_of_the_protocol():
    declared = {*Env.__annotations__, *(key for key, value in vars(Env).items() if callable(value))}
    assert {key for key in declared if not key.startswith("_")} == set(MEMBERS)
    assert isinstance(CoinWorld(), Env)


def test_what_is_found_is_the_class():
    assert env_class("fedse.testing:CoinWorld") is CoinWorld


def test_a_program_is_checked_by_playing(capsys: pytest.CaptureFixture[str]):
    assert start(["env", "check", "fedse.serve:Program"]) == ConfigError.exit_code
    told = capsys.readouterr().err
    assert "the agent program plays by itself" in told
    assert "hint: check it by playing one short round: fedse run CONFIG" in told


def test_of_an_environment_that_cannot_be_made_only_that_is_told(
    capsys: pytest.CaptureFixture[str],
):
    assert start(["env", "check", "builtins:dict"]) == EnvError.exit_code
    lines = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines] == ["FAIL", "    ", "skip", "", "buil"]
    assert lines[2] == "skip  the other 17, which need an environment to try"
