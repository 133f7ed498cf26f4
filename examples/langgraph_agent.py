"""A LangGraph agent with a tool, which has never heard of fedse: a game and an OpenAI-style URL.

It plays and is trained through fedse without a changed line, from this folder:

    pip install langgraph langchain-openai
    fedse run langgraph_agent.toml
"""

from itertools import permutations, product
from random import Random
from typing import Literal

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from openai import DefaultHttpxClient

WAYS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
SIZE, MOVES = 3, 4
WALKS = list(permutations(product(range(1, SIZE + 1), repeat=2), 2))
Random(0).shuffle(WALKS)
HTTP = DefaultHttpxClient()


def play(base_url, task):
    """Walk to the goal of `task` by calling `move`; 1.0 if it got there."""
    split, number = task.split("-")
    place, goal = WALKS[(int(number) if split == "train" else -1 - int(number)) % len(WALKS)]
    walked = [place]

    @tool
    def move(way: Literal["up", "down", "left", "right"]) -> str:
        """Walk one cell."""
        ahead = zip(walked[-1], WAYS[way], strict=True)
        walked.append(tuple(min(max(here + by, 1), SIZE) for here, by in ahead))
        return view(walked[-1], goal)

    model = ChatOpenAI(base_url=base_url, api_key="none", model="any", http_client=HTTP)
    mover = model.bind_tools([move], tool_choice="required", parallel_tool_calls=False)

    def ask(state):
        return {"messages": [mover.invoke(state["messages"])]}

    def onward(state):
        return END if walked[-1] == goal or len(walked) > MOVES else "ask"

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("move", ToolNode([move]))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "move")
    graph.add_conditional_edges("move", onward, ["ask", END])
    graph.compile().invoke({"messages": [("system", "maze"), ("user", view(place, goal))]})
    return 1.0 if walked[-1] == goal else 0.0


def view(me, goal):
    down, right = goal[0] - me[0], goal[1] - me[1]
    rows = f" {'down' if down > 0 else 'up'} {abs(down)}" if down else ""
    columns = f" {'right' if right > 0 else 'left'} {abs(right)}" if right else ""
    return f"at {me[0]} {me[1]} goal{rows}{columns}"
