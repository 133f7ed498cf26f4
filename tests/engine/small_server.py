"""A small real server of the part of vLLM's protocol that fedse uses; it holds a tiny model.

    python -m tests.engine.small_server --model FOLDER --port N

It samples with the model itself, one request at a time, and takes adapters both as LoRA and as
whole weights. Everything vLLM refuses and fedse relies on is refused here with the same status.
"""

import json
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import torch
import uvicorn
from safetensors.torch import load_file
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from transformers import AutoModelForCausalLM

BARE = "base"


class SmallEngine:
    """A causal language model, the adapters it was given, and the weights it computes with."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.loras = folder, dict[str, str]()
        self.version, self.paused, self.asleep = "default", False, False
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._pristine = {k: v.clone() for k, v in self._model.state_dict().items()}
        self._bare = self._pristine
        """What it computes with under no adapter's name: as it was made, or as last reloaded."""
        self._now = BARE
        self._lock = threading.Lock()

    @torch.inference_mode()
    def sample(
        self, name: str, prompt: list[int], how: dict[str, Any]
    ) -> tuple[list[int], list[float]]:
        """The tokens after `prompt`, the ending one included, and their log-probabilities."""
        with self._lock:
            self._use(name)
            random = torch.Generator().manual_seed(how.get("seed", 0))
            ids, stop, told = list(prompt), set(how.get("stop_token_ids", ())), list[float]()
            for _ in range(how["max_tokens"]):
                logits = self._model(torch.tensor([ids])).logits[0, -1]
                if how["temperature"] == 0:
                    ids.append(int(logits.argmax()))
                else:
                    chances = torch.softmax(logits.double() / how["temperature"], dim=-1)
                    ids.append(int(torch.multinomial(chances, 1, generator=random)))
                told.append(float(torch.log_softmax(logits, dim=-1)[ids[-1]]))
                if ids[-1] in stop and not how.get("ignore_eos"):
                    break
            return ids[len(prompt) :], told

    @torch.inference_mode()
    def score(self, name: str, prompt: list[int]) -> list[dict[str, Any] | None]:
        with self._lock:
            self._use(name)
            scores = torch.log_softmax(self._model(torch.tensor([prompt])).logits[0], dim=-1)
        given = enumerate(prompt[1:])
        return [None, *({str(t): {"logprob": float(scores[i, t])}} for i, t in given)]

    def reload(self, folder: str) -> None:
        with self._lock:
            for file in Path(folder).glob("*.safetensors"):
                self._bare = {**self._bare, **load_file(file)}
            self._model.load_state_dict(self._bare)
            self._now = BARE

    def _use(self, name: str) -> None:
        if name == self._now:
            return
        weights = dict(self._bare if name == BARE else self._pristine)
        if name != BARE:
            folder = Path(self.loras[name])
            card = json.loads((folder / "adapter_config.json").read_text())
            factors = load_file(folder / "adapter_model.safetensors")
            for key in [k for k in factors if ".lora_A." in k]:
                target = key.removeprefix("base_model.model.").replace(".lora_A.", ".")
                update = factors[key.replace("lora_A", "lora_B")] @ factors[key]
                weights[target] = weights[target] + card["lora_alpha"] / card["r"] * update
        self._model.load_state_dict(weights)
        self._now = name


def app_of(engine: SmallEngine, *, key: str | None) -> Starlette:
    """vLLM's routes over `engine`."""

    async def complete(request: Request) -> Response:
        body = await request.json()
        name, prompt = body["model"], body["prompt"]
        if name != BARE and name not in engine.loras:
            return refuse(404, f"The model `{name}` does not exist.")
        if "prompt_logprobs" in body:
            scores = await run_in_threadpool(engine.score, name, prompt)
            return JSONResponse({"choices": [{"index": 0, "prompt_logprobs": scores}]})
        ids, told = await run_in_threadpool(engine.sample, name, prompt, body)
        choice = {"index": 0, "token_ids": ids, "prompt_token_ids": prompt}
        if "logprobs" in body:
            choice["logprobs"] = {"token_logprobs": told}
        return JSONResponse({"choices": [choice]})

    async def generate(request: Request) -> Response:
        body = await request.json()
        version = engine.version
        how = body["sampling_params"]
        ids, told = await run_in_threadpool(engine.sample, BARE, body["token_ids"], how)
        spans = [{"version": version, "start": 0, "end": len(ids)}]
        choice: dict[str, Any] = {"token_ids": ids, "weight_versions": spans}
        if "logprobs" in how:
            choice["logprobs"] = {"content": [{"logprob": one} for one in told]}
        return JSONResponse({"prompt_token_ids": body["token_ids"], "choices": [choice]})

    async def models(request: Request) -> Response:
        names = {BARE: str(engine.folder), **engine.loras}
        return JSONResponse({"data": [{"id": name, "root": r} for name, r in names.items()]})

    async def load(request: Request) -> Response:
        body = await request.json()
        name, folder = body["lora_name"], body["lora_path"]
        if name in engine.loras:
            return refuse(400, f"The lora adapter '{name}' has already been loaded.")
        if not (Path(folder) / "adapter_config.json").is_file():
            return refuse(404, f"No adapter found for {folder}")
        engine.loras[name] = folder
        return Response(f"Success: LoRA adapter '{name}' added successfully.")

    async def unload(request: Request) -> Response:
        name = (await request.json())["lora_name"]
        if engine.loras.pop(name, None) is None:
            return refuse(404, f"The lora adapter '{name}' cannot be found.")
        return Response("Success")

    async def rpc(request: Request) -> Response:
        body = await request.json()
        if body["method"] != "reload_weights" or not engine.paused:
            return refuse(400, "reload_weights while paused is all that can be called")
        await run_in_threadpool(engine.reload, body["kwargs"]["weights_path"])
        return JSONResponse({"results": [None]})

    async def set_version(request: Request) -> Response:
        engine.version = (await request.json())["new_version"]
        return JSONResponse({"success": True})

    async def state(request: Request) -> Response:
        path = request.url.path
        if path == "/weight_info":
            return JSONResponse({"weight_version": engine.version})
        engine.paused = {"/pause": True, "/resume": False}.get(path, engine.paused)
        engine.asleep = {"/sleep": True, "/wake_up": False}.get(path, engine.asleep)
        return JSONResponse({"is_sleeping": engine.asleep})

    def refuse(status: int, message: str) -> Response:
        return JSONResponse({"error": {"message": message, "code": status}}, status_code=status)

    class Keyed:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            given = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
            if key and scope.get("path", "").startswith("/v1") and given != f"Bearer {key}":
                await refuse(401, "Unauthorized")(scope, receive, send)
            else:
                await self.app(scope, receive, send)

    posts = {
        "/v1/completions": complete,
        "/inference/v1/generate": generate,
        "/v1/load_lora_adapter": load,
        "/v1/unload_lora_adapter": unload,
        "/collective_rpc": rpc,
        "/update_weight_version": set_version,
        **dict.fromkeys(("/pause", "/resume", "/sleep", "/wake_up", "/reset_prefix_cache"), state),
    }
    gets = {"/v1/models": models, "/health": state, "/weight_info": state, "/is_sleeping": state}
    routes = [Route(path, act, methods=["POST"]) for path, act in posts.items()]
    app = Starlette(routes=[*routes, *(Route(path, act) for path, act in gets.items())])
    app.add_middleware(Keyed)
    return app


def main(argv: list[str] | None = None) -> None:
    parser = ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--uds")
    parser.add_argument("--api-key")
    given, _ = parser.parse_known_args(argv)
    torch.set_num_threads(1)
    app = app_of(SmallEngine(given.model), key=given.api_key)
    uvicorn.run(app, host=given.host, port=given.port, uds=given.uds, log_level="warning")


if __name__ == "__main__":
    sys.exit(main())
