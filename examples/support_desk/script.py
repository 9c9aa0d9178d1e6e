"""What the scripted model says to each ticket. A real model needs none of this."""

from steptrail.testing import Reply, call, calls

__all__ = ["SCRIPTS"]

SCRIPTS: dict[int, list[Reply]] = {
    1: [
        call("find_customer", name="Anna Lindqvist"),  # misspelt: the tool says so, and the policy lets the run go on
        call("find_customer", name="Lindqvist"),
        calls(("late_orders", {"customer": 1}), ("order_details", {"order": 1})),
        call("refund", order=1, cents=2900),
        call("send_email", order=1, subject="Your tea pot", body="We are sorry. 29.00 are on their way back to you."),
        "The tea pot of order 1 was late. 29.00 are refunded and Ana Lindqvist has been told.",
    ],
    2: [
        call("find_customer", name="Bo Okafor"),
        calls(("late_orders", {"customer": 2}), ("order_details", {"order": 2})),
        call("refund", order=2, cents=18900),
        call("send_email", order=2, subject="Your kettle", body="We have looked into your refund."),
        "The refund of the kettle has been looked into and Bo Okafor has been told.",
    ],
    3: [
        call("find_customer", name="Chen Wei"),
        call("hand_over", reason="the customer speaks of a lawyer"),
    ],
}
