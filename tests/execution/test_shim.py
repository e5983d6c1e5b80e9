"""The shim alone: once means once, identity before trust, gone means proved."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.execution import wire
from tests.execution.local_node import SHIM, LocalNode, end_processes, local_node
from tests.execution.orders import TREE
from tests.waiting import wait_until


@pytest.fixture
def script(node: LocalNode):
    def write(text: str) -> list[str]:
        path = node.home / "script.sh"
        path.write_text(text)
        return ["sh", str(path)]

    return write


class TestStart:
    def test_eight_starts_at_once_start_one_and_adopt_seven(self, node: LocalNode):
        argv = wire.argument_lines(["sh", "-c", "echo x >>$HOME/starts; sleep 100"])
        answers: list[dict] = []

        def start() -> None:
            answers.append(node.call("start", "s1", 10, argv)[0])

        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(a["answer"] for a in answers) == {"STARTED": 1, "ADOPTED": 7}
        assert len({a["pid"] for a in answers}) == 1
        wait_until((node.home / "starts").exists, what="the command's first word")
        assert node.stop("s1", 11)["answer"] == "GONE"
        assert (node.home / "starts").read_text() == "x\n"

    def test_it_refuses_a_lower_fence(self, node: LocalNode):
        node.start("s1", 10, ["sleep", "100"])
        for verb in ("start", "stop"):
            answer, _ = node.call(verb, "s1", 9, ["true"])
            assert (answer["answer"], answer["fence"]) == ("FENCED", 10)
        assert node.status("s1")["answer"] == "RUNNING"
        assert node.call("status", "s1", 9)[0]["answer"] == "FENCED"

    def test_reading_does_not_raise_the_fence(self, node: LocalNode):
        node.start("s1", 10, ["sleep", "100"])
        for verb in ("status", "logs", "list"):
            node.call(verb, "s1", 99)
        assert node.status("s1")["fence"] == 10

    @pytest.mark.parametrize("code", [0, 1, 7, 127, 255])
    def test_it_keeps_the_exit_code_of_a_command_that_lasts_a_millisecond(self, node, code):
        assert node.start("s1", 1, ["sh", "-c", f"exit {code}"])["answer"] == "STARTED"
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
        answer = node.status("s1")
        assert (answer["answer"], answer["rc"]) == ("DONE", code)
        assert node.start("s1", 2, ["false"])["answer"] == "DONE"

    def test_a_missing_program_ends_with_127_and_says_so_in_its_output(self, node: LocalNode):
        node.start("s1", 1, ["no-such-program"])
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
        assert node.status("s1")["rc"] == 127
        assert b"no-such-program" in node.out("s1")

    def test_the_identity_is_the_commands_own(self, node: LocalNode):
        answer = node.start("s1", 1, ["sh", "-c", "echo $$; exec sleep 100"])
        wait_until(lambda: node.out("s1"), what="output")
        assert node.out("s1") == b"%d\n" % answer["pid"]

    def test_it_runs_in_its_own_session_without_stdin(self, node: LocalNode, script):
        node.start("s1", 1, script("cat; ps -o sid= -p $$ || cut -d' ' -f6 /proc/$$/stat"))
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
        assert int(node.out("s1").split()[-1]) != os.getsid(0)

    def test_interrupt_still_works_in_a_started_command(self, node: LocalNode):
        answer = node.start("s1", 1, ["sleep", "100"])
        os.kill(answer["pid"], signal.SIGINT)
        wait_until(lambda: node.status("s1")["rc"] == 130, what="end by SIGINT")

    def test_the_environment_and_the_directory_arrive(self, node: LocalNode):
        lines = [*wire.env_lines({"WHERE": "a b\n$(x)'"}), wire.directive("cwd", "/usr")]
        node.start(
            "s1", 1, ["sh", "-c", 'printf "%s|" "$WHERE" "$PWD" "$FLOTILLA_SUBJECT"'], *lines
        )
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
        assert node.out("s1") == b"a b\n$(x)'|/usr|s1|"

    def test_the_environment_is_not_in_any_process_list(self, node: LocalNode):
        node.start("s1", 1, ["sleep", "100"], *wire.env_lines({"TOKEN": "canary-5521"}))
        # The runner and the command; a helper on its way is marked until it is another program.
        wait_until(lambda: len(node.processes("s1")) == 2, what="two processes")
        lists = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in node.processes("s1")]
        assert not any(b"canary-5521" in text for text in lists)

    def test_another_plan_under_the_same_name_is_refused(self, node: LocalNode):
        node.start("s1", 1, ["sleep", "100"], ";plan_sha aa11")
        answer = node.start("s1", 2, ["sleep", "100"], ";plan_sha bb22")
        assert answer["answer"] == "ERROR"
        assert "aa11" in answer["explanation"]

    def test_a_new_epoch_starts_again_only_after_the_end(self, node: LocalNode):
        node.start("s1", 1, ["sh", "-c", "echo one; sleep 100"], ";epoch 1")
        wait_until(lambda: node.out("s1"), what="output")
        assert node.start("s1", 2, ["echo", "two"], ";epoch 2")["answer"] == "ADOPTED"
        assert node.stop("s1", 3)["answer"] == "GONE"
        answer = node.start("s1", 4, ["echo", "two"], ";epoch 2")
        assert (answer["answer"], answer["epoch"]) == ("STARTED", 2)
        wait_until(lambda: node.out("s1") == b"two\n", what="output of the second epoch")
        assert node.call("logs", "s1", 0, [";offset 0", ";epoch 1"])[1] == b"one\n"

    def test_a_start_that_comes_after_its_stop_does_not_start(self, node: LocalNode):
        assert node.stop("s1", 5)["answer"] == "ABSENT"
        assert node.start("s1", 6, ["touch", f"{node.home}/ran"], ";epoch 1")["answer"] == "GONE"
        assert not (node.home / "ran").exists()


class TestIdentity:
    def test_a_process_with_other_start_ticks_is_lost_and_never_killed(self, node: LocalNode):
        bystander = subprocess.Popen(["sleep", "100"])
        try:
            node.start("s1", 1, ["true"])
            wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
            boot = node.status("s1")["boot_id"]
            node.file("s1", "rc").unlink()
            ident = f"{bystander.pid} 1 {boot} {bystander.pid} 1\n"
            node.file("s1", "ident").write_text(ident)
            answer = node.status("s1")
            assert answer["answer"] == "LOST"
            assert str(bystander.pid) in answer["explanation"]
            assert node.stop("s1", 2)["answer"] == "GONE"
            assert bystander.poll() is None
        finally:
            bystander.kill()
            bystander.wait()

    def test_another_boot_id_is_lost_with_both_ids(self, node: LocalNode, tmp_path):
        node.start("s1", 1, ["sleep", "100"])
        boot = node.status("s1")["boot_id"]
        node.sysroot = tmp_path
        where = tmp_path / "proc/sys/kernel/random"
        where.mkdir(parents=True)
        (where / "boot_id").write_text("11111111-2222-3333-4444-555555555555\n")
        answer = node.status("s1")
        assert answer["answer"] == "LOST"
        assert boot in answer["explanation"]
        assert "11111111" in answer["explanation"]

    def test_a_killed_runner_leaves_a_subject_that_is_lost_not_done(self, node: LocalNode):
        pid = node.start("s1", 1, ["sleep", "100"])["pid"]
        runner = int(node.file("s1", "ident").read_text().split()[3])
        os.kill(runner, signal.SIGKILL)
        wait_until(lambda: runner not in node.processes("s1"), what="death of the runner")
        assert node.status("s1")["answer"] == "RUNNING"
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: node.status("s1")["answer"] == "LOST", what="LOST")

    def test_term_to_the_whole_session_still_records_the_exit_code(self, node: LocalNode):
        pid = node.start("s1", 1, ["sleep", "100"])["pid"]
        for one in node.processes("s1"):
            with contextlib.suppress(ProcessLookupError):  # the runner ends with its command
                os.kill(one, signal.SIGTERM)
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
        assert node.status("s1")["rc"] == 143
        assert pid not in node.processes()

    @pytest.mark.parametrize("name", ["a) S 1", "x\ny", "(((", "tab\tZ"])
    def test_a_hostile_process_name_does_not_hide_a_process(self, node: LocalNode, name):
        code = (
            "import ctypes,sys,time;"
            "ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0);time.sleep(100)"
        )
        pid = node.start("s1", 1, [sys.executable, "-c", code, name])["pid"]
        wait_until(lambda: name in Path(f"/proc/{pid}/stat").read_text(), what="the new name")
        assert node.status("s1")["answer"] == "RUNNING"
        assert node.stop("s1", 2)["answer"] == "GONE"


class TestStop:
    def test_children_in_other_sessions_and_those_that_ignore_term_die(self, node, script):
        node.start("s1", 1, script(TREE))
        wait_until(lambda: len(node.processes("s1")) >= 7, what="the whole tree")
        answer = node.stop("s1", 2)
        assert (answer["answer"], answer["alive"]) == ("GONE", "")
        assert node.processes("s1") == []
        assert node.status("s1")["answer"] == "DONE"

    def test_an_escaped_child_without_the_mark_is_found_by_descent(self, node, script):
        node.start("s1", 1, script("env -i setsid sleep 100 & wait"))
        wait_until(lambda: node.status("s1")["answer"] == "RUNNING", what="start")
        wait_until(lambda: len(descendants(node.processes("s1"))) > 2, what="child")
        family = descendants(node.processes("s1"))
        assert node.stop("s1", 2)["answer"] == "GONE"
        assert not [pid for pid in family if is_live(pid)]

    def test_a_stopped_process_dies_too(self, node: LocalNode):
        pid = node.start("s1", 1, ["sleep", "100"])["pid"]
        os.kill(pid, signal.SIGSTOP)
        answer = node.stop("s1", 2, 5)
        assert (answer["answer"], answer["rc"]) == ("GONE", 143)

    def test_leftovers_of_an_ended_command_die(self, node: LocalNode):
        node.start("s1", 1, ["sh", "-c", "setsid sleep 100 & exit 3"])
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
        assert node.processes("s1")
        answer = node.stop("s1", 2)
        assert (answer["answer"], answer["rc"]) == ("GONE", 3)
        assert node.processes("s1") == []

    def test_the_tools_that_record_the_exit_code_outlive_the_stop(self, node: LocalNode):
        slow = node.home / "bin" / "mv"
        slow.parent.mkdir()
        slow.write_text('#!/bin/sh\nsleep 0.4\nexec /bin/mv "$@"\n')
        slow.chmod(0o755)
        node.path = f"{slow.parent}:{node.path}"
        node.start("s1", 1, ["sleep", "100"])
        answer = node.stop("s1", 2, 10)
        assert (answer["answer"], answer["rc"]) == ("GONE", 143)

    def test_other_subjects_and_other_homes_are_left_alone(self, node: LocalNode):
        with local_node() as other:
            for one, subject in ((node, "s1"), (node, "s10"), (other, "s1")):
                one.start(subject, 1, ["sleep", "100"])
            node.stop("s1", 2)
            assert node.status("s1")["answer"] == "DONE"
            assert node.status("s10")["answer"] == "RUNNING"
            assert other.status("s1")["answer"] == "RUNNING"

    def test_stopping_twice_is_harmless(self, node: LocalNode):
        node.start("s1", 1, ["sleep", "100"])
        assert [node.stop("s1", f)["answer"] for f in (2, 3)] == ["GONE", "GONE"]


class TestContainers:
    @pytest.fixture
    def docker(self, node: LocalNode):
        """A docker on PATH that does what the test writes."""
        bin_dir = node.home / "bin"
        bin_dir.mkdir()
        node.path = f"{bin_dir}:{node.path}"

        def write(text: str) -> None:
            tool = bin_dir / "docker"
            tool.write_text(f'#!/bin/sh\necho "$*" >>"{node.home}/calls"\n{text}\n')
            tool.chmod(0o755)

        return write

    ID = "a" * 64
    BOX = f"""
case "$*" in
"ps -a -q --no-trunc --filter label=fleet.subject=s1") echo {ID} ;;
"inspect --format {{{{.State.Status}}}} {ID}") cat "$HOME/box" ;;
"stop -t 1 {ID}") echo exited >"$HOME/box" ;;
*) exit 64 ;;
esac"""

    def test_its_container_is_stopped_by_id(self, node: LocalNode, docker):
        docker(self.BOX)
        (node.home / "box").write_text("running\n")
        node.start("s1", 1, ["sleep", "100"])
        assert node.stop("s1", 2, 1, ";container fc-x")["answer"] == "GONE"
        assert (node.home / "box").read_text() == "exited\n"

    def test_a_container_that_stays_is_unconfirmed(self, node: LocalNode, docker):
        docker(self.BOX.replace('echo exited >"$HOME/box"', "true"))
        (node.home / "box").write_text("running\n")
        node.start("s1", 1, ["sleep", "100"])
        answer = node.stop("s1", 2, 1, ";container fc-x", ";guard 1")
        assert answer["answer"] == "UNCONFIRMED"
        assert self.ID in answer["explanation"]

    @pytest.mark.parametrize(
        ("tool", "word"), [("sleep 60", "did not answer"), ("exit 1", "daemon")]
    )
    def test_a_docker_that_does_not_answer_is_unconfirmed(self, node, docker, tool, word):
        docker(tool)
        node.start("s1", 1, ["sleep", "100"])
        answer = node.stop("s1", 2, 1, ";container fc-x", ";guard 1")
        assert answer["answer"] == "UNCONFIRMED"
        assert word in answer["explanation"]
        assert node.processes("s1") == []

    def test_a_plain_subject_never_calls_docker(self, node: LocalNode, docker):
        docker("sleep 60")
        node.start("s1", 1, ["sleep", "100"])
        assert node.stop("s1", 2)["answer"] == "GONE"
        assert not (node.home / "calls").exists()


class TestArguments:
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(
        st.lists(
            st.lists(st.integers(1, 255), max_size=12).map(bytes)
            | st.sampled_from(
                [b"", b"\n", b"\n3", b"a\n\n", b"-n", b"\\c", b"%s", b"\\0123", b";end"]
            ),
            min_size=1,
            max_size=6,
        )
    )
    def test_the_command_receives_exactly_the_bytes_sent(self, node: LocalNode, arguments):
        argv = ["printf", "%s\\0", *arguments]
        lines = [";section x 5", *wire.argument_lines(argv)]
        _, body = node.call("probe", "node", 0, lines)
        head, _, raw = body.partition(b"\n")
        assert json.loads(head)["rc"] == 0
        assert raw == b"".join(argument + b"\0" for argument in arguments)

    @pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
    def test_any_octal_form_is_read_alike_by_every_shell(self, shell):
        found = shutil.which(shell)
        if not found:
            pytest.skip(f"{shell} is not installed")
        every = bytes(range(1, 256)) + b"\n7\n"
        plain_escapes = "".join(f"\\{byte:03o}" for byte in every[:-3]) + "\\0127\\012"
        command = [found, "sh"] if shell == "busybox" else [found]
        result = subprocess.run(
            [*command, str(SHIM), "probe", "node", "0"],
            input=f";section x 5\nprintf\n%s\n{plain_escapes}\n;end\n".replace(
                "%s", "\\045s"
            ).encode(),
            capture_output=True,
            env={"HOME": "/tmp", "PATH": os.environ["PATH"]},
            timeout=30,
        )
        assert result.stdout.split(b"\n", 2)[2] == every

    @pytest.mark.parametrize(
        ("line", "word"),
        [
            ("a\\000b", "NUL"),
            ("a b", "octal"),
            ("$(x)", "octal"),
            ("\\c", "octal"),
            ("\\12", "octal"),
            ("\\400", "octal"),
            ("\\", "octal"),
            (";what 3", "directive"),
            (";grace x", "whole number"),
        ],
    )
    def test_it_refuses_what_is_not_escaped(self, node: LocalNode, line, word):
        answer, _ = node.call("start", "s1", 1, ["touch", f"{node.home}/ran", line])
        assert answer["answer"] == "ERROR"
        assert word in answer["explanation"]
        assert not (node.home / "ran").exists()

    @pytest.mark.parametrize("verb", ["start", "stop", "probe", "collect"])
    def test_input_that_breaks_off_does_nothing(self, node: LocalNode, verb):
        process = node.spawn(verb, "s1", 5)
        lines = f"touch\n{node.home}/ran\n{node.home}/half".encode()
        answer = json.loads(process.communicate(lines, timeout=30)[0].partition(b"\n")[0])
        assert answer["answer"] == "ERROR"
        assert "broke off" in answer["explanation"]
        assert not (node.home / "ran").exists()

    def test_nul_is_refused_before_sending(self):
        with pytest.raises(wire.WireError, match="NUL"):
            wire.encode_argument("a\0b")

    def test_a_long_argument_arrives(self, node: LocalNode):
        argument = "x y\n7" * 20_000
        _, body = node.call(
            "probe", "n", 0, [";section x 9", *wire.argument_lines(["printf", "%s", argument])]
        )
        head = json.loads(body.partition(b"\n")[0])
        assert (head["bytes"], head["truncated"]) == (100_000, False)


class TestProbe:
    def test_sections_come_in_order_with_code_and_size(self, node: LocalNode):
        lines = [
            *wire.section_lines("ok", 5, ["printf", "a\\nb"]),
            *wire.section_lines("err", 5, ["sh", "-c", "echo no >&2; exit 3"]),
            *wire.section_lines("slow", 0.3, ["sleep", "60"]),
            *wire.section_lines("missing", 5, ["no-such-tool", "-x"]),
            *wire.section_lines("big", 5, ["head", "-c", "300000", "/dev/zero"]),
        ]
        answer, body = node.call("probe", "node", 7, lines)
        assert (answer["answer"], answer["sections"]) == ("PROBE", 5)
        found = list(split_sections(body))
        assert [(h["section"], h["rc"], h["truncated"]) for h, _ in found] == [
            ("ok", 0, False),
            ("err", 3, False),
            ("slow", 124, False),
            ("missing", 127, False),
            ("big", 0, True),
        ]
        assert found[0][1] == b"a\nb"
        assert found[1][1] == b"no\n"
        assert len(found[4][1]) == 256 * 1024

    def test_a_command_that_leaves_a_child_does_not_hold_the_probe(self, node: LocalNode):
        child = f"while [ -d {node.home} ] && [ ! -e {node.home}/go ]; do sleep 0.1; done"
        script = f"setsid sh -c '{child}' & echo done"
        _, body = node.call("probe", "node", 0, wire.section_lines("x", 5, ["sh", "-c", script]))
        (node.home / "go").touch()
        head, text = next(iter(split_sections(body)))
        assert (head["rc"], text) == (0, b"done\n"), "it ended while the child lived"

    def test_a_child_that_goes_on_printing_shifts_nothing(self, node: LocalNode):
        flood = f"while [ -d {node.home} ] && [ ! -e {node.home}/go ]; do echo more; done"
        lines = [
            *wire.section_lines("noisy", 5, ["sh", "-c", f"setsid sh -c '{flood}' & echo done"]),
            *wire.section_lines("slow", 5, ["sleep", "0.2"]),
            *wire.section_lines("after", 5, ["printf", "a\\nb"]),
        ]
        _, body = node.call("probe", "node", 0, lines)
        (node.home / "go").touch()
        found = list(split_sections(body))
        assert [head["section"] for head, _ in found] == ["noisy", "slow", "after"]
        assert found[2][1] == b"a\nb"

    def test_a_poor_path_still_finds_the_usual_tools(self, node: LocalNode):
        node.path = "/nonexistent"
        _, body = node.call("probe", "node", 0, wire.section_lines("x", 5, ["uname"]))
        assert next(iter(split_sections(body)))[1] == b"Linux\n"


class TestLogs:
    def test_it_gives_the_bytes_from_an_offset(self, node: LocalNode):
        node.start("s1", 1, ["printf", "hello\\0\\377world"])
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
        answer, body = node.call("logs", "s1", 0, [";offset 5"])
        assert (answer["answer"], answer["offset"], answer["size"]) == ("LOGS", 5, 12)
        assert body == b"\0\xffworld"

    def test_following_ends_with_the_subject_and_misses_nothing(self, node: LocalNode, script):
        node.start(
            "s1",
            1,
            script("i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); done; sleep 0.3; echo end"),
        )
        process = node.spawn("logs", "s1")
        process.stdin.write(b";offset 0\n;follow 1\n;end\n")
        process.stdin.flush()
        out = process.stdout.read()
        assert process.wait(20) == 0
        assert out.partition(b"\n")[2] == b"".join(b"%d\n" % n for n in range(300)) + b"end\n"
        process.stdin.close()
        process.stdout.close()

    def test_following_ends_when_the_client_goes_and_leaves_no_process(self, node: LocalNode):
        node.start("s1", 1, ["sh", "-c", "echo x; sleep 100"])
        process = node.spawn("logs", "s1", FOLLOW_MARK=str(node.home))
        process.stdin.write(b";offset 0\n;follow 1\n;end\n")
        process.stdin.flush()
        process.stdout.readline()
        assert process.stdout.readline() == b"x\n"
        process.stdin.close()
        assert process.wait(20) == 0
        process.stdout.close()
        mark = f"FOLLOW_MARK={node.home}".encode()
        wait_until(lambda: not with_environment(mark), what="no leaked process")
        assert node.status("s1")["answer"] == "RUNNING"

    def test_logs_of_an_unknown_subject_are_absent(self, node: LocalNode):
        assert node.call("logs", "never", 0)[0]["answer"] == "ABSENT"


class TestCollectAndList:
    def test_collect_returns_files_with_their_hash(self, node: LocalNode):
        node.start("s1", 1, ["printf", "abc"])
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="end")
        big = node.home / "big"
        big.write_bytes(b"0" * (8 * 1024 * 1024) + b"tail")
        names = ["out", str(big), "no-such", str(node.home), 'we"ird\n']
        answer, body = node.call("collect", "s1", 0, wire.argument_lines(names))
        assert answer["files"] == 5
        found = list(split_sections(body))
        assert found[0][1] == b"abc"
        assert found[0][0]["sha256"] == hashlib.sha256(b"abc").hexdigest()
        assert found[1][1].endswith(b"0tail")
        assert (found[1][0]["bytes"], found[1][0]["of"]) == (8 * 1024 * 1024, 8 * 1024 * 1024 + 4)
        assert [h["error"] for h, _ in found[2:]] == [
            "no such file",
            "not a readable file",
            "no such file",
        ]

    def test_list_tells_every_subject(self, node: LocalNode):
        node.start("s1", 11, ["sleep", "100"], ";plan_sha ab12")
        node.start("s2", 12, ["sh", "-c", "exit 4"])
        wait_until(lambda: node.status("s2")["answer"] == "DONE", what="end")
        answer, body = node.call("list", "all", 0)
        rows = {row["subject"]: row for row in map(json.loads, body.splitlines())}
        assert (answer["answer"], answer["subjects"]) == ("LIST", 2)
        assert (rows["s1"]["answer"], rows["s1"]["fence"], rows["s1"]["plan_sha"]) == (
            "RUNNING",
            11,
            "ab12",
        )
        assert (rows["s2"]["answer"], rows["s2"]["rc"]) == ("DONE", 4)


class TestForcedCommand:
    def forced(self, node: LocalNode, command: str) -> dict:
        result = subprocess.run(
            ["/bin/sh", str(SHIM)],
            input=b"",
            capture_output=True,
            env={**node.env, "SSH_ORIGINAL_COMMAND": command},
            timeout=30,
        )
        return json.loads(result.stdout)

    def test_it_takes_the_three_words(self, node: LocalNode):
        assert self.forced(node, "shim status s1 0")["answer"] == "ABSENT"

    @pytest.mark.parametrize(
        "command",
        [
            "",
            "rm -rf /",
            "shim status s1",
            "shim status s1 0; touch ran",
            "shim status s1;touch 0",
            "shim status $(touch${IFS}ran) 0",
            "shim _run d 0",
            "shim probe ../x 1",
            "shim probe X 1",
            "shim probe a -1",
            "/bin/sh -c x",
        ],
    )
    def test_anything_else_is_refused_and_not_run(self, node: LocalNode, command):
        answer = self.forced(node, command)
        assert answer["answer"] == "REFUSED"
        assert answer["sha256"] == wire.shim_sha256()
        assert not (node.home / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
class TestFullDisk:
    @pytest.fixture
    def small(self, node: LocalNode):
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(node.home)], capture_output=True
        )
        if done.returncode:
            pytest.skip(f"tmpfs cannot be mounted here: {done.stderr.decode()[:100]}")
        yield node
        end_processes(node.home)
        subprocess.run(["umount", "-l", str(node.home)], check=True)

    def fill(self, node: LocalNode) -> None:
        with (node.home / "fill").open("wb", 0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 1024)

    def test_a_start_is_refused_with_the_reason(self, small: LocalNode):
        small.status("s1")
        self.fill(small)
        assert small.start("s1", 1, ["true"])["answer"] == "NOSPACE"
        (small.home / "fill").unlink()
        assert small.start("s1", 2, ["true"])["answer"] == "STARTED"

    def test_the_exit_code_is_recorded_on_a_full_disk(self, small: LocalNode):
        pid = small.start("s1", 1, ["sleep", "100"])["pid"]
        self.fill(small)
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: small.status("s1")["answer"] == "DONE", what="end")
        assert small.status("s1")["rc"] == 143

    def test_a_stop_works_on_a_full_disk(self, small: LocalNode):
        small.start("s1", 1, ["sleep", "100"])
        self.fill(small)
        assert small.stop("s1", 2)["answer"] == "GONE"


def split_sections(body: bytes):
    while body:
        head, _, body = body.partition(b"\n")
        head = json.loads(head)
        yield head, body[: head["bytes"]]
        body = body[head["bytes"] :]


def with_environment(mark: bytes) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as f:
                if mark in f.read().split(b"\0"):
                    found.append(name)
        except OSError:
            continue
    return found


def is_live(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def descendants(pids: list[int]) -> set[int]:
    """The processes and everybody who descends from them."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                parents[int(name)] = int(f.read().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    family = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family
