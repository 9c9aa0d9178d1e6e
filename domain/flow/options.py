"""The settings of one run of a workflow. They are recorded with the run."""

from typing import Annotated

from msgspec import Meta

from steptrail.domain.base import BoundedPositive, BoundedSeconds, PositiveSeconds, Settings
from steptrail.domain.flow.policies import Budget, FailureClass, FailureClasses, UnpricedInFlow
from steptrail.domain.prices import PriceTable


class RunOptions(Settings, frozen=True, kw_only=True):
    """The settings of one run of a workflow.

    `continue_on_error` lets the run go on after a failure that its node does not tolerate itself: of any class, or of
    the classes that it names. Critical nodes fail the run in spite of it. At most `concurrency` nodes run at once, and
    no node runs more than `max_visits` times.

    `timeout` bounds the wall time since the run was started or resumed, `cumulative_timeout` the time in which any node
    runs. `budget` is that of the whole run, and `prices` is what its models cost. A limit on cost is passed by what has
    no price, unless `unpriced` is `ignore`: then it counts what can be priced. `stop_grace` is how many seconds a
    running node with an effect has after a stop. A process stays for a wait of at most `longest_wait` seconds.
    `max_unproductive_segments` is the number of segments in a row that may end in a crash without progress.

    `pause_before` and `pause_after` hold the nodes of these ids, or all of `*`, until a person answers; the run fails
    when nobody has after `step_timeout` seconds. All times are in seconds, a century at most, and None is no limit.
    """

    continue_on_error: bool | FailureClasses = False
    concurrency: BoundedPositive = 8
    max_visits: BoundedPositive = 100
    timeout: PositiveSeconds | None = None
    cumulative_timeout: PositiveSeconds | None = None
    budget: Budget | None = None
    prices: PriceTable | None = None
    unpriced: UnpricedInFlow = "fail_closed"
    stop_grace: Annotated[float, Meta(ge=0, le=3600)] = 2.0
    longest_wait: BoundedSeconds = 60.0
    max_unproductive_segments: BoundedPositive | None = 3
    pause_before: tuple[str, ...] = ()
    pause_after: tuple[str, ...] = ()
    step_timeout: PositiveSeconds | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is not None and self.budget.max_cost_usd and self.prices is None:
            self.refuse("budget", "Expected prices beside a limit on cost, because without them it would limit nothing")

    def limits_cost_of(self, model: str, *budgets: Budget | None) -> bool:
        """Tell whether a call of the model would be beyond a limit on cost, that of the run or `budgets`: unpriced."""
        is_limited = any(each is not None and each.max_cost_usd for each in (self.budget, *budgets))
        is_priced = self.prices is not None and self.prices.price_of(model) is not None
        return is_limited and not is_priced and self.unpriced == "fail_closed"

    def tolerates(self, failure: FailureClass) -> bool:
        """Tell whether the run goes on after a failure of this class."""
        covered = self.continue_on_error
        return covered if isinstance(covered, bool) else failure in covered

    def pauses_before(self, node: str) -> bool:
        """Tell whether a visit of the node is held before it begins."""
        return node in self.pause_before or "*" in self.pause_before

    def pauses_after(self, node: str) -> bool:
        """Tell whether a visit of the node is held when it has ended."""
        return node in self.pause_after or "*" in self.pause_after
