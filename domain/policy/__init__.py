"""The error policy: stop, retry or ignore, by the class of the error and the failures before it."""
