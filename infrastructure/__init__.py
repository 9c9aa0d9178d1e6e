"""Adapters behind the ports: event stores, codec, model drivers, tools."""

if __name__ != "steptrail.infrastructure":  # pragma: no cover
    raise ImportError("import 'steptrail.infrastructure': a second copy of an event class never equals the first")
