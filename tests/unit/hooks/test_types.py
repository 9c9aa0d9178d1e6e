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


def test_each_type_is_about_one_thing() -> None:
    about = {
        hook_type: [
            hook_type.is_tool_event(),
            hook_type.is_inference_event(),
            hook_type.is_step_event(),
            hook_type.is_execution_event(),
            hook_type.is_error_event(),
        ]
        for hook_type in HookType
    }
    assert {hook_type: answers.count(True) for hook_type, answers in about.items()} == dict.fromkeys(HookType, 1)
    assert [t for t in HookType if t.is_tool_event()] == [HookType.PRE_TOOL_USE, HookType.POST_TOOL_USE]
    assert [t for t in HookType if t.is_error_event()] == [HookType.ON_ERROR]
