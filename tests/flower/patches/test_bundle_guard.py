"""What a task at a site loads, and what it is given."""

import subprocess
import sys

from tests.needs import needs

needs("flwr")

from flwr.common.constant import FLWR_TASK_TOKEN_LENGTH

from fedse.flower.patches.bundle_guard import REFUSED

RUNS = """
from importlib import import_module
from fedse.flower.patches import bundle_guard
exec('''
import sys
def run_clientapp(runtime_api_address, token, insecure, certificates, **rest):
    print(runtime_api_address, token, insecure, {"alembic", "sqlalchemy", "torch"} & {*sys.modules})
    install_from_fab(b"another bundle")
''', vars(import_module("flwr.supernode.runtime.run_clientapp")))
bundle_guard.main("0" * 64)
"""
TOKEN = "ab" * FLWR_TASK_TOKEN_LENGTH
GIVEN = ["--runtime-api-address", "127.0.0.1:9", "--insecure"]


def test_a_task_has_its_token_no_database_of_a_supernode_and_refuses_another_bundle():
    line = [sys.executable, "-c", RUNS, *GIVEN, "--token-stdin"]
    done = subprocess.run(line, input=f"{TOKEN}\n", capture_output=True, text=True)
    assert done.stdout == f"127.0.0.1:9 {TOKEN} True set()\n"
    assert done.stderr.endswith(f"WireError: {REFUSED}\n")
