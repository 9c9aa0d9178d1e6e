"""In which form events and other stored values cost least: pydantic models, `msgspec` structs, slotted dataclasses.

`python -m benchmarks.values` measures and prints; what was decided on its figures says `docs/adr/0052`.
"""
