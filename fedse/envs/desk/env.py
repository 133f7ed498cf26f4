"""Desk: serve the customers of a shop with tools, by the rules of that shop.

A customer writes. The agent looks up the order, then the shop's rule for the case it is in, and
does what the rule says. A remedy ends the episode, and only the right one for the right order is a
success. An action is one JSON object, a tool call. A site of a federation has a shop with its
own customers, rules and cases; customers whom no site has are held out, in every case. An episode
is a function of the task; the seed changes nothing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fedse.envs.base import Step
from fedse.envs.desk.shops import (
    CASES,
    ORDERS,
    PAYING,
    REMEDIES,
    SHOPS,
    CustomerRequest,
    letter,
    request_of,
)
from fedse.envs.options import require_one_of, require_positive, wrong_option
from fedse.errors import EnvError
from fedse.types import Split, Task

TOOLS: Mapping[str, tuple[str, ...]] = {
    "find": ("name",),
    "order": ("id",),
    "rule": ("case",),
    **{remedy: ("id", "amount") if remedy in PAYING else ("id",) for remedy in REMEDIES},
}
"""Each tool with the names of its arguments."""
SPLITS: tuple[Split, ...] = ("train", "test")
NO_CALL = "That is no tool call. Answer with one JSON object."

Call = Mapping[str, str]
"""A tool under `tool`, and its arguments, all as text."""


class Desk:
    """An environment (fedse.Env) with an expert that looks up before it acts."""

    def __init__(
        self,
        *,
        shop: str = "books",
        cases: Sequence[str] = CASES,
        by: Literal["order", "name"] = "order",
        max_turns: int = 6,
    ) -> None:
        require_one_of("desk", "shop", shop, tuple(SHOPS))
        require_one_of("desk", "by", by, ("order", "name"))
        require_positive("desk", "max_turns", max_turns)
        if not cases or isinstance(cases, str) or not set(cases) <= set(CASES):
            raise wrong_option("desk", "cases", cases, f"some of {', '.join(CASES)}")
        self.name = "desk"
        self.system_prompt = manual(shop, by=by)
        self.max_turns = max_turns
        self._shop, self._by = shop, by
        # Training customers have the cases of their shop; held-out customers have any case.
        own: Mapping[Split, Sequence[str]] = {"train": cases, "test": CASES}
        self._requests: dict[Task, CustomerRequest] = {
            Task(env="desk", id=f"{shop}/{customer}-{case}-{order}-by-{by}", split=split): (
                request_of(shop, customer, case, order)
            )
            for split in SPLITS
            for customer in SHOPS[shop].customers[split]
            for case in CASES
            if case in own[split]
            for order in range(ORDERS)
        }
        self._request: CustomerRequest | None = None
        self._turns = 0
        self._looked_up: set[str] = set()

    def tasks(self, split: Split) -> Sequence[Task]:
        """Every order of every customer of the split."""
        return [task for task in self._requests if task.split == split]

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._requests:
            raise EnvError(
                f"desk has no {task.split} task {task.id!r} of {task.env!r} under these options",
                hint="take tasks from tasks(split) of an environment with the same options",
            )
        self._request = self._requests[task]
        self._turns, self._looked_up = 0, set()
        return Step(letter(self._request, by=self._by))

    def step(self, action: str) -> Step:
        request = self._open()
        self._turns += 1
        call, over = call_of(action), self._turns >= self.max_turns
        if call is not None and call["tool"] in REMEDIES:
            won = call == remedy_call(self._shop, request)
            answer = Step("Done.", reward=float(won), done=True, success=won)
        else:
            text = NO_CALL if call is None else self._answer(call, request)
            answer = Step(text, done=over, valid=call is not None)
        self._request = None if answer.done else request
        return answer

    def actions(self) -> Sequence[str]:
        """The look-ups, and every remedy for the customer's order."""
        request = self._open()
        amount = {"amount": str(request.price)}
        calls: list[Call] = [
            {"tool": "order", "id": request.number},
            *({"tool": "rule", "case": case} for case in CASES),
            *(
                {"tool": remedy, "id": request.number, **(amount if remedy in PAYING else {})}
                for remedy in REMEDIES
            ),
        ]
        return [written(call) for call in calls]

    def expert(self) -> str:
        """The next look-up that was not made yet, then the remedy of the rule."""
        request = self._open()
        first = {"find": {"name": request.customer}} if self._by == "name" else {}
        wanted = first | {"order": {"id": request.number}, "rule": {"case": request.case}}
        for tool, arguments in wanted.items():
            if tool not in self._looked_up:
                return written({"tool": tool, **arguments})
        return written(remedy_call(self._shop, request))

    def close(self) -> None:
        self._request = None

    def subject(self, task: Task) -> str:
        """The customer who wrote."""
        return self._requests[task].customer

    def _open(self) -> CustomerRequest:
        if self._request is None:
            raise EnvError(
                "desk: no episode is open; expected reset() first, got an action before it or "
                "after done",
                hint="call reset(task, seed=...) before step() and expert()",
            )
        return self._request

    def _answer(self, call: Call, request: CustomerRequest) -> str:
        """The result of a look-up; another customer's order is never found."""
        match dict(call):
            case {"tool": "find", "name": request.customer} if self._by == "name":
                self._looked_up.add("find")
                return f"{request.customer}: order {request.number}"
            case {"tool": "order", "id": request.number}:
                self._looked_up.add("order")
                bought = f"{request.item}, {request.price} euro"
                return f"Order {request.number}: {bought}, {request.case}."
            case {"tool": "rule", "case": asked} if asked in CASES:
                self._looked_up |= {"rule"} if asked == request.case else set()
                return f"Our rule for {asked}: {SHOPS[self._shop].rules[asked]}."
        return "Nothing was found."


def manual(shop: str, *, by: str) -> str:
    """What the agent reads before every episode."""
    offered = {tool: names for tool, names in TOOLS.items() if by == "name" or tool != "find"}
    tools = ", ".join(f"{tool}({', '.join(names)})" for tool, names in offered.items())
    first = "Find the customer's order, look it up" if by == "name" else "Look up the order"
    example = {"tool": "order", "id": "100"}
    return (
        f"You serve the customers of a shop for {shop}. Tools: {tools}. {first}, then our rule for "
        f"its case, then do what the rule says. Answer with one tool call: {written(example)}"
    )


def remedy_call(shop: str, request: CustomerRequest) -> Call:
    """What the shop's rule asks for in this case."""
    remedy = SHOPS[shop].rules[request.case]
    amount = {"amount": str(request.price)} if remedy in PAYING else {}
    return {"tool": remedy, "id": request.number, **amount}


def written(call: Call) -> str:
    """The call as the agent writes it."""
    return json.dumps(dict(call))


def call_of(text: str) -> Call | None:
    """The first JSON object in `text` that calls a tool with its arguments, and nothing else."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    except (ValueError, RecursionError):
        return None
    tool = value.get("tool")
    if not isinstance(tool, str) or tool not in TOOLS:
        return None
    call = {str(key): _plain(given) for key, given in value.items()}
    return call if set(call) == {"tool", *TOOLS[call["tool"]]} and all(call.values()) else None


def _plain(given: Any) -> str:
    """Accepts numbers and text: a model may write 417 or "417"."""
    return str(given).strip() if isinstance(given, str | int) else ""
