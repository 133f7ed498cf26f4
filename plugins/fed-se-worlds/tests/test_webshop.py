"""The shop as an environment: its pages and buttons, an expert, and no text that can break it."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.envs.base import Env, ExpertEnv, make_env
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError, EnvError
from fedse.types import Task
from fedse_worlds.webshop.catalogue import catalogue
from fedse_worlds.webshop.env import WebShop
from fedse_worlds.webshop.pages import buttons
from fedse_worlds.webshop.search import Index
from tests.envs.kept import assert_all_kept

INJECTIONS = (
    '" OR "1', "text:towel", "NEAR(a b, 3)", "bath* ^towel", "'; DROP TABLE goods; --", "{a} : b",
    "-", "AND", "NOT towel", '"', '""', "a AND", "(", "*", "\x00", "\ud800", "résumé 漢字",
    "x" * 100_000, " ".join(f"w{i}" for i in range(9_999)),
)  # fmt: skip


BACK = {"click[< Prev]", "click[Next >]"}


def started(task: int = 0, **options: Any) -> WebShop:
    shop = WebShop(**{"products": 60, "option_axes": 2} | options)
    shop.reset(shop.tasks("train")[task], seed=0)
    return shop


def on_item(**options: Any) -> WebShop:
    """A shop with the right product open."""
    shop = started(**options)
    while shop._page.product is None or "Prev" in shop.expert():
        shop.step(shop.expert())
    return shop


def test_is_an_environment_with_an_expert() -> None:
    assert isinstance(make_env("webshop"), Env)
    assert isinstance(WebShop(), ExpertEnv)


@pytest.mark.parametrize("text", INJECTIONS, ids=range(len(INJECTIONS)))
def test_no_query_breaks_the_search(text: str) -> None:
    index = Index([product.document for product in catalogue(60, 1)])
    before = index.best("bath towel", 50)
    assert len(index.best(text, 50)) <= 50
    assert index.best("bath towel", 50) == before != ()
    shop = started()
    assert not shop.step(f"search[{text}]").done


def test_results_are_turned_page_by_page() -> None:
    shop = started(page_size=5)
    first = shop.step("search[free]").observation
    assert "Page 1 (Total" in first
    assert "< Prev" not in first
    assert len([b for b in buttons(shop._page) if b.startswith("p")]) == 5
    assert "Page 2 (Total" in shop.step("click[next >]").observation
    assert shop.step("click[< Prev]").observation == first
    assert shop.step("click[Back to Search]").observation.endswith("dollars [SEP] Search")
    assert "Total results: 0" in shop.step("search[zzz]").observation


@pytest.mark.parametrize("place", ["Description", "Features", "Reviews"])
def test_choices_survive_the_details_and_nothing_else(place: str) -> None:
    shop = on_item()
    shop.step(shop.expert())
    chosen = shop._page.chosen
    page = shop.step(shop.expert()).observation
    assert chosen != ()
    assert shop.step(f"click[{place}]").observation != page
    assert shop.step("click[< Prev]").observation == page
    shop.step("click[< Prev]")
    assert shop._page.place == "results"
    assert shop._page.chosen == ()
    shop = on_item()
    shop.step(shop.expert())
    shop.step("search[towel]")
    assert shop._page.chosen == ()


@pytest.mark.parametrize("prompt", ["full", "short"])
def test_what_was_chosen_is_shown_and_may_be_changed(prompt: Any) -> None:
    shop = on_item(prompt=prompt)
    axis = shop._page.product.axes[0]  # type: ignore[union-attr]
    mark = f"{axis.name} = " if prompt == "short" else f"You have chosen {axis.name}: "
    first, second = axis.values[:2]
    for value in (first, second):
        assert f"{mark}{value}" in shop.step(f"Thought: hm\nAction: click[{value.upper()}]")[0]


def test_the_short_prompt_tells_the_instruction_once() -> None:
    shop = WebShop(prompt="short", products=60)
    told = [shop.reset(shop.tasks("test")[0], seed=0).observation]
    step = shop.step(shop.expert())
    while not step.done:
        told.append(step.observation)
        step = shop.step(shop.expert())
    assert [text.startswith("buy ") for text in told] == [True] + [False] * (len(told) - 1)
    assert max(map(len, told)) < 220
    assert step[:5] == ("score 1.00", 1.0, True, True, True)
    assert shop.system_prompt == "shop"


@settings(deadline=None)
@given(
    st.lists(
        st.text() | st.text().map("click[{}]".format) | st.just("search[ ]"), min_size=1, max_size=8
    )
)
def test_what_is_no_action_here_changes_nothing(texts: list[str]) -> None:
    for shop in (started(), on_item(max_turns=20)):
        labels = {label.lower() for label in buttons(shop._page)}
        before = shop._page
        for text in texts:
            if text.removeprefix("click[")[:-1].strip().lower() not in labels:
                assert not shop.step(text).done
                assert shop._page == before


@settings(deadline=None)
@given(st.integers(0, 2), st.integers(0, 10**6), st.lists(st.text(), max_size=3))
def test_any_walk_keeps_the_laws_and_repeats(axes: int, seed: int, texts: list[str]) -> None:
    def walk() -> list[Any]:
        random, shop = Random(seed), started(seed % 48, option_axes=axes, prompt="short")
        steps = list[Any]()
        while not steps or not steps[-1].done:
            said = random.choice([*shop.actions(), *texts, *(f"search[{t}]" for t in texts)])
            steps.append(shop.step(said))
        return steps

    steps = walk()
    assert steps == walk()
    assert len(steps) <= 10
    assert all(step.reward == 0 and not step.success for step in steps[:-1])
    assert 0.0 <= steps[-1].reward <= 1.0
    assert steps[-1].success == (steps[-1].reward == 1.0)


@settings(deadline=None)
@given(st.integers(0, 2), st.integers(0, 10**6))
def test_the_expert_recovers_from_what_others_did(axes: int, seed: int) -> None:
    random = Random(seed)
    shop = started(seed % 48, option_axes=axes, strict_options=True, max_turns=20)
    for _ in range(8):
        shop.step(random.choice([said for said in shop.actions() if "Buy" not in said]))
    step = shop.step(shop.expert())
    while not step.done:
        step = shop.step(shop.expert())
    assert step.success


def test_the_expert_opens_what_the_list_speaks_for_and_never_twice_in_vain() -> None:
    shop, went_back = WebShop(tasks_per_split=[150, 1]), 0
    for task in shop.tasks("train"):
        step, said = shop.reset(task, seed=0), list[str]()
        while not step.done:
            said.append(shop.expert())
            if shop._page.place == "results":
                goal, hits = shop._open_goal(), shop._page.shown_hits
                assert said[-1] in [f"click[{h.id}]" for h in hits if goal.looks_met_by(h)]
            step = shop.step(said[-1])
        assert step.success
        assert len(set(said) - {"click[< Prev]"}) == len(said) - said.count("click[< Prev]")
        went_back += "click[< Prev]" in said
    assert 10 < went_back < 50


def test_only_buying_is_rewarded_and_the_last_turn_counts() -> None:
    turns = on_item()._turns + 3
    shop = started(max_turns=turns)
    for _ in range(turns - 1):
        shop.step(shop.expert())
    score = "Your score (min 0.0, max 1.0)"
    assert shop.step("click[buy now]")[:5] == (
        f"Thank you for your order [SEP] {score} [SEP] 1.00", 1.0, True, True, True
    )  # fmt: skip
    shop = started(max_turns=1)
    assert shop.step("click[Buy Now]")[:5] == (
        f"You have no turns left [SEP] {score} [SEP] 0.00", 0.0, True, False, True
    )  # fmt: skip
    with pytest.raises(EnvError):
        shop.step("search[towel]")
    assert not started().step("buy it").valid


def test_foreign_tasks_are_refused() -> None:
    with pytest.raises(EnvError, match="elsewhere"):
        WebShop().reset(Task(env="webshop", id="elsewhere", split="train"), seed=0)


@pytest.mark.parametrize(
    "options",
    [{"products": 59}, {"products": 10_001}, {"products": True}, {"option_axes": 3},
     {"max_turns": 0}, {"prompt": "long"}, {"page_size": 0}, {"page_size": 51},
     {"tasks_per_split": [3]}, {"tasks_per_split": [3, 0]}],
)  # fmt: skip
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))) as caught:
        WebShop(**options)
    assert caught.value.hint


CHECKED: list[dict[str, Any]] = [
    {},
    {"products": 60, "option_axes": 0, "prompt": "short"},
    {"option_axes": 2, "prompt": "short", "strict_options": True, "page_size": 3},
]


@pytest.mark.parametrize("options", CHECKED)
def test_keeps_every_promise(options: dict[str, Any]) -> None:
    assert_all_kept(check_env("webshop", options, hash_seeds=(1,)))


@pytest.mark.slow
@pytest.mark.parametrize("options", [*CHECKED, {"products": 1000, "option_axes": 2}])
def test_keeps_every_promise_on_200_tasks(options: dict[str, Any]) -> None:
    report = check_env("webshop", options, tasks=200)
    assert report.ok, [check for check in report.checks if not check.ok]


def test_nothing_need_be_copied_where_results_are_numbered() -> None:
    """The same shop and tasks; every click and search of the expert is the same few words."""
    shop, plain = WebShop(copying=False, option_axes=0), WebShop(option_axes=0)
    assert shop.tasks("test") == plain.tasks("test")
    said = set()
    for task in shop.tasks("test")[:40]:
        step = shop.reset(task, seed=0)
        plain.reset(task, seed=0)
        while not step.done:
            action, copied = shop.expert(), plain.expert()
            said.add(action)
            step = shop.step(action)
            assert step[1:] == plain.step(copied)[1:]
        assert step.success
    places = {f"click[{place}]" for place in range(1, 11)}
    assert {"search[wish]", "click[Buy Now]", "click[1]"} <= said
    assert {s for s in said if not s.startswith("search[")} <= {*places, "click[Buy Now]", *BACK}


def test_a_wish_is_searched_for_only_where_copying_is_not_asked() -> None:
    numbered, plain = started(copying=False), started()
    assert "1 [SEP]" in numbered.step("search[wish]").observation
    assert "[SEP] p" not in numbered.step("search[wish]").observation
    assert "Total results: 0" in plain.step("search[wish]").observation
    assert "search[wish]" in numbered.system_prompt
    assert "wish" not in plain.system_prompt


def test_an_agent_that_need_not_copy_is_promised_the_same() -> None:
    assert_all_kept(check_env("webshop", {"copying": False, "products": 60}, tasks=4))
