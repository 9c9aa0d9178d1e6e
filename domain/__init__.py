"""The pure core: events, state, decisions and the machine. No clock, no randomness, no I/O."""

if __name__ != "steptrail.domain":  # pragma: no cover
    raise ImportError("import 'steptrail.domain', not 'domain': events must be loaded only once")
