"""A shop's MCP server on stdio: orders, refunds and replacements; its state dies with it.

python examples/customer_service/server.py      (needs: pip install fed-se-bridges)
"""

from typing import Any

from mcp.server import MCPServer

server = MCPServer("shop")
orders: dict[str, dict[str, Any]] = {}


@server.tool()
def load(shop: dict[str, dict[str, Any]]) -> str:
    """Replace the whole state of the shop. For the test bench, not for agents."""
    orders.clear()
    orders.update(shop)
    return "loaded"


@server.tool()
def dump() -> dict[str, Any]:
    """The whole state of the shop. For the test bench, not for agents."""
    return orders


@server.tool()
def orders_of(customer: str) -> str:
    """The order numbers of a customer."""
    found = sorted(number for number, order in orders.items() if order["customer"] == customer)
    return ", ".join(found) or f"{customer} has no orders"


@server.tool()
def look_up(order: str) -> str:
    """What was ordered, for how much, and whether it was delivered or broken."""
    if order not in orders:
        return f"there is no order {order}"
    found = orders[order]
    return f"{found['item']}, {found['price']} euro, {found['status']}"


@server.tool()
def refund(order: str, amount: int) -> str:
    """Pay back whole euros of an order, at most its price."""
    if order not in orders or not 0 < amount <= orders[order]["price"]:
        return "not possible"
    orders[order]["refunded"] = amount
    return f"{amount} euro paid back"


@server.tool()
def replace(order: str) -> str:
    """Send the item of an order again."""
    if order not in orders:
        return f"there is no order {order}"
    orders[order]["replaced"] = True
    return "sent again"


if __name__ == "__main__":
    server.run()
