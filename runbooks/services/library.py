"""The shipped books and their catalogue, read once a process; a run goes on with the text that it was made from."""

import hashlib
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from runbooks.rules.book import Book, Catalogue, Fault, read_book, read_catalogue

BOOKS = Path(__file__).resolve().parents[1] / "books"
CATALOGUE = "catalogue.toml"


class BrokenBook(Exception):
    """A shipped or frozen book cannot be read; the message names the file, the line and why."""


@dataclass(frozen=True)
class Shelved:
    """A book with the text it was read from."""

    book: Book
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def catalogue() -> Catalogue:
    """Return what the actions and readings of all books mean. Raises ValueError."""
    return read_catalogue((BOOKS / CATALOGUE).read_text())


@cache
def books() -> dict[str, Shelved]:
    """Return the shipped books by id. Raises BrokenBook."""
    found = {}
    for path in book_files(BOOKS):
        text = path.read_text()
        found[path.stem] = Shelved(_read(text, path.name), text)
    return found


def book_files(directory: Path) -> list[Path]:
    """Return the files of a directory that should be books, by name."""
    return sorted(path for path in directory.glob("*.toml") if path.name != CATALOGUE)


@dataclass(frozen=True)
class Checked:
    """What a check of files found: books that can be read, their steps, and every fault of the others."""

    books: int
    steps: int
    faults: list[Fault]


def books_check(path: Path) -> Checked:
    """Check one file, or every book of a directory. Raises OSError."""
    files = book_files(path) if path.is_dir() else [path]
    found = [_checked(file) for file in files]
    read = [book for book, _faults in found if book]
    return Checked(
        books=len(read),
        steps=sum(len(book.steps) for book in read),
        faults=[fault for _book, faults in found for fault in faults],
    )


def _checked(path: Path) -> tuple[Book | None, list[Fault]]:
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        return None, [Fault(str(path), 1, "", f"not UTF-8: {error.reason} at byte {error.start}")]
    return read_book(text, catalogue(), str(path))


def book_for(signature: str) -> Shelved | None:
    """Return the first book that answers a detector's signature."""
    return next((one for one in books().values() if signature in one.book.signatures), None)


@lru_cache(maxsize=64)
def book_frozen(book_id: str, text: str) -> Book:
    """Read the text that a run froze. Raises BrokenBook when today's catalogue lacks what it names."""
    return _read(text, f"{book_id}.toml")


def _read(text: str, name: str) -> Book:
    book, faults = read_book(text, catalogue(), name)
    if book is None:
        raise BrokenBook("; ".join(str(fault) for fault in faults))
    return book
