"""Create, invite, join, enrol: what each leaves behind, and what it never does."""

import json
import re
import shutil
import socket
import stat
import time
from contextlib import closing
from math import prod
from pathlib import Path

import pytest

from fedse.adapters.base import SHIPPED, spec_of
from fedse.cli.app import start
from fedse.cli.site import tensor_kinds
from fedse.config.file import load_config
from fedse.errors import ConfigError, MachineError, StoreError
from fedse.federation.enrolment import EnrolmentRequest
from fedse.federation.folder import open_federation
from fedse.federation.home import open_home
from fedse.site.rules import read_rules
from fedse.store.run_folder import open_run
from tests.federation.scene import HOURS, NONCE, NOW, Scene, config
from tests.needs import needs


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_federation_is_private_and_its_run_has_not_begun(scene: Scene):
    folder = scene.federation.path
    assert mode(folder) == mode(folder / "keys") == 0o700
    for secret in ("keys/signing.key", "keys/server.key", "enrolment.json"):
        assert mode(folder / secret) == 0o600
    with closing(open_run(folder / "run", clock=time.time)) as run:
        assert run.committed is None
    states = {name: site.state for name, site in scene.federation.sites.members.items()}
    assert states == {"alpha": "invited", "beta": "not invited"}


def test_an_invitation_says_what_was_agreed_and_nothing_of_the_others(scene: Scene):
    invite = scene.read()
    config = load_config(scene.federation.run / "config.resolved.toml")
    assert (invite.site, invite.members) == ("alpha", ("alpha", "beta"))
    assert invite.agreed == config.agreed_digest()
    assert invite.spec == spec_of(config).identity
    assert invite.server == "fed.example.org:8443"
    assert invite.expires == NOW + HOURS * 3600
    text = scene.invite.read_text()
    assert "maze" not in text, "the environments in the coordinator's file stay there"
    assert mode(scene.invite) == 0o600


def test_the_list_keeps_no_invitation_number(scene: Scene):
    assert NONCE in scene.invite.read_text()
    assert NONCE not in (scene.federation.path / "enrolment.json").read_text()


def test_joining_needs_no_network(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("joining must not connect")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    home = scene.join()
    assert (home.card.site, home.card.coordinator) == ("alpha", scene.fingerprint)


def test_a_home_has_the_agreed_settings_its_own_world_and_only_what_was_agreed(scene: Scene):
    home = scene.join()
    assert home.config.agreed_digest() == scene.read().agreed
    own = home.config.client("alpha")
    assert (own.env, own.options) == ("maze", {"prompt": "short"})
    assert home.config.client("beta").env == "elsewhere"
    policy = read_rules(home.policy)
    assert (policy.experiments, policy.max_rounds, policy.pause) == (("clinics",), 3, False)
    assert policy.max_bytes_up == spec_of(home.config).nbytes
    assert mode(home.path) == 0o700
    assert mode(home.key.private) == 0o600
    assert open_home(home.path).config == home.config


def test_the_request_holds_a_public_key_and_a_proof_and_no_secret(scene: Scene):
    home = scene.join()
    text = (home.path / "enrolment.json").read_text()
    assert set(json.loads(text)) == set(EnrolmentRequest.model_fields)
    assert "PRIVATE" not in text
    assert "maze" not in text


def test_enrolling_puts_one_key_on_the_list(scene: Scene):
    home = scene.join()
    scene.enrol(scene.request(home))
    site = scene.federation.sites.members["alpha"]
    assert (site.state, site.nonce) == ("enrolled", "")
    assert site.public_key == home.key.public.read_text().strip()
    assert (scene.federation.path / "sites" / "alpha.pub").read_text().strip() == site.public_key
    assert scene.federation.sites.members["beta"].state == "not invited"


def test_a_refused_enrolment_changes_nothing(scene: Scene):
    request = scene.request(scene.join())
    before = (scene.federation.path / "enrolment.json").read_bytes()
    with pytest.raises(ConfigError):
        scene.enrol(request.model_copy(update={"site": "beta"}))
    assert (scene.federation.path / "enrolment.json").read_bytes() == before
    assert not (scene.federation.path / "sites").exists()


def test_a_second_federation_needs_a_second_home(scene: Scene):
    scene.join()
    with pytest.raises(ConfigError, match="already belongs to a federation"):
        scene.join()


def test_settings_changed_after_joining_are_noticed(scene: Scene):
    home = scene.join()
    file = home.path / "experiment.toml"
    file.write_text(file.read_text().replace("rounds = 3", "rounds = 300"))
    with pytest.raises(ConfigError, match="is no longer what was agreed"):
        open_home(home.path)


def test_what_is_the_sites_own_may_be_changed(scene: Scene):
    home = scene.join()
    file = home.path / "site.toml"
    file.write_text(file.read_text().replace('device = "cpu"', "threads = 2"))
    assert open_home(home.path).config.trainer.threads == 2


def test_the_section_of_a_package_beside_fedse_is_left_alone(scene: Scene):
    home = scene.join()
    file = home.path / "site.toml"
    before = file.read_text()
    file.write_text(f"{before}\n[service.metrics.solved]\nwhatever = 1\n")
    assert open_home(home.path)[1:] == (home.card, home.config)
    file.write_text(f"{before}\n[srevice]\n")
    with pytest.raises(StoreError, match="srevice"):
        open_home(home.path)


def test_a_mistake_in_the_sites_own_settings_is_named_with_its_line(scene: Scene):
    file = scene.join().path / "site.toml"
    file.write_text(file.read_text().replace('device = "cpu"', 'devise = "cpu"'))
    line = file.read_text().splitlines().index('devise = "cpu"') + 1
    with pytest.raises(ConfigError, match=rf"site\.toml:{line}  trainer\.devise is not a setting"):
        open_home(file.parent)


def test_what_machines_the_coordinator_has_is_in_no_invitation(scene: Scene):
    assert not {"engine", "trainer"} & set(scene.read().settings)


def test_a_half_made_folder_is_no_federation(scene: Scene):
    (scene.federation.path / "federation.toml").unlink()
    with pytest.raises(ConfigError, match=r"no federation\.toml"):
        open_federation(scene.federation.path)


def test_a_broken_list_is_named(scene: Scene):
    (scene.federation.path / "enrolment.json").write_text("{")
    with pytest.raises(StoreError, match=r"enrolment\.json"):
        _ = scene.federation.sites


EXPERIMENT = """
[run]
name = "clinics"
rounds = 1
[eval]
episodes = 4
[[clients]]
name = "alpha"
env = "maze"
"""


def test_the_whole_way_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    needs("flwr")
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(EXPERIMENT)

    def fedse(*argv: str, code: int = 0) -> str:
        assert start(list(argv)) == code
        said = capsys.readouterr()
        return said.out + said.err

    said = fedse("federation", "create", "my.toml", "--host", "fed.example.org")
    fingerprint = said.partition("fingerprint")[2].split()[0]
    assert "already" in fedse("federation", "create", "my.toml", "--host", "x", code=2)
    fedse("federation", "invite", "alpha")
    file = "federation/invites/alpha.invite.json"
    refused = fedse("site", "join", file, "--env", "maze", code=2)
    assert f"--fingerprint {fingerprint}" in refused, "the next command is named"
    fedse("site", "join", file, "--env", "maze", "--fingerprint", fingerprint)
    said = fedse("site", "preview")
    assert "fed.example.org:8443 and nowhere else" in said
    assert "can reveal parts of it" in said
    numbers = said.partition("numbers (examples)\n")[2].partition("\n\n")[0].splitlines()
    assert len({re.match(r"  \w+ +", line).end() for line in numbers}) == 1, "one column"
    enrolled = fedse("federation", "enrol", "site/enrolment.json")
    start_again = f"fedse federation start --dir {tmp_path / 'federation'}"
    assert f"is not running, so this takes effect with: {start_again}" in enrolled
    assert "already used" in fedse("federation", "enrol", "site/enrolment.json", code=2)
    assert "fedse site pause --end --home site\n" in fedse("site", "pause")
    assert read_rules(Path("site/policy.toml")).pause
    fedse("site", "pause", "--end")
    assert not read_rules(Path("site/policy.toml")).pause
    shown = json.loads(fedse("federation", "status", "--json"))
    assert shown["sites"] == [{"name": "alpha", "state": "enrolled", "now": None, "last": ""}]
    fedse("federation", "revoke", "alpha")
    assert "revoked" in fedse("federation", "status")


VERBS = [
    *(f"federation {verb}" for verb in ("create", "invite", "enrol", "revoke", "start")),
    "federation status",
    *(f"site {verb}" for verb in ("join", "preview", "start", "pause", "adapter")),
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]):
    assert start([*verb.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: fedse {verb}")
    assert f"Example: fedse {verb}" in said


def test_a_config_that_fails_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs("flwr")
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(EXPERIMENT + '[model]\nbase = "/nowhere"\n')
    assert start(["federation", "create", "my.toml", "--host", "x"]) == 3
    assert not Path("federation").exists()


@pytest.mark.parametrize("group", ["federation", "site"])
def test_every_command_of_a_group_says_what_it_does(group: str, capsys: pytest.CaptureFixture[str]):
    assert start([group, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2]
    for verb in (verb.split()[1] for verb in VERBS if verb.startswith(f"{group} ")):
        assert re.search(rf"^  {verb}: \w+", listed, re.MULTILINE), verb


@pytest.mark.parametrize("base", [None, "/nowhere", "tiny-five"])
def test_a_base_model_that_is_not_here_or_another_asks_for_the_option(
    scene: Scene, base: str | None
):
    offered = scene.read().model_copy(update={"base": "clinic-7b"})
    with pytest.raises(MachineError, match="clinic-7b") as caught:
        scene.join(invite=offered, base=base)
    assert caught.value.hint.startswith("add --base FOLDER to the command: ")


def test_a_base_model_that_every_machine_can_get_says_how(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Once it is here it is used by its name, also by a site that names it."""
    monkeypatch.setenv("FEDSE_MODELS", str(tmp_path / "models"))
    offered = scene.read().model_copy(update={"base": "smollm2-135m"})
    with pytest.raises(MachineError, match="smollm2-135m") as caught:
        scene.join(invite=offered)
    assert caught.value.hint.startswith("fedse model get smollm2-135m, or add --base FOLDER ")
    shutil.copytree(SHIPPED["tiny"], tmp_path / "models" / "smollm2-135m")
    named = scene.join(invite=offered, base="smollm2-135m")
    assert open_home(named.path).config.model.base == "smollm2-135m"


def test_commands_in_hints_name_the_federation(scene: Scene):
    place = f" --dir {scene.federation.path}"
    with pytest.raises(ConfigError, match=r"did you mean 'alpha'\?$") as unknown:
        scene.invite_again("alhpa")
    assert unknown.value.hint == f"fedse federation status{place}"
    request = scene.request(scene.join())
    scene.enrol(request)
    with pytest.raises(ConfigError) as used:
        scene.enrol(request)
    assert used.value.hint == f"fedse federation invite alpha{place}"
    with pytest.raises(ConfigError) as enrolled:
        scene.invite_again()
    assert enrolled.value.hint == f"fedse federation revoke alpha{place}"


def test_a_base_model_is_found_from_any_folder(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(SHIPPED["tiny"], tmp_path / "models" / "tiny")
    monkeypatch.chdir(tmp_path / "models")
    home = scene.join(base="tiny/../tiny/.")
    assert open_home(home.path).config.model.base == str(tmp_path / "models" / "tiny")
    monkeypatch.chdir(tmp_path)
    assert open_home(home.path).card == home.card
    shutil.rmtree(tmp_path / "models")
    with pytest.raises(MachineError, match="the base model is missing") as caught:
        open_home(home.path)
    assert caught.value.hint.endswith("experiment.toml to the folder that has it")


def test_tensors_of_a_kind_are_summed_up():
    tensors = {tensor.name: tensor.shape for tensor in spec_of(config()).tensors}
    kinds = tensor_kinds(tensors)
    assert sum(kind.times for kind in kinds) == len(tensors) == 56
    assert len(kinds) == 14
    assert sum(kind.times * prod(kind.shape) for kind in kinds) == spec_of(config()).size
    assert tensor_kinds({"a.0.b.1.w": (2, 3), "a.1.b.0.w": (2, 3), "a.2.b": (3,)}) == [
        ("a.*.b.*.w", (2, 3), 2),
        ("a.*.b", (3,), 1),
    ]


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "inf"])
def test_an_invitation_that_is_never_valid_or_for_ever_is_not_written(scene: Scene, hours: str):
    where = ["--dir", str(scene.federation.path), "--hours", hours]
    assert start(["federation", "invite", "beta", *where]) == 2
    assert not (scene.federation.path / "invites" / "beta.invite.json").exists()
    assert scene.federation.sites.members["beta"].state == "not invited"
