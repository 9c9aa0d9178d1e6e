"""Sends the spans that follow from the log to receivers of OpenTelemetry: of recorded runs, and while runs go on."""
