"""The reader in a browser: paste or drop an output, see the verdict, follow a finding to its line."""

import pytest

from tests.browser.shots import PASTED

DROP = """([form, name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, {type: "text/plain"}));
  for (const type of ["dragover", "drop"])
    document.querySelector(form).dispatchEvent(
      new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""
XID = (
    "[12345.678901] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"
    "[12346.000001] <img src=x onerror=alert(1)> \x1b[31mred\n"
)


def read(page, text: str) -> None:
    page.fill("#reader-text", text)
    page.click("form[data-drop] button")
    page.wait_for_selector("#verdict")


def width_over(page) -> int:
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


@pytest.mark.parametrize("look", ["dark", "phone"])
def test_a_pasted_output_gets_its_verdict_and_its_lines(open_page, look):
    page = open_page("/reader/", look=look)
    read(page, XID)
    assert "Failed" in page.locator("h1").inner_text()
    link = page.locator("#verdict .tests a").first
    assert link.get_attribute("href") == "#t1"
    link.click()
    line = page.locator("#t1")
    assert page.evaluate("document.querySelector('#t1').matches(':target')")
    assert "fallen off the bus" in line.inner_text()
    assert "<img src=x onerror=alert(1)>" in page.locator("#t2").inner_text()
    assert page.locator(".paste img").count() == 0
    assert width_over(page) <= 0
    assert page.complaints == []


def test_only_the_lines_that_matter_are_shown_when_asked(open_page):
    page = open_page("/reader/")
    read(page, PASTED)
    assert page.locator("#t1").is_visible()
    assert (
        page.locator(".paste details").count() == 1
    )  # the fourteen ranks between the first and the last
    page.locator("#show-marked").check(force=True)
    assert not page.locator("#t1").is_visible()
    assert page.locator(".paste .warn").first.is_visible()
    assert page.complaints == []


def test_a_dropped_file_is_read(open_page):
    page = open_page("/reader/")
    page.evaluate(DROP, ["form[data-drop]", "dmesg.txt", XID])
    page.click("form[data-drop] button")
    page.wait_for_selector("#verdict")
    assert "dmesg.txt" in page.locator("main").inner_text()
    assert "kernel-log" in page.locator("#verdict").inner_text()
    assert page.complaints == []


def test_it_reads_without_script_and_again_as_another_kind(open_page):
    page = open_page("/reader/", java_script_enabled=False)
    read(page, XID)
    page.click("details.fold > summary")
    assert page.locator("#reader-text").input_value().startswith("[12345.678901] NVRM")
    page.locator("form[data-drop] select").select_option("vllm-log")
    page.click("form[data-drop] button")
    page.wait_for_selector("#verdict")
    assert "vllm-log" in page.locator("#verdict").inner_text()
