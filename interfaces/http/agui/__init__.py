"""AG-UI: a run as the events that agent front ends speak, and the endpoint that such a front end posts to.

The protocol's package is imported when a fold or an endpoint is made, never by these modules.
"""
