"""The flags the engine itself reads: used when no full list of the version lies beside it."""


def _rows(kind: str, *names: str) -> dict[str, dict]:
    rows = {}
    for entry in names:
        name, _, short = entry.partition("|")
        dest = name[2:].replace("-", "_")
        aliases = [name, *([short] if short else [])]
        if kind == "BooleanOptionalAction":
            aliases.append("--no-" + name[2:])
        rows[name] = {"all": aliases, "type": kind, "choices": None, "dest": dest}
    return rows


BUILT_IN: dict[str, dict] = {
    **_rows(
        "int", "--port", "--tensor-parallel-size|-tp", "--pipeline-parallel-size|-pp",
        "--data-parallel-size|-dp", "--nnodes|-n", "--node-rank|-r", "--master-port",
        "--api-server-count|-asc", "--block-size", "--max-num-seqs", "--shutdown-timeout",
        "--distributed-timeout-seconds", "--data-parallel-rpc-port|-dpp",
        "--data-parallel-start-rank|-dpr", "--data-parallel-size-local|-dpl",
    ),
    **_rows("float", "--gpu-memory-utilization"),
    **_rows("human_readable_int", "--max-num-batched-tokens"),
    **_rows("human_readable_int_or_auto", "--max-model-len"),
    **_rows(
        "str", "--host", "--served-model-name", "--master-addr", "--api-key", "--kv-cache-dtype",
        "--distributed-executor-backend", "--dtype", "--quantization|-q", "--tokenizer-mode",
        "--tool-call-parser", "--reasoning-parser", "--chat-template", "--load-format",
        "--chat-template-content-format", "--all2all-backend", "--data-parallel-address|-dpa",
        "--model", "--revision", "--tokenizer", "--generation-config", "--seed",
    ),
    **_rows("_StoreTrueAction", "--headless"),
    **_rows(
        "BooleanOptionalAction", "--enable-expert-parallel", "--enable-prefix-caching",
        "--enable-chunked-prefill", "--enforce-eager", "--trust-remote-code", "--enable-eplb",
        "--enable-auto-tool-choice", "--numa-bind", "--async-scheduling", "--enable-log-requests",
    ),
    **_rows(
        "parse_dataclass", "--speculative-config", "--attention-config|-ac", "--eplb-config",
        "--compilation-config|-cc", "--default-chat-template-kwargs",
    ),
}  # fmt: skip
