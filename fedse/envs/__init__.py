"""What an environment in a package of its own needs beside the public names of `fedse`."""

from fedse.envs.action import action_of as action_of
from fedse.envs.options import require_one_of as require_one_of
from fedse.envs.options import require_positive as require_positive
from fedse.envs.options import wrong_option as wrong_option
from fedse.errors import boundary as boundary
from fedse.types import Split as Split
