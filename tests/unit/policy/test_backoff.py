import msgspec
import pytest

from steptrail.errors import Backoff, BackoffKind, ConfigurationError
from steptrail.workflow import RetryPolicy

HUGE = 10**6


def delays(backoff: Backoff) -> list[float]:
    return [backoff.delay(failures, 0.0) for failures in (1, 2, 3, 4, HUGE)]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff.none(), [0, 0, 0, 0, 0]),
        (Backoff.linear(2), [2, 4, 6, 8, 60]),
        (Backoff.linear(2, max_seconds=5), [2, 4, 5, 5, 5]),
        (Backoff.exponential(2), [2, 4, 8, 16, 60]),
        (Backoff.exponential(0.5, max_seconds=3), [0.5, 1, 2, 3, 3]),
        (Backoff.exponential(0), [0, 0, 0, 0, 0]),
        (Backoff.exponential(1e300, max_seconds=60), [60, 60, 60, 60, 60]),
        (Backoff.exponential(3600), [3600, 3600, 3600, 3600, 3600]),
        (Backoff.linear(90.5), [90.5, 90.5, 90.5, 90.5, 90.5]),
    ],
)
def test_a_delay_grows_with_the_failures_up_to_the_cap(backoff: Backoff, expected: list[float]) -> None:
    assert delays(backoff) == expected


def test_jitter_shortens_a_delay_by_at_most_its_fraction() -> None:
    backoff = Backoff.linear(8, jitter=0.5)
    assert [backoff.delay(1, draw) for draw in (0.0, 0.25, 0.5)] == [8, 7, 6]
    assert 4 < backoff.delay(1, 0.999) < 4.01
    assert Backoff.linear(8).delay(1, 0.9) == 8


def test_the_provider_is_never_asked_sooner_than_it_wants() -> None:
    backoff = Backoff.linear(8, max_seconds=10, jitter=1)
    assert backoff.delay(1, 0.0, retry_after=3) == 8
    assert backoff.delay(1, 0.9, retry_after=3) == 3
    assert backoff.delay(5, 0.0, retry_after=90) == 90
    assert Backoff.none().delay(1, 0.0, retry_after=2.5) == 2.5


@pytest.mark.parametrize(("failures", "draw"), [(0, 0.0), (-1, 0.0), (1, 1.0), (1, -0.1), (1, float("nan"))])
def test_an_argument_out_of_range_is_refused(failures: int, draw: float) -> None:
    with pytest.raises(ValueError, match=r"failures is|draw is"):
        Backoff.linear().delay(failures, draw)


@pytest.mark.parametrize(
    ("base", "most", "jitter"), [(-1, 60, 0), (1, -1, 0), (1, 60, 1.5), (1, 60, -0.5), (float("inf"), 60, 0)]
)
def test_a_rule_out_of_range_is_refused(base: float, most: float, jitter: float) -> None:
    with pytest.raises(ConfigurationError):
        Backoff.exponential(base, max_seconds=most, jitter=jitter)


def test_the_wire_form_has_four_keys() -> None:
    assert Backoff.exponential(0.5, max_seconds=8, jitter=0.25).to_dict() == {
        "kind": "exponential",
        "baseSeconds": 0.5,
        "maxSeconds": 8.0,
        "jitter": 0.25,
    }


@pytest.mark.parametrize("kind", list(BackoffKind))
def test_a_rule_reads_back(kind: BackoffKind) -> None:
    backoff = Backoff(kind=kind, base_seconds=2, max_seconds=9, jitter=0.5)
    assert Backoff.from_dict(backoff.to_dict()) == backoff
    assert msgspec.json.decode(msgspec.json.encode(backoff), type=Backoff) == backoff


@pytest.mark.parametrize(
    "rule", [Backoff.exponential(1e300, max_seconds=1e300), Backoff.none(), RetryPolicy(backoff=1e300)], ids=str
)
def test_a_delay_ends_at_a_date(rule: Backoff | RetryPolicy) -> None:
    assert rule.delay(1, 0.0, retry_after=1e300) == 100 * 365.25 * 86_400
