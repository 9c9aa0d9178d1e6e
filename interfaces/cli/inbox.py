"""`inbox`: what people are asked, with the commands that answer; with `--watch` also what is asked from now on."""

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial

from steptrail.domain.errors import stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import result_text
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.going_on import answers_to, store_given, typed, valued
from steptrail.interfaces.cli.listing import PAGE, paged, place_of
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands
from steptrail.interfaces.python.lists import open_questions
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.questions import Question
from steptrail.projections.rendering import many

_LOOK_SECONDS = 10.0
"""How soon a question that has expired is noticed."""

_REST_SECONDS = 0.2
"""How long nothing is looked at after a look, however much is stored meanwhile."""


def register(commands: Commands) -> None:
    """Add the command."""
    inbox = commands.add("inbox", _inbox, "List what people are asked, and how to answer.")
    inbox.add_argument("--watch", action="store_true", help="go on with what is asked and answered, until Ctrl-C")
    inbox.add_argument("--tenant", metavar="NAME", help="what runs of this tenant ask")
    paged(inbox)


def _inbox(arguments: argparse.Namespace, output: Output) -> None:
    try:
        in_store(arguments, partial(_watched if arguments.watch else _listed, arguments, output))
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not arguments.watch:
            raise


async def _asked(trail: Steptrail, arguments: argparse.Namespace) -> tuple[Sequence[Question], bool]:
    """Return the questions of as many sessions as are wanted, and whether there are more."""
    limit: int = arguments.limit
    after = await place_of(trail, arguments.after)
    found = await trail.inbox(limit=limit + 1, after=after, tenant=arguments.tenant)
    streams = list(dict.fromkeys(each.stream for each in found))
    return [each for each in found if each.stream in streams[:limit]], len(streams) > limit


async def _listed(arguments: argparse.Namespace, output: Output, trail: Steptrail) -> None:
    found, is_cut = await _asked(trail, arguments)
    if output.as_json:
        output.data([_data(question, store_given(arguments)) for question in found])
        return
    count = Counter(question.stream for question in found)
    for question in found:
        _print_question(output, question, store_given(arguments), of=count[question.stream])
    if not found:
        output.note("steptrail: nobody is asked anything")
    if is_cut:
        limit = () if arguments.limit == PAGE else ("--limit", str(arguments.limit))
        of = () if arguments.tenant is None else valued("--tenant", arguments.tenant)
        options = (*limit, *of, *valued("--after", stream_name(found[-1].stream)))
        output.note(f"steptrail: there are more: `{typed(store_given(arguments), 'inbox', options=options)}`")


async def _watched(arguments: argparse.Namespace, output: Output, trail: Steptrail) -> None:
    store, known = store_given(arguments), dict[tuple[str, str], Question]()
    was_cut = False
    while True:
        # The end of the log is asked first: what is stored after that look is looked at in the next round.
        position = await trail.store.last_position()
        asked, is_cut = await _asked(trail, arguments)
        found = {(question.stream, question.id): question for question in asked}
        for key in [key for key in known if key not in found]:
            # Where not all are looked at, it may only have made room for newer ones.
            if not is_cut or not await _is_asked(trail, known[key]):
                _print_gone(output, known.pop(key))
        count = Counter(stream for stream, _ in found)
        for key in [key for key in reversed(found) if key not in known]:
            known[key] = found[key]
            if output.as_json:
                output.data({"asked": _data(found[key], store)}, indent=False)
            else:
                _print_question(output, found[key], store, of=count[key[0]])
        if is_cut and not was_cut:
            looked = many(arguments.limit, "session")
            output.note(f"steptrail: {looked} at a time, and there are more: `--limit` looks at more")
        was_cut = is_cut
        if output.is_gone:
            return
        await asyncio.sleep(_REST_SECONDS)
        await trail.store.wait_past(position, timeout=_LOOK_SECONDS)


async def _is_asked(trail: Steptrail, question: Question) -> bool:
    asked = await open_questions(trail.store, [question.stream], trail.clock.utc())
    return any(each.id == question.id for each in asked)


def _print_gone(output: Output, question: Question) -> None:
    text = one_line(f"{stream_name(question.stream)}: {question.id} is not asked any more")
    output.answer({"gone": {"stream": question.stream, "id": question.id}}, text, indent=False)


def _data(question: Question, store: str | None) -> dict[str, JsonValue]:
    return {**question.to_dict(), "answers": list(answers_to(question, store=store))}


def _print_question(output: Output, question: Question, store: str | None, *, of: int) -> None:
    output.line(one_line(f"{stream_name(question.stream)} ({question.agent}) asks {_what(question)}"))
    if question.data:
        output.line(_below(f"about {result_text(dict(question.data))}"))
    if question.schema is not None:
        output.line(_below(f"the data has to fit {result_text(dict(question.schema))}"))
    who = f"by {question.asked_by}, " if question.asked_by is not None else ""
    then = "" if question.then is None else f": then {question.then}"
    until = f", until {question.expires_at:%Y-%m-%d %H:%M:%S} UTC{then}" if question.expires_at is not None else ""
    output.line(_below(f"asked {who}{question.asked_at:%Y-%m-%d %H:%M:%S} UTC{until}"))
    if question.reason:
        output.line(_below(f"because {question.reason}"))
    if of > 1:
        output.line(_below(f"one of {of} questions: the run goes on when none of them is open"))
    for way in answers_to(question, store=store):
        output.line(_below(way))


def _below(text: str) -> str:
    return f"  {one_line(text)}"


def _what(question: Question) -> str:
    arguments = None if question.arguments is None else dict(question.arguments)
    what = f"{question.tool} {result_text(arguments)}" if question.tool is not None else f"node {question.node}"
    match question.kind:
        case "approval":
            return f"to run {what}"
        case "external":
            return f"for the result of {what}"
        case "human":
            return f"in {question.node} ({question.type}): {question.prompt}"
        case "step":
            return f"how it goes on at {question.node}, which is held {question.type} it"
        case _:
            return f"what this call did: {what}"
