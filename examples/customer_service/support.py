"""Customer service as a Fed-SE environment: tasks, the check of the end state, and an expert.

The rule to learn: a broken item is replaced, one that never came is paid back in full, and for
one that is fine nothing is done. Only the order the customer means may be touched.
Play it: python examples/customer_service/support.py
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from fedse.envs.base import Step
from fedse.types import Split
from fedse_bridges.mcp_call import ToolCall, written
from fedse_bridges.mcp_tools import McpTools

HERE = Path(__file__).parent
ITEMS = ("lamp", "kettle", "chair", "radio", "clock", "mirror")
STATUSES = ("broken", "lost", "delivered")
NAMES = {
    "train": ("Ada", "Ben", "Cleo", "Dov", "Eve", "Finn", "Gus", "Hana"),
    "test": ("Ivo", "Jun", "Kai", "Lea"),
}
PROMPT = (
    "You serve customers of a shop. Find the customer's order and look it up. A broken item is "
    "replaced, a lost one is refunded in full, for a delivered one nothing is done. Then finish."
)


def tasks(split: Split) -> list[dict[str, Any]]:
    """One complaint per customer and item; each shop has two more orders that are not meant."""
    return [_task(name, item) for name in NAMES[split] for item in ITEMS]


def _task(name: str, item: str) -> dict[str, Any]:
    random = Random(f"{name} {item}")
    numbers = [str(number) for number in random.sample(range(100, 1000), 3)]
    other = random.choice([thing for thing in ITEMS if thing != item])
    owners, things = (name, name, "Zoe"), (item, other, item)
    shop = {
        number: {
            "customer": owner,
            "item": thing,
            "price": random.randint(5, 90),
            "status": random.choice(STATUSES),
        }
        for number, owner, thing in zip(numbers, owners, things, strict=True)
    }
    return {
        "id": f"{name}-{item}",
        "prompt": f"{name} writes: I have a question about the {item} I ordered.",
        "setup": {"shop": shop},
        "customer": name,
        "order": numbers[0],
    }


def success(state: Mapping[str, Any], task: Mapping[str, Any]) -> bool:
    """The shop is as it was, but for what the meant order called for."""
    expected = {number: dict(order) for number, order in task["setup"]["shop"].items()}
    meant = expected[task["order"]]
    if meant["status"] == "broken":
        meant["replaced"] = True
    elif meant["status"] == "lost":
        meant["refunded"] = meant["price"]
    return dict(state) == expected


def expert(task: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """The customer's orders, the meant order, then what its status calls for."""
    number, order = task["order"], task["setup"]["shop"][task["order"]]
    plan = [
        ToolCall("orders_of", {"customer": task["customer"]}),
        ToolCall("look_up", {"order": number}),
    ]
    if order["status"] == "broken":
        plan.append(ToolCall("replace", {"order": number}))
    elif order["status"] == "lost":
        plan.append(ToolCall("refund", {"order": number, "amount": order["price"]}))
    done = len(steps) - 1
    return written(plan[done]) if done < len(plan) else "Action: finish"


def support(*, fresh_process: bool = False) -> McpTools:
    """The environment; `fedse run` takes it as env = "support:support"."""
    return McpTools(
        command=[sys.executable, str(HERE / "server.py")],
        tasks=tasks,
        success=success,
        state="dump",
        reset_tool="load",
        fresh_process=fresh_process,
        name="support",
        system_prompt=PROMPT,
        expert=expert,
    )


def main() -> None:
    env = support()
    step = env.reset(env.tasks("train")[0], seed=0)
    print(f"{env.system_prompt}\n\n{step.observation}")
    while not step.done:
        action = env.expert()
        step = env.step(action)
        print(f"{action}\n{step.observation}")
    print("success" if step.success else "failure")
    env.close()


if __name__ == "__main__":
    main()
