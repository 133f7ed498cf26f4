"""A federation of regions without any network: each region's sites are in this process."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from fedse.committed import RoundResult
from fedse.config.regional import region_config
from fedse.config.schema import ClientSection, Config
from fedse.drivers.local import InProcess
from fedse.drivers.loop import federate
from fedse.drivers.region import Membership, Region
from fedse.drivers.stages import introduce
from fedse.errors import FedSEError
from fedse.protocol import Delivery, Question, SiteReply, undelivered
from fedse.site.rules import first_rules, write_rules
from fedse.store.run import Run
from fedse.testing import open_toy_site
from tests.toys.federation import SPEC, toy_config

ENV = "fedse.testing:CoinWorld"
Partition = Mapping[str, Collection[str]]
"""The sites of each region; those under the empty name are members themselves."""
Between = Callable[[str, Question, SiteReply], SiteReply | None]
"""What arrives of a region's reply; None = nothing."""


def clock() -> float:
    return 0.0


def unchanged(region: str, question: Question, reply: SiteReply) -> SiteReply:
    return reply


def above_config(partition: Partition, *, episodes: int = 4, **aggregate: object) -> Config:
    """The experiment as the coordinator above has it."""
    plain = toy_config().model_dump()
    regions = {name: len(sites) for name, sites in partition.items() if name}
    clients = [{"name": name, "env": ENV} for name in (*regions, *partition.get("", ()))]
    settings = {**plain["aggregate"], **aggregate, "regions": regions}
    return Config.model_validate(
        {**plain, "eval": {"episodes": episodes}, "aggregate": settings, "clients": clients}
    )


class Tree:
    """A coordinator above regions, each with a folder in `path`."""

    def __init__(self, path: Path, config: Config, partition: Partition) -> None:
        self.path, self.config, self.partition = path, config, partition
        for region in config.aggregate.regions:
            self.home(region).mkdir(parents=True, exist_ok=True)
            rules = first_rules(config, adapter_bytes=SPEC.nbytes)
            write_rules(self.home(region) / "policy.toml", rules)

    def home(self, region: str) -> Path:
        return self.path / region / "above"

    @contextmanager
    def region(self, name: str) -> Iterator[Region]:
        """The region as it is after a restart, with its sites."""
        sites = [ClientSection(name=site, env=ENV) for site in self.partition[name]]
        below = region_config(self.config, sites)
        with (
            closing(Run(self.path / name / "run", below, SPEC, clock=clock)) as run,
            closing(InProcess(run, clock, open_toy_site)) as ask,
        ):
            introduce(
                below, run.path, {site: run.path / "clients" / site for site in below.members}
            )
            above = Membership(name, self.config, self.home(name))
            yield Region(run, ask, above, clock=clock)

    def run(
        self, between: Between = unchanged, *, away: Collection[tuple[str, int]] = ()
    ) -> list[RoundResult]:
        """All rounds are committed; a region that is `away` in a round hears nothing of it."""
        with (
            closing(Run(self.path / "root", self.config, SPEC, clock=clock)) as root,
            closing(InProcess(root, clock, open_toy_site)) as own,
        ):
            federate(root, AskTree(self, own, between, away), clock=clock)
            return list(root.results())


class AskTree:
    """Asks sites here and regions, each of which was restarted before every question."""

    def __init__(
        self, tree: Tree, own: InProcess, between: Between, away: Collection[tuple[str, int]]
    ) -> None:
        self._tree, self._own, self._between, self._away = tree, own, between, away

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        regions = self._tree.config.aggregate.regions
        yield from self._own(question, body, of=[name for name in of if name not in regions])
        for name in regions:
            if name not in of or (name, question.round) in self._away:
                continue
            try:
                said = self._asked(name, question, body)
            except FedSEError as error:
                yield undelivered(name, "failed", str(error))
                continue
            if reply := self._between(name, question, said):
                yield Delivery(name, reply.stats, reply.adapter)

    def _asked(self, name: str, question: Question, body: bytes) -> SiteReply:
        """The region's answer; one that was cut off is started again and asked again."""
        while True:
            with suppress(Cut), self._tree.region(name) as region:
                return region.answer(question, body)


class Cut(BaseException):
    """As if the process had been killed here."""
