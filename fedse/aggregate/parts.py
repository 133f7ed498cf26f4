"""The blocks of an adapter one by one: where each is, which votes are on it, and it by itself."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from fedse.blocks import bare_spec, span_of
from fedse.types import Adapter, AdapterSpec


class BlockPart(NamedTuple):
    """Where one block is, and what it is by itself."""

    name: str
    span: slice
    spec: AdapterSpec

    def of(self, adapter: Adapter) -> Adapter:
        """The block of `adapter`, not copied."""
        return Adapter(self.spec, adapter.vector[self.span])

    def read(self, load: Callable[[], Adapter]) -> Adapter:
        """The block of what is loaded."""
        return self.of(load())

    def is_in(self, voted: Collection[str] | None) -> bool:
        return is_on(self.name, voted)


def is_on(block: str, voted: Collection[str] | None) -> bool:
    """Whether a vote on these blocks is on that one; none named = it is on all."""
    return not voted or block in voted


def parts_of(spec: AdapterSpec) -> list[BlockPart]:
    """The blocks of an adapter that has some."""
    bare = bare_spec(spec)
    return [BlockPart(block, span_of(spec, block), bare) for block in spec.blocks]
