"""The ways to merge, by name: ours, those of installed packages, and any `module:name`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel

from fedse import plugins
from fedse.aggregate.merge import Merge, Vote, mean, weighted
from fedse.config.aggregation import AggregateSection
from fedse.plugins import Variants
from fedse.types import Adapter, AdapterSpec

Own = TypeVar("Own", bound=BaseModel)

State = tuple[Adapter, ...]
"""What an aggregator remembers from round to round; it is stored with the round, as adapters."""


class Aggregated(NamedTuple):
    """The next global adapter, and what is remembered for the round after it."""

    adapter: Adapter
    state: State = ()


class Aggregator(NamedTuple):
    """How the votes of a round become the next global adapter.

    Both functions are pure. The state is rounded to float32 when it is stored, so `apply` must
    return it in float32: then a resumed run has the bits of one that was never stopped.
    """

    init: Callable[[AdapterSpec], State]
    """The state before the first round."""
    apply: Callable[[Adapter, Sequence[Vote], State], Aggregated]
    """Current adapter, votes and state -> the next adapter and state; without votes, both stay."""


MakeAggregator = Callable[[AggregateSection], Aggregator]
"""What a name stands for."""


@dataclass(frozen=True)
class WithOptions(Generic[Own]):
    """An aggregator with settings of its own, in `aggregate.options`."""

    make: Callable[[AggregateSection, Own], Aggregator]
    Options: type[Own]
    """Checks the options; unknown ones should be refused."""
    needs: Mapping[str, object] = field(default_factory=dict)
    """Other settings by dotted name, and the value that this aggregator depends on."""

    def __call__(self, settings: AggregateSection) -> Aggregator:
        return self.make(settings, self.Options.model_validate(settings.options))


def stateless(merge: Merge) -> MakeAggregator:
    """The aggregator that merges like this in every round and remembers nothing."""

    def make(settings: AggregateSection) -> Aggregator:
        def apply(current: Adapter, votes: Sequence[Vote], state: State) -> Aggregated:
            return Aggregated(merge(current, votes, settings=settings))

        return Aggregator(lambda spec: (), apply)

    return make


AGGREGATES: Mapping[str, MakeAggregator] = Variants(
    plugins.AGGREGATES, {"mean": stateless(mean), "weighted": stateless(weighted)}
)


def aggregator_of(settings: AggregateSection) -> Aggregator:
    """The aggregator of these settings; a name may also stand for a plain merge function."""
    named: MakeAggregator | Merge = AGGREGATES[settings.type]
    is_merge = "votes" in signature(named).parameters
    make = stateless(cast(Merge, named)) if is_merge else cast(MakeAggregator, named)
    return make(settings)
