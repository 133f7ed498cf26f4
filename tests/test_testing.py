from fedse.envs.conformance.check import check_env


def test_the_smallest_environment_keeps_the_contract():
    report = check_env("fedse.testing:CoinWorld", {"secret": "x"})
    assert report.ok, report.failed
