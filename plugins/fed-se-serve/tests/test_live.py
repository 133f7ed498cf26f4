"""The live demonstration: who comes, what they say, and that everything fits together."""

import asyncio
import json
from pathlib import Path
from random import Random

import pytest

from tests.needs import needs

needs("torch", "transformers", "peft", "aiohttp", "openai", "jinja2", "stdnum")

from fedse.envs.desk.env import Desk
from fedse_serve.live import demo
from fedse_serve.live.customers import (
    LATEST,
    SOONEST,
    Thumbs,
    Visit,
    customers_of,
    staff_logs,
    thumbs_of,
)
from fedse_serve.live.shops import LOGS, SHOPS
from fedse_serve.live.show import result_lines


def test_a_third_say_how_it_went_later_and_a_tenth_of_them_are_wrong() -> None:
    visits = [Visit(str(i), "a", "stable", i % 2 == 0) for i in range(20_000)]
    thumbs = thumbs_of(visits, Thumbs(), now=100.0, random=Random(0))
    solved = {visit.session: visit.solved for visit in visits}
    wrong = sum(thumb.up != solved[thumb.session] for thumb in thumbs)
    assert abs(len(thumbs) / len(visits) - 1 / 3) < 0.01
    assert abs(wrong / len(thumbs) - 0.1) < 0.01
    assert all(100.0 + SOONEST <= thumb.at <= 100.0 + LATEST for thumb in thumbs)
    assert len({thumb.session for thumb in thumbs}) == len(thumbs)


@pytest.mark.parametrize("shop", SHOPS)
def test_staff_had_the_cases_of_their_shop_and_did_what_the_rules_ask(shop: str) -> None:
    cases = SHOPS[shop]
    for log in staff_logs(shop, cases, LOGS, random=Random(0)):
        desk = Desk(shop=shop, cases=cases, max_turns=3)
        said = [one["content"] for one in log["messages"] if one["role"] == "assistant"]
        asked = next(one["content"] for one in log["messages"] if one["role"] == "user")
        (task,) = [t for t in desk.tasks("train") if desk.reset(t, seed=0).observation == asked][:1]
        desk.reset(task, seed=0)
        assert [desk.step(action).success for action in said] == [False, False, True]


def test_customers_come_with_cases_that_the_staff_had_not() -> None:
    tasks = customers_of("books", 200, random=Random(0))
    cases = {task.id.split("-")[1] for task in tasks}
    assert cases > set(SHOPS["books"])


@pytest.mark.slow
def test_days_and_nights_go_by_and_every_shop_has_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "NIGHTS", 1)
    monkeypatch.setattr(demo, "CUSTOMERS", 8)
    monkeypatch.setattr(demo, "HARMED", 12)
    told: list[str] = []
    found = asyncio.run(demo.live_demo(tmp_path, base="tiny", seed=0, tell=told.append))
    assert [text[:5] for text in told] == ["day 1", "day 2", "day 3"]
    assert sum(len(done.visits) for done in found.days) == 2 * 8 * len(SHOPS) + demo.HARMED
    for shop, status in found.statuses.items():
        kinds = [moved.move.kind for moved in status.moves]
        assert kinds[:4] == ["offered", "pinned", "unpinned", "offered"]
        harmed = shop == next(iter(SHOPS))
        assert (kinds.count("offered") == 3) == harmed
        assert sum(day.sessions for day in status.days) == 16 + demo.HARMED * harmed
        assert "<h1>" in found.pages[shop].read_text()
        served = {v.adapter for done in found.days if done.shop == shop for v in done.visits}
        assert served <= {moved.move.adapter for moved in status.moves}
    assert len(result_lines(found)) == 1 + 3 + 2 * len(SHOPS)
    (run,) = (tmp_path / "runs").iterdir()
    learned = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [one["round"] for one in learned if one["event"] == "round.committed"] == [1, 2]
