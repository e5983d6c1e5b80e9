"""What the rehearsed models answer: deterministic texts that the engine and the seeding share.

Standard library only, and little of it: it is copied beside the engine. Order of the rules: code
word, echo, arithmetic, JSON, filler. Batch, cache and speed never change an answer.
"""

import re
from zlib import crc32

_MASK = (1 << 64) - 1
_CJK = re.compile("[\u3400-\u9fff]")
_SUM = re.compile(r"(-?\d{1,9})\s*([-+*/×x÷])\s*(-?\d{1,9})")
_NEEDLE = re.compile(
    r"(?:the code word is|暗号是|口令是)\s*[:：]?\s*[\"“「]?([\w-]{1,40})", re.IGNORECASE
)
_NEEDLE_ASKED = re.compile(
    r"(?:(?:what|which|tell|name|repeat)\b[^.?!]{0,60}code word|code word[^.!]{0,40}\?"
    r"|(?:暗号|口令)[^。！]{0,12}(?:什么|多少|哪))",
    re.IGNORECASE,
)
_ECHO = re.compile(
    r"(?:^|\n)\s*(?:repeat(?: exactly| after me)?|echo|请?原样重复|请?复述)\s*[:：]\s*(.+)",
    re.IGNORECASE | re.DOTALL,
)
_JSON = re.compile(
    r"\bjson\b[^.]{0,40}\bonly\b|\bonly\b[^.]{0,40}\bjson\b|只.{0,8}json", re.IGNORECASE
)

ENGLISH = (
    "The first thing to check is which of the two sides is waiting.",
    "A short run with the same input gives the same result twice.",
    "Each node keeps its own log, and the clocks must agree before the logs can be compared.",
    "When the queue grows while the batch stays small, memory is the limit.",
    "A change that cannot be undone should be made on one machine first.",
    "The cache is warm after a few requests with the same opening.",
    "It helps to write down what was expected before looking at what was found.",
    "Latency and throughput pull in different directions near saturation.",
    "The slowest rank sets the pace of all the others.",
    "An average hides the one request that took ten times as long.",
    "Two measurements under different load do not answer the same question.",
    "The safest next step is the one that leaves the evidence in place.",
)
CHINESE = (
    "先看两端之中是哪一端在等待。",
    "同样的输入跑两次，结果应当完全一致。",
    "每台机器各有日志，比较之前要先核对时钟。",
    "队列变长而批次不大，说明显存是瓶颈。",
    "不能撤回的改动，应当先在一台机器上做。",
    "几次相同开头的请求之后，缓存就热了。",
    "动手之前写下预期，再去看实际的结果。",
    "接近饱和时，时延和吞吐不能兼得。",
    "最慢的那张卡决定所有卡的速度。",
    "平均值会掩盖那一个慢了十倍的请求。",
    "负载不同的两次测量，回答的不是同一个问题。",
    "最稳妥的下一步，是把现场证据保留下来。",
)
THOUGHTS = (
    "The question is short, so one pass is enough.",
    "I check the numbers once more before answering.",
    "The wording allows only one reading.",
)


def answer(model_slug: str, revision: str, messages: list[dict]) -> str:
    """Return the answer of a model revision to a conversation.

    `messages` are OpenAI chat messages; of a list content only the text parts count.
    """
    texts = [text_of(message) for message in messages]
    question = next(
        (text for text, row in zip(reversed(texts), reversed(messages), strict=True)
         if row.get("role") != "assistant"),
        texts[-1] if texts else "",
    )  # fmt: skip
    for rule in (_needle, _echo, _arithmetic, _json):
        found = rule(question, texts)
        if found is not None:
            return found
    return filler(model_slug, revision, "\x1e".join(texts), chinese=bool(_CJK.search(question)))


def reasoning(model_slug: str, revision: str, messages: list[dict]) -> str:
    """Return the thoughts a model shows before its answer when thinking is on."""
    stream = _Stream(model_slug, revision, "thought", *(text_of(row) for row in messages))
    return THOUGHTS[stream.below(len(THOUGHTS))]


def text_of(message: dict) -> str:
    """Return the plain text of one message; tool calls and images count as nothing."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def arithmetic(text: str) -> str | None:
    """Answer the first `a + b` in a text as `a + b = c`; None when there is none.

    Division is whole, with the remainder named; by zero it is refused in words.
    """
    match = _SUM.search(text)
    if match is None:
        return None
    left, sign, right = int(match[1]), match[2], int(match[3])
    if sign in "+-":
        return f"{left} {sign} {right} = {left + right if sign == '+' else left - right}"
    if sign in "*×x":
        return f"{left} {sign} {right} = {left * right}"
    if right == 0:
        return f"{left} {sign} 0 is undefined"
    whole, rest = divmod(left, right)
    return f"{left} {sign} {right} = {whole}" + (f" remainder {rest}" if rest else "")


def filler(model_slug: str, revision: str, text: str, chinese: bool = False) -> str:
    """Return three to six sentences drawn from a stream keyed by model, revision and text."""
    stream = _Stream(model_slug, revision, text)
    source = CHINESE if chinese else ENGLISH
    picked: list[str] = []
    wanted = 3 + stream.below(4)
    while len(picked) < wanted:
        sentence = source[stream.below(len(source))]
        if sentence not in picked:
            picked.append(sentence)
    return ("" if chinese else " ").join(picked)


def golden_prompts(model_slug: str, revision: str, count: int = 8) -> list[dict]:
    """Return warm-up prompts as data: id, messages, expect (and their class)."""
    rows = []
    for index in range(count):
        kind = ("maths", "zh", "en", "needle", "echo")[index % 5]
        question = _question(kind, _Stream(model_slug, "prompts", index))
        messages = [{"role": "user", "content": question}]
        rows.append({
            "id": f"{kind}-{index // 5 + 1:03d}", "class": kind, "messages": messages,
            "expect": answer(model_slug, revision, messages),
        })  # fmt: skip
    return rows


def _question(kind: str, stream: "_Stream") -> str:
    number = 11 + stream.below(88)
    if kind == "maths":
        return f"What is {number} + {number * 7 % 89 + 3}?"
    if kind == "zh":
        return f"请用几句话说明第 {number} 号机柜的值班要点。"
    if kind == "en":
        return f"Describe in a few sentences how to watch rack {number} overnight."
    if kind == "needle":
        word = f"amber-{number}"
        padding = " ".join(ENGLISH[stream.below(len(ENGLISH))] for _ in range(40))
        return f"{padding} Remember: the code word is {word}. {padding}\nWhat is the code word?"
    return f"Repeat exactly: unit {number} / 单元 {number} / ünïcödé"


def _needle(question: str, texts: list[str]) -> str | None:
    if not _NEEDLE_ASKED.search(question):
        return None
    for text in texts:
        match = _NEEDLE.search(text)
        if match:
            return match[1]
    return None


def _echo(question: str, texts: list[str]) -> str | None:
    match = _ECHO.search(question)
    return match[1].strip() if match else None


def _arithmetic(question: str, texts: list[str]) -> str | None:
    return arithmetic(question)


def _json(question: str, texts: list[str]) -> str | None:
    if not _JSON.search(question):
        return None
    return f'{{"answer": "ok", "characters": {len(question)}}}'


class _Stream:
    """A keyed stream of small numbers (splitmix64 over two CRCs of the keys)."""

    def __init__(self, *keys: object) -> None:
        raw = "\x1f".join(map(str, keys)).encode("utf-8", "replace")
        self.state = crc32(raw) << 32 | crc32(raw, 0x5BD1E995)

    def below(self, limit: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        value = self.state
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
        return (value ^ value >> 31) % limit
