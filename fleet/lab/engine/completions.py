"""/v1/completions and /v1/chat/completions: checking a request, its answer, plain or streamed.

The streamed pieces join to the unstreamed text byte for byte, because both come from one list.
"""

import json

from . import answers, tokens
from .generation import Aborted, Generation, Sequence
from .http import Request
from .metrics import Metrics
from .replies import Choice, Job, Reply
from .serving_state import ServingState

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
AFTER_SHUTDOWN = "cannot schedule new futures after shutdown"
TYPES = {400: "BadRequestError", 401: "Unauthorized", 404: "NotFoundError"}
# Checked before anything is streamed; what else is odd fails before the first byte.
KINDS = {
    "stream_options": dict, "chat_template_kwargs": dict, "n": int, "min_tokens": int,
    "stop": (str, list),
}  # fmt: skip


class ApiError(Exception):
    """An answer other than 200 in vLLM's error body."""

    def __init__(
        self, status: int, message: str, kind: str = "", param: str | None = None,
        plain: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind or TYPES.get(status, "InternalServerError")
        self.param = param
        self.plain = plain

    def body(self) -> dict:
        if self.plain:
            return {"error": self.message}
        return {
            "error": {
                "message": self.message, "type": self.kind, "param": self.param,
                "code": self.status,
            }
        }  # fmt: skip


class Completions:
    """The two generating routes."""

    def __init__(self, state: ServingState, generation: Generation, metrics: Metrics) -> None:
        self.state = state
        self.engine = state.engine
        self.plan = state.engine.plan
        self.generation = generation
        self.metrics = metrics

    # -- checking ------------------------------------------------------------------------------

    def read_body(self, request: Request) -> dict:
        try:
            body = json.loads(request.body)
        except ValueError as error:
            raise ApiError(400, f"[{{'type': 'json_invalid', 'msg': '{error}'}}]") from error
        if not isinstance(body, dict):
            raise ApiError(400, "[{'type': 'model_attributes_type', 'loc': ('body',)}]")
        for name, kinds in KINDS.items():
            if body.get(name) is not None and not isinstance(body[name], kinds):
                raise ApiError(400, f"[{{'type': 'wrong_type', 'loc': ('body', '{name}')}}]")
        return body

    def check_model(self, body: dict) -> None:
        name = body.get("model")
        if name is not None and name not in self.plan.served_names:
            raise ApiError(404, f"The model `{name}` does not exist.", param="model")

    def check_alive(self) -> None:
        if self.state.is_dead:
            raise ApiError(500, DEAD)
        if self.state.is_draining:
            log = self.engine.log
            log.err("\x1b[31mERROR\x1b[0m:    Exception in ASGI application")
            log.err(f"Traceback (most recent call last):\nRuntimeError: {AFTER_SHUTDOWN}")
            raise ApiError(500, AFTER_SHUTDOWN)

    def check_length(self, body: dict, prompt: list[str], fallback: int | None) -> int:
        """Return the output tokens allowed; refuse what does not fit into the context."""
        limit = self.plan.max_len(self.engine.shape)
        wanted = body.get("max_completion_tokens") or body.get("max_tokens")
        if wanted is not None and (not isinstance(wanted, int) or wanted < 1):
            raise ApiError(400, f"max_tokens must be at least 1, got {wanted}.", param="max_tokens")
        asked = wanted if wanted is not None else fallback
        used = len(prompt)
        if used >= limit or used + (asked or 0) > limit:
            output = asked or 0
            raise ApiError(
                400,
                f"This model's maximum context length is {limit} tokens. However, you requested"
                f" {output} output tokens and your prompt contains {used} input tokens, for a total"
                f" of {used + output} tokens. Please reduce the length of the input prompt or the"
                " number of requested output tokens.",
                param="input_tokens",
            )
        return asked or limit - used

    def read_chat(self, request: Request) -> Job:
        body = self.read_body(request)
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ApiError(400, "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field"
                                " required'}]", param="messages")  # fmt: skip
        if not all(isinstance(row, dict) for row in messages):
            raise ApiError(400, "[{'type': 'dict_type', 'loc': ('body', 'messages')}]")
        self.check_model(body)
        prompt = tokens.chat_pieces(messages)
        limit = self.check_length(body, prompt, None)
        count = max(1, int(body.get("n") or 1))
        return Job(body, True, [prompt], [messages], limit, count)

    def read_text(self, request: Request) -> Job:
        body = self.read_body(request)
        given = body.get("prompt")
        prompts = [given] if isinstance(given, str) else given
        if not isinstance(prompts, list) or not all(isinstance(text, str) for text in prompts):
            raise ApiError(400, "[{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field"
                                " required'}]", param="prompt")  # fmt: skip
        self.check_model(body)
        pieces = [tokens.split(text) for text in prompts]
        limit = max(self.check_length(body, one, 16) for one in pieces)
        messages = [[{"role": "user", "content": text}] for text in prompts]
        return Job(body, False, pieces, messages, limit, max(1, int(body.get("n") or 1)))

    # -- answering -----------------------------------------------------------------------------

    async def chat(self, request: Request) -> None:
        self.check_alive()
        await self._run(request, self.read_chat(request))

    async def text(self, request: Request) -> None:
        self.check_alive()
        await self._run(request, self.read_text(request))

    async def _run(self, request: Request, job: Job) -> None:
        answers_ = [self._write(job, index) for index in range(len(job.prompts))]
        choices = [answer for answer in answers_ for _ in range(job.count)]
        sequences = [choice.sequence() for choice in choices]
        for sequence in sequences:
            self.generation.submit(sequence)
        reply = Reply(self.plan.served_names[0], job, choices, sequences)
        try:
            if job.streams:
                await self._stream(request, reply)
            else:
                await self._whole(request, reply)
        except Aborted as error:
            self._cut(request, job, str(error))
        finally:
            # A handler that was cancelled (the client went away) frees its KV at once.
            for sequence in sequences:
                self.generation.abort(sequence)

    def _write(self, job: Job, index: int) -> Choice:
        """Decide the whole answer of one prompt before its first token is due."""
        files = self.engine.files
        messages = job.messages[index]
        text = answers.answer(files.slug, files.revision, messages)
        if self.engine.faults.find("answer.wrong"):
            text = f"{text} Or not."
        thought = ""
        if job.is_chat and self.plan.reasoning_parser and _thinks(job.body):
            thought = answers.reasoning(files.slug, files.revision, messages)
        content, reason = cut_at_stop(text, job.body.get("stop")), "stop"
        pieces = tokens.split(content)
        if job.body.get("ignore_eos") or job.body.get("min_tokens"):
            pieces = stretch(pieces, _wanted_length(job), files.slug)
        thinking = tokens.split(thought)
        if len(thinking) + len(pieces) > job.max_tokens:
            reason = "length"
            thinking = thinking[: job.max_tokens]
            pieces = pieces[: job.max_tokens - len(thinking)]
        return Choice(job.prompts[index], thinking, pieces, reason, job.max_tokens)

    async def _whole(self, request: Request, reply: Reply) -> None:
        for sequence in reply.sequences:
            async for _ in news(sequence):
                pass
        request.answer_json(200, reply.whole())

    async def _stream(self, request: Request, reply: Reply) -> None:
        request.begin_stream()
        if reply.job.is_chat:
            for index in range(len(reply.choices)):
                request.chunk(reply.event(index, {"role": "assistant", "content": ""}))
        for index, (choice, sequence) in enumerate(
            zip(reply.choices, reply.sequences, strict=True)
        ):
            done = 0
            async for text in news(sequence):
                for field, part in choice.parts(done, text):
                    request.chunk(reply.piece(index, field, part))
                done += len(text)
            request.chunk(reply.last(index))
        if reply.job.wants_usage:
            request.chunk(reply.usage_event())
        request.chunk(b"data: [DONE]\n\n")
        request.end_stream()

    def _cut(self, request: Request, job: Job, message: str) -> None:
        """End a request that the engine cut: an error chunk in a stream, else an error body."""
        error = ApiError(500, message)
        if not request.status:
            request.answer_json(500, error.body())
            return
        line = json.dumps(error.body())
        request.chunk(f"data: {line}\n\n".encode() + b"data: [DONE]\n\n")
        request.end_stream()


async def news(sequence: Sequence):
    """Yield the texts of a sequence as they come; raise what cut it."""
    while True:
        item = await sequence.news.get()
        if item is None:
            return
        if isinstance(item, Exception):
            raise item
        yield item


def _thinks(body: dict) -> bool:
    wishes = body.get("chat_template_kwargs") or {}
    asked = wishes.get("enable_thinking", wishes.get("thinking"))
    return bool(asked) if asked is not None else body.get("reasoning_effort") not in (None, "none")


def _wanted_length(job: Job) -> int:
    if job.body.get("ignore_eos"):
        return job.max_tokens
    return min(job.max_tokens, int(job.body.get("min_tokens") or 0))


def stretch(pieces: list[str], length: int, slug: str) -> list[str]:
    """Lengthen an answer to `length` tokens with filler of the same source."""
    turn = 0
    while len(pieces) < length:
        turn += 1
        more = answers.answer(slug, str(turn), [{"role": "user", "content": "go on"}])
        pieces = pieces + tokens.split(" " + more)
    return pieces[: max(length, 1)] if length else pieces


def cut_at_stop(text: str, stop: object) -> str:
    """Cut a text before its first stop string."""
    stops = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    places = [text.find(word) for word in stops if isinstance(word, str) and word]
    found = [place for place in places if place >= 0]
    return text[: min(found)] if found else text
