"""vLLM's HTTP surface: which path answers what, and with which errors (LAB.md 4.7).

Not in charge of bytes (http), of answers (completions) or of when it is open (serving).
"""

import time

from . import tokens
from .completions import ApiError, Completions
from .generation import Generation
from .http import Request
from .metrics import Metrics
from .serving_state import ServingState
from .texts import access_line

VOCABULARY = 154880


class Api:
    """The routes of one API server."""

    def __init__(self, state: ServingState, generation: Generation, metrics: Metrics) -> None:
        self.state = state
        self.engine = state.engine
        self.generation = generation
        self.metrics = metrics
        self.created = int(time.time())
        self.completions = Completions(state, generation, metrics)
        self.routes = {
            ("GET", "/health"): self.health,
            ("GET", "/ping"): self.health,
            ("POST", "/ping"): self.health,
            ("GET", "/version"): self.version,
            ("GET", "/v1/models"): self.models,
            ("GET", "/load"): self.load,
            ("GET", "/metrics"): self.page,
            ("POST", "/tokenize"): self.tokenize,
            ("POST", "/v1/completions"): self.completions.text,
            ("POST", "/v1/chat/completions"): self.completions.chat,
        }

    def on_answer(self, request: Request) -> None:
        """Log and count an answer at its first byte, as uvicorn does."""
        line = f"{request.method} {request.target} {request.version}"
        access_line(self.engine.log, request.client, line, request.status)
        self.metrics.answered(request.path, request.method, request.status)

    async def handle(self, request: Request) -> None:
        """Answer one request; errors become vLLM's error bodies."""
        route = self.routes.get((request.method, request.path))
        if route is None:
            known = any(path == request.path for _, path in self.routes)
            detail = "Method Not Allowed" if known else "Not Found"
            request.answer_json(405 if known else 404, {"detail": detail})
            return
        try:
            self._check_key(request)
            await route(request)
        except ApiError as error:
            self._refuse(request, error)
        except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
            # A body of the right shape at the top may hold anything below.
            self._refuse(request, ApiError(400, f"{type(error).__name__}: {error}"))

    def _refuse(self, request: Request, error: ApiError) -> None:
        if request.status:
            request.connection.close()
            return
        if error.status == 404:
            self.engine.fronts[0].error(
                "serving.py:274",
                f"Error with model error=ErrorInfo(message={error.message!r},"
                f" type={error.kind!r}, param={error.param!r}, code=404)",
            )
        request.answer_json(error.status, error.body())

    def _check_key(self, request: Request) -> None:
        """Only /v1 is behind the key, as in vLLM."""
        key = self.engine.plan.api_key
        if key and request.path.startswith("/v1"):
            given = request.headers.get("authorization", "")
            if given != f"Bearer {key}":
                raise ApiError(401, "Unauthorized", "Unauthorized", plain=True)

    async def health(self, request: Request) -> None:
        request.answer(503 if self.state.is_dead else 200)

    async def version(self, request: Request) -> None:
        request.answer_json(200, {"version": self.engine.plan.version})

    async def load(self, request: Request) -> None:
        request.answer_json(200, {"server_load": self.generation.unfinished()})

    async def page(self, request: Request) -> None:
        body = self.metrics.render().encode()
        request.answer(200, body, "text/plain; version=1.0.0; charset=utf-8")

    async def models(self, request: Request) -> None:
        plan = self.engine.plan
        rows = [
            {
                "id": name, "object": "model", "created": self.created, "owned_by": "vllm",
                "root": plan.model, "parent": None,
                "max_model_len": plan.max_len(self.engine.shape), "permission": [],
            }
            for name in plan.served_names
        ]  # fmt: skip
        request.answer_json(200, {"object": "list", "data": rows})

    async def tokenize(self, request: Request) -> None:
        body = self.completions.read_body(request)
        if isinstance(body.get("messages"), list):
            pieces = tokens.chat_pieces(body["messages"])
        elif isinstance(body.get("prompt"), str):
            pieces = tokens.split(body["prompt"])
        else:
            raise ApiError(400, "[{'type': 'missing', 'loc': ('body', 'prompt')}]")
        self.completions.check_model(body)
        length = self.engine.plan.max_len(self.engine.shape)
        strings = pieces if body.get("return_token_strs") else None
        request.answer_json(200, {
            "count": len(pieces), "max_model_len": length,
            "tokens": tokens.ids(pieces, VOCABULARY), "token_strs": strings,
        })  # fmt: skip
