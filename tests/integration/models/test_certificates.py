"""A service may make an agent, and so a model, for each request: the certificates are read once, beside the loop."""

import ssl
import threading
from typing import Any

import pytest

from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import Message
from steptrail.infrastructure.bounded_http import certificates
from steptrail.testing.model_script import answer
from steptrail.testing.model_server import ModelServer
from tests.integration.models.wires import DRIVERS, driver_of


async def test_models_share_the_certificates_which_are_read_beside_the_loop(
    typed_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_in: list[threading.Thread] = []
    load = ssl.SSLContext.load_verify_locations

    def noting(context: ssl.SSLContext, *where: Any, **named: Any) -> None:
        read_in.append(threading.current_thread())
        load(context, *where, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", noting)
    certificates.cache_clear()
    typed_server.play([answer("Hello.")] * len(DRIVERS))
    for protocol in DRIVERS:
        model = driver_of(protocol, typed_server)
        await model.infer(ModelRequest(messages=[Message.user("hi")]))
        await model.close()
    assert len(read_in) == 1
    assert read_in[0] is not threading.current_thread()
