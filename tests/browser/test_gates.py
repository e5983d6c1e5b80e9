"""A gate run by click: rows come into their places without a reload, in both languages."""

import pytest

from tests.waiting import wait_until

LAUNCH = "/replicas/glm52-r1/gen/1/launch/"
END_ALL = "from django.utils import timezone; GateRun.objects.filter(ended_at=None).update(state='cancelled', ended_at=timezone.now())"  # noqa: E501
ADD = (
    "GateRow.objects.create(run=GateRun.objects.latest('pk'), check_name='golden', "
    "subject='{subject}', verdict='{verdict}', expected='flotilla', found='{found}', latency_ms=412)"
)


def state_of(page, key: str) -> str:
    return page.locator(f"#rs-{key}").get_attribute("data-state")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh-hans", "通过 1 / 20，失败 1"),
        pytest.param("en", "1 of 20 passed, 1 failed", marks=pytest.mark.long),
    ],
)
def test_rows_come_in_without_a_reload(open_page, served, change, language, words):
    change(END_ALL, "gates")
    page = open_page("/gates/")
    page.context.add_cookies([{"name": "django_language", "value": language, "url": served}])
    page.goto(LAUNCH)
    page.click("#gates form button")
    page.wait_for_url("**/gates/GR-*/")
    topic = f"gate-{page.locator('#gate-head .mono').first.inner_text()}"
    wait_until(lambda: page.locator("[data-socket=live]").is_visible(), what="the socket")
    page.mouse.move(5, 5)
    page.evaluate("window.kept = 'yes'")
    assert {state_of(page, f"golden-{n}") for n in range(2)} == {"waiting"}
    change(ADD.format(subject="zh-arithmetic", verdict="passed", found="flotilla"), topic)
    wait_until(lambda: state_of(page, "golden-0") == "passed", what="the first row")
    assert state_of(page, "golden-1") == "waiting"
    change(ADD.format(subject="en-echo", verdict="failed", found="flotsam"), topic)
    wait_until(lambda: state_of(page, "golden-1") == "failed", what="the second row")
    assert page.locator("#row-golden-1 .is").inner_text() == "flotsam"
    wait_until(lambda: words in page.locator("#gate-counts").inner_text(), what="the counts")
    assert page.evaluate("window.kept") == "yes"
    assert page.complaints == []
