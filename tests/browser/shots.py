"""`python -m tests.browser.shots DIR [NAME ...]`: photographs the pages of the scene, dark, light and at phone width.

For people who look at pages; no test. Its own servers, gone at the end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

PAGES = {
    "login": "/login/",
    "overview": "/",
    "fleet": "/fleet/",
    "fleet-health": "/fleet/?color=health",
    "fleet-hbm": "/fleet/?color=hbm",
    "fleet-pool": "/fleet/?group=pool",
    "fleet-rack": "/fleet/?group=rack&color=hbm&q=leaf:[34]",
    "table": "/fleet/table/",
    "node-bad": "/nodes/gpu028/",
    "node-history": "/nodes/gpu028/?gpu=3",
    "node": "/nodes/gpu001/?gpu=3",
    "node-key": "/nodes/gpu042/",
    "node-rejected": "/nodes/gpu033/",
    "node-aged": "/nodes/gpu034/",
    "acceptances": "/acceptance/",
    "acceptance": "/acceptance/AC-0001/",
    "acceptance-open": "/acceptance/AC-0002/",
    "node-new": "/nodes/gpu045/",
    "raw": "/nodes/gpu001/probes/{probe}/raw/gpu-list/",
    "facts": "/fleet/facts/?key=driver_version",
    "fleet-settings": "/fleet/settings/",
    "gpu": "/gpus/GPU-0000004d-9a53-5f0c-8c0e-5d2b6f7e19b3/",
    "imports": "/nodes/import/",
    "import": "/nodes/import/2/",
    "replicas": "/replicas/",
    "replica": "/replicas/glm52-r4/",
    "replica-ready": "/replicas/glm52-r1/",
    "replica-planned": "/replicas/glm51-r1/",
    "plan": "/replicas/glm52-r2/launch/",
    "launch": "/replicas/glm52-r4/gen/3/launch/",
    "launch-failed": "/replicas/glm52-r4/gen/2/launch/",
    "launch-ready": "/replicas/glm52-r1/gen/1/launch/",
    "gateway": "/gateway/?pool=dsv4&unit=dsv4-r9",
    "gates": "/gates/",
    "gate-unproven": "/gates/GR-0001/",
    "gate-failed": "/gates/GR-0002/",
    "gate-running": "/gates/GR-0003/",
    "weights": "/weights/",
    "artefact": "/weights/WA-0002/",
    "artefact-held": "/weights/WA-0001/",
    "distribution": "/distributions/DIST-0001/",
    "network": "/network/",
    "network-run": "/network/NET-0001/",
    "network-live": "/network/NET-0002/",
    "network-pair": "/network/NET-0001/pairs/1/",
    "network-matrix": "/network/matrix/",
    "incidents": "/incidents/?show=all",
    "incident": "/incidents/INC-0001/",
    "incident-new": "/incidents/INC-0002/",
    "incident-written": "/incidents/INC-0003/",
    "run": "/runs/RUN-0001/",
    "run-proposed": "/runs/RUN-0002/",
    "rollouts": "/rollouts/",
    "rollout": "/rollouts/RO-0001/",
    "rollout-halted": "/rollouts/RO-0002/",
    "rollout-new": "/rollouts/new/",
    "inbox": "/inbox/",
    "releases": "/releases/",
    "release": "/releases/REL-0003/",
    "release-draft": "/releases/REL-0002/",
    "release-edit": "/releases/REL-0002/edit/",
    "golden-list": "/golden/",
    "golden": "/golden/GP-0001/",
    "golden-draft": "/golden/GP-0002/?with=GP-0001",
    "golden-pair": "/golden/pairs/2/?with=1",
    "golden-edit": "/golden/GP-0001/edit/",
    "audit": "/audit/",
    "evidence": "/evidence/1/",
    "reader-form": "/reader/",
    "reader": "/reader/",
    "404": "/nodes/nobody/",
    "log": "/replicas/glm52-r4/gen/2/log/",
}
# A pair on sockets: what nccl-tests printed between the lines of NCCL.
_RANK = "#  Rank {n:2} Group  0 Pid  4{n:04} on   h100-02{host} device  {card} [0x19] NVIDIA H100 80GB HBM3"
_COLUMNS = "     time   algbw   busbw #wrong"
_UNITS = "     (us)  (GB/s)  (GB/s)       "
_ROW = "{0:12}{1:14}   float     sum      -1" + "{2:9.1f}  150.00  281.25      0" * 2
PASTED = "\n".join(
    [
        "# nThread 1 nGpus 1 minBytes 1073741824 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 "
        "agg iters: 1 validation: 1 graph: 0",
        "#",
        "# Using devices",
        *(_RANK.format(n=n, host=1 + n // 8, card=n % 8) for n in range(16)),
        "h100-021:41207:41301 [0] NCCL INFO NET/Socket : Using [0]bond0:10.0.0.21<0>",
        "h100-021:41207:41301 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0",
        f"#{'size':>11}{'count':>14}    type   redop    root{_COLUMNS}{_COLUMNS}",
        f"#{'(B)':>11}{'(elements)':>14}{'':22}{_UNITS}{_UNITS}",
        *(_ROW.format(1 << n, 1 << (n - 2), (1 << n) / 150e3) for n in range(30, 34)),
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 281.25",
        "#",
        "",
    ]
)  # fmt: skip
LOOKS = {
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "dark",
        "device_scale_factor": 2,
    },
    "zh": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
}


def main() -> int:
    target, wanted = Path(sys.argv[1]), set(sys.argv[2:])
    looks = [look for look in LOOKS if look in wanted] or list(LOOKS)[:3]
    names = [name for name in PAGES if name in wanted] or list(PAGES)
    target.mkdir(parents=True, exist_ok=True)
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    from tests import services

    running = services.session()
    running.start()
    import django

    django.setup()
    from django.core.management import call_command

    from tests.browser import scene
    from tests.browser.web import open_browser, sign_in, web_server

    call_command("migrate", verbosity=0)
    scene.draw()
    with web_server(running.directory) as base, open_browser() as browser:
        for look in looks:
            _photograph(browser, base, look, names, target, sign_in)
    return 0


def _photograph(
    browser: Any, base: str, look: str, names: list[str], target: Path, sign_in: Any
) -> None:
    from fleet.models import NodeProbe

    probe = NodeProbe.objects.get(node__host__name="gpu001").command_id
    context = browser.new_context(**LOOKS[look])
    if look == "zh":
        context.add_cookies([{"name": "django_language", "value": "zh-hans", "url": base}])
    page = context.new_page()
    page.on(
        "console",
        lambda message: print(look, message.text) if message.type in {"error", "warning"} else None,
    )
    page.on("pageerror", lambda error: print(look, "page error", error))
    if "login" in names:
        page.goto(f"{base}/login/")
        page.screenshot(path=target / f"login-{look}.png")
    sign_in(page, base, os.environ.get("PERSON", "ana"))
    for name in names:
        if name == "login":
            continue
        page.goto(base + PAGES[name].format(probe=probe))
        page.wait_for_timeout(400)
        wide = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        if wide > 0:
            print(f"{name} {look}: scrolls sideways by {wide} px")
        if name == "reader":
            _read(page)
        page.screenshot(path=target / f"{name}-{look}.png")
        height = page.evaluate("document.getElementById('main')?.scrollHeight || 0")
        if height > LOOKS[look]["viewport"]["height"]:
            page.set_viewport_size({**LOOKS[look]["viewport"], "height": min(3000, height + 120)})
            page.screenshot(path=target / f"{name}-{look}-full.png")
            page.set_viewport_size(LOOKS[look]["viewport"])
    context.close()


def _read(page: Any) -> None:
    """Paste an output, because the page by itself shows only its form."""
    page.fill("#reader-text", PASTED)
    page.click("form[data-drop] button")
    page.wait_for_selector("#verdict")


if __name__ == "__main__":
    sys.exit(main())
