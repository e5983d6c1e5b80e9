from releases.views.plan import argv_lines, plan_drawn


def plan(*argvs: list[str]) -> dict:
    positions = [
        {
            "node": f"n{n}",
            "position": n,
            "address": f"10.0.0.{n}",
            "container": f"c{n}",
            "argv": argv,
        }
        for n, argv in enumerate(argvs)
    ]
    endpoint = {"address": "10.0.0.0", "port": 8000}
    return {"positions": positions, "world_size": 16, "master": endpoint, "http": endpoint}


def test_it_puts_a_flag_and_its_value_on_one_line():
    words = [
        "docker",
        "run",
        "--gpus",
        "all",
        "-e",
        "A=1",
        "image@sha256:1",
        "/models/x",
        "--headless",
    ]
    assert argv_lines(words) == [
        "docker run",
        "--gpus all",
        "-e A=1",
        "image@sha256:1",
        "/models/x",
        "--headless",
    ]


def test_it_shows_of_further_nodes_only_what_differs_with_its_line_number():
    drawn = plan_drawn(
        plan(
            ["docker", "run", "--name", "a", "--rank", "0"],
            ["docker", "run", "--name", "a", "--rank", "1"],
        ),
        "f" * 64,
    )
    second = drawn.nodes[1].lines
    assert [(line.folded, line.number, line.text) for line in second] == [
        (2, 0, ""),
        (0, 3, "--rank 1"),
    ]


def test_it_fills_in_the_hash_that_the_argv_carries():
    drawn = plan_drawn(plan(["docker", "run", "--label", "sha=PLAN_SHA"]), "ab" * 32)
    assert drawn.nodes[0].lines[1].text == "--label sha=" + "ab" * 32
