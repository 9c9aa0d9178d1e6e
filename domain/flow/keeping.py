"""Results that are kept within a run, so that a node with a cache does not run again for the same values.

A kept result is the output of the node, and its choice if it chooses. The nodes of a run never change, so the id of a
node stands for all that was recorded of it.
"""

from steptrail.domain.digests import digest_of
from steptrail.domain.flow.events import NodeAttemptCompleted
from steptrail.domain.flow.fold import Kept, RunFold, VisitFold
from steptrail.domain.flow.policies import Cache
from steptrail.domain.flow.seeing import seen_by
from steptrail.domain.flow.task import Task


def keep(run: RunFold, visit: VisitFold, task: Task, at: int) -> None:
    """Keep the result with which a task of a node that has a cache has landed.

    What a person reported, or was kept before, is no result of it, nor is what came of arguments that a person made.
    """
    cache, ended = run.node(visit.node, task.item).cache, task.landing
    if cache is None or task.arguments is not None or not isinstance(ended, NodeAttemptCompleted):
        return
    if not ended.is_kept and ended.settled_by is None:
        key = _key(run, visit, task.item, cache)
        run.kept = run.kept.set(key, Kept(ended.output, ended.route, at))


def kept_result(run: RunFold, visit: VisitFold, item: int | None, now: int) -> Kept | None:
    """Return the result that is kept for a visit, or for one item of a map; None for none, and for one too old."""
    cache = run.node(visit.node, item).cache
    if cache is None:
        return None
    kept = run.kept.get(_key(run, visit, item, cache))
    is_old = kept is not None and cache.ttl is not None and now - kept.at > cache.ttl * 1e6
    return None if is_old else kept


def _key(run: RunFold, visit: VisitFold, item: int | None, cache: Cache) -> str:
    """Return the digest under which a result stands: of the node, the values that it names, and the item of a map."""
    seen = seen_by(run, visit, item)
    return digest_of([visit.node, seen.item, *(list(seen.find(path)) for path in cache.key)])
