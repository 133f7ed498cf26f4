"""A request that cannot be answered, in the form of OpenAI's errors."""

from typing import Any


class RequestRefused(Exception):
    """A request that cannot be answered: an HTTP status and an error in OpenAI's form."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def as_json(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "code": self.code, "param": self.param}
        return {"error": error}


def unsupported(param: str, message: str) -> RequestRefused:
    """`param` asks for something that is not supported here."""
    return RequestRefused(400, "unsupported", f"{param} {message}", param=param)


def wrong(param: str, message: str) -> RequestRefused:
    """`param` does not match the API's description."""
    return RequestRefused(400, "bad_parameter", f"{param} {message}", param=param)
