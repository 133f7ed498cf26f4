"""`fedse.run` and its siblings on the shipped tiny model: a script gets what the CLI tells."""

import json
from pathlib import Path

import pytest

from tests.needs import needs

needs("peft")

import fedse
from fedse.cli.app import start
from fedse.errors import ConfigError, StoreError
from fedse.store.run_folder import open_run

SMALL = """
[run]
name = "small"
rounds = 1
[rollout]
episodes = 4
context = 512
max_turns = 4
new_tokens = 8
[buffer]
demonstrations = 4
[train]
max_steps = 2
[eval]
episodes = 4
[[clients]]
name = "a"
env = "maze"
options = { prompt = "short", layouts = ["u"] }
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def file(root: Path) -> Path:
    path = root / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def events() -> list[str]:
    return []


@pytest.fixture(scope="module")
def result(root: Path, file: Path, events: list[str]) -> fedse.RunResult:
    return fedse.run(
        file, out=root, name="first", on_event=lambda event, facts: events.append(event)
    )


def test_a_run_returns_its_rounds_adapters_success_and_path(
    result: fedse.RunResult, events: list[str], root: Path
):
    assert result.path == root / "first"
    assert result.finished
    (only,) = result.rounds
    assert only.voters == ("a",)
    assert (result.adapters[1] / "adapter_model.safetensors").is_file()
    assert sorted(result.success) == [0, 1]
    rate = result.success[1]["a"]
    assert rate.n == 4
    assert rate.interval.low <= rate.value <= rate.interval.high
    assert result.overall is not None
    assert result.overall.after == rate
    assert events[0] == "run.started"
    assert events[-1] == "run.finished"


def test_the_command_line_tells_the_same(
    result: fedse.RunResult, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert start(["run", str(file), "--out", str(tmp_path), "--name", "cli", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result.overall is not None
    assert told["all"]["after"]["won"] == result.overall.after.successes
    assert told["rounds"] == len(result.rounds)
    same = fedse.load_adapter("cli", out=tmp_path)
    assert same.digest == result.rounds[-1].after


def test_settings_may_be_a_mapping_or_as_on_the_command_line(file: Path):
    by_name = fedse.load_experiment(file, settings={"run.rounds": 7, "model.targets": ["q_proj"]})
    by_text = fedse.load_experiment(file, settings=["run.rounds=7", 'model.targets=["q_proj"]'])
    assert by_name.config == by_text.config
    assert by_name.config.run.rounds == 7
    with pytest.raises(ConfigError, match=r"did you mean 'run\.rounds'"):
        fedse.load_experiment(file, settings={"run.ronds": 7})


def test_a_config_is_an_experiment_too(file: Path):
    config = fedse.load_config(file)
    assert fedse.load_experiment(config).config == config


def test_a_shipped_experiment_has_a_name():
    assert fedse.load_experiment("demo").config.run.name == "demo"
    with pytest.raises(ConfigError, match="there is no file dmeo"):
        fedse.load_experiment("dmeo")


def test_a_finished_run_is_resumed_as_it_is(result: fedse.RunResult, root: Path):
    assert fedse.resume("first", out=root) == result


def test_an_adapter_is_loaded_by_round(result: fedse.RunResult, root: Path):
    assert fedse.load_adapter("first", out=root).digest == result.rounds[-1].after
    assert fedse.load_adapter("first", round=0, out=root).digest == result.rounds[0].before
    with pytest.raises(StoreError, match="has no round 9; rounds 0 to 1 are committed"):
        fedse.load_adapter("first", round=9, out=root)


def test_fresh_games_are_measured_without_a_trace(result: fedse.RunResult, root: Path):
    before = sorted(path.name for path in result.path.rglob("*"))
    found = fedse.evaluate("first", episodes=3, out=root)
    assert (found.round, found.overall.n, list(found.clients)) == (1, 3, ["a"])
    assert sorted(path.name for path in result.path.rglob("*")) == before


def test_runs_are_compared(result: fedse.RunResult, root: Path, file: Path):
    fedse.run(file, out=root, name="second", settings={"train.lr": 1e-4})
    found = fedse.compare("first", "second", out=root)
    assert [arm.all.n for arm in found.results] == [4, 4]
    assert found.contrasts[0].verdict in ("better", "worse", "no difference found")


def test_a_plan_refuses_what_cannot_run(file: Path, monkeypatch: pytest.MonkeyPatch):
    assert fedse.plan(file).rounds == 1
    with pytest.raises(ConfigError, match=r"rollout\.context = 9 is too small for a: its first"):
        fedse.plan(file, settings={"rollout.context": 9})
    with pytest.raises(ConfigError, match="keeps it apart"):
        fedse.plan(file, engine="simulation", settings={"buffer.pooled": True})
    monkeypatch.setattr("fedse.errors.is_installed", lambda name: name != "flwr")
    with pytest.raises(fedse.MachineError, match="engine deployment needs flwr"):
        fedse.plan(file, engine="deployment")


def test_all_packages_that_a_run_lacks_are_named_at_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    lacking = ("peft", "flwr", "dp_accounting", "stdnum")
    monkeypatch.setattr("fedse.errors.is_installed", lambda name: name not in lacking)
    settings = {"privacy.epsilon": 8.0, "privacy.rounds": 1, "redact.secrets": True}
    with pytest.raises(fedse.MachineError) as caught:
        fedse.run(file, engine="deployment", settings=settings)
    assert [package for package in lacking if package not in str(caught.value)] == []
    assert "'fed-se[hf,flower,privacy,redact]'" in caught.value.hint


class Speechless:
    """A world without an expert and without test tasks, and with words of its own."""

    name, system_prompt, max_turns = "speechless", "You serve customers of a shop.", 2

    def tasks(self, split: str) -> list[fedse.Task]:
        return [fedse.Task(env="speechless", id="1", split="train")] if split == "train" else []

    def reset(self, task: fedse.Task, *, seed: int) -> fedse.Step:
        return fedse.Step("Ada writes: where is my lamp?")

    def step(self, action: str) -> fedse.Step:
        return fedse.Step("", done=True)

    def close(self) -> None: ...


def test_a_plan_refuses_a_world_that_lacks_what_the_settings_ask_for(tmp_path: Path):
    file, own = tmp_path / "own.toml", f'env = "{__name__}:Speechless"'
    file.write_text(SMALL.partition("options")[0].replace('env = "maze"', own))
    with pytest.raises(fedse.EnvError, match="there is no task to play 4 games of"):
        fedse.plan(file)
    with pytest.raises(fedse.EnvError, match="has no scripted expert"):
        fedse.plan(file, settings={"eval.episodes": 0})
    free = {"eval.episodes": 0, "buffer.demonstrations": 0}
    (warning,) = fedse.plan(file, settings=free).warnings
    assert warning.startswith("a: the base model tiny spells the words of this environment")
    assert "next: fedse model get smollm2-135m" in warning


def test_a_plan_foresees_what_will_be_cut_off(file: Path):
    assert fedse.plan(file).warnings == ()
    (reply,) = fedse.plan(file, settings={"rollout.new_tokens": 1}).warnings
    assert reply.startswith("a: a reply of the expert has 2 tokens, and rollout.new_tokens = 1")
    (game,) = fedse.plan(file, settings={"rollout.context": 40}).warnings
    assert "a game of the expert has" in game
    assert "rollout.context = 40 cuts it off" in game


def test_a_context_that_is_too_small_is_said_by_a_run_as_well(file: Path, tmp_path: Path):
    with pytest.raises(fedse.RunError, match=r"rollout\.context = 9 is too small for a"):
        fedse.run(file, out=tmp_path, settings={"rollout.context": 9})


def test_an_interrupt_names_the_command_that_goes_on(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(event: str, facts: dict[str, fedse.Fact]) -> None:
        if event == "rollout.started":
            raise KeyboardInterrupt

    with pytest.raises(fedse.Interrupted, match="stopped after round 0 of 1") as stopped:
        fedse.run(file, out=tmp_path, name="cut", on_event=stop)
    assert stopped.value.hint == f"fedse resume {tmp_path / 'cut'}"
    whole = fedse.resume("cut", out=tmp_path)
    assert whole.finished


def test_a_run_folder_closes_itself(result: fedse.RunResult):
    with open_run(result.path) as run:
        assert run.committed == 1
    with pytest.raises(Exception, match="closed"):
        run.committed  # noqa: B018  the access is the test


def test_a_dry_run_refuses_an_engine_that_cannot_be_started():
    served = {"engine.type": "vllm"}
    with pytest.raises(ConfigError, match=r"needs engine\.url .* or engine\.python"):
        fedse.plan("demo", settings=served)
    with pytest.raises(fedse.MachineError, match="it is not a program"):
        fedse.plan("demo", settings={**served, "engine.python": "no-such-python"})
