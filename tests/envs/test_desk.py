"""The desk: rules of the shops, what a call is, disjoint customers, an expert without mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.envs.base import ExpertEnv, make_env, subject_of
from fedse.envs.desk.env import NO_CALL, TOOLS, Desk, call_of, written
from fedse.envs.desk.shops import CASES, REMEDIES, SHOPS, request_of
from fedse.errors import ConfigError, EnvError
from fedse.types import Split, Task
from tests.envs.kept import assert_all_kept

BY = ("order", "name")
BOTH: tuple[Split, ...] = ("train", "test")


def opened(place: int = 0, split: Split = "train", **options: object) -> Desk:
    desk = Desk(**options)  # type: ignore[arg-type]
    desk.reset(desk.tasks(split)[place], seed=0)
    return desk


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("shop", SHOPS)
def test_the_expert_serves_every_customer_of_every_shop(shop: str, by: str):
    desk = Desk(shop=shop, by=by)  # type: ignore[arg-type]
    assert isinstance(desk, ExpertEnv)
    for split in BOTH:
        for task in desk.tasks(split):
            step, turns = desk.reset(task, seed=0), 0
            while not step.done:
                step, turns = desk.step(desk.expert()), turns + 1
                assert step.valid
            assert (step.success, turns) == (True, 4 if by == "name" else 3)


def test_rules_contradict_each_other_and_every_shop_has_every_remedy():
    for case in CASES:
        assert {shop.rules[case] for shop in SHOPS.values()} == {*REMEDIES}
    assert len({tuple(shop.rules.items()) for shop in SHOPS.values()}) == len(SHOPS)
    assert all(sorted(shop.rules.values()) == sorted(REMEDIES) for shop in SHOPS.values())


def test_no_two_lists_share_a_customer():
    names = [name for shop in SHOPS.values() for split in BOTH for name in shop.customers[split]]
    assert len(names) == len(set(names)) == 12 * len(SHOPS)


def test_a_shop_has_its_own_cases_and_is_measured_in_all():
    desk = Desk(shop="books", cases=["late", "damaged"])
    cases = {split: {task.id.split("-")[1] for task in desk.tasks(split)} for split in BOTH}
    assert cases == {"train": {"late", "damaged"}, "test": {*CASES}}
    assert [len(desk.tasks(split)) for split in BOTH] == [48, 48]


def test_an_order_is_the_same_for_ever():
    assert request_of("books", "Ada", "late", 0) == ("Ada", "160", "comic", 80, "late")


def test_a_game_in_full():
    desk = opened(shop="books")
    said = [desk.step(desk.expert()).observation for _ in range(3)]
    assert said == ["Order 160: comic, 80 euro, late.", "Our rule for late: refund.", "Done."]


@pytest.mark.parametrize(
    ("action", "won"),
    [
        ('{"tool": "refund", "id": "160", "amount": "80"}', True),
        ('Action: {"tool": "refund", "amount": 80, "id": 160} and so on', True),
        ('{"tool": "refund", "id": "160", "amount": "81"}', False),
        ('{"tool": "refund", "id": "161", "amount": "80"}', False),
        ('{"tool": "voucher", "id": "160", "amount": "80"}', False),
        ('{"tool": "replace", "id": "160"}', False),
    ],
)
def test_only_the_remedy_of_the_rule_for_the_order_succeeds_and_any_remedy_ends(
    action: str, won: bool
):
    step = opened(shop="books").step(action)
    assert (step.done, step.success, step.reward, step.valid) == (True, won, float(won), True)


@pytest.mark.parametrize(
    "text",
    [
        "", "refund 160", "{", "[1]", "{}", '{"tool": []}', '{"tool": "shout", "id": "160"}',
        '{"tool": "order"}', '{"tool": "order", "id": ""}', '{"tool": "order", "id": {"a": 1}}',
        '{"tool": "order", "id": "160", "amount": "1"}', "{" * 5000, '{"tool": 7}', '"{"',
    ],
)  # fmt: skip
def test_what_is_no_call_says_so_and_costs_a_turn(text: str):
    desk = opened(max_turns=2)
    assert desk.step(text)[:5] == (NO_CALL, 0.0, False, False, False)
    assert desk.step(text)[:5] == (NO_CALL, 0.0, True, False, False)
    with pytest.raises(EnvError, match="no episode is open"):
        desk.step(text)


def test_a_look_up_of_something_else_finds_nothing():
    desk = opened(shop="books")
    for call in ({"tool": "order", "id": "1"}, {"tool": "rule", "case": "x"}):
        assert desk.step(written(call))[:5] == ("Nothing was found.", 0.0, False, False, True)
    assert desk.step('{"tool": "find", "name": "Ada"}').observation == "Nothing was found."


@given(st.sampled_from(sorted(TOOLS)), st.lists(st.integers(0, 10**6), min_size=2, max_size=2))
def test_a_written_call_is_read_as_it_was_meant(tool: str, numbers: list[int]):
    arguments = dict(zip(TOOLS[tool], map(str, numbers), strict=False))
    assert call_of(written({"tool": tool, **arguments})) == {"tool": tool, **arguments}


@given(st.text())
def test_every_text_gets_an_answer(text: str):
    assert isinstance(opened().step(text).observation, str)


@pytest.mark.parametrize(
    "wrong", [{"shop": "cars"}, {"cases": []}, {"cases": "late"}, {"by": "x"}, {"max_turns": 0}]
)
def test_wrong_options_are_named(wrong: dict[str, object]):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Desk(**wrong)  # type: ignore[arg-type]


def test_foreign_tasks_are_refused():
    with pytest.raises(EnvError, match="elsewhere"):
        Desk().reset(Task(env="desk", id="elsewhere", split="train"), seed=0)


def test_it_keeps_the_contract():
    from fedse.envs.conformance.check import check_env

    options = {"shop": "lamps", "cases": ["wrong"], "by": "name"}
    assert_all_kept(check_env("desk", options, tasks=5))


def test_a_task_is_about_the_customer_who_writes_and_a_maze_about_nobody():
    desk = Desk()
    for task in desk.tasks("train"):
        assert subject_of(desk, task) in desk.reset(task, seed=0).observation
    customers = {subject_of(desk, task) for task in desk.tasks("train")}
    assert customers == set(SHOPS["books"].customers["train"])
    maze = make_env("maze")
    assert subject_of(maze, maze.tasks("train")[0]) is None
