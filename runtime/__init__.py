"""The runner and its ports: performs what the machine asks for and records what happened."""

if __name__ != "steptrail.runtime":  # pragma: no cover
    raise ImportError("import 'steptrail.runtime', not 'runtime': events must be loaded only once")
