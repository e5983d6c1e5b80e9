"""What HAProxy's runtime API answers, worded by hand: as wanted, but for what is told of units."""

from __future__ import annotations

from typing import Any

from releases.rules.gateway import MAINT, Route, map_values

STATE_HEAD = (
    "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_port"
)
STAT_HEAD = "# pxname,svname,qcur,scur,stot,econ,eresp,wretr,wredis,hrsp_5xx,status,"
ADMIN = {"ready": 0, "drain": 8, "maint": 1}


def answer_text(routes: tuple[Route, ...], units: dict[str, Any] | None = None) -> str:
    """Return one exchange; `units` is like {"glm52_r1": {"weight": 7, "running": 2}}."""
    state, stat, shares = ["1", STATE_HEAD], [STAT_HEAD], []
    told = {name.replace("_", "-"): facts for name, facts in (units or {}).items()}
    for route in routes:
        for one in route.sets:
            backend = f"be_{route.pool}_{one.slot}"
            for server in one.servers:
                facts = {"weight": server.weight, "mode": server.mode, "running": 0}
                facts |= {"sessions": 0, "errors": 0} | told.get(server.unit, {})
                up = 0 if facts["mode"] == MAINT else 2
                state.append(
                    f"3 {backend} 1 {server.unit} {server.address} {up}"
                    f" {ADMIN[facts['mode']]} {facts['weight']} {server.port}"
                )
                stat.append(
                    f"{backend},{server.unit},0,{facts['running']},{facts['sessions']},0,0,0,0,"
                    f"{facts['errors']},UP,"
                )
        shares += [
            f"0x55{at:04x} {key} {value}"
            for at, (key, value) in enumerate(map_values(route).items())
        ]
    return "\n".join([*state, "", *stat, "", *shares, "", ""])
