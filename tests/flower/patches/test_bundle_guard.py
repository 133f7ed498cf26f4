"""What a task at a site loads."""

import subprocess
import sys

from tests.needs import needs

needs("flwr")

LOADS = """
import sys
from fedse.flower.patches.bundle_guard import RUNTIME, clientapp_module
program = clientapp_module()
assert program.run_clientapp is sys.modules[RUNTIME].run_clientapp
print(callable(program.flwr_clientapp), {"alembic", "sqlalchemy", "torch"} & {*sys.modules})
"""


def test_a_task_has_flowers_program_and_not_the_databases_of_a_supernode():
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, check=True)
    assert done.stdout == "True set()\n"
