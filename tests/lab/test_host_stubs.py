"""What else a node says about itself: disks, memory, clock, limits, names."""

from fleet.lab.node import Lab


def test_it_answers_with_its_own_name_and_kernel(run) -> None:
    assert run("hostname").stdout == "h100-001\n"
    assert run("uname -n").stdout == "h100-001\n"
    assert run("uname -r").stdout == "6.8.0-79-generic\n"
    assert run("nproc").stdout == "96\n"


def test_shared_memory_is_the_nodes_own(run) -> None:
    done = run("df -h /dev/shm")

    cells = done.stdout.splitlines()[1].split()
    assert cells[0] == "tmpfs"
    assert cells[1] == "1008G"
    assert cells[-2:] == ["1%", "/dev/shm"]


def test_the_model_disk_shows_nominal_sizes(run, paper: Lab) -> None:
    models = paper.host("h100-001").directory / "root" / "models"
    (models / "file").write_bytes(b"x" * 1_000_000)

    done = run(f"df -B1 -P {models} /dev/shm")

    disk, shm = done.stdout.splitlines()[1:]
    assert disk.split()[1] == str(14336 << 30)
    assert int(disk.split()[2]) >= 1_000_000 * 655_360
    assert disk.split()[-1] == str(models)
    assert shm.split()[-1] == "/dev/shm"


def test_a_missing_model_path_is_an_error(run, paper: Lab) -> None:
    done = run(f"df -k {paper.directory}/nodes/h100-001/root/models/none")

    assert done.returncode == 1
    assert "No such file or directory" in done.stderr


def test_other_paths_are_real(run) -> None:
    done = run("df -P /")

    assert done.returncode == 0
    assert done.stdout.splitlines()[1].endswith(" /")


def test_limits_memory_clock_and_boot_come_from_the_state(run, paper: Lab) -> None:
    booted = paper.state("h100-001")["boot"]["at"]

    assert run("ulimit -l").stdout == "unlimited\n"
    assert run("free -g").stdout.splitlines()[1].split()[1] == "2015"
    assert "System time     : 0.000080000 seconds slow" in run("chronyc tracking").stdout
    assert run("uptime -s").stdout == booted.replace("T", " ").replace("Z", "\n")
    assert "Model name:" in run("lscpu").stdout


def test_the_boot_id_lies_below_the_sysroot(run, paper: Lab) -> None:
    done = run('cat "$NODE_SYSROOT/proc/sys/kernel/random/boot_id"')

    assert done.stdout.strip() == paper.state("h100-001")["boot"]["id"]


def test_unknown_forms_fail_and_are_recorded(run, paper: Lab) -> None:
    for command in ("uptime -p", "chronyc sources", "lscpu -J", "free -w", "dmesg -w"):
        assert run(command).returncode == 1, command

    assert len(paper.unknown()) == 5
