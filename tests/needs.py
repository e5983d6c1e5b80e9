"""What a machine must have for some tests; CI installs all of it and fails when it cannot (INSTALL_STRICT)."""

import shutil

import pytest

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin")
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="no haproxy; run `make install` as root")
