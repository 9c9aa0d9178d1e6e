"""What exceptions and addresses say is stored and printed without the credentials in it."""

import json
import resource
import subprocess
import sys

import pytest

from steptrail.domain.exception_words import words_of
from steptrail.domain.secrets import hide_from_now_on, hide_keys_of, hide_values_of, without_secrets

HIDDEN = "s3cr3t-Va1ue"

FORMS = [
    "https://api.example.com/v1?key={}&x=1",
    "https://blob.example.com/c?sv=1&sig={}",
    "GET /hook?signature={} failed",
    "api_key={}",
    "api-key={}, retrying",
    "access_token={}",
    "client_secret={}",
    "password={} user=app",
    "passwd={}",
    "host=db.example.com user=app password='{} x' dbname=runs",
    "AWS_SECRET_ACCESS_KEY={}",
    "OPENAI_API_KEY = {}",
    "PGPASSWORD={} psql",
    '{{"api_key": "{}", "model": "m"}}',
    "{{'password': '{}', 'user': 'app'}}",
    '"{{\\"token\\": \\"{}\\"}}"',
    "{{'Authorization': 'Token {}'}}",
    "x-api-key: {}",
    "password: {}",
    "Authorization: {}",
    "Cookie: session={}; theme=dark",
    "Set-Cookie: id={}; Path=/",
    "headers={{'cookie': 'session={}'}}",
    "postgresql://app:{}@db.example.com/runs",
    "could not connect to 'postgresql://app:{}@db.example.com/runs'",
    'DSN "mysql://app:{}@db.example.com/runs" is wrong',
    "postgresql://app:{}@ss@db.example.com/runs",
    "postgresql://app:a/{}@db.example.com/runs",
    "redis://:{}@cache:6379/0",
    "Server=db;User=app;Password={};Database=runs",
    "Bearer {}aaaa",
    "basic {}",
    "Illegal header value b'Bearer {}\\n'",
    "AuthConfig(token='{}')",
    "--password={} --verbose",
    "_authToken={}",
    '{{"credentials": {{"user": "]}}", "word": ["{}"]}}}}',
    "{{'password': ['first', '{}']}}",
    "refused (api_key=('x', '{}'), user=ana)",
]

SHAPES = [
    "sk-proj-abcDEF123456",
    "sk_live_abcDEF123456",
    "ghp_abcdefABCDEF0123456789abcdefABCDEF0123",
    "github_pat_11ABCDEFG0abcdefghij",
    "glpat-abcdefABCDEF01234567",
    "xoxb-123456789012-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "hf_abcdefABCDEF0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("form", FORMS)
def test_no_usual_form_of_a_credential_is_kept(form: str) -> None:
    said = words_of(RuntimeError("the call failed: " + form.format(HIDDEN)))
    assert HIDDEN not in said
    assert said.startswith("the call failed: ")


@pytest.mark.parametrize("key", SHAPES)
def test_a_key_is_known_by_its_shape_wherever_it_stands(key: str) -> None:
    said = words_of(RuntimeError(f"Incorrect key provided ({key}), see the manual"))
    assert key not in said
    assert key[6:] not in said
    assert said.endswith("), see the manual")


def test_a_private_key_is_not_kept() -> None:
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\nAAKCAQEA\n-----END RSA PRIVATE KEY-----"
    assert words_of(ValueError(f"cannot read {pem} as a key")) == "cannot read … as a key"


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=32768 is more than the model's 4096 total_tokens: 5000",
        "KeyError: 'missing'",
        "Unexpected tokenizer: bpe",
        "see https://example.com/@ana/posts and http://localhost:8080/@vite/client",
        "cannot reach https://api.example.com:8443/v1/chat?model=m (errno 111)",
        "monkey = 1, keys: [1, 2]",
        "mail ana@example.com",
        'the result has no "description": expected an object',
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


def test_the_rest_of_a_message_can_still_be_read() -> None:
    said = without_secrets(
        "connection to postgresql://app:hunter2@db.example.com:5432/runs refused (password=x, user=ana)"
    )
    assert said == "connection to postgresql://…@db.example.com:5432/runs refused (password=…, user=ana)"
    assert without_secrets("{'credentials': {'user': [1]}, 'n': 2}") == "{'credentials': …, 'n': 2}"
    assert without_secrets("unexpected token: { at 3, in line 7") == "unexpected token: … at 3, in line 7"
    assert without_secrets("token = (\n   ^\nValueError: no") == "token = …\n   ^\nValueError: no"


HOSTILE = (
    "_",
    "a_",
    "a-",
    "token",
    "token=",
    "password: ",
    "a://",
    "a:",
    "@",
    "'",
    "\\",
    "secret='",
    "secret={",
    '\\"',
    'secret=["',
    "secret='\\\\",
    "-----BEGIN PRIVATE KEY",
    "-----BEGIN PRIVATE KEY-----",
    "bearer ",
    "?key=",
    "eyJ",
    "sk-",
    " =",
    " ",
)

WORK = """
import json, resource, sys
from steptrail.domain.secrets import hide_from_now_on, without_secrets
for piece in json.loads(sys.argv[1]):
    for text in (piece * (100_000 // len(piece)), "bearer" + piece * 30_000, "token=" + piece * 30_000):
        without_secrets(text)
print("done")
"""


@pytest.mark.slow("reads megabytes")
def test_the_work_grows_with_the_text_and_not_with_its_square() -> None:
    # A hundred thousand characters at a time are seconds of work when it is linear, and hours when it is not.
    soft = 15

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, soft))

    argv = [sys.executable, "-c", WORK, json.dumps(HOSTILE)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, preexec_fn=limited)
    assert ended.stdout == "done\n", ended.stderr


def test_a_key_in_use_is_hidden_whatever_it_looks_like_and_a_word_that_stands_for_none_is_not() -> None:
    hide_from_now_on("correct horse battery")
    hide_from_now_on("EMPTY")
    assert without_secrets("no correct horse battery!, EMPTY") == "no …!, EMPTY"


def test_the_newest_keys_in_use_are_hidden_and_their_number_does_not_grow() -> None:
    for number in range(1001):
        hide_from_now_on(f"key-in-use-{number:04}")
    assert without_secrets("key-in-use-0000 key-in-use-0001 key-in-use-1000") == "key-in-use-0000 … …"


@pytest.mark.parametrize(
    "part",
    ["v1", "openai", "deployments", "gpt-4o-2024-08-06", "chat-completions-for-everyone", "2024-10-21-preview"],
)
def test_what_is_no_key_in_an_address_is_not_hidden(part: str) -> None:
    hide_keys_of(f"https://models.example.com:8443/{part}?api-version={part}")
    assert without_secrets(f"it was {part}") == f"it was {part}"


def test_a_key_in_an_address_is_hidden_as_it_is_written_and_as_it_is_meant() -> None:
    hide_keys_of("https://models.example.com/v1?subscription-key=a%2Fb%2Fcdefgh&x=AbCdEfGhIjKlMnOpQrStUvWxYz")
    assert without_secrets("a%2Fb%2Fcdefgh, a/b/cdefgh, AbCdEfGhIjKlMnOpQrStUvWxYz") == "…, …, …"


def test_a_named_value_is_hidden_where_its_name_means_a_secret_or_it_looks_like_a_key() -> None:
    named = {
        "Authorization": "Bearer many-small-words",
        "X-Key": "the back door",
        "X-Shop": "tea and coffee",
        "MODE": "production",
        "ACCOUNT": "a1b2c3d4e5f6a7b8",
        "FOLDER": "/srv/z9y8x7w6v5u4t3s2",
    }
    hide_values_of(named.items())
    told = "many-small-words, the back door, tea and coffee, production, a1b2c3d4e5f6a7b8, /srv/z9y8x7w6v5u4t3s2"
    assert without_secrets(told) == "…, …, tea and coffee, production, …, /srv/z9y8x7w6v5u4t3s2"


@pytest.mark.parametrize(
    "text",
    [
        '{"credentials": {"user": "ana", "word": "hunter2", "n": [1',
        "{'password': ['first', 'hunter2', 'second",
        'refused {"token": [1, "hunter2", {',
        '{\n  "secret": {\n    "word": "hunter2",\n',
        '{"body": "{\\"credentials\\": {\\"word\\": \\"hunter2\\", \\"n\\": 1}}"}',
    ],
)
def test_of_a_credential_that_is_cut_off_before_its_end_nothing_is_shown(text: str) -> None:
    assert "hunter2" not in without_secrets(text)
    assert "hunter2" not in words_of(ValueError(text + "x" * 10_000))
