"""Adapters behind the ports: event stores, codec, model drivers, tools."""

if __name__ != "steptrail.infrastructure":  # pragma: no cover
    raise ImportError("import 'steptrail.infrastructure', not 'infrastructure': events must be loaded only once")
