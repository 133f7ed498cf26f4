"""Every public name and where it is defined; `__init__.py` imports each when it is first used."""

from ._version import __version__ as __version__
from .adapters.base import adapter_spec as adapter_spec
from .adapters.base import initial_adapter as initial_adapter
from .adapters.peft_folder import export_adapter as export_adapter
from .agent.policy import (
    Dialogue as Dialogue,
)
from .agent.policy import (
    Policy as Policy,
)
from .agent.policy import (
    Reply as Reply,
)
from .agent.policy import (
    ScriptedPolicy as ScriptedPolicy,
)
from .aggregate.merge import Merge as Merge
from .aggregate.merge import Vote as Vote
from .api.engines import Engine as Engine
from .api.experiment import (
    Experiment as Experiment,
)
from .api.experiment import (
    Plan as Plan,
)
from .api.experiment import (
    load_experiment as load_experiment,
)
from .api.experiment import (
    plan as plan,
)
from .api.measuring import (
    Evaluation as Evaluation,
)
from .api.measuring import (
    compare as compare,
)
from .api.measuring import (
    evaluate as evaluate,
)
from .api.measuring import (
    load_adapter as load_adapter,
)
from .api.running import resume as resume
from .api.running import run as run
from .config.file import load_config as load_config
from .config.hardware import (
    EngineSection as EngineSection,
)
from .config.hardware import (
    TrainerSection as TrainerSection,
)
from .config.judging import (
    EvalSection as EvalSection,
)
from .config.schema import (
    AggregateSection as AggregateSection,
)
from .config.schema import (
    BufferSection as BufferSection,
)
from .config.schema import (
    ClientSection as ClientSection,
)
from .config.schema import (
    Config as Config,
)
from .config.schema import (
    ModelSection as ModelSection,
)
from .config.schema import (
    RolloutSection as RolloutSection,
)
from .config.schema import (
    RunSection as RunSection,
)
from .config.schema import (
    SelectSection as SelectSection,
)
from .config.training import (
    TrainSection as TrainSection,
)
from .config.training import (
    WarmstartSection as WarmstartSection,
)
from .drivers.loop import federate as federate
from .drivers.run import run_local as run_local
from .drivers.sites import OpenSite as OpenSite
from .envs.base import (
    Env as Env,
)
from .envs.base import (
    EnvFactory as EnvFactory,
)
from .envs.base import (
    ExpertEnv as ExpertEnv,
)
from .envs.base import (
    HindsightEnv as HindsightEnv,
)
from .envs.base import (
    Step as Step,
)
from .envs.base import (
    env_names as env_names,
)
from .envs.base import (
    make_env as make_env,
)
from .envs.conformance.check import (
    Check as Check,
)
from .envs.conformance.check import (
    CheckReport as CheckReport,
)
from .envs.conformance.check import (
    check_env as check_env,
)
from .errors import (
    AdapterRejected as AdapterRejected,
)
from .errors import (
    ConfigError as ConfigError,
)
from .errors import (
    EnvError as EnvError,
)
from .errors import (
    FedSEError as FedSEError,
)
from .errors import (
    Interrupted as Interrupted,
)
from .errors import (
    MachineError as MachineError,
)
from .errors import (
    RunError as RunError,
)
from .errors import (
    StoreError as StoreError,
)
from .errors import (
    TrainError as TrainError,
)
from .errors import (
    WireError as WireError,
)
from .events import Emit as Emit
from .events import Fact as Fact
from .events import Observer as Observer
from .events import silent as silent
from .faults import Fault as Fault
from .method.evaluate import (
    client_eval as client_eval,
)
from .method.rollout import (
    Chunk as Chunk,
)
from .method.rollout import (
    Game as Game,
)
from .method.rollout import (
    Keep as Keep,
)
from .method.rollout import (
    choose_games as choose_games,
)
from .method.rollout import (
    demonstrate as demonstrate,
)
from .method.rollout import (
    rollout as rollout,
)
from .method.rounds import (
    client_round as client_round,
)
from .method.rounds import (
    server_round as server_round,
)
from .method.select import (
    OwnRecord as OwnRecord,
)
from .method.select import (
    Select as Select,
)
from .method.select import (
    SelectByRecord as SelectByRecord,
)
from .method.site import Answer as Answer
from .method.site import Merged as Merged
from .method.site import Play as Play
from .method.site import Site as Site
from .protocol import Ask as Ask
from .protocol import Delivery as Delivery
from .protocol import Request as Request
from .protocol import SiteReply as SiteReply
from .results.arms import Arm as Arm
from .results.compare import ArmResult as ArmResult
from .results.compare import Comparison as Comparison
from .results.compare import Contrast as Contrast
from .results.outcome import Change as Change
from .results.outcome import RunResult as RunResult
from .seeds import seed_of as seed_of
from .site.open import open_site as open_site
from .stats.paired import Difference as Difference
from .stats.paired import Differences as Differences
from .stats.rates import Interval as Interval
from .stats.rates import Mean as Mean
from .stats.rates import Rate as Rate
from .store.buffer import Buffer as Buffer
from .store.buffer import Played as Played
from .store.buffer import RolloutPart as RolloutPart
from .store.buffer import Tally as Tally
from .store.run import Run as Run
from .store.run_folder import create_run as create_run
from .store.run_folder import open_run as open_run
from .types import (
    Adapter as Adapter,
)
from .types import (
    AdapterSpec as AdapterSpec,
)
from .types import (
    ClientStats as ClientStats,
)
from .types import (
    ClientUpdate as ClientUpdate,
)
from .types import (
    Clock as Clock,
)
from .types import (
    Drift as Drift,
)
from .types import (
    Exclusion as Exclusion,
)
from .types import (
    Fitted as Fitted,
)
from .types import (
    Record as Record,
)
from .types import (
    RoundResult as RoundResult,
)
from .types import (
    Task as Task,
)
from .types import (
    TensorSpec as TensorSpec,
)
from .types import (
    Trajectory as Trajectory,
)
from .types import (
    Turn as Turn,
)
