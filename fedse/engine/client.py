"""The HTTP calls to a vLLM server: token ids in, token ids out, and adapters by name.

The server runs in its own process and its own Python environment; nothing of it is imported here.
Requests to a server that is starting or restarting are retried until engine.patience is over.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from fedse.agent.policy import DECIMALS
from fedse.agent.shape import Shape, structured_outputs
from fedse.config.hardware import EngineSection
from fedse.errors import ConfigError, RunError

# Seconds between two attempts: short at first, because most breaks are short.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
CONNECT_SECONDS = 5.0
UNIX = "unix:"
"""How an address begins that is the path of a Unix socket."""
URL_VARIABLE = "FEDSE_ENGINE_URL"
"""Where processes of a run find the server that was started for it."""
KEY_VARIABLE = "FEDSE_ENGINE_KEY"
"""Holds the server's API key, if it asks for one."""
# Status codes of a server that is starting or died in the middle of a request.
PASSING = {500, 502, 503, 504}
QUOTED = 300
"""Characters of a server's answer that an error quotes."""


class Sampling(NamedTuple):
    """How the next tokens are drawn."""

    temperature: float
    new_tokens: int
    end_id: int
    """The token that ends an action."""
    seed: int | None
    """None = the server chooses."""
    to_the_end: bool = False
    """Always draw new_tokens tokens: equal work for a benchmark."""
    shape: Shape | None = None
    """What the tokens must spell."""
    log_chances: bool = False
    """Whether those of the tokens are asked for."""


class Sampled(NamedTuple):
    """The tokens of one action, and which weights drew them."""

    ids: tuple[int, ...]
    weights: tuple[str, ...] = ()
    """Every version of the weights that was used; empty where the model's name identifies them."""
    log_chances: tuple[float, ...] = ()
    """Of each token, where they were asked for; the server's default is temperature 1."""


class EngineClient:
    """One vLLM server; may be used by many threads at once."""

    def __init__(self, settings: EngineSection) -> None:
        self.url = server_url(settings)
        self._patience = settings.patience
        socket = self.url.removeprefix(UNIX) if self.url.startswith(UNIX) else None
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx.Client(
            base_url="http://engine" if socket else self.url,
            transport=httpx.HTTPTransport(uds=socket, limits=limits, trust_env=False),
            headers=_authorization(),
            timeout=httpx.Timeout(settings.patience, connect=CONNECT_SECONDS),
            trust_env=False,
        )

    def close(self) -> None:
        self._http.close()

    def answers(self) -> bool:
        """Whether the server is ready; asked once."""
        try:
            return self._http.get("/health", timeout=CONNECT_SECONDS).is_success
        except httpx.TransportError:
            return False

    def models(self) -> dict[str, str]:
        """The names the server answers to, and the folder each was loaded from."""
        listed = self._send("GET", "/v1/models").json()["data"]
        return {str(model["id"]): str(model.get("root", "")) for model in listed}

    def complete(self, model: str, prompt: Sequence[int], how: Sampling) -> Sampled | None:
        """Tokens drawn by `model`, None if the server has no model of that name.

        The server confirms the prompt, token by token.
        """
        body = {
            "model": model,
            "prompt": list(prompt),
            "return_token_ids": True,
            **_sampling(how),
        }
        answer = self._request("POST", "/v1/completions", body)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        choice = self._accepted("/v1/completions", answer).json()["choices"][0]
        self._require_same(choice.get("prompt_token_ids"), prompt)
        ids = _token_ids(choice, self.url)
        told = (choice.get("logprobs") or {}).get("token_logprobs")
        return Sampled(ids, log_chances=self._log_chances(told, ids, how))

    def prompt_logprobs(self, model: str, prompt: Sequence[int]) -> list[float]:
        """The log-probability of each token of `prompt` but the first, given those before it."""
        body = {"model": model, "prompt": list(prompt), "max_tokens": 1, "prompt_logprobs": 0}
        choice = self._send("POST", "/v1/completions", body).json()["choices"][0]
        given = zip(prompt[1:], choice["prompt_logprobs"][1:], strict=True)
        return [float(entry[str(token)]["logprob"]) for token, entry in given]

    def generate(self, prompt: Sequence[int], how: Sampling) -> Sampled:
        """Tokens drawn by whatever weights the server holds now, and their version."""
        body = {
            "token_ids": list(prompt),
            "return_token_ids": True,
            "sampling_params": {**_sampling(how), "detokenize": False},
        }
        answer = self._send("POST", "/inference/v1/generate", body).json()
        self._require_same(answer.get("prompt_token_ids"), prompt)
        choice = answer["choices"][0]
        versions = tuple(span["version"] for span in choice.get("weight_versions") or ())
        ids = _token_ids(choice, self.url)
        told = [one["logprob"] for one in (choice.get("logprobs") or {}).get("content") or ()]
        return Sampled(ids, versions, self._log_chances(told, ids, how))

    def load_lora(self, name: str, folder: str) -> None:
        """The adapter in `folder` answers to `name`; a name that is taken is refused."""
        self._send("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": folder})

    def unload_lora(self, name: str) -> None:
        """No adapter answers to `name`, even if none did before."""
        path = "/v1/unload_lora_adapter"
        answer = self._request("POST", path, {"lora_name": name})
        if answer.status_code not in (httpx.codes.BAD_REQUEST, httpx.codes.NOT_FOUND):
            self._accepted(path, answer)

    def weights_version(self) -> str:
        """The name that was given to the weights the server holds."""
        return str(self._send("GET", "/weight_info").json()["weight_version"])

    def replace_weights(self, folder: str, version: str) -> None:
        """The server uses the weights in `folder` and calls them `version`.

        Requests in progress were finished with the previous weights, and the prefix cache is
        empty.
        """
        self._send("POST", "/pause?mode=wait")
        try:
            reload = {"method": "reload_weights", "kwargs": {"weights_path": folder}}
            # Between the two names none is valid, so that no reply can claim either.
            self._send("POST", "/update_weight_version", {"new_version": "changing"})
            self._send("POST", "/collective_rpc", reload)
            self._send("POST", "/reset_prefix_cache")
            self._send("POST", "/update_weight_version", {"new_version": version})
        finally:
            self._send("POST", "/resume")

    def sleep(self) -> None:
        """The server has released its GPU memory."""
        self._send("POST", "/sleep?level=1")

    def wake(self) -> None:
        self._send("POST", "/wake_up")

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        return self._accepted(path, self._request(method, path, body))

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> httpx.Response:
        """The server's first answer that waiting would not change."""
        trying = Retrying(
            retry=retry_if_exception(_passes),
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(FIRST_PAUSE, LONGEST_PAUSE),
            reraise=True,
        )

        def ask() -> httpx.Response:
            answer = self._http.request(method, path, json=body)
            if answer.status_code in PASSING:
                raise httpx.HTTPStatusError(
                    answer.text[:QUOTED], request=answer.request, response=answer
                )
            return answer

        try:
            return trying(ask)
        except httpx.HTTPError as error:
            raise RunError(
                f"the engine {self.url} did not answer {path} within {self._patience:g} s: "
                f"{type(error).__name__}: {error}",
                hint=f"fedse engine check EXPERIMENT --url {self.url}",
            ) from error

    def _require_same(self, given: list[int] | None, prompt: Sequence[int]) -> None:
        """The server has read the prompt as it was sent, token by token."""
        if given != list(prompt):
            raise RunError(
                f"the engine {self.url} did not read the prompt as it was sent: expected "
                f"{len(prompt)} token ids back, got {len(given or ())}",
                hint=f"fedse engine check EXPERIMENT --url {self.url}",
            )

    def _log_chances(
        self, told: Sequence[float] | None, ids: Sequence[int], how: Sampling
    ) -> tuple[float, ...]:
        """What was told, one number per token, if it was asked for."""
        if not how.log_chances:
            return ()
        if told is None or len(told) != len(ids):
            raise RunError(
                f"the engine {self.url} returned {len(told or ())} log-probabilities for "
                f"{len(ids)} tokens",
                hint=f"fedse engine check EXPERIMENT --url {self.url}",
            )
        return tuple(round(float(one), DECIMALS) for one in told)

    def _accepted(self, path: str, answer: httpx.Response) -> httpx.Response:
        if answer.is_success:
            return answer
        raise RunError(
            f"the engine {self.url} refused {path} with {answer.status_code}: "
            f"{answer.text[:QUOTED]}",
            hint=f"fedse engine check EXPERIMENT --url {self.url}",
        )


def server_url(settings: EngineSection) -> str:
    """The server's address: the setting, or that of the server started for this run."""
    url = settings.url or os.environ.get(URL_VARIABLE, "")
    if not url.startswith(("http://", "https://", f"{UNIX}/")):
        raise ConfigError(
            f"engine.url must begin with http://, https:// or {UNIX}/, got {url!r}",
            hint="fedse config explain engine.url",
        )
    return url.rstrip("/")


def _authorization() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE)
    return {"Authorization": f"Bearer {key}"} if key else {}


def _sampling(how: Sampling) -> dict[str, Any]:
    """Every parameter is sent, or the server would use the defaults in the model's folder."""
    return {
        "temperature": how.temperature,
        "max_tokens": how.new_tokens,
        "stop_token_ids": [how.end_id],
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        **({} if how.seed is None else {"seed": how.seed}),
        **({"logprobs": 0} if how.log_chances else {}),
        **({} if how.shape is None else {"structured_outputs": structured_outputs(how.shape)}),
        **({"ignore_eos": True, "min_tokens": how.new_tokens} if how.to_the_end else {}),
    }


def _passes(error: BaseException) -> bool:
    return isinstance(error, httpx.TransportError | httpx.HTTPStatusError)


def _token_ids(choice: Mapping[str, Any], url: str) -> tuple[int, ...]:
    ids = choice.get("token_ids")
    if not isinstance(ids, list) or not ids or not all(type(i) is int and i >= 0 for i in ids):
        raise RunError(
            f"the engine {url} returned no token ids, got {ids!r:.100}",
            hint=f"fedse engine check EXPERIMENT --url {url}",
        )
    return tuple(ids)
