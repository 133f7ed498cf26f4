"""Numbers as people say them."""


def counted(number: int, noun: str) -> str:
    """`1 round`, `2 rounds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def megabytes(count: float) -> str:
    """Bytes as MB: two decimals below 10 MB, none from there on."""
    return f"{count / 1e6:.2f} MB" if count < 1e7 else f"{count / 1e6:.0f} MB"
