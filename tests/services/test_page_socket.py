from importlib import import_module
from typing import Any

import pytest
from channels.db import database_sync_to_async as sync_to_async
from django.conf import settings as live_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import AnonymousUser
from django.db import transaction

from fleet.consumers import NOT_ALLOWED, TOO_MANY, PageConsumer
from fleet.doorbell import ring
from fleet.models import RoleGrant
from fleet.services import limits
from fleet.services.people import role_revoke
from tests.factories import make_actor, make_node, make_nodes, make_person, make_pool, make_replica
from tests.sockets import Socket

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def quiet_clock(settings, monkeypatch):
    """No heartbeat comes by itself; connects are counted anew."""
    settings.TIME_SCALE = 0.01
    monkeypatch.setattr("fleet.consumers.socket_meter", limits.Meter(5))


def session_of(user: Any) -> Any:
    session = import_module(live_settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = live_settings.AUTHENTICATION_BACKENDS[-1]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return session


@sync_to_async
def person(*args: Any, **fields: Any) -> tuple[Any, Any]:
    user = make_person(*args, **fields)
    return user, session_of(user)


def socket(user: Any, session: Any, topics: str = "fleet") -> Socket:
    path = f"/ws/page/?topics={topics}"
    return Socket(PageConsumer.as_asgi(), path, user=user, session=session)


async def opened(page: Socket) -> Socket:
    assert await page.connect()
    assert (await page.receive())["topic"] == "clock"
    return page


@sync_to_async
def ring_in_transaction(*topics: str) -> None:
    with transaction.atomic():
        ring(*topics)


async def test_it_hears_a_ring_after_the_commit_with_topic_and_version_only():
    page = await opened(socket(*await person("chen")))
    await ring_in_transaction("fleet", "node-h100-009")
    message = await page.receive()
    assert set(message) == {"topic", "v"}
    assert message["topic"] == "fleet"
    assert await page.receive_nothing(timeout=0.2)
    await page.disconnect()


async def test_a_ring_of_a_whole_fleet_is_heard_by_the_pages_of_its_topics_alone():
    page = await opened(socket(*await person("chen")))
    other = await opened(socket(*await person("yin", "viewer"), topics="incidents"))
    await ring_in_transaction(*(f"replica-glm52-{number}" for number in range(1000)), "fleet")
    assert (await page.receive())["topic"] == "fleet"
    assert await page.receive_nothing(timeout=0.2)
    assert await other.receive_nothing()
    await page.disconnect()
    await other.disconnect()


async def test_a_rolled_back_change_rings_nothing():
    page = await opened(socket(*await person("chen")))

    @sync_to_async
    def undone() -> None:
        with transaction.atomic():
            ring("fleet")
            transaction.set_rollback(True)

    await undone()
    assert await page.receive_nothing(timeout=0.3)
    await page.disconnect()


async def test_nobody_is_refused_in_the_handshake():
    assert not await socket(AnonymousUser(), None).connect()


@pytest.mark.parametrize(
    "topics",
    ["", "no-such-topic", "node-h100-404", "node-", "fleet,launch-LN-0001", "x" * 300,
     ",".join(f"node-h100-{n:03d}" for n in range(1, 22))],
)  # fmt: skip
async def test_a_topic_that_the_person_may_not_hear_closes_it(topics):
    await sync_to_async(make_nodes)(21)
    page = socket(*await person("chen"), topics)
    await page.connect()
    assert await page.closed_with() == NOT_ALLOWED


async def test_a_role_in_one_pool_does_not_hear_another_pool():
    @sync_to_async
    def fleet() -> Any:
        mine, other = make_pool("glm52"), make_pool("dsv4")
        make_replica("glm52-r1", pool=mine)
        make_replica("dsv4-r1", pool=other)
        return mine

    user, session = await person("eve", role="viewer", pool=await fleet())
    page = await opened(socket(user, session, "replica-glm52-r1"))
    await page.disconnect()
    page = socket(user, session, "replica-dsv4-r1")
    await page.connect()
    assert await page.closed_with() == NOT_ALLOWED


async def test_a_person_without_a_role_hears_nothing():
    page = socket(*await person("eve", role=""))
    await page.connect()
    assert await page.closed_with() == NOT_ALLOWED


async def test_it_closes_at_once_when_the_role_is_taken_away():
    page = await opened(socket(*await person("chen")))

    @sync_to_async
    def revoke() -> None:
        role_revoke(grant=RoleGrant.objects.get(), reason="left", actor=make_actor("dana"))

    await revoke()
    assert await page.closed_with() == NOT_ALLOWED


async def test_a_recheck_notices_what_nobody_rang_for(settings):
    settings.TIME_SCALE = 300
    user, session = await person("chen")
    page = socket(user, session)
    await page.connect()
    await sync_to_async(session.delete)()
    assert await page.closed_with() == NOT_ALLOWED


async def test_the_server_tells_its_time_now_and_then(settings):
    settings.TIME_SCALE = 300
    page = await opened(socket(*await person("chen")))
    assert (await page.receive())["topic"] == "clock"
    await page.disconnect()


async def test_what_a_page_says_is_ignored():
    page = await opened(socket(*await person("ana")))
    await page.say('{"topic": "fleet", "do": "stop"}')
    assert await page.receive_nothing(timeout=0.2)
    await page.disconnect()


async def test_too_many_connects_within_a_minute_are_refused():
    user, session = await person("chen")
    for _ in range(5):
        await (await opened(socket(user, session))).disconnect()
    page = socket(user, session)
    await page.connect()
    assert await page.closed_with() == TOO_MANY


async def test_a_ring_without_redis_breaks_no_change(settings, caplog):
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": ["redis://127.0.0.1:1/0"]},
        }
    }

    @sync_to_async
    def change() -> Any:
        from channels.layers import channel_layers

        channel_layers.backends.clear()
        with transaction.atomic():
            node = make_node()
            ring("fleet")
        channel_layers.backends.clear()
        return node

    assert (await change()).pk
    assert "doorbell: page.fleet not rung" in caplog.text
