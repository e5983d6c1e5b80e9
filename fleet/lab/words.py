"""The lab's lines for people, and `k=v` words read from them."""

from collections.abc import Iterable, Iterator


def read_pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (key, value) of `k=v` words; empty words are skipped, others raise ValueError."""
    for word in words:
        if not word:
            continue
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ValueError(f"expected key=value, found {word!r}")
        yield key, value


def node_line(row: dict) -> str:
    """Return one node's line of `lab status`."""
    unit = f"{row['unit']}/{row['position']}" if row["unit"] else "spare"
    engines = " ".join(f"{e['unit'] or e['name']}:{e['phase']}" for e in row["engines"]) or "-"
    faults = " ".join(row["faults"]) or "-"
    return (
        f"{row['name']} {row['address']:<12} {unit:<12} ssh {row['reach']:<8} "
        f"engine {engines:<20} faults {faults} v{row['version']}"
    )


def gateway_words(row: dict) -> str:
    """Return the gateway's words in the last line of `lab status`."""
    faults = f" faults {' '.join(row['faults'])}" if row["faults"] else ""
    return f"{row['name']} {row['address']} ssh {row['reach']} proxy {row['proxy']}{faults}"


def fault_line(row: dict) -> str:
    """Return one fault's line of the list."""
    arguments = " ".join(f"{key}={value}" for key, value in row["args"].items())
    return f"{row['name']:<14} {arguments:<24} {row['about']}"
