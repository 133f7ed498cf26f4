"""A round in which the server learns the sum of the updates, in five stages.

What was decided, who is in the sum and whose updates arrived, is on disk before anybody is asked
about it. So a run that was stopped continues with the same lists, to which the members give the
same answers; they would refuse to answer for other lists. A round in which too few members are
left, or in which their shares do not fit together, has no sum: the adapter stays as it was, and the
next round begins with new keys.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from fedse.aggregate.factors import travelling_spec, whole_adapter
from fedse.aggregate.variants import State
from fedse.committed import Exclusion, ExclusionKind
from fedse.drivers.round import OpenRound
from fedse.errors import AdapterRejected, StoreError, WireError, boundary
from fedse.ledger.keys import new_signer
from fedse.method.site import Answer, Merged
from fedse.protocol import SumStage
from fedse.secure_sum import combine
from fedse.secure_sum.combine import NoSum, SumPlan
from fedse.secure_sum.directory import read_directory, write_directory
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.messages import (
    Revealed,
    SealedBundle,
    Survivors,
    from_bytes,
    masked_from_bytes,
    masked_to_bytes,
    to_bytes,
)
from fedse.secure_sum.roster import (
    Announcement,
    Confirmation,
    Directory,
    SumTerms,
    sum_terms,
)
from fedse.store.files import write_durably
from fedse.store.run import Run
from fedse.types import Adapter, AdapterSpec, Record

T = TypeVar("T")
LEFT = "left the secure sum before its update arrived"


def sum_folder(run: Run) -> Path:
    """Not the inbox, which may be emptied: a sum that was begun can only be gone on with."""
    folder = run.path / "sums"
    folder.mkdir(exist_ok=True)
    return folder


class SumFolder(NamedTuple):
    """Where a round's decisions and its sum of masked updates are kept until it is committed."""

    path: Path
    round: int

    @property
    def plan(self) -> Path:
        return self.path / f"{self.round}.json"

    @property
    def total(self) -> Path:
        return self.path / f"{self.round}.u32"


class Moved(NamedTuple):
    """Where the sum of a round leads."""

    part: Adapter
    """The tensors that are learned."""
    moments: State = ()
    """What is remembered for the next round."""


FromSum = Callable[[OpenRound, Whole, SumPlan, AdapterSpec], Moved]
"""What the sum of a round comes to, or a rejection of it; the spec is that of what is learned."""


def in_secret(from_sum: FromSum) -> Callable[[OpenRound], OpenRound]:
    """The stage after which what the sum comes to can be had, and no single member's part of it."""

    def merged(r: OpenRound) -> OpenRound:
        summed = cache(SecureRound(r, from_sum).merge)
        return replace(r, merge=lambda out: summed())  # no gate with it leaves votes out

    return merged


class SecureRound:
    """The sum of one round, from the announcements to what it comes to."""

    def __init__(self, r: OpenRound, from_sum: FromSum) -> None:
        self._round, self._run, self._current, self._from_sum = r, r.run, r.current, from_sum
        self._part = travelling_spec(r.run.spec, r.run.config)
        self._folder = SumFolder(sum_folder(r.run), r.index)
        self._directory: Directory = read_directory(r.run.path)
        self._gone: dict[str, Exclusion] = {}

    def merge(self) -> Merged:
        """The global adapter moved by what the sum comes to.

        If there is no sum, it stays as before and those who answered count as abstaining.
        """
        config, answers = self._run.config, self._round.answers
        index, begun = self._round.index, self._current.digest
        terms = sum_terms(config, self._part, round=index, adapter=begun)
        try:
            plan = self._begun(terms, answers)
            if plan is not None:
                plan = self._decided(plan)
                return self._merged(self._moved(self._unmasked(plan), plan), plan)
        except NoSum as error:
            self._blame(error)
            self._refuse(str(error), len(answers), terms.threshold)
        except WireError as error:
            self._refuse(str(error), len(answers), terms.threshold)
        return self._merged(None, None)

    def _blame(self, error: NoSum) -> None:
        """A strike only where no few others can have brought it about."""
        kind: ExclusionKind = "rejected" if error.proven else "failed"
        self._gone[error.dealer] = Exclusion(client=error.dealer, kind=kind, reason=str(error))

    def _begun(self, terms: SumTerms, answers: Mapping[str, Answer]) -> SumPlan | None:
        """The plan of this round, from before an interruption if there was one."""
        if self._folder.plan.exists():
            with boundary(StoreError, f"secure sum {self._folder.plan}"):
                kept = SumPlan.model_validate_json(self._folder.plan.read_bytes())
            if kept.terms != terms:
                raise StoreError(f"{self._folder.plan} is of another sum than this round's")
            return kept
        announced = [self._announcement(one, terms) for one in answers.values() if one.read]
        sound = [one for one in announced if one]
        if len(sound) < terms.threshold:
            self._refuse("too few members", len(sound), terms.threshold)
            return None
        return self._keep(combine.plan_sum(sound, terms, self._directory))

    def _announcement(self, answer: Answer, terms: SumTerms) -> Announcement | None:
        assert answer.read
        try:
            one = from_bytes(Announcement, bytes(answer.read()))
        except WireError as error:
            self._reject(answer.client, str(error))
            return None
        if one.member != answer.client or not combine.is_sound_announcement(
            one, terms, self._directory
        ):
            self._reject(answer.client, "its keys are not signed by it for this round")
            return None
        return one

    def _decided(self, plan: SumPlan) -> SumPlan:
        """All lists are decided, and the sum of the masked updates is on disk."""
        if plan.mail is None:
            bundles = self._stage("shares", plan.roster, plan.roster.names, self._bundle(plan))
            plan = self._keep(combine.with_mail(plan, bundles))
        if not plan.survivors:
            plan = self._summed(plan)
        if plan.confirmations is None:
            told = Survivors(names=plan.survivors)
            given = self._stage("survivors", told, plan.survivors, _reader(Confirmation))
            own = [one for name, one in given.items() if one.member == name]
            plan = self._keep(combine.with_confirmations(plan, own, self._directory))
        return plan

    def _bundle(self, plan: SumPlan) -> Callable[[str, bytes], SealedBundle]:
        def read(client: str, data: bytes) -> SealedBundle:
            bundle = from_bytes(SealedBundle, data)
            if not combine.is_whole_bundle(bundle, client, plan.roster):
                raise WireError("its shares are not for all members of the sum")
            return bundle

        return read

    def _summed(self, plan: SumPlan) -> SumPlan:
        total = np.zeros(plan.terms.size, dtype=np.uint32)

        def add(client: str, data: bytes) -> None:
            np.add(total, masked_from_bytes(data, total.size), out=total)

        assert plan.mail
        arrived = self._stage("masked", plan.mail, plan.senders, add)
        found = combine.with_survivors(plan, arrived)
        write_durably(self._folder.total, masked_to_bytes(total))
        return self._keep(found)

    def _unmasked(self, plan: SumPlan) -> Whole:
        def read(client: str, data: bytes) -> Revealed:
            told = from_bytes(Revealed, data)
            if not combine.is_sound_reveal(told, plan):
                raise WireError("it revealed other shares than it was asked for")
            return told

        assert plan.confirmations
        asked = [one.member for one in plan.confirmations.given]
        reveals = self._stage("unmask", plan.confirmations, asked, read)
        with boundary(StoreError, f"secure sum {self._folder.total}"):
            total = masked_from_bytes(self._folder.total.read_bytes(), plan.terms.size).copy()
        left = combine.unmasking(plan, reveals)
        for liar in left.liars:
            self._reject(liar, "it revealed false shares of another member's secret")
        combine.take_masks_away(total, left)
        return total

    def _moved(self, total: Whole, plan: SumPlan) -> Moved | None:
        """What the sum comes to; None if it cannot be one of sound members."""
        try:
            return self._from_sum(self._round, total, plan, self._part)
        except AdapterRejected as rejection:
            self._refuse(str(rejection), len(plan.survivors), plan.terms.threshold)
            return None

    def _merged(self, moved: Moved | None, plan: SumPlan | None) -> Merged:
        voters = plan.survivors if plan else ()
        adapter, moments = self._current, self._round.remembered
        if moved is not None:
            adapter, moments = whole_adapter(moved.part, self._current), moved.moments
        answers = self._round.answers
        silent = {name for name, answer in answers.items() if answer.read is None}
        # Without a sum the answers are sound all the same; nobody learns the updates.
        abstained = silent if voters else {*answers} - {*self._gone}
        left = {*answers} - {*voters, *abstained}
        away = {n: Exclusion(client=n, kind="failed", reason=LEFT) for n in left}
        excluded = {**away, **{n: o for n, o in self._gone.items() if _counts(n, o, voters)}}
        return Merged(
            adapter,
            moments,
            voters=voters,
            abstained=tuple(sorted(abstained)),
            excluded=tuple(excluded[name] for name in sorted(excluded)),
            blocks=plan.blocks if plan else {},
        )

    def _stage(
        self,
        stage: SumStage,
        message: Record,
        of: Sequence[str],
        read: Callable[[str, bytes], T],
    ) -> dict[str, T]:
        """What these members answered; who answers nothing that can be used is gone."""
        r, found = self._round, dict[str, T]()
        question = r.question(stage, self._current)
        for client, _, data, exclusion in r.ask(question, to_bytes(message), of=of):
            if client not in of or client in found:
                continue
            if exclusion or data is None:
                failed = Exclusion(client=client, kind="failed", reason=LEFT)
                self._gone[client] = exclusion or failed
                continue
            try:
                found[client] = read(client, data)
            except WireError as error:
                self._reject(client, str(error))
        self._run.emit("sum.stage", round=r.index, stage=stage, asked=len(of), got=len(found))
        return found

    def _reject(self, client: str, reason: str) -> None:
        self._gone[client] = Exclusion(client=client, kind="rejected", reason=reason)

    def _keep(self, plan: SumPlan) -> SumPlan:
        write_durably(self._folder.plan, plan.model_dump_json().encode())
        return plan

    def _refuse(self, reason: str, members: int, needed: int) -> None:
        index = self._round.index
        self._run.emit("sum.refused", round=index, reason=reason, members=members, needed=needed)


def _counts(name: str, one: Exclusion, voters: Sequence[str]) -> bool:
    """A site whose update is in the sum is not excluded for being away later, but for a lie."""
    return name not in voters or one.kind == "rejected"


def _reader(kind: type[Confirmation]) -> Callable[[str, bytes], Confirmation]:
    return lambda client, data: from_bytes(kind, data)


def introduce_members(run: Path, homes: Mapping[str, Path]) -> None:
    """The clients, all of this machine, and the run have the public keys of all clients."""
    keys: dict[str, str] = {}
    for name, home in homes.items():
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        signer = new_signer(home)
        assert signer
        keys[name] = signer.public
    for folder in (run, *homes.values()):
        write_directory(folder, keys)
