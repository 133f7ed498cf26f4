"""The maze: published layout, rules of a move, disjoint splits, an expert that never strays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.envs.base import Env, ExpertEnv
from fedse.envs.maze.env import Maze, full_view, short_view
from fedse.envs.maze.layouts import DRAWINGS, MOVES, layout, layout_names
from fedse.errors import ConfigError, EnvError
from fedse.types import Task

RANDOM_NAMES = st.builds(
    "random-{}x{}-{}".format,
    st.sampled_from(range(5, 16, 2)),
    st.sampled_from(range(5, 16, 2)),
    st.integers(0, 10**6),
)
PINNED_RANDOM = (
    "#######",
    "#.....#",
    "###.#.#",
    "#..G#.#",
    "#.#.#.#",
    "#.#...#",
    "#######",
)
ANY_LAYOUT = st.one_of(st.sampled_from(sorted(DRAWINGS)), RANDOM_NAMES)


def started(cell: str, **options: Any) -> Maze:
    """The published maze with the agent on `cell`."""
    maze = Maze(layouts=["double_t"], **options)
    maze.reset(Task(env="maze", id=f"double_t/{cell}", split="train"), seed=0)
    return maze


def test_is_an_environment_with_an_expert() -> None:
    assert isinstance(Maze(), Env)
    assert isinstance(Maze(), ExpertEnv)


def test_the_published_layout_has_the_published_numbers() -> None:
    distances = [far for far in layout("double_t").distances.values() if far > 0]
    assert layout("double_t").goal == (8, 6)
    assert len(distances) == 25
    assert set(distances) == set(range(1, 13))
    assert sum(distances) / 25 == 7.84


@given(ANY_LAYOUT)
def test_every_layout_is_walled_in_connected_and_small_numbered(name: str) -> None:
    maze = layout(name)
    height, width = len(maze.rows), len(maze.rows[0])
    free = {(r, c) for r, row in enumerate(maze.rows) for c, x in enumerate(row) if x != "#"}
    assert set(maze.distances) == free
    assert all(0 < r < height - 1 and 0 < c < width - 1 for r, c in free)
    assert max(height, width) <= 16


@given(ANY_LAYOUT, st.data())
def test_the_expert_is_one_move_nearer_after_every_move(name: str, data: st.DataObject) -> None:
    maze = layout(name)
    cell = data.draw(st.sampled_from([c for c, far in maze.distances.items() if far]))
    after = maze.moved(cell, maze.towards_goal(cell))
    assert maze.distances[after] == maze.distances[cell] - 1


@given(ANY_LAYOUT, st.data())
def test_a_move_is_undone_by_its_opposite_or_stopped_by_a_wall(
    name: str, data: st.DataObject
) -> None:
    maze = layout(name)
    cell = data.draw(st.sampled_from(list(maze.distances)))
    way, back = data.draw(
        st.sampled_from([("up", "down"), ("down", "up"), ("left", "right"), ("right", "left")])
    )
    after = maze.moved(cell, way)
    assert (after == cell) == (way not in maze.open_ways(cell))
    assert after == cell or maze.moved(after, back) == cell


def test_random_layouts_are_the_same_for_ever() -> None:
    assert layout("random-7x7-12").rows == PINNED_RANDOM


def test_ranges_spell_out_seeds_and_names_occur_once() -> None:
    assert layout_names(["u", "random-7x7-3..5", "u"]) == (
        "u", "random-7x7-3", "random-7x7-4", "random-7x7-5",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["nowhere", "random-8x8-1", "random-3x3-1", "random-17x17-1"])
def test_an_unknown_layout_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Maze(layouts=[name])


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ((1, 3), "There is a wall above you."),
        ((3, 3), "There are walls to your right, to your left."),
        ((5, 4), "There are walls above you, below you."),
        ((1, 5), "There are walls to your right, above you, below you."),
    ],
)
def test_the_full_view_names_the_walls_in_the_published_order(
    cell: tuple[int, int], sentence: str
) -> None:
    assert full_view(layout("double_t"), cell) == (
        "The goal is at position 8, 6. "
        f"Your current position is at position {cell[0]}, {cell[1]}. {sentence}"
    )


def test_an_open_place_has_no_walls() -> None:
    assert full_view(layout("rooms"), (2, 2)).endswith("There are no walls near you.")


def test_the_short_view_tells_position_goal_and_open_directions() -> None:
    assert short_view(layout("double_t"), (5, 3)) == "at 5 3 goal down 3 right 3 open up right"
    assert short_view(layout("double_t"), (7, 6)) == "at 7 6 goal down 1 open up down"


@given(ANY_LAYOUT)
def test_the_short_view_determines_goal_and_walls(name: str) -> None:
    maze = layout(name)
    cells = [cell for cell, far in maze.distances.items() if far]
    assert cells
    for cell in cells:
        words = short_view(maze, cell).split()
        goal, opened = words.index("goal"), words.index("open")
        told = dict(zip(words[goal + 1 : opened : 2], words[goal + 2 : opened : 2], strict=True))
        rows = int(told.get("down", 0)) - int(told.get("up", 0))
        columns = int(told.get("right", 0)) - int(told.get("left", 0))
        assert (int(words[1]) + rows, int(words[2]) + columns) == maze.goal
        assert tuple(words[opened + 1 :]) == maze.open_ways(cell)


@pytest.mark.parametrize(
    "text",
    ["move down", "  Move   DOWN \n", "Thought: down it is.\nAction: move down",
     "Action: move up\nno, wait. Action: move down\nObservation: ..."],
)  # fmt: skip
def test_the_same_move_may_be_said_in_many_ways(text: str) -> None:
    assert "position 2, 3." in started("1,3").step(text).observation


@pytest.mark.parametrize("text", ["down", "move", "move down now", "go down", "", "move up"])
def test_other_texts_and_walls_leave_the_agent_where_it_is(text: str) -> None:
    assert "position 1, 3." in started("1,3").step(text).observation


@pytest.mark.parametrize("text", ["down", "move down", "Action: down"])
def test_the_short_prompt_takes_the_bare_direction_too(text: str) -> None:
    assert started("1,3", prompt="short").step(text).observation.startswith("at 2 3 ")


def test_reaching_the_goal_is_reward_one_and_success() -> None:
    step = started("7,6").step("move down")
    assert step[:5] == ("Success", 1.0, True, True, True)


def test_the_goal_on_the_last_turn_counts_and_standing_still_runs_out() -> None:
    maze = started("7,6", max_turns=2)
    maze.step("nonsense")
    assert maze.step("move down").success
    maze = started("7,6", max_turns=2)
    maze.step("nonsense")
    assert maze.step("nonsense")[:5] == ("Failure", 0.0, True, False, False)
    with pytest.raises(EnvError):
        maze.step("move down")


def test_moves_before_reset_and_foreign_tasks_are_refused() -> None:
    with pytest.raises(EnvError):
        Maze().step("move up")
    with pytest.raises(EnvError, match="nowhere"):
        Maze().reset(Task(env="maze", id="nowhere", split="train"), seed=0)
    with pytest.raises(EnvError):
        Maze().reset(Task(env="maze", id="double_t/1,1", split="test"), seed=0)


def test_the_splits_share_no_layout() -> None:
    maze = Maze()
    train, test = ({t.id.split("/")[0] for t in maze.tasks(s)} for s in ("train", "test"))
    assert not train & test
    assert not {layout(name).rows for name in train} & {layout(name).rows for name in test}


def test_a_held_out_layout_that_is_trained_on_is_refused() -> None:
    with pytest.raises(ConfigError, match="held_out"):
        Maze(layouts=["u", "medium"], held_out=["u"])


def test_the_published_setting_splits_the_25_starts() -> None:
    maze = Maze(layouts="double_t", split_by="start")
    train, test = ({t.id for t in maze.tasks(s)} for s in ("train", "test"))
    assert (len(train), len(test), len(train & test)) == (20, 5, 0)


@given(st.integers(1, 15))
def test_a_curriculum_keeps_only_near_starts(reach: int) -> None:
    maze = Maze(max_distance=reach)
    for task in (*maze.tasks("train"), *maze.tasks("test")):
        name, _, cell = task.id.partition("/")
        row, column = map(int, cell.split(","))
        assert 1 <= layout(name).distances[(row, column)] <= reach


@pytest.mark.parametrize(
    "options",
    [{"prompt": "long"}, {"split_by": "size"}, {"max_turns": 0}, {"max_distance": 0},
     {"layouts": []}, {"held_out": []}],
)  # fmt: skip
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="maze") as caught:
        Maze(**options)
    assert caught.value.hint


@given(
    st.lists(
        st.one_of(st.text(), st.sampled_from([f"move {way}" for way in MOVES])),
        min_size=1,
        max_size=9,
    )
)
def test_no_sequence_of_texts_raises(texts: list[str]) -> None:
    maze = started("1,1", max_turns=12)
    for text in texts:
        step = maze.step(text)
        assert step.success == (step.reward == 1.0)
        assert step.done or not step.success
        if step.done:
            break
