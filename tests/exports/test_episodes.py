"""What became of an episode, and which ones are asked for."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from fedse.errors import ConfigError, StoreError
from fedse.exports.episodes import (
    Wanted,
    facts_of,
    find_place,
    list_episodes,
    load_texts,
    matching,
    messages_of,
    rows_of,
    system_prompts,
)
from fedse.store.buffer import Buffer
from tests.exports.toy_run import episode, fill, make_run


def test_every_episode_is_found_once_with_what_became_of_it(tmp_path: Path):
    make_run(tmp_path)
    found = list_episodes(find_place("made", tmp_path))
    of_alpha = [e for e in found if e.source.client == "alpha"]
    assert Counter(e.dropped or "kept" for e in of_alpha) == {
        "kept": 3,
        "duplicate": 1,
        "failed": 1,
        "truncated": 1,
        "broken": 1,
        "held-out": 2,
    }
    assert [e.game.round for e in of_alpha if e.demonstration] == [0]
    assert len({(e.source, *e.game) for e in found}) == len(found) == 18
    assert [e.game[:3] for e in found] == sorted(e.game[:3] for e in found)


def test_what_is_kept_is_what_is_learned_from(tmp_path: Path):
    make_run(tmp_path)
    place = find_place("made", tmp_path)
    kept = matching(list_episodes(place), Wanted(kept=True, client="beta"))
    with_text = {told.content_digest for _, told in load_texts(kept) if told}
    buffer = Buffer(place.sources[1].buffer)
    assert with_text == {lesson.content_digest for lesson in buffer.lessons("toy", 1)}


def test_a_relabelled_failure_stands_beside_the_game_it_came_from(tmp_path: Path):
    make_run(tmp_path)
    place = find_place("made", tmp_path)
    before = list_episodes(place)
    lost = next(e for e in before if e.dropped == "failed" and e.source.client == "alpha")
    ((_, text),) = load_texts([lost])
    assert text is not None
    goal = text.task.model_copy(update={"id": "train-77"})
    made = text.model_copy(update={"task": goal, "outcome": "success", "turns": text.turns[:1]})
    with closing(Buffer(lost.source.buffer)) as buffer:
        buffer.add([made], experiment="toy")
    after = list_episodes(place)
    (new,) = (e for e in after if e not in before)
    assert new.kept
    assert [told for _, told in load_texts([new, lost])] == [made, text]
    ids = [facts_of(e, "made")["id"] for e in after]
    assert len(set(ids)) == len(ids)


def test_kept_episodes_have_their_text_even_if_the_others_do_not(tmp_path: Path):
    make_run(tmp_path, keep=False)
    found = list_episodes(find_place("made", tmp_path))
    assert {e.kept for e, told in load_texts(found) if told} == {True}
    assert {e.kept for e, told in load_texts(found) if told is None} == {False}
    assert sum(e.kept for e in found) == 6


@pytest.mark.parametrize("most_open", [1, 100])
def test_the_text_is_that_of_the_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_open: int
):
    monkeypatch.setattr("fedse.exports.episodes.MOST_OPEN", most_open)
    make_run(tmp_path)
    pairs = list(load_texts(list_episodes(find_place("made", tmp_path))))
    assert len(pairs) == 18
    for found, told in pairs:
        assert told is not None
        game = found.game
        assert (told.round, told.task.id, told.seed) == (game.round, game.task, game.seed)


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (Wanted(), 18),
        (Wanted(round=0), 2),
        (Wanted(client="alpha"), 9),
        (Wanted(outcome="failure", split="train"), 2),
        (Wanted(split="test", outcome="success", client="beta"), 1),
        (Wanted(task="train-1"), 4),
        (Wanted(env="coin", kept=True), 6),
    ],
)
def test_filters_are_all_applied(tmp_path: Path, wanted: Wanted, count: int):
    make_run(tmp_path)
    assert len(matching(list_episodes(find_place("made", tmp_path)), wanted)) == count


@pytest.mark.parametrize(
    ("wanted", "said_so"),
    [
        (Wanted(client="alhpa"), "no client 'alhpa' on record, did you mean 'alpha'"),
        (Wanted(env="maze"), "no environment 'maze' on record, only 'coin'"),
        (Wanted(task="train-11"), "did you mean 'train-1'"),
        (Wanted(round=5), "no episode of round 5 is on record, only rounds 0 to 1"),
    ],
)
def test_a_name_nobody_has_is_an_error(tmp_path: Path, wanted: Wanted, said_so: str):
    make_run(tmp_path)
    with pytest.raises(ConfigError, match=said_so):
        matching(list_episodes(find_place("made", tmp_path)), wanted)


def test_a_servers_folder_says_where_the_episodes_are(tmp_path: Path):
    make_run(tmp_path, clients=False)
    with pytest.raises(StoreError, match="episodes stay at the sites") as caught:
        find_place("made", tmp_path)
    assert "fedse view HOME" in caught.value.hint


def test_a_sites_home_is_enough(tmp_path: Path):
    fill(tmp_path / "ward")
    alone, parent = (find_place(str(p), tmp_path) for p in (tmp_path / "ward", tmp_path))
    for place in (alone, parent):
        assert [source.client for source in place.sources] == ["ward"]
        assert len(list_episodes(place)) == 9
        assert system_prompts(place) == {}


def test_looking_changes_nothing(tmp_path: Path):
    run = make_run(tmp_path)
    buffer = run.path / "clients" / "alpha" / "buffer.db"
    before = buffer.read_bytes()
    list(load_texts(list_episodes(find_place("made", tmp_path))))
    assert buffer.read_bytes() == before
    assert not (run.path / "clients" / "gamma").exists()


def test_a_torn_buffer_is_told_as_such(tmp_path: Path):
    run = make_run(tmp_path)
    torn = run.path / "clients" / "alpha" / "buffer.db"
    torn.write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
    with pytest.raises(StoreError, match="buffer"):
        list_episodes(find_place("made", tmp_path))


def test_messages_alternate_and_lose_nothing():
    told = episode(1)
    messages = messages_of("be brief", told)
    assert [m["role"] for m in messages] == ["system", *(["user", "assistant"] * 2)]
    assert [m["content"] for m in messages[1::2]] == [t.observation for t in told.turns]
    assert [m["content"] for m in messages[2::2]] == [t.action for t in told.turns]
    assert messages_of("", told) == messages[1:]


def test_every_conversation_is_a_chat_of_its_own(tmp_path: Path):
    make_run(tmp_path)
    stored = list_episodes(find_place("made", tmp_path))[-1]
    first, second = episode(1).turns[:2]
    told = episode(1).model_copy(
        update={
            "turns": (
                first.model_copy(update={"role": "planner"}),
                second.model_copy(update={"role": "worker", "thread": 1}),
            )
        }
    )
    prompts = {"": "nobody", "planner": "plan"}
    plain, *_ = rows_of(stored, episode(1), run_id="made", prompts=prompts)
    planner, worker = rows_of(stored, told, run_id="made", prompts=prompts)
    assert "role" not in plain
    assert plain["messages"][0]["content"] == worker["messages"][0]["content"] == "nobody"
    assert planner["messages"][0]["content"] == "plan"
    assert (planner["id"], worker["id"]) == (
        f"{plain['id']}/planner/0",
        f"{plain['id']}/worker/1",
    )
    assert (worker["role"], worker["thread"], worker["turns"]) == ("worker", 1, 1)
    assert [len(row["messages"]) for row in (plain, planner, worker)] == [5, 3, 3]
