"""An inventory by click: a file, its dry run, its apply; and without script."""

from collections.abc import Iterator

import pytest

ROWS = "name,address,user,leaf,rack\n{name}-[1-2],127.66.{n}.[1-2],fleet,7,R66\n{name}-x,127.66.{n}.300,fleet,7,R66\n"
HEAD = "import django\ndjango.setup()\nfrom fleet.execution.models import Host\nfrom fleet.models import Node\n"
SHOW = "print(','.join(Node.objects.filter(host__name__startswith='{name}').values_list('host__name', flat=True)))"
# the scene is other tests' too
REMOVE = "Node.objects.filter(rack__name='R66').delete(); Host.objects.filter(address__startswith='127.66.').delete()"


@pytest.fixture(autouse=True)
def _leave_the_scene_as_it_was(console_python) -> Iterator[None]:
    yield
    console_python(HEAD + REMOVE)


@pytest.mark.parametrize("has_script", [True, False])
def test_a_file_is_tried_looked_at_and_applied(open_page, console_python, has_script, tmp_path):
    name, n = ("scripted", 1) if has_script else ("plain", 2)
    file = tmp_path / "rack66.csv"
    file.write_text(ROWS.format(name=name, n=n))
    page = open_page("/nodes/import/", person="dana", java_script_enabled=has_script)
    page.set_input_files("#import-file", file)
    page.uncheck("[name=whole]")
    page.click("#read button")
    page.wait_for_url("**/nodes/import/*/")
    assert page.locator("#import-state").get_attribute("data-state") == "dry"
    assert "2 added" in page.locator("#import-strip").inner_text()
    first = page.locator("#import-diff tbody tr").first.inner_text()
    assert "Refused" in first
    assert "line 3" in first
    assert names(console_python, name) == ""
    page.fill("#import-reason", "a new rack")
    page.click("#import-apply button[value=apply]")
    page.wait_for_selector("#import-state[data-state=applied]")
    assert names(console_python, name) == f"{name}-1,{name}-2"
    page.goto(f"/fleet/table/?q={name}-[1-2]")
    assert page.locator("tbody tr").count() == 2
    assert page.complaints == []


def names(console_python, name: str) -> str:
    return console_python(HEAD + SHOW.format(name=name)).strip()
