"""Texts that several rooms print: tracebacks in vLLM's layout, the shm notice, uvicorn's lines."""

from .log import Log

PACKAGES = "/usr/local/lib/python3.12/dist-packages"
SOURCE = f"{PACKAGES}/vllm"
GREEN_INFO = "\x1b[32mINFO\x1b[0m:     "
STATUS_COLOURS = {2: "\x1b[32m", 3: "\x1b[33m", 4: "\x1b[31m", 5: "\x1b[91m"}
REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found",
    405: "Method Not Allowed", 413: "Content Too Large", 422: "Unprocessable Entity",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


def traceback(*frames: tuple[str, int, str, str], error: str) -> str:
    """Lay out a Python traceback: frames are (file below vllm, line, function, code)."""
    lines = ["Traceback (most recent call last):"]
    for file, line, function, code in frames:
        lines.append(f'  File "{SOURCE}/{file}", line {line}, in {function}')
        lines.append(f"    {code}")
    return "\n".join([*lines, error])


def shm_notice(seconds: float) -> str:
    """The line a waiting reader prints, in a healthy start as well as in a hang."""
    return (
        f"No available shared memory broadcast block found in {max(1, round(seconds))} seconds."
        " This typically happens when some processes are hanging or doing some time-consuming"
        " work (e.g. compilation, weight/kv cache quantization)."
    )


def uvicorn_info(log: Log, text: str) -> None:
    """Log a line as the web server does, with its colour."""
    log.err(GREEN_INFO + text)


def access_line(log: Log, client: str, request: str, status: int) -> None:
    """Write uvicorn's line for one request, colours included."""
    colour = STATUS_COLOURS.get(status // 100, "")
    reason = REASONS.get(status, "")
    log.err(f'{GREEN_INFO}{client} - "\x1b[1m{request}\x1b[0m" {colour}{status} {reason}\x1b[0m')
