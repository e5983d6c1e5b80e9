from pathlib import Path

import pytest
from django.test import Client
from django.utils.translation import trans_real

from console import catalogues
from tests.factories import make_person

ROOT = Path(__file__).resolve().parents[2]
WORD = "a long enough word"


@pytest.fixture(scope="session", autouse=True)
def _catalogues() -> None:
    """Compile the catalogues, as `make up` does."""
    catalogues.compile_all()
    trans_real._translations.clear()


@pytest.fixture
def signed_in(db):
    """Return a function: a browser in which a person of the house is signed in."""

    def sign_in(name: str = "ana", language: str = "en") -> Client:
        client = Client(headers={"host": "127.0.0.1"})
        client.force_login(make_person(name))
        client.cookies["django_language"] = language
        return client

    return sign_in


@pytest.fixture
def old_sign_in(signed_in):
    """Return a function: a browser in which a person signed in so many seconds ago, with WORD as their password."""

    def sign_in(name: str, age_s: float) -> Client:
        person = make_person(name)
        person.set_password(WORD)
        person.save()
        client = signed_in(name)
        client.get("/jump/")  # the first request of a session writes when it began
        session = client.session
        session["started_at"] -= age_s
        session.save()
        return client

    return sign_in


@pytest.fixture
def ana(signed_in) -> Client:
    client = signed_in("ana")
    client.get("/jump/")  # the first request of a session writes it once
    return client
