"""An external call on a page: who may act answers it with data, or says that it failed."""

from pathlib import Path

import httpx
import pytest

from steptrail import AgentBuilder, Steptrail, external_tool
from steptrail.inspector import Access, inspector
from steptrail.testing import ScriptedModel, call
from tests.inspector.test_actions import act, buttons
from tests.inspector.test_pages import words

SCAN = external_tool("scan", "Scan a parcel.", {"type": "object"}, result={"type": "object", "required": ["code"]})


@pytest.mark.parametrize(("do", "came"), [("data", {"code": 7}), ("failed", "no scanner")])
async def test_a_call_is_answered_from_its_page_once_and_in_its_type(tmp_path: Path, do: str, came: object) -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel([call("scan"), "Scanned."])).with_tools(SCAN).build()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(agent, "Scan", session="s")
        app = inspector(trail, authorize=lambda _: Access(may_act=True, user="ana"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8400") as client:
            page = (await client.get("/runs/s")).text
            assert "Waiting for somebody to answer the call of scan" in words(page)
            assert "without an answer the call fails." in words(page)
            assert buttons(page)[:2] == ["failed", "data"]
            refused = await act(client, "/runs/s", "data", data='{"kode": 1}', reason="here")
            assert (refused.status_code, "does not fit" in refused.text) == (409, True)
            assert (await act(client, "/runs/s", do, data='{"code": 7}', reason="no scanner")).status_code == 303
            (answered,) = (await trail.session("s").state()).tool_executions
            assert (answered.result if do == "data" else answered.error and answered.error.message) == came
