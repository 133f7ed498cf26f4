"""What a run gives back is what was put in, or the error names what is not."""

from pathlib import Path

import numpy as np
import pytest

from fedse.committed import RoundResult
from fedse.config.schema import ClientSection, Config
from fedse.errors import StoreError
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats

SPEC = toy_spec()
CONFIG = Config(clients=(ClientSection(name="a", env="maze"),))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path, CONFIG, SPEC, clock=lambda: 0.0)


def result(index: int, after: str, **changes: object) -> RoundResult:
    facts = {"voters": (), "stats": {}, "bytes_down": 0, "bytes_up": 0, "seconds": 0.0}
    return RoundResult(index=index, before="0", after=after, **{**facts, **changes})


def blob_of(run: Run, digest: str) -> Path:
    return run.path / "blobs" / f"{digest}.safetensors"


def test_a_stored_adapter_comes_back_bit_for_bit(run: Run):
    adapter = toy_adapter(SPEC, 1)
    digest = run.store(adapter)
    assert digest == adapter.digest
    assert blob_of(run, digest).read_bytes() == adapter.to_bytes()
    assert run.load(digest).vector.tolist() == adapter.vector.tolist()


def test_a_blob_with_one_changed_bit_is_refused_and_named(run: Run):
    """Every number of it is as lawful as before, so only the digest can tell."""
    adapter = toy_adapter(SPEC, 1)
    digest, start = run.store(adapter), len(SPEC.header)
    data = adapter.to_bytes()
    for place in range(start, len(data), 4):
        # The lowest bit of a mantissa: a number beside it, of the same size.
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        other = Adapter(SPEC, np.frombuffer(changed, dtype="<f4", offset=start)).digest
        blob_of(run, digest).write_bytes(changed)
        with pytest.raises(StoreError) as caught:
            run.load(digest)
        file = blob_of(run, digest)
        assert str(caught.value) == f"{file} is damaged: it has digest {other}, expected {digest}"
        assert caught.value.hint == (
            f"put {file.name} back from a backup of {file.parent}, then: fedse resume {run.path}"
        )
    assert place == len(data) - 4
    blob_of(run, digest).write_bytes(data)
    assert run.load(digest).digest == digest


def test_the_blob_of_another_round_is_refused(run: Run):
    first, second = (toy_adapter(SPEC, seed) for seed in (1, 2))
    run.begin(first)
    blob_of(run, first.digest).write_bytes(second.to_bytes())
    with pytest.raises(StoreError, match=f"it has digest {second.digest}, expected {first.digest}"):
        run.adapter(0)


def test_a_blob_that_is_no_adapter_or_is_gone_is_refused(run: Run):
    digest = run.store(toy_adapter(SPEC, 1))
    blob_of(run, digest).write_bytes(b"x")
    with pytest.raises(StoreError, match="is damaged: adapter of 1 bytes"):
        run.load(digest)
    blob_of(run, digest).unlink()
    with pytest.raises(StoreError, match=f"blob {digest}"):
        run.load(digest)


def test_a_round_that_names_no_stored_adapter_is_not_committed(run: Run):
    run.begin(toy_adapter(SPEC, 0))
    with pytest.raises(StoreError, match=r"round 1 names blob .*, which is not stored"):
        run.commit(result(1, toy_adapter(SPEC, 1).digest))
    assert (run.committed, list(run.results())) == (0, [])


def test_what_an_optimiser_remembers_is_stored_before_the_round_and_read_with_it(run: Run):
    run.begin(toy_adapter(SPEC, 0))
    # Longer than a reply may be: no reply, so no bound of replies holds for it.
    moment = toy_adapter(SPEC, 2, scale=1e6)
    after = run.store(toy_adapter(SPEC, 1))
    named = result(1, after).model_copy(update={"moments": (moment.digest,)})
    with pytest.raises(StoreError, match=rf"names blob {moment.digest}, which is not stored"):
        run.commit(named)
    run.store(moment)
    run.commit(named)
    assert run.moments(0) == ()
    assert [found.digest for found in run.moments(1)] == [moment.digest]
    blob_of(run, moment.digest).write_bytes(toy_adapter(SPEC, 3).to_bytes())
    with pytest.raises(StoreError, match=f"is damaged: it has digest .*, expected {moment.digest}"):
        run.moments(1)


def test_a_round_is_committed_once(run: Run):
    run.begin(toy_adapter(SPEC, 0))
    first = result(1, run.store(toy_adapter(SPEC, 1)))
    run.commit(first)
    with pytest.raises(StoreError, match="commit of round 1"):
        run.commit(result(1, run.store(toy_adapter(SPEC, 2))))
    assert (run.committed, list(run.results())) == (1, [first])
    assert run.adapter(1).digest == first.after
    with pytest.raises(StoreError, match=r"has no round 2, committed are 0\.\.1"):
        run.adapter(2)


def test_a_run_that_has_begun_keeps_its_first_adapter(run: Run):
    assert run.committed is None
    first = toy_adapter(SPEC, 0)
    run.begin(first)
    run.begin(toy_adapter(SPEC, 1))
    assert run.adapter(0).digest == first.digest


def test_a_measurement_told_again_replaces_the_earlier_one(run: Run):
    for won in (1, 3):
        run.record_eval(2, "a", ClientStats(eval_played=4, eval_succeeded=won))
    assert run.evals(2) == {"a": ClientStats(eval_played=4, eval_succeeded=3)}
    assert run.evals(1) == {}
