"""The runner and its ports: performs what the machine asks for and records what happened."""

if __name__ != "steptrail.runtime":  # pragma: no cover
    raise ImportError("import 'steptrail.runtime': a second copy of an event class never equals the first")
