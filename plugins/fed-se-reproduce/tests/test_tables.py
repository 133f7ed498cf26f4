"""Tables are settings and seeds: what they ask for, and what is made of what was found."""

from collections.abc import Callable

import pytest

from fedse.committed import Drift
from fedse.config.methods import with_settings
from fedse.stats.rates import Rate
from fedse_reproduce.attackers import Attack
from fedse_reproduce.jobs import RECORDS, Found, key_of
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.results import TableResult, agrees, answers, gaps, gather, lines
from fedse_reproduce.tables import Job, arms_of, jobs_of, questions_of
from fedse_reproduce.tell import markdown, text

GAMES = 40


def found(won: Callable[[int], bool], clients: list[str], rounds: int = 2) -> Found:
    bits = "".join("1" if won(game) else "0" for game in range(GAMES))
    drift = Drift(
        length=dict.fromkeys(clients, 1.0), cosine=dict.fromkeys(clients, 0.5), merge_error=0.1
    )
    start, end = dict.fromkeys(clients, "0" * GAMES), dict.fromkeys(clients, bits)
    return Found(
        games={record: dict.fromkeys(range(11), end) | {0: start} for record in RECORDS},
        curve={
            0: dict.fromkeys(clients, (0, GAMES)),
            rounds: dict.fromkeys(clients, (bits.count("1"), GAMES)),
        },
        adapter="a" * 64,
        payload=1_000_000,
        bytes_moved=2_000_000 * rounds * len(clients),
        buffered=dict.fromkeys(clients, 4),
        drift=[drift] * rounds,
        gates=[None] * rounds,
        suspected=[()] * rounds,
        cpu_seconds=1.0,
    )


def made_up(table: str = "main", *, quick: bool = False, seeds: int = 5) -> TableResult:
    """fed-se wins three games of four, everybody else one."""
    arms = arms_of(TABLES[table], quick=quick)
    jobs = jobs_of(arms, range(seeds))

    def of(job: Job) -> Found:
        won = (lambda g: g % 4 != 3) if job.arm.startswith("fed-se") else (lambda g: g % 4 == 0)
        return found(won, [client.name for client in job.config.clients])

    return TableResult(
        table=table,
        quick=quick,
        worlds={
            arm.label: {
                c.name: c.env for job in jobs if job.arm == arm.label for c in job.config.clients
            }
            for arm in arms
        },
        arms=gather(jobs, {key_of(job): of(job) for job in jobs}),
        questions=[(q.better, q.worse) for q in questions_of(TABLES[table], arms)],
        config={},
        versions={},
    )


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("table", TABLES)
def test_every_question_can_be_asked_and_every_arm_be_run(table: str, quick: bool):
    arms = arms_of(TABLES[table], quick=quick)
    asked = questions_of(TABLES[table], arms)
    assert asked
    assert quick or asked == list(TABLES[table].questions)
    assert {job.arm for job in jobs_of(arms, range(2))} == {arm.label for arm in arms}


def test_an_arm_two_tables_share_is_done_once():
    def keys(table: str) -> dict[str, set[str]]:
        arms = arms_of(TABLES[table], quick=False)
        done: dict[str, set[str]] = {}
        for job in jobs_of(arms, range(1)):
            done.setdefault(job.arm, set()).add(key_of(job))
        return done

    main, related = keys("main"), keys("related")
    assert main["fed-se"] == main["fed-se, personal"] == keys("learn")["successes"]
    assert keys("one-world")["fed-se"] == keys("merge")["mean"]
    assert related["together"] == related["home: together, personal"]
    assert related["together"] != related["in one place"]
    # Lone clients are five experiments each.
    assert len(set.union(*main.values())) == 3 + 2 * 5


def test_a_gap_is_told_where_its_three_arms_were_done():
    """fed-se wins three games of four, all others one: there is nothing between the others."""
    whole, quick = made_up("one-world"), made_up("one-world", quick=True)
    assert len(gaps(whole)) == 2
    assert not gaps(quick)
    assert markdown(whole).count("no share of the gap between local-evolve and central") == 2
    arms = {**whole.arms, "central-evolve": whole.arms["fed-se"]}
    risen = whole.model_copy(update={"arms": arms})
    assert "fed-se closes 100% (100% to 100%) of the gap between local-evolve and" in text(
        risen, None
    )


def test_a_trial_changes_the_settings_of_every_arm():
    arms = arms_of(TABLES["related"], quick=False)
    jobs = jobs_of(arms, range(100, 102), ["train.steps=7"])
    assert {job.config.train.steps for job in jobs} == {7}
    assert {job.seed for job in jobs} == {100, 101}
    assert not {key_of(job) for job in jobs} & {key_of(job) for job in jobs_of(arms, range(102))}


def test_a_key_is_the_settings_without_the_name_and_the_processes():
    job = jobs_of(arms_of(TABLES["main"], quick=True), range(1))[0]

    def key(**settings: object) -> str:
        dotted = {name.replace("__", "."): value for name, value in settings.items()}
        return key_of(job._replace(config=with_settings(job.config, dotted)))

    assert key_of(job) == key(run__name="other", run__workers=2) != key(run__seed=1)


def test_an_attack_makes_another_experiment_and_what_counts_does_not():
    job = jobs_of(arms_of(TABLES["attack"], quick=False), range(1))[0]
    attacked = job._replace(attack=Attack("flip", ("maze-1",)))
    others = {key_of(attacked._replace(attack=Attack("ones", ("maze-1",)))), key_of(job)}
    assert key_of(attacked) not in others
    assert key_of(job._replace(only=("maze-1",), record="home", round=3)) == key_of(job)


def test_attackers_and_those_left_out_do_not_count():
    arms = {arm.label: arm for arm in TABLES["attack"].arms}
    attacked, without = arms["flip, 2 of 5"], arms["three honest alone"]
    [job] = jobs_of([attacked], range(1))
    assert {*job.only} | {*job.attack.clients} == {client.name for client in job.config.clients}
    [rest] = jobs_of([without], range(1))
    assert tuple(client.name for client in rest.config.clients) == job.only


def test_an_unfinished_table_has_whole_seeds():
    seeds = [job.seed for job in jobs_of(arms_of(TABLES["main"], quick=False), range(3))]
    assert seeds == sorted(seeds)


def test_lone_clients_are_put_together_and_move_nothing():
    by_arm = {line.arm: line for line in lines(made_up())}
    assert by_arm["fed-se"].after == Rate(5 * 5 * 30, 5 * 5 * GAMES)
    assert by_arm["local-evolve"].after == Rate(5 * 5 * 10, 5 * 5 * GAMES)
    assert (by_arm["fed-se"].megabytes, by_arm["local-evolve"].megabytes) == (2.0, 0.0)
    assert sorted(by_arm["local-evolve"].envs) == sorted(by_arm["fed-se"].envs)


def test_the_answers_are_the_paired_differences():
    found = list(answers(made_up()))
    assert len(found) == 7
    for answer in found:
        ours, theirs = (arm.startswith("fed-se") for arm in answer.question)
        assert answer.found.micro.value == pytest.approx((ours - theirs) / 2)
        assert (answer.verdict == "higher") == (ours > theirs)
        assert (answer.p_holm < 0.05) == (ours != theirs)


def test_what_was_found_is_told_beside_what_was_expected():
    full, quick = made_up(), made_up(quick=True, seeds=3)
    told = text(quick, full)
    assert told.count("agrees") == 5
    assert "15 of 15 results have the expected adapters, bit for bit" in told
    assert "fed-se against local-evolve: +0.500" in told
    assert "nan" not in told + markdown(full)
    assert agrees(Rate(10, 40), Rate(12, 40))
    assert not agrees(Rate(10, 400), Rate(120, 400))


def test_the_page_of_a_table_names_its_command_and_every_arm():
    page = markdown(made_up())
    assert "`fedse reproduce main`, seeds 0 to 4" in page
    arms = arms_of(TABLES["main"], quick=False)
    assert len(arms) == 8
    for arm in arms:
        assert f"| {arm.label} |" in page


def test_the_quick_form_says_what_it_leaves_out():
    said = text(made_up(quick=True, seeds=3), None)
    assert (
        "the quick form: 5 of 8 arms, without fedit, local-static, central-evolve, personal\n"
        in said
    )
    assert "the whole table: fedse reproduce main\n" in said
    assert "quick form" not in text(made_up(), None)


def test_the_quick_form_of_the_main_table_has_the_two_baselines_that_explore():
    """The paper lacks them, and without them nobody can say that it is federation that helps."""
    quick = arms_of(TABLES["main"], quick=True)
    assert {"local-evolve", "central-evolve"} <= {arm.label for arm in quick}
    asked = {(q.better, q.worse) for q in questions_of(TABLES["main"], quick)}
    assert ("fed-se, personal", "local-evolve, as many steps") in asked
    # Arms that show another side of the same experiments cost nothing.
    assert len({key_of(job) for job in jobs_of(quick, range(1))}) == 1 + 5 + 1


def test_a_tiny_p_is_not_nothing():
    said = text(made_up(quick=True), None)
    assert "p < 0.001: higher" in said
    assert "p 0.000" not in said
