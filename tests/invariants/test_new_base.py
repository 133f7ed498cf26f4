"""With another base model the adapter begins anew, and nobody's experience is lost."""

import shutil
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch")

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.agent.prompt import as_texts
from fedse.agent.tokens import load_encoder
from fedse.config.file import parse_config
from fedse.drivers.run import run_local
from fedse.envs.base import make_env
from fedse.federation import folder
from fedse.federation.amend import Draft, amend
from fedse.federation.folder import Card
from fedse.ledger.verifying import verify_ledger
from fedse.store.agreements import FOLDER
from fedse.store.run import Run
from fedse.store.run_folder import create_run, open_run
from tests.system.field import SHORT_ROUND, maze_clients

SINCE, ROUNDS = 3, 4
EXPERIMENT = f"""[run]
name = "anew"
rounds = {ROUNDS}
[eval]
episodes = 0
{SHORT_ROUND}
{maze_clients(("alpha", "beta"))}"""


def amended_run(path: Path, *changes: str) -> Run:
    """A run of this machine's own with an amendment that its coordinator signed."""
    config, now = parse_config(EXPERIMENT, "experiment"), datetime.now(UTC)
    card = Card(name="anew", host="h", port=1, link_port=2, bundle="b", fingerprint="")
    made = folder.create(
        path / "federation", config, given=EXPERIMENT, card=card, now=now, clock=time.time
    )
    federation = folder.open_federation(made.path)
    amend(federation, Draft(changes, since=SINCE, reason="larger"), clock=time.time)
    run = create_run(path, config, given=EXPERIMENT, name="run", now=now, clock=time.time)
    shutil.copytree(federation.run / FOLDER, run.path / FOLDER)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    with closing(amended_run(tmp_path_factory.mktemp("anew"), "model.base=tiny-five")) as made:
        run_local(made)
    return made.path


def test_the_adapter_begins_anew_and_the_ledger_verifies(run: Path):
    with closing(open_run(run)) as opened:
        results = list(opened.results())
        config = opened.config
    first = initial_adapter(spec_of(config), seed=config.run.seed)
    assert (config.model.base, config.model.since) == ("tiny-five", SINCE)
    assert results[SINCE - 1].before == first.digest
    assert results[SINCE - 1].before != results[SINCE - 2].after
    assert all(one.voters == ("alpha", "beta") for one in results)
    for place in (run, run / "clients" / "alpha", run / "clients" / "beta"):
        assert verify_ledger(place / "ledger.jsonl").finding is None


def test_lessons_of_earlier_rounds_are_texts_for_the_new_model(run: Path):
    """They are all there, and tokenised as if somebody else had played them."""
    from fedse.site.open import open_buffer, open_site

    with closing(open_run(run)) as opened:
        config = opened.config
    home, env = run / "clients" / "alpha", make_env("maze", {"prompt": "short"})
    old, new = (load_encoder(base_path(name)) for name in ("tiny", "tiny-five"))
    with closing(open_buffer(config, home, env)) as buffer:
        lessons = [*buffer.lessons(config.run.name, ROUNDS)]
    assert 0 in {one.round for one in lessons}, "the demonstrations of the first round are there"
    sampled = old.tokenized(env.system_prompt, lessons[0])
    played = [sampled.model_copy(update={"round": round}) for round in range(1, ROUNDS + 1)]
    site = open_site(config, "alpha", home, clock=time.time)
    prepared = [*site.prepare([*lessons, *played])]
    site.buffer.close()
    for lesson, ready in zip([*lessons, *played], prepared, strict=True):
        own = lesson if lesson.round >= SINCE else as_texts(lesson)
        assert ready == new.tokenized(env.system_prompt, own)
        assert [turn.action for turn in ready.turns] == [turn.action for turn in lesson.turns]
    assert prepared[-1] == played[-1]
    assert prepared[-ROUNDS] != played[0]


def test_a_kill_changes_nothing(run: Path, tmp_path: Path):
    killed = amended_run(tmp_path, "model.base=tiny-five")

    def die(event: str, facts: object) -> None:
        if event == "round.started" and isinstance(facts, dict) and facts["round"] == SINCE:
            raise KeyboardInterrupt

    killed.close()
    with (
        closing(open_run(killed.path, observers=[die])) as opened,
        pytest.raises(KeyboardInterrupt),
    ):
        run_local(opened)
    with closing(open_run(killed.path)) as opened:
        run_local(opened)
        found = [one.after for one in opened.results()]
    with closing(open_run(run)) as whole:
        assert found == [one.after for one in whole.results()]


def test_another_layout_begins_anew_as_well(tmp_path: Path):
    with closing(amended_run(tmp_path, "model.rank=4")) as made:
        adapter = run_local(made)
    with closing(open_run(made.path)) as opened:
        assert opened.config.model.since == SINCE
        assert adapter.spec == opened.spec == spec_of(opened.config)
