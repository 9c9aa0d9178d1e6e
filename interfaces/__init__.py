"""Ways in for people: the command line."""

if __name__ != "steptrail.interfaces":  # pragma: no cover
    raise ImportError("import 'steptrail.interfaces', not 'interfaces': events must be loaded only once")
