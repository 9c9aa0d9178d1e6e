"""The three forms of a value do the same work: what is compared is comparable."""

import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.values.forms import FORMS, READS, samples
from benchmarks.values.traps import BAD_JSON, BAD_VALUES, complaint, fate

ROOT = Path(__file__).parents[2]
PYDANTIC, STRUCTS, SLOTTED = FORMS


def test_every_form_reads_what_a_run_has_stored_and_writes_the_same_bytes(tmp_path: Path) -> None:
    for sample in samples(tmp_path):
        looked: list[object] = []
        for form in FORMS:
            event = form.decode(sample.type, sample.written)
            assert form.encode(event) == sample.written
            assert event == form.decode(sample.type, sample.written)
            looked.append(READS[sample.type](form.classes, event))
        assert looked.count(looked[0]) == len(FORMS)


def test_every_form_builds_the_same_event(tmp_path: Path) -> None:
    for sample in samples(tmp_path):
        written = {form.name: form.encode(sample.build(form.classes)) for form in FORMS}
        assert len(set(written.values())) == 1, written


def test_no_form_but_that_of_today_takes_what_is_not_what_it_says() -> None:
    lenient = {"text where a number belongs", "1.0 where an integer belongs", "true where an integer belongs"}
    for label, bad in BAD_JSON.items():
        if label in lenient:
            assert complaint(PYDANTIC, *bad).startswith("READ"), label
        if label != "a key twice":
            assert not complaint(STRUCTS, *bad).startswith("READ"), label
            assert not complaint(SLOTTED, *bad).startswith("READ"), label


def test_a_struct_stores_something_else_than_it_holds_where_nobody_checks() -> None:
    changed = {label for label, value in BAD_VALUES.items() if fate(STRUCTS, value).startswith("becomes")}
    assert changed >= {"NaN", "infinity", "bytes", "a tuple", "a set", "a date", "a key that is a number"}
    assert fate(STRUCTS, 2**64) == "kept"
    assert fate(SLOTTED, 2**64).startswith("the encoder refuses")


def test_a_default_is_left_out_only_when_it_is_the_very_object() -> None:
    """`omit_defaults` compares identities: a default of any other kind gives one value two stored forms."""
    completed = STRUCTS.classes.ToolExecutionCompleted
    assert msgspec.json.encode(completed(position=0)) == b'{"position":0}'
    assert msgspec.json.encode(completed(position=0, duration_seconds=float("0"))) != b'{"position":0}'


def test_the_measurement_still_works() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.values", "--smoke"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for title in ("construct", "encode", "decode", "read", "compare", "memory", "checks", "import", "what a row may"):
        assert f"\n## {title}" in done.stdout
