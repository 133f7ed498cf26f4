"""What a round learns from: the sessions that were labelled, token for token, and no others."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scene_records import (
    CANARY,
    ENCODER,
    END,
    NOON,
    PLAIN,
    Clock,
    conversation,
    ids,
    names_redactor,
    opened,
    text,
    turn,
)

from fedse.envs.base import ProgramEnv, SubjectEnv, make_env
from fedse.errors import ConfigError, EnvError
from fedse.method.rollout import Game, choose_games
from fedse.types import Task, Trajectory
from fedse_serve.forgetting import forget_person
from fedse_serve.harvest import Service
from fedse_serve.records import Records
from fedse_serve.rows import FeedbackRow, Guards, NewSession
from fedse_serve.trajectories import DEMONSTRATION, MIXED

SITE = '[service.metrics.solved]\ntype = "boolean"\nwait_days = 1\n'
LATER = NOON + 4000


class Acting:
    """Something that acts, by the name of its adapter; a harvest asks nothing of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def act(self, dialogues: Any, *, seed: int) -> list[Any]:
        raise AssertionError


class Shop:
    """A service whose clock stands at LATER."""

    def __init__(self, home: Path, **options: Any) -> None:
        (home / "site.toml").write_text(SITE)
        self.home, self.clock = home, Clock(LATER)
        self.records: Records = opened(home / "service", **options)

    def serve(
        self, name: str, *said: tuple[str, str], solved: bool | None = None, **own: Any
    ) -> None:
        """A session, and what was said of it."""
        person, adapter = own.get("person"), own.get("adapter", PLAIN)
        new = NewSession(name, person, "shop", "stable", adapter, own.get("learn", True))
        self.records.begin_all([new])
        turns = conversation(*said)
        changed = {"session": name, "adapter": adapter}
        self.records.add_turns(
            [_with(one, **changed, inference=f"{name}-{one.inference}") for one in turns]
        )
        if solved is not None:
            row = FeedbackRow("solved", solved, own.get("at", NOON), session=name)
            self.records.add_feedback([row])

    def service(self, **options: Any) -> Service:
        return Service(folder=str(self.home / "service"), clock=self.clock, **options)

    def play(
        self,
        *,
        most: int = 20,
        round: int = 1,
        seed: int = 7,
        adapter: str = PLAIN,
        record: str = "",
        imports: str = "",
    ) -> list[Trajectory]:
        service = self.service(imports=imports)
        games = choose_games(service.tasks("train"), most, seed=seed, record=record)
        play = service.player(ENCODER, lambda: None)
        return play(games, lambda: service, Acting(adapter), round=round, batch=8, seed=seed)


def _with(one: Any, **changed: Any) -> Any:

    return replace(one, **changed)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_what_is_learned_is_what_was_sampled(shop: Shop) -> None:
    said = [("hello", "hi"), ("and now?", "nothing")]
    shop.serve("s1", *said, solved=True)
    (episode,) = shop.play(round=3)
    asked = conversation(*said)
    assert episode.token_ids == (*asked[-1].prompt_ids, *asked[-1].sampled_ids)
    assert [text(turn.action_ids) for turn in episode.turns] == [f"hi{END}", f"nothing{END}"]
    assert all(turn.learned for turn in episode.turns)
    assert [turn.log_chances for turn in episode.turns] == [(-0.5,) * 3, (-0.5,) * 8]
    assert (episode.outcome, episode.reward, episode.policy) == ("success", 1.0, PLAIN)
    assert (episode.round, episode.task.env, episode.task.split) == (3, "service", "train")
    assert "s1" not in episode.task.id


def test_only_what_was_labelled_is_harvested_and_once(shop: Shop) -> None:
    shop.serve("good", ("a", "b"), solved=True)
    shop.serve("bad", ("c", "d"), solved=False)
    shop.serve("silent", ("e", "f"))
    shop.serve("private", ("g", "h"), solved=True, learn=False)
    assert sorted((e.turns[0].observation, e.outcome) for e in shop.play()) == [
        ("a", "success"),
        ("c", "failure"),
    ]
    assert shop.play(round=2) == []
    shop.records.add_feedback([FeedbackRow("solved", True, NOON + 99, session="silent")])
    assert [e.turns[0].observation for e in shop.play(round=3)] == ["e"]


def test_a_round_that_is_repeated_harvests_the_same(shop: Shop) -> None:
    shop.serve("s1", ("a", "b"), solved=True)
    first = shop.play()
    shop.serve("s2", ("c", "d"), solved=True)
    # A label that changes later does not change what the round learned from.
    shop.records.add_feedback([FeedbackRow("solved", False, NOON + 500, session="s1")])
    assert shop.play() == first
    assert [e.turns[0].observation for e in shop.play(adapter=CANARY)] == ["c"]
    assert shop.play() == first


def test_a_round_takes_what_it_has_room_for_the_first_labelled_first(shop: Shop) -> None:
    for number, at in enumerate((9000, 7000, 8000)):
        shop.serve(f"s{number}", (f"q{number}", "b"), solved=True, at=NOON + at)
    shop.clock.now = NOON + 9999
    rounds = [shop.play(most=2, round=1), shop.play(most=2, round=2), shop.play(most=2, round=3)]
    asked = [[episode.turns[0].observation for episode in played] for played in rounds]
    assert asked == [["q1", "q2"], ["q0"], []]


def test_held_out_sessions_are_evaluated_on_and_never_learned(tmp_path: Path) -> None:
    shop = Shop(tmp_path, held_out=0.5)
    for number in range(40):
        adapter = PLAIN if number % 2 else CANARY
        shop.serve(f"s{number}", (f"q{number}", "b"), solved=number % 3 == 0, adapter=adapter)
    shop.serve("silent", ("nothing", "b"))
    learned = {e.turns[0].observation for e in shop.play(most=100)}
    by_adapter = {
        name: {e.turns[0].observation for e in shop.play(most=100, adapter=name, record="home")}
        for name in (PLAIN, CANARY, "c" * 64)
    }
    evaluated = by_adapter[PLAIN] | by_adapter[CANARY]
    assert not learned & evaluated
    assert learned | evaluated == {f"q{number}" for number in range(40)}
    assert {int(q[1:]) % 2 for q in by_adapter[PLAIN]} == {1}
    assert {int(q[1:]) % 2 for q in by_adapter[CANARY]} == {0}
    assert by_adapter["c" * 64] == set()
    few = shop.play(most=3, adapter=PLAIN, record="validation")
    assert len(few) == 3
    assert {e.task.split for e in few} == {"test"}


def test_a_session_of_two_adapters_is_evaluated_for_neither(tmp_path: Path) -> None:
    shop = Shop(tmp_path, held_out=1.0)
    shop.serve("s1", ("a", "b"), solved=True)
    other = conversation(("a", "b"), ("c", "d"))[1]
    shop.records.add_turns([_with(other, adapter=CANARY)])
    assert [shop.play(adapter=name, record="home") for name in (PLAIN, CANARY)] == [[], []]


def test_a_prompt_that_continues_nothing_begins_a_new_episode(shop: Shop) -> None:
    shop.serve("s1", ("a", "b"), solved=True)
    first = conversation(("a", "b"))[0]
    whole = text([*first.prompt_ids, *first.sampled_ids])
    again = turn(2, f"<user>summary{END}<assistant>", "x", adapter=CANARY)
    on, aside = turn(3, f"{whole}<user>on", "y"), turn(4, f"{whole}<user>aside", "z")
    failed = turn(5, f"{whole}<user>more", "w", guards=Guards(error="broke_off"), adapter=CANARY)
    shop.records.add_turns([again, on, aside, failed])
    played = {e.turns[-1].action: e for e in shop.play()}
    assert {action: len(e.turns) for action, e in played.items()} == {
        "x": 1,
        "y": 2,
        "z": 2,
        "w": 2,
    }
    assert [turn.learned for turn in played["y"].turns] == [True, True]
    assert [turn.learned for turn in played["z"].turns] == [False, True]
    assert [turn.learned for turn in played["w"].turns] == [False, False]
    assert text(played["z"].token_ids) == f"{whole}<user>asidez{END}"
    assert {e.policy for e in played.values()} == {PLAIN, CANARY, MIXED}
    assert len({e.task.id for e in played.values()}) == 4


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        ({}, True),
        ({"temperature": 1, "top_k": -1}, True),
        ({"temperature": 0.7}, False),
        ({"top_p": 0.9}, False),
        ({"presence_penalty": 0.5}, False),
    ],
)
def test_chances_are_kept_where_they_are_the_models_own(
    shop: Shop, sampling: dict[str, float], kept: bool
) -> None:
    shop.serve("s1", solved=True)
    shop.records.add_turns([turn(1, "x", "y", sampling=sampling)])
    (episode,) = shop.play()
    assert episode.turns[0].log_chances == ((-0.5, -0.5) if kept else ())


def test_a_correction_is_a_lesson(shop: Shop) -> None:
    shop.serve("s1", ("a", "b"), ("c", "d"), solved=False)
    shop.serve("s2", ("e", "f"))
    shop.records.add_feedback(
        [
            FeedbackRow("demonstration", "wrong", NOON, inference="s1-i2"),
            FeedbackRow("demonstration", "right", NOON + 1, inference="s1-i2"),
            FeedbackRow("demonstration", "better", NOON, session="s2"),
            FeedbackRow("demonstration", [{"text": "unread"}], NOON, session="s2"),
        ]
    )
    shop.clock.now = NOON + 3 * 86400
    shown = [e for e in shop.play() if e.policy == DEMONSTRATION]
    assert [e.outcome for e in shown] == ["success", "success"]
    by_first = {e.turns[0].observation: e for e in shown}
    long, short = by_first["a"], by_first["e"]
    assert [turn.learned for turn in long.turns] == [False, True]
    assert (long.turns[-1].action, long.turns[-1].action_ids) == (
        "right",
        tuple(ids(f"right{END}")),
    )
    assert text(short.token_ids) == f"<user>e{END}<assistant>better{END}"


def test_a_session_that_lost_tokens_has_texts_only(tmp_path: Path) -> None:
    shop = Shop(tmp_path, redact=names_redactor(tmp_path / "lists", "Ann Lee", encoder=None))
    shop.serve("s1", ("hello", "hi"), ("I am Ann Lee", "fine"), solved=True)
    (episode,) = shop.play()
    assert episode.token_ids == ()
    assert [turn.action for turn in episode.turns] == ["hi", "fine"]
    assert len(ENCODER.tokenized("", episode).token_ids) > 0


def test_a_lesson_belongs_to_a_person_and_is_gone_with_them(shop: Shop) -> None:
    shop.serve("s1", ("a", "b"), solved=True, person="Ann Lee")
    shop.serve("s2", ("c", "d"), solved=True)
    played = {e.turns[0].observation: e.task for e in shop.play()}
    service = shop.service()
    assert service.subject(played["a"]) == shop.records.marks.person("Ann Lee")
    assert service.subject(played["c"]) == played["c"].id
    forget_person(shop.records, "Ann Lee", LATER)
    assert [e.turns[0].observation for e in shop.play()] == ["c"]


def test_it_has_the_members_of_a_program_and_cannot_be_stepped(shop: Shop) -> None:
    service = make_env("fedse_serve.harvest:Service", {"folder": str(shop.home / "service")})
    assert isinstance(service, ProgramEnv)
    assert isinstance(service, SubjectEnv)
    assert not {t.id for t in service.tasks("train")} & {t.id for t in service.tasks("test")}
    with pytest.raises(EnvError, match="cannot be stepped"):
        service.reset(Task(env="service", id="x", split="train"), seed=0)


def test_imported_conversations_come_before_sessions_and_are_never_evaluated_on(
    shop: Shop,
) -> None:
    asked = {"role": "user", "content": "hello"}
    said = [{"messages": [asked, {"role": "assistant", "content": f"hi {i}"}]} for i in range(3)]
    logs = shop.home / "logs.jsonl"
    logs.write_text("".join(json.dumps(one) + "\n" for one in said))
    shop.serve("a", ("hello", "hi"), solved=True)
    both = shop.play(imports=str(logs))
    assert [episode.policy for episode in both] == ["imported"] * 3 + [PLAIN]
    assert [episode.turns[-1].action for episode in both] == ["hi 0", "hi 1", "hi 2", "hi"]
    # Whatever the next round is given again, the buffer takes once.
    again = shop.play(imports=str(logs), round=2)
    assert [one.content_digest for one in again] == [one.content_digest for one in both[:3]]
    assert shop.play(imports=str(logs), record="test") == []
    logs.write_text("no conversation\n")
    with pytest.raises(ConfigError, match="1 lines that are no conversations"):
        shop.play(imports=str(logs), round=3)


def test_imports_may_be_spans(shop: Shop) -> None:
    def messages(role: str, said: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": said}]}])

    attributes = {
        "gen_ai.input.messages": messages("user", "one\u2028line"),
        "gen_ai.output.messages": messages("assistant", "hi"),
    }
    listed = [{"key": key, "value": {"stringValue": one}} for key, one in attributes.items()]
    line = {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": listed}]}]}]}
    logs = shop.home / "logs.jsonl"
    logs.write_text(json.dumps(line, ensure_ascii=False) + "\n")
    shop.serve("a", ("hello", "hi"), solved=True)
    assert [episode.policy for episode in shop.play(imports=str(logs))] == ["imported", PLAIN]


def test_without_games_nothing_is_harvested(shop: Shop) -> None:
    shop.serve("s1", ("a", "b"), solved=True)
    assert shop.play(most=0) == []
    assert len(shop.play()) == 1


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no service\.db"):
        Service(folder=str(tmp_path))


def test_games_of_the_test_split_are_evaluation(tmp_path: Path) -> None:
    shop = Shop(tmp_path, held_out=0.0)
    shop.serve("s1", ("a", "b"), solved=True)
    service = shop.service()
    games = [Game(task, 0) for task in service.tasks("test")[:4]]
    play = service.player(ENCODER, lambda: None)
    assert play(games, lambda: service, Acting(PLAIN), round=1, batch=8, seed=0) == []


def test_a_held_out_session_that_is_evaluated_on_belongs_to_its_person(tmp_path: Path) -> None:
    shop = Shop(tmp_path, held_out=1.0)
    service = shop.service()
    shop.serve("s1", ("a", "b"), solved=True, person="Ann Lee")
    (first,) = shop.play(record="home")
    assert service.subject(first.task) == shop.records.marks.person("Ann Lee")
    # Those that come later are known too.
    shop.serve("s2", ("c", "d"), solved=True, person="Bo")
    shop.serve("s3", ("e", "f"), solved=True)
    whose = {e.turns[0].observation: service.subject(e.task) for e in shop.play(record="home")}
    assert whose["c"] == shop.records.marks.person("Bo")
    assert whose["e"] not in (whose["a"], whose["c"])


def test_a_label_that_no_harvest_had_is_news(shop: Shop) -> None:
    shop.serve("waits", ("hello", "hi"))
    assert not shop.service().has_news()
    shop.serve("solved", ("hello", "hi"), solved=True)
    assert shop.service().has_news()
    shop.play()
    assert not shop.service().has_news()
