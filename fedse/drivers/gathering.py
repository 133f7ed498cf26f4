"""A round's replies, and the merge of those that count, where the server has every adapter."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, Protocol

from fedse.aggregate.agreement import Stance, stances_of
from fedse.aggregate.drift import drift_of
from fedse.aggregate.factors import travelling_spec, with_resting_factor
from fedse.aggregate.validate import cap_lessons, load_checked, shrink_to_bound
from fedse.committed import Drift, Exclusion
from fedse.drivers.replies import ExpectedReply, exclusion_of
from fedse.method.rounds import server_round
from fedse.method.site import Answer, Merged
from fedse.protocol import Ask, Delivery, Request
from fedse.store.files import mapped
from fedse.store.run import Run
from fedse.types import Adapter, ClientStats

MEASURED = 256 << 20
"""Total bytes of replies up to which they are compared: it costs as much as the merge or more."""


class AskedRound(NamedTuple):
    """What a round asks, and whom."""

    round: int
    current: Adapter
    request: Request
    skip: Collection[str]
    """Members that are not asked."""
    stale: Collection[str]
    """Digests of global adapters of earlier rounds."""


class Gathered(NamedTuple):
    """What came of asking."""

    stats: Mapping[str, ClientStats]
    """Of everybody whose reply can be used."""
    faults: Sequence[Exclusion]
    merge: Callable[[frozenset[str]], Merged]
    """The next adapter without the votes of these clients."""
    drift: Callable[[Merged], Drift | None]
    bytes_down: int
    bytes_up: Callable[[Merged], int]
    stances: Callable[[Merged], Mapping[str, Stance]] = lambda merged: {}
    """Of the votes of the merge; empty where the server does not have them."""


class Gather(Protocol):
    """Asks the members of a round and takes in what they reply."""

    def __call__(self, run: Run, ask: Ask, asked: AskedRound) -> Gathered: ...


def gather_adapters(run: Run, ask: Ask, asked: AskedRound) -> Gathered:
    """Every reply that can be used is on disk, whole, and every other one has its reason."""
    answers, faults = _collect(run, ask, asked, partial(hold, inbox(run), asked.round))
    return _gathered(
        run,
        asked,
        (answers, faults),
        merge=partial(_merge_without, run, asked, answers),
        drift=partial(_drift, run, asked.current, answers),
    )._replace(stances=partial(_stances, run, asked.current, answers))


def gather_sum(run: Run, ask: Ask, asked: AskedRound) -> Gathered:
    """The replies are keys, and the updates are added up so that the server learns their sum."""
    # Optional packages are imported only where they are really needed.
    from fedse.drivers.secure_round import SecureRound

    answers, faults = _collect(run, ask, asked, _keep_keys)
    round = SecureRound(run, ask, asked.round, asked.current)

    @cache
    def merged() -> Merged:
        return _in_bounds(run, round.merge(answers))

    # Settings refuse a gate that would leave votes out.
    return _gathered(
        run, asked, (answers, faults), merge=lambda out: merged(), drift=lambda merged: None
    )


def _collect(
    run: Run, ask: Ask, asked: AskedRound, keep: Callable[[Delivery, ExpectedReply], Answer]
) -> tuple[dict[str, Answer], list[Exclusion]]:
    expected = ExpectedReply(asked.current, travelling_spec(run.spec, run.config))
    answers: dict[str, Answer] = {}
    faults: list[Exclusion] = []
    for delivery in ask(asked.request, asked.current, skip=asked.skip):
        if delivery.client in asked.skip:
            continue
        exclusion = delivery.exclusion or exclusion_of(
            run.config, delivery, answers, expected, asked.stale
        )
        announce(run, asked.round, delivery._replace(exclusion=exclusion))
        if exclusion:
            faults.append(exclusion)
        else:
            answers[delivery.client] = keep(delivery, expected)
    return answers, faults


def _gathered(
    run: Run,
    asked: AskedRound,
    came: tuple[dict[str, Answer], list[Exclusion]],
    *,
    merge: Callable[[frozenset[str]], Merged],
    drift: Callable[[Merged], Drift | None],
) -> Gathered:
    answers, faults = came
    returned = travelling_spec(run.spec, run.config)
    revoked = sum(one.kind == "revoked" for one in faults)
    asked_sites = len(run.config.clients) - len(asked.skip) - revoked
    return Gathered(
        stats={client: answers[client].stats for client in sorted(answers)},
        faults=faults,
        merge=merge,
        drift=drift,
        bytes_down=returned.nbytes * asked_sites,
        bytes_up=lambda merged: returned.nbytes * len(merged.voters),
    )


def hold(folder: Path, index: int, delivery: Delivery, expected: ExpectedReply) -> Answer:
    """The reply with its whole adapter on disk, so that a thousand of them fit in memory."""
    if delivery.adapter is None:
        return Answer(delivery.client, delivery.stats, None)
    kept = folder / f"{index}-{delivery.client}"
    kept.write_bytes(with_resting_factor(delivery.adapter, expected.returned, expected.current))
    return Answer(delivery.client, delivery.stats, partial(mapped, kept))


def _keep_keys(delivery: Delivery, expected: ExpectedReply) -> Answer:
    keys = delivery.adapter
    return Answer(delivery.client, delivery.stats, None if keys is None else lambda: keys)


def announce(run: Run, index: int, delivery: Delivery) -> None:
    """The delivery has its event."""
    client, fault, sent = delivery.client, delivery.fault, len(delivery.adapter or b"")
    facts = delivery.stats.model_dump()
    run.emit("answer.received", round=index, client=client, fault=fault, bytes=sent, **facts)


def inbox(run: Run) -> Path:
    """The folder for what arrives in a round."""
    folder = run.path / "inbox"
    folder.mkdir(exist_ok=True)
    return folder


def forget_inbox(run: Run) -> None:
    """Nothing of what arrived is kept any more."""
    for kept in (*inbox(run).iterdir(), *(run.path / "sums").glob("*")):
        kept.unlink()


def capped(stats: ClientStats, run: Run, *, round: int) -> ClientStats:
    """`stats` with no more lessons than this experiment can have brought."""
    lessons = {"buffered": cap_lessons(stats.buffered, run.config, round=round)}
    return stats.model_copy(update=lessons)


def _merge_without(
    run: Run, asked: AskedRound, answers: Mapping[str, Answer], out: frozenset[str]
) -> Merged:
    """The merged adapter, within the bounds that the next round checks."""
    index = asked.round
    kept = [
        answer._replace(stats=capped(answer.stats, run, round=index))
        for client, answer in answers.items()
        if client not in out
    ]
    merged = server_round(asked.current, kept, run.config, moments=run.moments(index - 1))
    return _in_bounds(run, merged)


def _in_bounds(run: Run, merged: Merged) -> Merged:
    adapter = shrink_to_bound(merged.adapter, max_norm=run.config.aggregate.max_norm)
    return merged._replace(adapter=adapter)


def _drift(
    run: Run, current: Adapter, answers: Mapping[str, Answer], merged: Merged
) -> Drift | None:
    votes = _measured_votes(run, answers, merged)
    return drift_of(current, merged.adapter, votes) if votes else None


def _stances(
    run: Run, current: Adapter, answers: Mapping[str, Answer], merged: Merged
) -> dict[str, Stance]:
    return stances_of(current, _measured_votes(run, answers, merged))


def _measured_votes(
    run: Run, answers: Mapping[str, Answer], merged: Merged
) -> dict[str, Callable[[], Adapter]]:
    """The votes of the merge; none if they are too many bytes to be compared."""
    if len(merged.voters) * run.spec.nbytes > MEASURED:
        return {}
    read = {client: answers[client].read for client in merged.voters}
    return {client: partial(load_checked, r, run.spec) for client, r in read.items() if r}
