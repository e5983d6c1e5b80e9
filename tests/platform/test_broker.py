"""A broker that was away for long is found again soon."""

import pytest
from kombu.exceptions import OperationalError

from console.celery import BROKER_AGAIN_S, app
from console.embedded.ports import reserve_port


@pytest.mark.parametrize("kind", ["connection_for_read", "connection_for_write"])
def test_a_conductor_never_waits_long_before_it_looks_for_the_broker_again(monkeypatch, kind):
    holder, port = reserve_port()  # held, and nobody answers there
    connection = getattr(app, kind)(f"redis://127.0.0.1:{port}/2")
    waits: list[float] = []
    monkeypatch.setattr("kombu.utils.functional.sleep", lambda _: None)

    def note(_error: Exception, interval: float) -> None:
        waits.append(interval)

    with pytest.raises(OperationalError):
        connection.ensure_connection(note, 20)
    connection.release()
    holder.close()
    assert len(waits) == 20
    assert max(waits) <= BROKER_AGAIN_S
