"""What is given to a trail, and what it hands out, is one line in a traceback or a debugger, without a prompt."""

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.testing import ScriptedModel
from steptrail.workflow import Workflow


async def test_agents_workflows_and_handles_say_what_they_are() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    model = ScriptedModel(["No."])
    agent = AgentBuilder("clerk").with_model(model).with_tools(look).with_system_prompt("You know a secret.").build()
    flow = (
        Workflow("publish").llm("write", model, prompt="Write of a secret.").noop("end").chain("write", "end").build()
    )
    async with Steptrail.open("sqlite:///:memory:") as trail:
        given = (agent, flow, trail.session("s-1"), trail.flow("f-1"))
        assert [repr(each) for each in given] == [
            "<Agent 'clerk': ScriptedModel, look>",
            "<BuiltWorkflow 'publish': write, end>",
            "<Session 's-1'>",
            "<Flow 'f-1'>",
        ]


def test_a_blocking_handle_says_of_what() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        assert [repr(trail.session("s")), repr(trail.flow("f"))] == [
            "<blocking <Session 's'>>",
            "<blocking <Flow 'f'>>",
        ]
