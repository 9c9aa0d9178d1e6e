"""What the tests that look at a page have in common."""

from playwright.sync_api import Page

PATIENCE_MS = 60_000
"""A dead line costs a browser up to six connections that it held ready, each of them given up after 2.6 seconds."""


def until_it_is_so(page: Page, condition: str, arg: object = None) -> None:
    """Wait until a condition in a page's own language is true.

    Playwright by itself asks anew in every frame, and a browser that has to draw sixty a second needs a whole
    processor and a half for it.
    """
    page.wait_for_function(condition, arg=arg, timeout=PATIENCE_MS, polling=50)
