from steptrail.hooks import HookType


def test_the_types_have_the_seeds_words_in_the_order_of_a_run() -> None:
    assert [hook_type.value for hook_type in HookType] == [
        "execution_start",
        "before_step",
        "before_inference",
        "after_inference",
        "pre_tool_use",
        "post_tool_use",
        "after_step",
        "on_error",
        "stop",
        "execution_end",
    ]


def test_two_types_are_about_a_tool_call() -> None:
    assert [t for t in HookType if t.is_tool_event()] == [HookType.PRE_TOOL_USE, HookType.POST_TOOL_USE]
