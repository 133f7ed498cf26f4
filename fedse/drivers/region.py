"""A region: one coordinator towards its sites, one site towards the coordinator above.

It is asked as a site is. Asked to train, it asks its own sites the same, keeps their adapters and
tells how long their updates are; asked for the sum, it adds them up at the bound it is given and
signs that. It takes no step of its own: what its round comes to is the adapter that the coordinator
above asks about next, and with that the round is committed here as well. An answer with votes is
durable before it leaves, so that whoever asks again gets the same bytes.
"""

import time
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from fedse.adapters.base import initial_adapter
from fedse.aggregate.merge import Vote, checked_vote
from fedse.aggregate.quarantine import WINDOW, strike_history
from fedse.aggregate.region_report import (
    RegionReport,
    ReportedVote,
    SumRequest,
    added_up,
    report_to_bytes,
    with_line,
)
from fedse.aggregate.regional import regional_sum, sum_to_bytes
from fedse.aggregate.validate import cap_lessons, load_checked, parse_adapter
from fedse.committed import Exclusion, RoundResult
from fedse.config.schema import Config
from fedse.drivers.collecting import collect_votes, inbox
from fedse.drivers.loop import commit_round, measure_last, with_pardons
from fedse.drivers.round import OpenRound
from fedse.drivers.stages import Stage, accept, quarantine, record_evaluations
from fedse.errors import AdapterRejected, WireError
from fedse.faults import Fault
from fedse.ledger.chain import Entry
from fedse.ledger.keys import PUBLIC, read_public
from fedse.ledger.record import note_end, run_ledger
from fedse.ledger.signed_sum import SumAsked, require_signed_sum, sign_sum
from fedse.ledger.writing import Ledger
from fedse.method.site import Merged
from fedse.protocol import SENT_PLANES, Ask, Question, SiteReply
from fedse.site.answer import require_agreed
from fedse.site.rules import RuleRefusal, read_rules, require_allowed
from fedse.store.files import mapped
from fedse.store.region_answers import (
    KeptAnswer,
    OpenRegionRound,
    RegionAnswers,
    answer_key,
)
from fedse.store.run import Run
from fedse.types import Adapter, ClientStats, Clock

FOLDER = "above"


class Membership(NamedTuple):
    """What a region is towards the coordinator above."""

    name: str
    config: Config
    """What it agreed to there, which its sites work by; only the members are others."""
    home: Path
    """Its folder as a member: rules, and the ledger that it signs its sums in."""


class Region:
    """Answers the questions of the coordinator above with the work of its own sites."""

    def __init__(
        self, run: Run, ask: Ask, above: Membership, *, clock: Clock, timer: Clock = time.monotonic
    ) -> None:
        self._run, self._ask, self._above = run, ask, above
        self._clock, self._timer = clock, timer
        run.begin(initial_adapter(run.spec, seed=run.config.run.seed))
        self._ledger = run_ledger(run, clock=clock)
        self._signed = Ledger(above.home, role="region", name=above.name, clock=clock)
        self._key = read_public(above.home / PUBLIC)
        self._answers = RegionAnswers(run.path / FOLDER)
        self.finished = False
        """Whether the last adapter is known here."""

    def answer(self, question: Question, body: bytes) -> SiteReply:
        """What the region answers; a question it has not agreed to is an error."""
        require_agreed(question, self._above.config, self._run.spec)
        rules = read_rules(self._above.home / "policy.toml")
        require_allowed(rules, question, self._above.config, self._run.spec.nbytes)
        if rules.pause:
            return SiteReply(ClientStats(), fault=Fault.PAUSED)
        key = answer_key(question.digest, body)
        if kept := self._answers.find(question.round, key):
            return SiteReply(kept.stats, kept.data)
        if question.kind == "evaluate":
            return self._measured(question, self._received(question, body))
        if question.kind == "train":
            answer = self._trained(question, self._received(question, body))
        elif question.kind == "sum":
            answer = KeptAnswer(ClientStats(), self._summed(question, body))
        else:
            raise WireError(f"a region does not answer questions of kind {question.kind}")
        if not answer.data:
            return SiteReply(answer.stats)  # sites that had no vote may have one when asked again
        self._answers.keep(question.round, key, answer)
        return SiteReply(*answer)

    def _received(self, question: Question, body: bytes) -> Adapter:
        """The adapter of the question; every round before it is committed."""
        adapter = parse_adapter(body, self._run.spec, self._run.config.aggregate)
        if adapter.digest != question.adapter:
            raise WireError("the adapter is not the one the question names")
        self._follow(question.round, adapter)
        return adapter

    def _follow(self, round: int, adapter: Adapter) -> None:
        """All rounds before this one are committed, and `adapter` is what they came to.

        One of which nothing was heard here has no voters and leaves the adapter as it was.
        """
        run, begun = self._run, self._answers.open_round()
        done = run.committed or 0
        if round <= done:
            raise RuleRefusal(Fault.STALE, f"asked for round {round}, round {done} is over here")
        for index in range(done + 1, round):
            before = run.adapter(index - 1)
            after = run.store(adapter if index == round - 1 else before)
            heard = begun is not None and begun.result.index == index
            result = begun.result if begun and heard else _unheard(self._opened(index, before))
            commit_round(run, self._ledger, result.model_copy(update={"after": after}))
        if run.digest(round - 1) != adapter.digest:
            raise RuleRefusal(
                Fault.OTHER_ADAPTER, f"asked for round {round} with another adapter than before"
            )

    def _opened(self, index: int, current: Adapter) -> OpenRound:
        past = with_pardons(strike_history(self._run.recent(WINDOW)), self._run)
        return OpenRound(self._run, self._ask, index, current, past)

    def _trained(self, question: Question, current: Adapter) -> KeptAnswer:
        """The votes of the region's sites are on disk; what it tells of them."""
        run, started = self._run, self._timer()
        run.emit("round.started", round=question.round, rounds=run.config.run.rounds)
        stages: tuple[Stage, ...] = (quarantine, collect_votes)
        r = reduce(lambda r, stage: stage(r), stages, self._opened(question.round, current))
        votes, merged = _checked(r)
        r = record_evaluations(accept(_deciding(r, merged)))
        seconds = self._timer() - started
        told = RegionReport(key=self._key, votes=tuple(map(_reported, votes)))
        result = r.result().model_copy(update={"seconds": seconds})
        self._answers.begin(OpenRegionRound(request=question.digest, report=told, result=result))
        run.emit("region.told", round=r.index, voters=len(votes))
        rejected = {one.client for one in merged.excluded}
        counted = [one.stats for name, one in r.answers.items() if name not in rejected]
        return KeptAnswer(added_up(counted), report_to_bytes(told) if votes else b"")

    def _summed(self, question: Question, body: bytes) -> bytes:
        """The signed sum of the votes of the open round at the bound that was asked for."""
        begun, asked = self._answers.open_round(), _sum_request(body)
        if begun is None or begun.result.index != question.round:
            raise WireError(f"asked for the sum of round {question.round}, which is not open here")
        if (begun.request, begun.result.before) != (asked.request, question.adapter):
            raise WireError("asked for the sum of other votes than the region told of")
        current, settings = self._run.load(question.adapter), self._run.config.aggregate
        if (asked.bound is None) != (settings.clip == "none"):
            raise WireError("asked for a sum with another clip than agreed")
        votes = [self._vote(question.round, one) for one in begun.report.votes]
        planes = regional_sum(current, votes, bound=asked.bound, settings=settings)
        if len(planes) > SENT_PLANES:
            raise WireError(f"the sum has {len(planes)} planes, at most {SENT_PLANES} are sent")
        total = sum_to_bytes(planes)
        terms = SumAsked(
            experiment=question.experiment,
            round=question.round,
            request=asked.request,
            voters=begun.report.sites,
            bound=asked.bound,
        )
        line = self._line(terms, total)
        self._run.emit("region.summed", round=question.round, voters=len(votes))
        return with_line(line.text, total)

    def _line(self, terms: SumAsked, total: bytes) -> Entry:
        """The signed line about the sum; there is one, also if a crash came after it."""

        def same(line: Entry) -> bool:
            try:
                require_signed_sum(line, terms, total, key=self._key)
            except WireError:
                return False
            return True

        found = self._signed.last("summed", naming=terms.request, where=same)
        return found or sign_sum(self._signed, terms, total)

    def _vote(self, round: int, told: ReportedVote) -> Vote:
        """The vote as it was checked and measured."""
        read = partial(mapped, inbox(self._run) / f"{round}-{told.client}")
        parse_adapter(read(), self._run.spec, self._run.config.aggregate)
        load = partial(load_checked, read, self._run.spec)
        return Vote(told.client, load, told.lessons, told.length)

    def _measured(self, question: Question, current: Adapter) -> SiteReply:
        """What the region's sites counted with the last adapter, if that was asked."""
        run, done = self._run, question.round - 1
        if question.evaluate:
            measure_last(self._opened(question.round, current))
        if done >= run.config.run.last:
            note_end(self._ledger, done, current.digest)
            self.finished = True
        return SiteReply(added_up(run.evals(done).values()) if question.evaluate else ClientStats())


def _sum_request(body: bytes) -> SumRequest:
    try:
        return SumRequest.model_validate_json(body, strict=True)
    except ValidationError:
        raise WireError("the request for a sum cannot be read") from None


def _checked(r: OpenRound) -> tuple[list[Vote], Merged]:
    """The sound votes of a round in the order of names, and a merge that leaves all as it is."""
    votes, excluded = list[Vote](), list[Exclusion]()
    for client, stats, read, _ in r.answers.values():
        if read is None:
            continue
        lessons = cap_lessons(stats.buffered, r.run.config, round=r.index)
        try:
            votes.append(checked_vote(client, read, lessons, r.current, r.run.config.aggregate))
        except AdapterRejected as rejection:
            excluded.append(Exclusion(client=client, kind="rejected", reason=str(rejection)))
    silent = [client for client, one in r.answers.items() if one.read is None]
    voters = tuple(vote.client for vote in votes)
    return votes, Merged(r.current, (), voters, tuple(silent), tuple(excluded))


def _deciding(r: OpenRound, merged: Merged) -> OpenRound:
    return replace(r, merge=lambda out: merged)


def _reported(vote: Vote) -> ReportedVote:
    return ReportedVote(client=vote.client, length=vote.length or 0.0, lessons=vote.lessons)


def _unheard(r: OpenRound) -> RoundResult:
    """The result of a round in which nobody here was asked."""
    nobody = Merged(r.current, (), (), (), ())
    return accept(_deciding(r, nobody)).result().model_copy(update={"bytes_down": 0})
