"""The house keeps its shape: imports point down, each outside library has one door, no command is a string."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
APPS = {  # app -> what it may import of the project
    "fleet": {"fleet"},
    "releases": {"releases", "fleet"},
    "runbooks": {"runbooks", "releases", "fleet"},
    "console": {"console", "runbooks", "releases", "fleet"},
}
OUTSIDE = {"django", "paramiko", "redis", "celery", "rq", "django_rq", "channels", "psycopg"}
# Modules of the kernel that are as pure as a rule, so that rules may use them.
PURE_KERNEL = ("fleet.execution.message",)
CLOCKS = {"now", "utcnow", "today", "time", "monotonic", "perf_counter", "time_ns"}
CLOCK_OWNERS = {"datetime", "date", "time", "timezone"}
# room inside an app -> rooms of its height or above, which it may not import
ROOMS_ABOVE = {
    "models": {"services", "selectors", "views", "consumers", "tasks", "api", "forms"},
    "selectors": {"services", "views", "consumers", "tasks", "api", "forms"},
    "services": {"views", "consumers", "tasks", "api"},
}
# library -> the only files that may import it
DOORS = {
    "paramiko": ("fleet/execution/remote.py",),
    "rq": ("fleet/execution/hands.py", "fleet/execution/dispatch.py"),
    "django_rq": ("fleet/execution/hands.py", "fleet/execution/dispatch.py"),
    "celery": ("console/celery.py", "*/tasks.py"),
    "channels": ("console/asgi.py", "fleet/doorbell.py", "*/consumers.py", "fleet/log_consumer.py"),
}
# The lab plays nodes; only those who start it or seed from it may know it.
LAB_USERS = (
    "console/embedded/*.py",
    "*/management/commands/*.py",
    "*/services/seed.py",
    "fleet/lab/**",
)
SHELLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
}
SPAWNERS = {"run", "Popen", "call", "check_call", "check_output", "exec_command", "system", "popen"}


@dataclass(frozen=True)
class Module:
    """One source file of the product."""

    path: str
    tree: ast.Module
    lines: int

    @property
    def app(self) -> str:
        return self.path.partition("/")[0]

    def room(self) -> str:
        """The part of the app it belongs to: rules, readings, models, services, views ..."""
        parts = self.path.removesuffix(".py").split("/")
        return parts[1] if len(parts) > 1 else ""

    def imports(self) -> Iterator[tuple[int, str]]:
        """Every imported name in full, relative ones resolved, those inside functions too."""
        package = self.path.removesuffix(".py").removesuffix("/__init__").split("/")
        is_package = self.path.endswith("__init__.py")
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    up = len(package) - node.level + is_package
                    base = ".".join([*package[:up], *([base] if base else [])])
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)

    def matches(self, patterns: tuple[str, ...]) -> bool:
        return any(
            Path(self.path).match(p.removesuffix("/**")) or _under(self.path, p) for p in patterns
        )


def _under(path: str, pattern: str) -> bool:
    return pattern.endswith("/**") and path.startswith(pattern[:-2])


@cache
def modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(p for app in APPS for p in (ROOT / app).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if "/migrations/" not in name:
            text = path.read_text(encoding="utf-8")
            found.append(Module(name, ast.parse(text, name), text.count("\n")))
    return tuple(found)


@cache
def imports() -> tuple[tuple[Module, int, str], ...]:
    return tuple((module, line, name) for module in modules() for line, name in module.imports())


def faults_of_imports(forbidden) -> list[str]:
    return [
        f"{module.path}:{line}: imports {name}"
        for module, line, name in imports()
        if forbidden(module, name)
    ]


def test_an_app_imports_only_itself_and_the_apps_below():
    def is_upward(module: Module, name: str) -> bool:
        top = name.partition(".")[0]
        return top in APPS and top not in APPS[module.app]

    assert faults_of_imports(is_upward) == []


def test_execution_imports_nothing_of_the_rest_of_the_fleet():
    def leaves(module: Module, name: str) -> bool:
        is_ours = name.partition(".")[0] in APPS
        return (
            module.path.startswith("fleet/execution/")
            and is_ours
            and not name.startswith("fleet.execution")
        )

    assert faults_of_imports(leaves) == []


def test_rules_and_readings_are_pure():
    def is_impure(module: Module, name: str) -> bool:
        words = name.split(".")
        if words[0] in OUTSIDE:
            return module.room() in {"rules", "readings"}
        is_ours = words[0] in APPS and len(words) > 1
        is_pure = name.startswith(PURE_KERNEL)
        is_other_room = is_ours and words[1] not in {"rules", "readings"} and not is_pure
        return module.room() in {"rules", "readings"} and is_other_room

    assert faults_of_imports(is_impure) == []


def test_rules_and_readings_read_no_clock():
    found = []
    for module in modules():
        if module.room() not in {"rules", "readings"}:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                name = getattr(owner, "id", getattr(owner, "attr", ""))
                if node.func.attr in CLOCKS and name in CLOCK_OWNERS:
                    found.append(f"{module.path}:{node.lineno}: {name}.{node.func.attr}()")
    assert found == []


def test_a_room_imports_only_the_rooms_below():
    def climbs(module: Module, name: str) -> bool:
        words = name.split(".")
        above = ROOMS_ABOVE.get(module.room(), set())
        return words[0] == module.app and len(words) > 1 and words[1] in above

    assert faults_of_imports(climbs) == []


@pytest.mark.parametrize("library", sorted(DOORS))
def test_each_outside_library_has_one_door(library: str):
    def is_elsewhere(module: Module, name: str) -> bool:
        return name.partition(".")[0] == library and not module.matches(DOORS[library])

    assert faults_of_imports(is_elsewhere) == []


def test_only_those_who_start_the_lab_know_it():
    def knows_it(module: Module, name: str) -> bool:
        return name.startswith("fleet.lab") and not module.matches(LAB_USERS)

    assert faults_of_imports(knows_it) == []


def _calls() -> Iterator[tuple[Module, ast.Call, str]]:
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call):
                yield module, node, getattr(node.func, "attr", getattr(node.func, "id", ""))


def _owned(call: ast.Call, name: str) -> str:
    return f"{getattr(getattr(call.func, 'value', None), 'id', '')}.{name}"


def test_no_process_is_started_through_a_local_shell():
    found = [
        f"{module.path}:{call.lineno}"
        for module, call, name in _calls()
        if _owned(call, name) in SHELLS
        or any(word.arg == "shell" and getattr(word.value, "value", True) for word in call.keywords)
    ]
    assert found == []


def test_no_command_is_glued_from_strings():
    glued = (ast.JoinedStr, ast.BinOp)
    found = [
        f"{module.path}:{call.lineno}: {name}"
        for module, call, name in _calls()
        if name in SPAWNERS
        and call.args
        and isinstance(call.args[0], glued)
        and not _is_list_sum(call.args[0])
    ]
    assert found == []


def _is_list_sum(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and any(
        isinstance(side, ast.List) or _is_list_sum(side) for side in (node.left, node.right)
    )


def test_no_module_and_no_function_has_grown_out_of_sight():
    long_modules = [f"{m.path}: {m.lines} lines" for m in modules() if m.lines > 450]
    long_functions = [
        f"{module.path}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= 60
    ]
    assert long_modules + long_functions == []


def test_every_module_says_what_it_is_for():
    silent = [m.path for m in modules() if m.tree.body and not ast.get_docstring(m.tree)]
    assert silent == []


def test_every_public_function_says_what_it_does():
    silent = [
        f"{module.path}: {node.name}"
        for module in modules()
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert silent == []
