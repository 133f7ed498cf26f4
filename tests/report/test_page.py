"""The page is one file, asks for nothing, and nothing a run says can become part of its program."""

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

from fedse.cli.app import start
from fedse.committed import Exclusion
from fedse.config.schema import BufferSection, ClientSection, Config
from fedse.report.facts import RunFacts, read_facts, with_distinct_labels
from fedse.report.headline import headline
from fedse.report.page import render, safe_json, written
from fedse.report.paired import which_is_better
from fedse.report.tables import Column
from fedse.store.run_folder import create_run
from tests.report.runs import NOW, made_up
from tests.run_folders import write_run

CLIENTS = {"a": "maze", "b": "wordle"}
HOSTILE = "</script><img src=x onerror=alert(1)><!--"
MADE = datetime(2026, 11, 15, 13, 0)


class Read(HTMLParser):
    """Scripts with their text, every address the page names, ids and the policy."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[str | None, str]] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.policy = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self._inside = tag
        self.tags.append(tag)
        self.addresses += [told[key] or "" for key in ("src", "href", "srcset") if key in told]
        self.ids += [told["id"] or ""] if "id" in told else []
        assert not [key for key in told if key.startswith("on") or key == "style"]
        if tag == "script":
            self.scripts.append((told.get("type"), ""))
        if told.get("http-equiv") == "Content-Security-Policy":
            self.policy = told["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)


def test_fifty_rounds_of_ten_clients_fit_in_1500_kb(tmp_path: Path):
    clients = {f"site-{i}": "maze" if i % 2 else "wordle" for i in range(10)}
    page = render([made_up(tmp_path, rounds=50, clients=clients)], now=MADE)
    assert len(page.encode()) <= 1_500_000


def test_hundreds_of_clients_are_drawn_together(tmp_path: Path):
    clients = {f"site-{i:03d}": "maze" if i % 2 else "wordle" for i in range(200)}
    page = render([made_up(tmp_path, rounds=2, clients=clients)], now=MADE)
    assert len(page.encode()) <= 1_100_000
    assert page.count('class="plot"') <= 21
    assert "100 of 200 rows" in page


def test_of_hundreds_of_rounds_so_many_are_shown_as_can_be_seen(tmp_path: Path):
    page = render([made_up(tmp_path, rounds=301, clients={"a": "maze"})], now=MADE)
    assert len(page.encode()) <= 1_000_000
    assert "One round in 5 is shown." in page


def test_policy_allows_exactly_the_scripts_of_the_page(tmp_path: Path):
    read = Read(render([made_up(tmp_path, rounds=2, clients=CLIENTS)], now=MADE))
    digests = {
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for kind, text in read.scripts
        if kind is None
    }
    allowed = re.search(r"script-src ([^;]*);", read.policy)
    assert allowed
    assert set(re.findall(r"'sha256-([^']*)'", allowed[1])) == digests
    assert len(digests) == 4
    assert read.policy.startswith("default-src 'none';")
    assert "unsafe" not in read.policy


def test_no_address_leads_out_and_every_link_has_an_end(tmp_path: Path):
    runs = [made_up(tmp_path, rounds=2, clients=CLIENTS, name=name) for name in ("x", "y")]
    for page in (render(runs[:1], now=MADE), render(runs, now=MADE)):
        read = Read(page)
        assert len(set(read.ids)) == len(read.ids)
        assert {a for a in read.addresses if not a.startswith("#")} == {"data:,"}
        assert {a[1:] for a in read.addresses if a.startswith("#")} <= set(read.ids)


def test_names_cannot_break_out(tmp_path: Path):
    page = render([made_up(tmp_path, rounds=2, clients={"a": HOSTILE, "b": "maze"})], now=MADE)
    assert HOSTILE not in page
    assert "<img" not in page
    read = Read(page)
    assert len(read.scripts) == 5
    assert "img" not in read.tags
    data = next(json.loads(text) for kind, text in read.scripts if kind == "application/json")
    assert {row[1] for row in data["figures"]["success-env"]["rows"]} >= {HOSTILE, "maze"}


def test_safe_json_is_the_same_value():
    value = {"a": HOSTILE, "b": ["&amp;", "\u2028", 1.5, None]}
    text = safe_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028") & set(text)


def test_cells():
    assert written(None, Column("x", "x", "rate")) == "\N{EN DASH}"
    assert written(float("nan"), Column("x", "x", "rate")) == "\N{EN DASH}"
    assert written(0.456, Column("x", "x", "rate")) == "0.46"
    assert written(0.3, Column("x", "x", "change")) == "+0.30"
    assert written(12345, Column("x", "x", "count")) == "12,345"


def test_headline_of_a_run_that_rose(tmp_path: Path):
    head = headline(made_up(tmp_path, rounds=10, clients=CLIENTS))
    assert head.sentence == (
        "Success on held-out tasks rose from 0.20 before round 1 to 0.57 after round 10."
    )
    values = {tile.label: tile.value for tile in head.tiles}
    assert values["raw data shared"] == "0 bytes"
    assert values["rounds committed"] == "10 of 10"
    assert values["left each client at most"] == "2.41 MB"
    assert head.unsure == []


def test_headline_says_chance_where_it_may_be(tmp_path: Path):
    head = headline(made_up(tmp_path, rounds=1, clients=CLIENTS))
    assert head.sentence.endswith("after round 1, which may be chance.")


def without(facts: RunFacts, client: str, *rounds: int, **last: object) -> RunFacts:
    """The facts if `client` had not been measured after `rounds`; `last` changes the last round."""
    evals = {
        index: {c: stats for c, stats in of.items() if c != client or index not in rounds}
        for index, of in facts.evals.items()
    }
    results = (*facts.results[:-1], facts.results[-1].model_copy(update=last))
    return replace(facts, evals=evals, results=results)


def test_who_is_left_out_is_named_with_the_reason(tmp_path: Path):
    facts = made_up(tmp_path, rounds=4, clients=CLIENTS)
    three = "its replies of 3 rounds were rejected"
    quarantined = Exclusion(client="b", kind="quarantined", reason=three)
    failed = Exclusion(client="b", kind="failed", reason="the site's connection failed")
    said = {
        "quarantined in round 4 (its replies of 3 rounds were rejected)": {
            "excluded": (quarantined,)
        },
        "excluded in round 4 (the site's connection failed)": {"excluded": (failed,)},
        "absent in round 4": {"absent": ("b",)},
        "it did not answer": {},
    }
    for why, last in said.items():
        (told,) = headline(without(facts, "b", 4, **last)).unsure
        assert told == f"b is left out: it was not measured after round 4, {why}."


def test_a_client_that_was_not_there_at_the_start_is_told_so(tmp_path: Path):
    facts = without(made_up(tmp_path, rounds=4, clients=CLIENTS), "b", 0)
    first = facts.results[0].model_copy(update={"absent": ("b",)})
    late = replace(facts, results=(first, *facts.results[1:]))
    (told,) = headline(late).unsure
    assert told == "b is left out: it was not measured at the start, absent in round 1."
    joining = [
        c.model_copy(update={"joins": 1 + 2 * (c.name == "b")}) for c in facts.config.clients
    ]
    config = late.config.model_copy(update={"clients": tuple(joining)})
    (told,) = headline(replace(late, config=config)).unsure
    assert told == "b is left out: it was not measured at the start, it joined in round 3."


def test_the_run_of_a_federation_is_called_by_what_it_is_about(tmp_path: Path):
    """Its folder is always named `run`."""
    facts = made_up(tmp_path / "clinics", rounds=1, clients=CLIENTS, name="run")
    assert facts.label == "clinics", "the experiment has no name of its own either"
    text = facts.config_text.replace('name = "run"', 'name = "triage"')
    (tmp_path / "clinics" / "run" / "config.resolved.toml").write_text(text)
    card = tmp_path / "clinics" / "run" / "run.json"
    card.write_text(card.read_text().replace('"experiment": "run"', '"experiment": "triage"'))
    again = read_facts(tmp_path / "clinics" / "run", clock=lambda: 1.0)
    assert again.label == "triage"
    assert "Run <b>triage</b>" in render([again], now=MADE)


def test_the_caveat_says_what_the_server_saw_and_whether_there_is_noise(tmp_path: Path):
    facts = made_up(tmp_path, rounds=1, clients=CLIENTS)
    plain = headline(facts).caveat
    assert "The server saw each client's adapter." in plain
    assert "add no noise" in plain
    aggregate = facts.config.aggregate.model_copy(update={"secure": True})
    privacy = facts.config.privacy.model_copy(update={"epsilon": 8.0})
    update = {"aggregate": aggregate, "privacy": privacy}
    protected = headline(replace(facts, config=facts.config.model_copy(update=update))).caveat
    assert "The server saw only the sum of all updates." in protected
    assert "add noise for an epsilon of 8 " in protected


def test_a_pooled_run_does_not_claim_privacy(tmp_path: Path):
    config = Config(
        buffer=BufferSection(pooled=True), clients=(ClientSection(name="a", env="maze"),)
    )
    run = create_run(tmp_path, config, given="", name="p", now=NOW, clock=lambda: 1.0)
    run.close()
    head = headline(read_facts(run.path, clock=lambda: 1.0))
    assert {tile.label: tile.value for tile in head.tiles}["raw data shared"] == "all"


def test_a_run_that_has_not_begun_has_a_page(tmp_path: Path):
    config = Config(clients=(ClientSection(name="a", env="maze"),))
    create_run(tmp_path, config, given="", name="n", now=NOW, clock=lambda: 1.0).close()
    page = render([read_facts(tmp_path / "n", clock=lambda: 1.0)], now=MADE)
    assert "This run is not started" in page
    assert "was not measured" in page


def test_changed_settings_are_told(tmp_path: Path):
    facts = made_up(tmp_path, rounds=1, clients=CLIENTS)
    told = tmp_path / "made-up" / "config.resolved.toml"
    told.write_text(told.read_text().replace("episodes = 32", "episodes = 33"))
    assert facts.altered == []
    again = read_facts(tmp_path / "made-up", clock=lambda: 1.0)
    assert again.altered == ["the settings"]
    assert any("the settings" in text for text in headline(again).unsure)


def test_runs_of_one_id_get_distinct_labels(tmp_path: Path):
    roots = (tmp_path / "x", tmp_path / "y")
    runs = with_distinct_labels([made_up(root, rounds=1, clients=CLIENTS) for root in roots])
    assert [run.label for run in runs] == [str(root / "made-up") for root in roots]


def test_a_marked_client_is_named_with_the_rule(tmp_path: Path):
    page = render([made_up(tmp_path, rounds=4, clients=CLIENTS, collapsing="b")], now=MADE)
    assert "b: since round 3. Entropy from 3.00 to 0.75 nats" in page
    assert "No client of this run is marked" not in page


def test_command_writes_into_the_run(tmp_path: Path, capsys, monkeypatch):
    made_up(tmp_path, rounds=1, clients=CLIENTS)
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path))
    assert start(["report"]) == 0
    target = tmp_path / "made-up" / "report.html"
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_text().startswith("<!DOCTYPE html>")


def test_command_compares_runs_here(tmp_path: Path, capsys, monkeypatch):
    for name in ("x", "y"):
        made_up(tmp_path / "runs", rounds=1, clients=CLIENTS, name=name)
    monkeypatch.setenv("FEDSE_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    assert start(["report", "x", "y"]) == 0
    assert capsys.readouterr().out == "report.html\n"
    assert "2 runs side by side" in (tmp_path / "report.html").read_text()
    assert start(["report", "x", "last", str(tmp_path / "runs" / "x")]) == 2
    assert "named twice: x" in capsys.readouterr().err


def test_command_without_jinja2(tmp_path: Path, capsys, monkeypatch):
    made_up(tmp_path, rounds=1, clients=CLIENTS)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert start(["report", str(tmp_path / "made-up")]) == 3
    told = capsys.readouterr().err
    assert "jinja2" in told
    assert "hint: pip install 'fed-se[report]'" in told
    assert not (tmp_path / "made-up" / "report.html").exists()


def test_several_runs_are_told_which_is_better(tmp_path: Path):
    """Game by game, as `fedse compare` tells it; where that is impossible, why."""
    won = {"x": [True] * 15 + [False], "y": [place < 4 for place in range(16)]}
    paths = [write_run(tmp_path / name, {"maze-a": games}) for name, games in won.items()]
    facts = [SimpleNamespace(summary=SimpleNamespace(path=str(path))) for path in paths]
    section = which_is_better(facts)  # type: ignore[arg-type]
    assert section.lead.startswith("y is worse than x by 0.69")
    assert section.table is not None
    assert [row[:4] for row in section.table.rows] == [["x", 1, 16, 0.9375], ["y", 1, 16, 0.25]]
    assert section.note.endswith("To compare methods, add runs: --set run.seed=1")
    alone = which_is_better(facts[:1])  # type: ignore[arg-type]
    assert alone.lead == "These runs cannot be compared: expected at least 2 runs, got 1."


def test_a_result_becomes_a_list_on_a_telephone(tmp_path: Path):
    page = render([made_up(tmp_path, rounds=2, clients=CLIENTS)], now=MADE)
    assert '<table class="stacks">' in page
    assert 'data-title="change"' in page


def test_alarms_are_on_the_first_screen_with_their_rounds(tmp_path: Path):
    facts = made_up(tmp_path, rounds=2, clients=CLIENTS)
    stats = {
        c: one.model_copy(update={"succeeded": 0}) for c, one in facts.results[0].stats.items()
    }
    bad = tuple(result.model_copy(update={"stats": stats}) for result in facts.results)
    (note,) = headline(replace(facts, results=bad)).unsure
    assert note.startswith("Alarm in rounds 1 to 2: every client: none of 64 games succeeded")
