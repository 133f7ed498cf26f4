"""The first screen: what the run achieved, how certain that is, and what left the clients."""

from collections import Counter
from dataclasses import dataclass, field

from fedse.aggregate.factors import travelling_spec
from fedse.config.rounds import out_of
from fedse.report.facts import RunFacts
from fedse.results.alarms import rounds_text, standing_alarms
from fedse.stats.rates import change, micro, rates

DERIVED = (
    "An adapter is still derived from private data: published attacks reconstruct text from "
    "adapter updates."
)

SEEN = {"adapters": "each client's adapter", "sum": "only the sum of all updates"}
"""What the server saw, by `aggregate.server_sees`."""

MOST_LEFT_OUT = 10
"""Clients that are named one by one."""


@dataclass(frozen=True)
class Tile:
    value: str
    label: str
    detail: str


@dataclass(frozen=True)
class Headline:
    sentence: str
    tiles: list[Tile]
    caveat: str
    """What the adapters of this run can still reveal, and to whom."""
    unsure: list[str] = field(default_factory=list)
    """What a reader must know before quoting the sentence."""


def headline(facts: RunFacts) -> Headline:
    """The sentence and the numbers of the first screen."""
    return Headline(
        sentence=_sentence(facts),
        tiles=[*_success_tile(facts), _left_tile(facts), _raw_tile(facts), _run_tile(facts)],
        caveat=_caveat(facts),
        unsure=_unsure(facts),
    )


def _caveat(facts: RunFacts) -> str:
    """Each site decides about noise itself, so a coordinator does not know who trains with it."""
    seen, epsilon = SEEN[facts.config.aggregate.server_sees], facts.config.privacy.epsilon
    noise = "no noise" if epsilon is None else f"noise for an epsilon of {epsilon:g}"
    return (
        f"{DERIVED} The server saw {seen}. The settings of this run add {noise} (differential "
        "privacy); noise that sites add on their own is not known here."
    )


def _sentence(facts: RunFacts) -> str:
    compared = facts.compared()
    if compared is None:
        return "Success on held-out tasks was not measured before and after."
    before, after = (micro(list(by_client.values())) for by_client in compared)
    low, high = change(before, after)
    verb = "rose" if low > 0 else "fell" if high < 0 else "went"
    doubt = ", which may be chance" if low <= 0 <= high else ""
    first, last = min(facts.evals), max(facts.evals)
    begun = f"after round {first}" if first else "before round 1"
    span = f"{before.value:.2f} {begun} to {after.value:.2f} after round {last}"
    return f"Success on held-out tasks {verb} from {span}{doubt}."


def _success_tile(facts: RunFacts) -> list[Tile]:
    compared = facts.compared()
    if compared is None:
        return []
    before, after = (micro(list(by_client.values())) for by_client in compared)
    low, high = change(before, after)
    return [
        Tile(
            f"{after.value - before.value:+.2f}",
            "change in success",
            f"95 % interval {low:+.2f} to {high:+.2f}, {after.n:,} held-out games each time",
        )
    ]


def _left_tile(facts: RunFacts) -> Tile:
    by_voter = Counter[str]()
    for result in facts.results:
        for name in result.voters:
            by_voter[name] += result.bytes_up // len(result.voters)
    sent = [by_voter[name] for name in facts.clients]
    low, high = min(sent), max(sent)
    most = "" if low == high else " at most"
    megabytes = travelling_spec(facts.spec, facts.config).nbytes / 1e6
    each = f"adapters only, {megabytes:.2f} MB per round"
    return Tile(f"{high / 1e6:.2f} MB", f"left each client{most}", each)


def _raw_tile(facts: RunFacts) -> Tile:
    kept = facts.results[-1].stats.values() if facts.results else ()
    stayed = sum(stats.buffered for stats in kept)
    if facts.config.buffer.pooled:
        return Tile("all", "raw data shared", "as configured: the clients learn from one buffer")
    detail = f"no observation, action or prompt; {stayed:,} episodes stayed in the buffers"
    return Tile("0 bytes", "raw data shared", detail)


def _run_tile(facts: RunFacts) -> Tile:
    done, planned, clients = len(facts.results), facts.config.run.rounds, len(facts.clients)
    noun = "client" if clients == 1 else "clients"
    seconds = sum(result.seconds for result in facts.results)
    took = f"{clients} {noun}, {seconds:,.0f} s, {_state(facts)}"
    return Tile(out_of(done, planned), "rounds committed", took)


def _state(facts: RunFacts) -> str:
    return f"run {facts.summary.status}"


def _unsure(facts: RunFacts) -> list[str]:
    notes = []
    if facts.summary.status != "finished":
        notes.append(
            f"This run is {facts.summary.status}: the page shows it up to round "
            f"{len(facts.results)}. An adapter is measured in the round after it."
        )
    for alarm, rounds in standing_alarms(facts.results, facts.config, facts.validations):
        where = rounds_text(rounds)
        notes.append(f"Alarm in {where}: {alarm.text}. Next: {alarm.next}")
    compared = facts.compared()
    if compared is not None:
        left_out = [client for client in facts.clients if client not in compared[0]]
        notes += [_why_left_out(client, facts) for client in left_out[:MOST_LEFT_OUT]]
        if more := left_out[MOST_LEFT_OUT:]:
            notes.append(f"{len(more):,} more clients are left out: they were not measured twice.")
    if facts.altered:
        notes.append(
            f"Not as recorded when the run was made: {' and '.join(facts.altered)}. A file was "
            "changed, or another version of fedse wrote the run."
        )
    return notes


def _why_left_out(client: str, facts: RunFacts) -> str:
    """Which measurement a client lacks, and why."""
    lacking = [end for end in (min, max) if client not in rates(facts.evals[end(facts.evals)])]
    rounds = [end(facts.evals) for end in lacking]
    when = " and ".join(f"after round {index}" if index else "at the start" for index in rounds)
    why = _absence(client, rounds[-1], facts)
    return f"{client} is left out: it was not measured {when}, {why}."


def _absence(client: str, index: int, facts: RunFacts) -> str:
    """Why the client was not measured with the adapter of round `index`."""
    joins = next(one.joins for one in facts.config.clients if one.name == client)
    if joins > index + 1:
        return f"it joined in round {joins}"
    # An adapter is measured in the round that follows it, the last one after the last round.
    result = next((r for r in facts.results if r.index == index + 1), facts.results[-1])
    excluded = {one.client: one for one in result.excluded}
    if client in excluded:
        one = excluded[client]
        word = "quarantined" if one.kind == "quarantined" else "excluded"
        return f"{word} in round {result.index} ({one.reason})"
    if client in result.absent:
        return f"absent in round {result.index}"
    return "it did not answer"
