"""The pure core: events, state, decisions and the machine. No clock, no randomness, no I/O."""

if __name__ != "steptrail.domain":  # pragma: no cover
    raise ImportError("import 'steptrail.domain': a second copy of an event class never equals the first")
