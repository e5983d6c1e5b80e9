"""Fixtures for everybody: servers, children, labs. Whatever a test starts here is ended here."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.test import TransactionTestCase
from django.utils import translation

from tests import services, waiting
from tests.children import Child, end_children, start_child
from tests.emptying import empty_what_was_filled

ROOT = Path(__file__).resolve().parents[1]
_PURE = (
    "tests/rules/",
    "tests/readings/",
    "tests/lab_engine/",
    "tests/test_layers.py",
    "tests/test_fault_points.py",
)

# In this order, then all others as they were collected.
_LONGEST = (
    "tests/faults/",
    "tests/flows/",
    "tests/browser/",
    "tests/platform/",
    "tests/execution/",
)


# How fast examples come says something about the machine, not about the code. A run tries the same examples each
# time, so that it fails for what was changed; EXPLORE=1 tries new ones.
hypothesis.settings.register_profile(
    "flotilla",
    deadline=None,
    derandomize=not os.environ.get("EXPLORE"),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("flotilla")


def pytest_configure(config: pytest.Config) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt  # a terminated run clears up like an interrupted one

    signal.signal(signal.SIGTERM, interrupt)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: much of what the long ones do is to wait. Each worker has servers of its own."""
    return min(len(os.sched_getaffinity(0)) + 1, 4)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files with browsers, labs and faults first, so that no long one begins when the others are done."""
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    return next((place for place, head in enumerate(_LONGEST) if nodeid.startswith(head)), 99)


_left_by_workers: list[str] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Hear from a parallel worker, which has servers and children of its own, what it left behind."""
    _left_by_workers.extend(getattr(node, "workeroutput", {}).get("left_behind", []))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the servers last, and fail a run that left a process behind."""
    left = services.session().stop()
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_behind"] = left
    elif left := [*left, *_left_by_workers]:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter:
            reporter.write_line("processes left behind by the tests: " + "; ".join(left), red=True)
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def _is_pure(item: pytest.Item) -> bool:
    return item.nodeid.startswith(_PURE)


@pytest.fixture(scope="session")
def servers() -> services.TestServices:
    """Postgres and Valkey of this run, started."""
    running = services.session()
    running.start()
    return running


@pytest.fixture(scope="session", autouse=True)
def _servers_unless_pure(request: pytest.FixtureRequest) -> None:
    if not all(map(_is_pure, request.session.items)):
        request.getfixturevalue("servers")


@pytest.fixture(scope="session", autouse=True)
def _tables_are_emptied_fast() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_what_was_filled)
        yield


@pytest.fixture(autouse=True)
def _english() -> Iterator[None]:
    """A page in another language leaves its language behind in the thread; the next test begins without."""
    yield
    translation.deactivate()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(servers: services.TestServices) -> None:
    """pytest-django makes the test database after this."""


@pytest.fixture(scope="session")
def state_dir() -> Path:
    return services.session().directory


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder beside the clone with reference samples; a clone alone has none."""
    shared = ROOT.parent / "shared"
    if not shared.is_dir():
        pytest.skip("no ../shared folder beside this clone")
    return shared


@pytest.fixture
def redis_client(servers: services.TestServices) -> Iterator[Any]:
    """A client of database 0 of this run's Valkey, all databases empty."""
    import redis

    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        client.flushall()
        yield client


@pytest.fixture
def child_env(servers: services.TestServices) -> dict[str, str]:
    """Environment of a subprocess that shares the test database; needs django_db(transaction=True)."""
    from django.conf import settings

    name = settings.DATABASES["default"]["NAME"]
    base, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    return {
        **os.environ,
        "DATABASE_URL": f"{base}/{name}",
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def run_child(tmp_path: Path, child_env: dict[str, str]) -> Iterator[Callable[..., Child]]:
    """Start `argv` (a leading "manage.py" becomes this interpreter) with extra environment variables."""
    children: list[Child] = []

    def run(argv: list[str], **env: str) -> Child:
        words = [sys.executable, *argv] if argv[0] == "manage.py" else list(argv)
        log_path = tmp_path / f"child-{len(children)}.log"
        children.append(start_child(words, {**child_env, **env}, log_path, ROOT))
        return children[-1]

    yield run
    end_children(children)
    for child in children:
        print(f"--- {' '.join(map(str, child.args))}\n{child.log[-4000:]}")


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    return waiting.wait_until


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Give a port that was free a moment ago."""
    from console.embedded.ports import reserve_port

    def choose() -> int:
        holder, port = reserve_port()
        holder.close()
        return port

    return choose


@pytest.fixture(scope="session")
def lab_of(state_dir: Path) -> Iterator[Callable[[int], Any]]:
    """`lab_of(8)` is a lab with 8 nodes that stays up for the run; callers reset it after use."""
    from tests.labs import Labs, missing_program

    if missing := missing_program():
        pytest.skip(f"the lab needs {missing}; run `make install` as root")
    labs = Labs(state_dir)
    yield labs.of_size
    labs.down()


@pytest.fixture
def lab(
    lab_of: Callable[[int], Any], settings: Any, request: pytest.FixtureRequest
) -> Iterator[Any]:
    """Rehearsed nodes as they were born, two unless marked (tests/needs.py); the console's key opens them."""
    nodes = lab_of(getattr(request, "param", 2))
    settings.SSH_KEY_FILE = Path(nodes.key_path)
    yield nodes
    nodes.reset()
