"""Does this machine's CPU support the format in which a model is trained?"""

from pathlib import Path

from fedse.config.hardware import TrainerSection

# As named by Linux; other systems do not list them.
CPU_FACTS = Path("/proc/cpuinfo")
INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}
SLOW = "this CPU has no instructions for bfloat16: training takes longer than in float32"
FIX = 'set precision = "float32" in the [trainer] section'


def computes_in_bfloat16(cpu_facts: Path = CPU_FACTS) -> bool | None:
    """Whether this CPU has instructions for bfloat16; None = the system does not tell."""
    if not cpu_facts.is_file():
        return None
    return bool(INSTRUCTIONS & {*cpu_facts.read_text().split()})


def slowed_by(place: TrainerSection, cpu_facts: Path = CPU_FACTS) -> list[tuple[str, str]]:
    """What to know and to do if bfloat16 is used on a CPU that is known not to support it."""
    if place.device != "cpu" or place.precision != "bfloat16":
        return []
    return [(SLOW, FIX)] if computes_in_bfloat16(cpu_facts) is False else []
