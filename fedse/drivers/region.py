"""A region: one coordinator towards its sites, one site towards the coordinator above.

It is asked as a site is. Asked to train, it asks its own sites the same, keeps their adapters and
tells how long their updates are; asked for the sum, it adds them up at the bound it is given and
signs that. It takes no step of its own: what its round comes to is the adapter that the coordinator
above asks about next, and with that the round is committed here as well. An answer with votes is
durable before it leaves, so that whoever asks again gets the same bytes.
"""

import time
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from fedse.adapters.base import initial_adapter
from fedse.aggregate.quarantine import WINDOW, strike_history
from fedse.aggregate.region_report import (
    RegionReport,
    SumRequest,
    added_up,
    report_to_bytes,
    with_line,
)
from fedse.aggregate.validate import parse_adapter
from fedse.config.schema import Config
from fedse.drivers.loop import commit_round, measure_last, with_pardons
from fedse.drivers.region_votes import ask_sites, sum_of, unheard
from fedse.drivers.round import OpenRound
from fedse.errors import WireError
from fedse.faults import Fault
from fedse.ledger.chain import Entry
from fedse.ledger.keys import PUBLIC, read_public
from fedse.ledger.record import note_end, run_ledger
from fedse.ledger.signed_sum import SumAsked, require_signed_sum, sign_sum
from fedse.ledger.writing import Ledger
from fedse.protocol import Ask, Question, SiteReply
from fedse.site.answer import received, require_agreed
from fedse.site.rules import RuleRefusal, read_rules, require_allowed
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

    @property
    def finished(self) -> bool:
        """Whether the last adapter is known here."""
        return (self._run.committed or 0) >= self._run.config.run.last

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
        config, spec = self._run.config, self._run.spec
        adapter = parse_adapter(received(body, config, spec), spec, config.aggregate)
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
            result = begun.result if begun and heard else unheard(self._opened(index, before))
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
        r, votes = ask_sites(self._opened(question.round, current))
        told = RegionReport(key=self._key, votes=votes)
        result = r.result().model_copy(update={"seconds": self._timer() - started})
        self._answers.begin(OpenRegionRound(request=question.digest, report=told, result=result))
        run.emit("region.told", round=r.index, voters=len(votes))
        rejected = {one.client for one in r.decided.excluded}
        counted = [one.stats for name, one in r.answers.items() if name not in rejected]
        return KeptAnswer(added_up(counted), report_to_bytes(told) if votes else b"")

    def _summed(self, question: Question, body: bytes) -> bytes:
        """The signed sum of the votes of the open round at the bound that was asked for."""
        begun, asked = self._answers.open_round(), _sum_request(body)
        if begun is None or begun.result.index != question.round:
            raise WireError(f"asked for the sum of round {question.round}, which is not open here")
        if (begun.request, begun.result.before) != (asked.request, question.adapter):
            raise WireError("asked for the sum of other votes than the region told of")
        if (asked.bound is None) != (self._run.config.aggregate.clip == "none"):
            raise WireError("asked for a sum with another clip than agreed")
        self._require_few(question.round)
        r = self._opened(question.round, self._run.load(question.adapter))
        total = sum_of(r, begun.report.votes, asked.bound)
        terms = SumAsked(
            experiment=question.experiment,
            round=question.round,
            request=asked.request,
            voters=begun.report.sites,
            bound=asked.bound,
        )
        line = self._line(terms, total)
        self._run.emit("region.summed", round=question.round, voters=len(terms.voters))
        return with_line(line.text, total)

    def _require_few(self, round: int) -> None:
        """Each region that is lost above is a reason for one more sum; there is no other.

        Two sums at different bounds tell something about a single vote.
        """
        most = len(self._above.config.aggregate.regions)
        if self._answers.count(round) > most:  # the list of votes is one of them
            raise RuleRefusal(
                Fault.OTHER_ROSTER, f"asked for more than {most} sums of round {round}"
            )

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

    def _measured(self, question: Question, current: Adapter) -> SiteReply:
        """What the region's sites counted with the last adapter, if that was asked."""
        run, done = self._run, question.round - 1
        if question.evaluate:
            measure_last(self._opened(question.round, current))
        if done >= run.config.run.last:
            note_end(self._ledger, done, current.digest)
        return SiteReply(added_up(run.evals(done).values()) if question.evaluate else ClientStats())


def _sum_request(body: bytes) -> SumRequest:
    try:
        return SumRequest.model_validate_json(body, strict=True)
    except ValidationError:
        raise WireError("the request for a sum cannot be read") from None
