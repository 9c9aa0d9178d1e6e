"""The pytest plugin in a pytest of its own: recorded once, replayed ever after."""

import sys
from importlib.metadata import entry_points

import pytest

from tests.harness.ready_python import ready_python

PLUGIN = "steptrail.testing.pytest_plugin"
SHOP = """
from pathlib import Path

from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.testing import ScriptedModel, call

LEDGER = Path(__file__).with_name("ledger")


@tool(effect=ToolEffect.READ)
def stock(item: str, token: str) -> dict[str, str]:
    LEDGER.write_text(LEDGER.read_text() + "real\\n" if LEDGER.exists() else "real\\n")
    return {"left": "3", "token": token}


def shop(prompt="Be brief."):
    model = ScriptedModel([call("stock", item="tea", token="secret-1"), "There are 3."])
    return AgentBuilder("shop").with_model(model).with_system_prompt(prompt).with_tools(stock).build()
"""
TEST = """
import pytest
from shop import shop


@pytest.mark.parametrize("times", [1, 2])
def test_tea(steptrail_cassette, times):
    for _ in range(times):
        result = steptrail_cassette.run(shop(), "How much tea?")
        assert (result.status, result.output) == ("completed", "There are 3.")
"""


@pytest.fixture
def shop(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(shop=SHOP, test_shop=TEST)
    return pytester


def run(pytester: pytest.Pytester, *words: str, python: str | None = None) -> pytest.RunResult:
    # Where Steptrail is installed with its entry point, pytest has loaded the plugin already.
    is_installed = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
    plugin = [] if is_installed else ["-p", PLUGIN]
    # Nobody needs an asyncio plugin beside ours.
    without = ["-p", "no:asyncio", "-p", "no:cacheprovider"]
    return pytester.run(python or ready_python(), "-m", "pytest", *plugin, *without, *words)


def test_given_no_cassette_then_the_test_fails_and_says_how_to_record_one(shop: pytest.Pytester) -> None:
    done = run(shop, "-k", "1")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines(
        ["*there is no cassette */cassettes/test_shop/test_tea-1.jsonl: `pytest --steptrail-record 'test_shop.py::*"]
    )
    assert not (shop.path / "ledger").exists()


def test_given_a_recorded_test_then_it_passes_without_the_model_and_the_tools(shop: pytest.Pytester) -> None:
    run(shop, "--steptrail-record").assert_outcomes(passed=2)
    assert (shop.path / "ledger").read_text() == "real\n" * 3
    recorded = sorted(path.name for path in (shop.path / "cassettes" / "test_shop").iterdir())
    assert recorded == ["test_tea-1.jsonl", "test_tea-2-2.jsonl", "test_tea-2.jsonl"]

    run(shop).assert_outcomes(passed=2)
    assert (shop.path / "ledger").read_text() == "real\n" * 3


def test_given_tests_of_nearly_the_same_name_then_each_has_a_cassette_of_its_own(shop: pytest.Pytester) -> None:
    shop.makepyfile(
        test_shop="""
        import pytest
        from shop import shop

        @pytest.mark.parametrize("about", ["a/b", "a b", "a-b", "", "x" * 300])
        def test_it(steptrail_cassette, about):
            steptrail_cassette.run(shop(), f"Tea {about}?")

        class TestTea:
            def test_it(self, steptrail_cassette):
                steptrail_cassette.run(shop(), "Tea?")

        class TestCoffee:
            def test_it(self, steptrail_cassette):
                steptrail_cassette.run(shop(), "Coffee?")
        """
    )
    run(shop, "--steptrail-record").assert_outcomes(passed=7)
    recorded = {path.name for path in (shop.path / "cassettes" / "test_shop").iterdir()}
    assert len(recorded) == 7
    assert {"TestTea.test_it.jsonl", "TestCoffee.test_it.jsonl", "test_it-a-b.jsonl"} < recorded
    run(shop).assert_outcomes(passed=7)


def test_given_an_event_loop_then_a_cassette_is_refused_as_a_trail_would_be(shop: pytest.Pytester) -> None:
    shop.makepyfile(
        test_shop="""
        import asyncio
        from shop import shop

        def test_it(steptrail_cassette):
            async def in_a_loop():
                steptrail_cassette.run(shop(), "Tea?")

            asyncio.run(in_a_loop())
        """
    )
    done = run(shop)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*the blocking API cannot be used inside a running event loop*"])


def test_given_an_agent_that_changed_then_the_replay_names_the_difference_and_how_to_record_again(
    shop: pytest.Pytester,
) -> None:
    run(shop, "--steptrail-record", "-k", "1").assert_outcomes(passed=1, deselected=1)
    shop.makepyfile(shop=SHOP.replace("Be brief.", "Be kind."))
    done = run(shop, "-k", "1")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines(
        [
            "*First difference: message 1 (system), part 1, text",
            "*recorded  'Be brief.'",
            "*now       'Be kind.'",
            "*If the change is meant, `pytest --steptrail-record 'test_shop.py::test_tea?1?'` records it again.",
        ]
    )


def test_given_another_input_then_the_replay_says_so(shop: pytest.Pytester) -> None:
    run(shop, "--steptrail-record", "-k", "1").assert_outcomes(passed=1, deselected=1)
    shop.makepyfile(test_shop=TEST.replace("How much tea?", "How much coffee?"))
    run(shop, "-k", "1").stdout.fnmatch_lines(["*the input is not the recorded one. First difference: parts[[]0].text"])


def test_given_an_agent_with_a_context_then_it_is_recorded_and_replayed_with_it_and_no_other(
    shop: pytest.Pytester,
) -> None:
    test = """
        from steptrail import AgentBuilder
        from steptrail.testing import ScriptedModel

        def desk():
            return AgentBuilder("desk").with_model(ScriptedModel(["Hello."])).with_context(dict[str, str]).build()

        def test_it(steptrail_cassette):
            assert steptrail_cassette.run(desk(), "Hello?", context={"tenant": "acme"}).output == "Hello."

        def test_beside(steptrail_session):
            result = steptrail_session.run(desk(), "Hello?", context={"tenant": "acme"})
            assert result.state.context == {"tenant": "acme"}
    """
    shop.makepyfile(test_shop=test)
    run(shop, "--steptrail-record").assert_outcomes(passed=2)
    run(shop).assert_outcomes(passed=2)
    shop.makepyfile(test_shop=test.replace("acme", "else"))
    done = run(shop)
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines(["*the context is not the recorded one. First difference: tenant"])


def test_given_a_workflow_then_a_cassette_says_that_it_records_agents(shop: pytest.Pytester) -> None:
    shop.makepyfile(
        test_shop="""
        from steptrail.workflow import Workflow

        def test_it(steptrail_cassette):
            steptrail_cassette.run(Workflow("w").noop("a").build(), "Tea?")
        """
    )
    done = run(shop, "--steptrail-record")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*ConfigurationError: a cassette records an agent, and no workflow: *"])


def test_given_keys_to_redact_then_no_cassette_holds_their_values(shop: pytest.Pytester) -> None:
    shop.makeini("[pytest]\nsteptrail_redact = token")
    run(shop, "--steptrail-record", "-k", "1").assert_outcomes(passed=1, deselected=1)
    cassette = (shop.path / "cassettes" / "test_shop" / "test_tea-1.jsonl").read_text()
    assert "secret-1" not in cassette
    assert '"token":"[redacted]"' in cassette
    run(shop, "-k", "1").assert_outcomes(passed=1, deselected=1)


def test_given_a_key_of_the_context_to_redact_then_what_was_recorded_is_replayed(shop: pytest.Pytester) -> None:
    shop.makepyfile(
        test_shop="""
        from steptrail import AgentBuilder
        from steptrail.testing import ScriptedModel

        def test_it(steptrail_cassette):
            desk = AgentBuilder("desk").with_model(ScriptedModel(["Hello."])).with_context(dict[str, str]).build()
            context = {"tenant": "acme", "e-mail": "ana@shop.example"}
            assert steptrail_cassette.run(desk, "Hello?", context=context).output == "Hello."
        """
    )
    shop.makeini("[pytest]\nsteptrail_redact = e-mail")
    run(shop, "--steptrail-record").assert_outcomes(passed=1)
    cassette = (shop.path / "cassettes" / "test_shop" / "test_it.jsonl").read_text()
    assert "ana@shop.example" not in cassette
    run(shop).assert_outcomes(passed=1)
    test = shop.path / "test_shop.py"
    test.write_text(test.read_text().replace('"acme"', '"other"'))
    done = run(shop)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*the context is not the recorded one. First difference: tenant"])


def test_given_a_trail_of_its_own_then_a_test_runs_agents_and_looks_at_what_is_stored(shop: pytest.Pytester) -> None:
    shop.makepyfile(
        test_shop="""
        import asyncio
        from shop import shop
        from steptrail import Steptrail

        def test_it(steptrail_session):
            assert steptrail_session.run(shop(), "Tea?", session="s").output == "There are 3."
            assert steptrail_session.trail.session("s").state().step_count == 2
            assert steptrail_session.recording("s").events[-1].TYPE == "execution.finished.v1"

        def test_another_has_another_store(steptrail_session):
            async def listed():
                async with Steptrail.open(steptrail_session.url) as trail:
                    return await trail.runs()

            assert asyncio.run(listed()) == []
        """
    )
    run(shop).assert_outcomes(passed=2)


def test_without_its_option_and_fixtures_the_plugin_changes_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    run(pytester, "-W", "error", python=sys.executable).assert_outcomes(passed=1)
