"""A site says whether it has news in one byte, and nothing at the site is changed by that."""

from pathlib import Path

import pytest

from fedse.config.schema import Config
from fedse.errors import FedSEError
from fedse.events import silent
from fedse.faults import Fault
from fedse.protocol import KINDS, NEWS, Question, SiteReply, Sizes
from fedse.site.answer import answer
from fedse.site.rules import OPEN_ROUNDS, first_rules, write_rules
from fedse.testing import CoinWorld, open_toy_site, toy_spec

SPEC = toy_spec()


class Fresh(CoinWorld):
    def __init__(self, *, has: bool) -> None:
        super().__init__()
        self._has = has

    def has_news(self) -> bool:
        return self._has


def said(
    home: Path, env: str, *, round: int = 7, has: bool | None = None, **rules: object
) -> SiteReply:
    options = {} if has is None else {"has": has}
    config = Config.model_validate(
        {
            "run": {"name": "toy", "rounds": "open"},
            "clients": [{"name": "a", "env": env, "options": options}],
        }
    )
    site = open_toy_site(config, "a", home, clock=lambda: 0.0)
    policy = home / "policy.toml"
    own = first_rules(config, adapter_bytes=SPEC.nbytes)
    assert own.max_rounds == OPEN_ROUNDS
    write_rules(policy, own.model_copy(update=rules))
    question = Question(
        experiment="toy", round=round, agreed=config.agreed_digest(), spec=SPEC.identity,
        adapter="0" * 64, kind="news",
    )  # fmt: skip
    before = {file.name for file in home.iterdir()}
    reply = answer(question, b"", site, config, emit=silent, policy=policy)
    assert {file.name for file in home.iterdir()} == before
    assert site.buffer.outbox.newest("toy") is None
    assert site.buffer.outbox.count_asked("toy", "work") == 0
    return reply


FRESH, COIN = f"{__name__}:Fresh", "fedse.testing:CoinWorld"


@pytest.mark.parametrize(
    ("env", "has", "told"), [(FRESH, True, NEWS), (FRESH, False, None), (COIN, None, NEWS)]
)
def test_a_site_says_that_it_has_news_and_nothing_else(
    tmp_path: Path, env: str, has: bool | None, told: bytes | None
):
    reply = said(tmp_path, env, has=has)
    assert reply == SiteReply(reply.stats, told)
    assert not any(reply.stats.model_dump(exclude_none=True).values())


def test_a_paused_site_has_no_news(tmp_path: Path):
    assert said(tmp_path, COIN, pause=True)[1:3] == (None, Fault.PAUSED)


def test_a_site_whose_rounds_are_spent_refuses(tmp_path: Path):
    with pytest.raises(FedSEError, match="max_rounds is 0"):
        said(tmp_path, COIN, max_rounds=0)


def test_the_number_of_a_round_does_not_matter_without_an_end(tmp_path: Path):
    assert said(tmp_path, COIN, round=10 * OPEN_ROUNDS).adapter == NEWS


def test_nothing_goes_down_and_a_byte_at_most_comes_up():
    sizes = Sizes(10**9, 1000)
    assert (KINDS["news"].down(sizes), KINDS["news"].up(sizes)) == (0, 1)
