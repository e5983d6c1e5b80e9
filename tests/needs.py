"""What some tests need: programs of the machine, and more nodes of the lab.

CI installs the programs and fails when it cannot (INSTALL_STRICT).
"""

import shutil

import pytest

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin")
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="no haproxy; run `make install` as root")
needs_rsync = pytest.mark.skipif(
    not shutil.which("rsync"), reason="no rsync; run `make install` as root"
)
# A pool of two units and two spares; without this mark a flow gets two nodes.
four_nodes = pytest.mark.parametrize("lab", [4], indirect=True, ids=["four-nodes"])
