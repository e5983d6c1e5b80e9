"""Settings of the test run: its own addresses and folders first, then the one settings file."""

from tests import services

services.prepare_environment()

from console.settings import *  # noqa: E402, F403

# Argon2 is slow on purpose; tests sign in often and never guess passwords.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
