"""The scripts of the copier run for real, here and with real rsync; what their ends mean is said in words."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from fleet.rules import copier, shards
from fleet.rules.message import said
from tests.needs import needs_rsync
from tests.waiting import wait_until

REVISION = "c" * 40
FILES = {f"model-{n}.safetensors": bytes([n]) * (4096 + n) for n in range(1, 5)}
FILES["sub/tokenizer.json"] = b"{}"


def lay(directory: Path, files: dict[str, bytes]) -> list[shards.Shard]:
    for name, raw in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(raw)
    return [
        shards.Shard(name, hashlib.sha256(raw).hexdigest(), len(raw))
        for name, raw in sorted(files.items())
    ]


def run(argv: list[str], **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        argv,
        env={"PATH": os.defpath, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


def check(directory: Path, wanted: list[shards.Shard], read: set[str] | None = None):
    record = shards.ready_record("glm", REVISION, wanted)
    names = {one.name for one in wanted} if read is None else read
    return run(copier.check_argv(str(directory), record, wanted, names))


def test_a_whole_revision_gets_its_marker_and_every_hash_is_told(tmp_path):
    wanted = lay(tmp_path, FILES)
    done = check(tmp_path, wanted)
    assert done.returncode == 0, done.stdout
    assert shards.compare(wanted, shards.read_found(done.stdout)) == []
    record = json.loads((tmp_path / ".ready").read_text())
    assert record["revision"] == REVISION
    assert not (tmp_path / ".ready.new").exists()


@pytest.mark.parametrize("harm", ["missing", "short", "altered"])
def test_a_bad_file_takes_the_marker_away_and_is_named(tmp_path, harm):
    wanted = lay(tmp_path, FILES)
    assert check(tmp_path, wanted).returncode == 0
    path = tmp_path / "model-2.safetensors"
    raw = path.read_bytes()
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(raw[:-1] if harm == "short" else b"\xff" + raw[1:])
    done = check(tmp_path, wanted)
    assert done.returncode == copier.DIFFERS_RC
    (found,) = shards.compare(wanted, shards.read_found(done.stdout))
    assert (found.name, found.kind) == ("model-2.safetensors", harm)
    assert not (tmp_path / ".ready").exists()


def test_a_directory_that_is_not_there_is_all_missing(tmp_path):
    wanted = lay(tmp_path / "a", FILES)
    done = check(tmp_path / "b", wanted)
    assert done.returncode == copier.DIFFERS_RC
    assert len(shards.compare(wanted, shards.read_found(done.stdout))) == len(wanted)


def test_only_what_was_copied_is_read_again_but_every_size_is_looked_at(tmp_path):
    wanted = lay(tmp_path, FILES)
    done = check(tmp_path, wanted, {"model-1.safetensors"})
    assert (done.returncode, done.stdout.count("\nH ")) == (0, 1)
    (tmp_path / "model-3.safetensors").write_bytes(b"")
    assert check(tmp_path, wanted, {"model-1.safetensors"}).returncode == copier.DIFFERS_RC


def test_a_manifest_is_made_of_what_lies_there_and_nothing_is_written(tmp_path):
    wanted = lay(tmp_path, FILES)
    (tmp_path / ".ready").write_text("x")
    done = run(copier.make_argv(str(tmp_path)))
    assert done.returncode == 0
    assert shards.made_from(shards.read_found(done.stdout)) == (wanted, [])
    assert (tmp_path / ".ready").read_text() == "x"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Daemon:
    """The parent's side, as the shim would run it."""

    def __init__(self, directory: Path, home: Path):
        self.port, self.secret = free_port(), "s3cret-of-one-copy"
        (home / ".flotilla").mkdir(parents=True, exist_ok=True)
        self.box = home / ".flotilla" / "serve.w1"
        argv = copier.serve_argv(str(directory), "127.0.0.1", self.port, "127.0.0.2", "w1")
        assert self.secret not in " ".join(argv)
        self.process = subprocess.Popen(
            argv,
            env={"PATH": os.defpath, "HOME": str(home), copier.SECRET_ENV: self.secret},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(self.answers, timeout_s=20, what="the daemon to listen")

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def pull(self, directory: Path, names, *, own="127.0.0.2", secret=None, again=False, kibps=0):
        source = ("127.0.0.1", self.port, copier.MODULE)
        argv = copier.pull_argv(str(directory), source, kibps, own, names, again=again)
        return run(argv, **{copier.PASSWORD_ENV: secret or self.secret})

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(timeout=20)


@pytest.fixture
def daemon(tmp_path):
    lay(tmp_path / "parent", FILES)
    started = Daemon(tmp_path / "parent", tmp_path / "home")
    yield started
    started.end()


@needs_rsync
def test_a_child_pulls_with_the_secret_and_what_it_pulled_is_verified(daemon, tmp_path):
    child = tmp_path / "child"
    done = daemon.pull(child, sorted(FILES))
    assert done.returncode == 0, done.stdout
    assert check(child, lay(tmp_path / "parent", FILES)).returncode == 0


@needs_rsync
@pytest.mark.parametrize("wrong", [{"secret": "guessed"}, {"own": "127.0.0.3"}])
def test_nobody_pulls_with_another_secret_or_from_another_address(daemon, tmp_path, wrong):
    done = daemon.pull(tmp_path / "child", sorted(FILES), **wrong)
    assert done.returncode == 5, done.stdout
    assert not list((tmp_path / "child").glob("*.safetensors"))
    assert copier.judge_pull(done.returncode, done.stdout).kind == copier.PARENT


@needs_rsync
def test_only_the_altered_file_is_copied_again_though_it_looks_the_same(daemon, tmp_path):
    child = tmp_path / "child"
    daemon.pull(child, sorted(FILES))
    bad = child / "model-2.safetensors"
    stat = bad.stat()
    bad.write_bytes(b"\xff" + bad.read_bytes()[1:])
    os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    done = daemon.pull(child, ["model-2.safetensors"], again=True)
    assert [line.split()[2] for line in done.stdout.splitlines() if line.startswith("C ")] == [
        "model-2.safetensors"
    ]
    assert bad.read_bytes() == FILES["model-2.safetensors"]


@needs_rsync
def test_the_secret_lies_in_a_file_of_its_owner_and_is_gone_with_the_daemon(daemon):
    for name in ("secrets", "conf"):
        assert (daemon.box / name).stat().st_mode & 0o777 == 0o600
    assert daemon.secret not in (daemon.box / "conf").read_text()
    daemon.end()
    assert not daemon.box.exists()


@needs_rsync
def test_a_file_that_the_parent_lacks_ends_the_copy_with_its_name(daemon, tmp_path):
    done = daemon.pull(tmp_path / "child", ["model-9.safetensors"])
    ended = copier.judge_pull(done.returncode, done.stdout)
    assert ended.kind == copier.FAILED
    assert "model-9.safetensors" in done.stdout


@pytest.mark.parametrize(
    ("rc", "text", "kind"),
    [
        (0, "", copier.DONE),
        (11, 'rsync: write failed on "x": No space left on device (28)\n', copier.FULL),
        (10, "rsync: failed to connect: Connection refused (111)\n", copier.PARENT),
        (30, "rsync error: timeout in data send/receive\n", copier.PARENT),
        (None, "", copier.PARENT),
        (127, "sh: rsync: not found\n", copier.FAILED),
        (23, "rsync: link_stat failed\n", copier.FAILED),
    ],
)
def test_what_the_end_of_a_copy_means(rc, text, kind):
    ended = copier.judge_pull(rc, text)
    assert ended.kind == kind
    assert bool(said(ended.text)) == (kind != copier.DONE)


def test_bytes_on_the_way_are_counted_once_and_never_beyond_the_file():
    wanted = [shards.Shard("a.safetensors", "a" * 64, 100), shards.Shard("b", "b" * 64, 50)]
    text = "40 .a.safetensors.Xy12ab\n60 .partial/a.safetensors\n70 b\n9 other\n5 .rea"
    assert copier.bytes_of(text, wanted) == 60 + 50


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("100 a.safetensors\n7 .b.Xy12ab\n", "b"),
        ("40 sub/.c.json.Xy12ab\n50 b\n", "sub/c.json"),
        ("40 .partial/a.safetensors\n", ""),
        ("100 a.safetensors\n50 b\n", ""),
        ("9 .other.Xy12ab\n", ""),
        ("40 .a.safetensors.Xy12ab", ""),
        ("", ""),
    ],
)
def test_the_file_that_is_written_now_is_known_by_its_temporary_name(text, name):
    wanted = [shards.Shard(one, "a" * 64, 100) for one in ("a.safetensors", "b", "sub/c.json")]
    assert copier.copying_of(text, wanted) == name


@pytest.mark.parametrize(
    ("root", "model", "revision"),
    [
        ("/models", "../etc", REVISION),
        ("/models", "glm", "main"),
        ("/mo%HOME%", "glm", REVISION),
        ("/a/../b", "glm", REVISION),
        ("/models\n", "glm", REVISION),
    ],
)
def test_what_may_be_no_path_is_refused(root, model, revision):
    with pytest.raises(ValueError, match="expected"):
        copier.directory_of(root, model, revision)
