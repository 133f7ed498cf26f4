"""A secret that a world says everywhere is in no file of a site that redacts."""

import logging
import time
from contextlib import closing
from pathlib import Path

import pytest

from fedse.config.redaction import RedactSection
from fedse.config.schema import Config
from fedse.events import silent
from fedse.protocol import Question
from fedse.redact.episode import text_filter
from fedse.redact.spans import PSEUDONYM
from fedse.site.answer import serve
from fedse.site.log import log_to
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from tests.needs import needs

needs("stdnum")

SPEC, KEY = toy_spec(), "AKIA" + "QZ3FX7LMWN2PVB5T"


def toy(**redact: object) -> Config:
    world = {"name": "a", "env": "fedse.testing:CoinWorld", "options": {"secret": f"key {KEY}"}}
    return Config.model_validate(
        {
            "run": {"name": "toy", "rounds": 2},
            "rollout": {"episodes": 10, "batch": 4},
            "eval": {"episodes": 4},
            "redact": redact,
            "clients": [world],
        }
    )


def answered(config: Config, home: Path) -> tuple[list[str], bytes | None]:
    """What a site saw first in each of its lessons, and its answer to the first request."""
    adapter = toy_adapter(SPEC, 1)
    request = Question(
        experiment="toy", round=1, agreed=config.agreed_digest(), spec=SPEC.identity,
        adapter=adapter.digest, kind="train", evaluate=True,
    )  # fmt: skip
    site = open_toy_site(config, "a", home, clock=time.time)
    with closing(site.buffer):
        reply = serve(request, adapter.to_bytes(), site, config, emit=silent)
        seen = [lesson.turns[0].observation for lesson in site.buffer.lessons("toy", 1)]
    return seen, reply.adapter


def is_written(home: Path) -> bool:
    files = [file.read_bytes() for file in home.rglob("*") if file.is_file()]
    return any(KEY.encode() in data for data in files)


def test_the_secret_is_in_no_file_and_as_much_is_learned_from(tmp_path: Path):
    without, _ = answered(toy(), tmp_path / "off")
    redacted, _ = answered(toy(secrets=True), tmp_path / "on")
    assert is_written(tmp_path / "off"), "else the check could not fail"
    assert not is_written(tmp_path / "on")
    assert len(redacted) == len(without) > 0
    assert [PSEUDONYM.sub(KEY, seen) for seen in redacted] == without


def test_where_nothing_is_private_redaction_changes_no_bit(tmp_path: Path):
    silent_world = toy().clients[0].model_copy(update={"options": {}})
    clean = toy().model_copy(update={"clients": (silent_world,)})
    on = clean.model_copy(update={"redact": RedactSection(secrets=True)})
    assert answered(clean, tmp_path / "off") == answered(on, tmp_path / "on")


def test_nobody_agrees_on_redaction():
    assert toy(secrets=True).agreed_digest() == toy().agreed_digest()


def test_the_log_is_redacted_with_its_tracebacks(tmp_path: Path):
    logger = logging.getLogger("fedse.test-redacting")
    log_to(tmp_path, logger, redact=text_filter(RedactSection(secrets=True), tmp_path))
    try:
        raise KeyError(KEY)
    except KeyError:
        logger.exception("with %s", KEY)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    said = (tmp_path / "worker.log").read_text()
    assert KEY not in said
    assert "KeyError: '[SECRET-" in said


@pytest.mark.parametrize("on", [False, True])
def test_a_filter_that_is_off_changes_nothing(tmp_path: Path, on: bool):
    done = text_filter(RedactSection(secrets=on), tmp_path)(KEY)
    assert (done == KEY) is not on
