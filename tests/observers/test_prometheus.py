"""What a monitoring system sees of a real toy run, over HTTP."""

from pathlib import Path

import httpx

from tests.needs import needs

needs("prometheus_client")

from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config, RolloutSection
from fedse.config.schema import RunSection as RunSection
from fedse.drivers.run import run_local
from fedse.observers.health import Watch
from fedse.observers.prometheus import monitored
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec

SECRET = "canary-4711"
CONFIG = Config(
    run=RunSection(rounds=2),
    rollout=RolloutSection(episodes=6),
    eval=EvalSection(episodes=4),
    clients=tuple(
        ClientSection(name=name, env="fedse.testing:CoinWorld", options={"secret": SECRET})
        for name in ("a", "b")
    ),
)


def test_the_numbers_of_a_run_are_served_and_no_text_of_it(tmp_path: Path):
    with monitored("127.0.0.1", 0, clock=lambda: 0.0, patience=60) as (observer, port):
        run = Run(tmp_path, CONFIG, toy_spec(), clock=lambda: 0.0, observers=[observer])
        run_local(run, clock=lambda: 0.0, open_site=open_toy_site)
        here = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False)
        metrics, health = here.get("/metrics").text, here.get("/health").json()
        assert here.get("/other").status_code == 404
        here.close()
    assert "fedse_round 2.0" in metrics
    assert 'fedse_members{did="voters"} 2.0' in metrics
    assert 'fedse_episodes_total{client="a"} 12.0' in metrics
    sent = 2 * toy_spec().nbytes
    assert f'fedse_received_bytes_total{{client="b"}} {float(sent)}' in metrics
    assert SECRET not in metrics
    assert health == {"well": True, "state": "run.finished", "round": 2, "silent_seconds": 0.0}


def test_failure_and_long_silence_are_ill_health():
    now = [0.0]
    watch = Watch(clock=lambda: now[0], patience=10)
    watch("round.started", {"round": 3})
    assert watch.health().well
    now[0] = 11.0
    assert watch.health() == (False, "round.started", 3, 11.0)
    watch("run.failed", {})
    assert not watch.health().well
    watch("run.finished", {})
    now[0] = 1000.0
    assert watch.health().well
