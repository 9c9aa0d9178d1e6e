"""Ways in for people: the command line."""

if __name__ != "steptrail.interfaces":  # pragma: no cover
    raise ImportError("import 'steptrail.interfaces': a second copy of an event class never equals the first")
