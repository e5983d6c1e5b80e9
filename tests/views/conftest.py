from pathlib import Path

import pytest
from django.test import Client
from django.utils.translation import trans_real

from console import catalogues
from tests.factories import make_person

ROOT = Path(__file__).resolve().parents[2]


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
def ana(signed_in) -> Client:
    client = signed_in("ana")
    client.get("/jump/")  # the first request of a session writes it once
    return client
