"""A customer desk with tools: what the agent reads and says, and how two shops learn together.

python examples/desk.py                  plays a customer of each shop, as the expert does
python examples/desk.py --learn          two shops learn together, then each alone; some minutes,
                                         after `fedse model get smollm2-135m`
"""

import sys

import fedse
from fedse.envs.desk.env import Desk
from fedse.envs.desk.shops import SHOPS


def play(shop: str) -> None:
    """A held-out customer is served, and every word of it is printed."""
    desk = Desk(shop=shop)
    step = desk.reset(desk.tasks("test")[0], seed=0)
    print(f"\n{desk.system_prompt}\n| {step.observation}")
    while not step.done:
        action = desk.expert()
        step = desk.step(action)
        print(f"> {action}\n| {step.observation}")
    print("success" if step.success else "failure")


def learn() -> None:
    """Success on held-out customers before and after, together and alone."""
    together = fedse.run("desk")
    print("together", together.overall)
    for client in together.config.clients:
        alone = fedse.run("desk", method="local-evolve", only=client.name)
        print(client.name, "alone", alone.overall)


if __name__ == "__main__":
    if "--learn" in sys.argv:
        learn()
    else:
        for name in SHOPS:
            play(name)
