"""Conversations from elsewhere as demonstrations."""

import json
from typing import Any

import pytest
from scene_records import ENCODER, END, text

from fedse_serve.bring_in import IMPORTED, import_chats, import_logs, import_spans

CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "and now?"}]},
        {"role": "assistant", "content": "nothing"},
        {"role": "user", "content": "unanswered"},
    ]
}


def test_a_chat_is_a_demonstration_in_the_models_own_template() -> None:
    (episode,), refused = import_chats([json.dumps(CHAT), "", json.dumps(CHAT)], ENCODER)
    assert refused == ()
    assert text(episode.token_ids) == (
        f"<system>Be kind.{END}<user>hello{END}<assistant>hi{END}"
        f"<user>and now?{END}<assistant>nothing{END}"
    )
    assert [text(turn.action_ids) for turn in episode.turns] == [f"hi{END}", f"nothing{END}"]
    assert (episode.policy, episode.round, episode.outcome) == (IMPORTED, 0, "success")
    assert all(turn.log_chances == () for turn in episode.turns)


def test_calls_are_written_as_a_model_writes_them() -> None:
    tool = {"type": "function", "function": {"name": "find", "parameters": {}}}
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"b": 1}'}}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "assistant", "content": "done"},
    ]
    chat = json.dumps({"messages": messages, "tools": [tool]})
    (episode,), _ = import_chats([chat], ENCODER)
    assert episode.turns[0].action == (
        '<tool_call>\n{"name": "find", "arguments": {"b": 1}}\n</tool_call>'
    )
    assert "found" in episode.turns[1].observation
    assert "find" in text(episode.turns[0].context_ids)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2: expected JSON"),
        ("[]", "line 2: expected a JSON object, got []"),
        ("{}", "line 2: expected a field 'messages'"),
        ('{"messages": [{"role": "user", "content": "x"}]}', "at least one answer"),
        (
            '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
            "line 2: expected text, got a message with other content",
        ),
        ('{"messages": ["x"]}', "line 2: "),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_the_rest_is_taken(line: str, told: str) -> None:
    episodes, refused = import_chats([json.dumps(CHAT), line], ENCODER)
    assert len(episodes) == 1
    assert len(refused) == 1
    assert told in refused[0]


def parts(role: str, *given: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [*given]}


def said(words: str) -> dict[str, Any]:
    return {"type": "text", "content": words}


def test_the_last_span_of_a_conversation_is_the_demonstration() -> None:
    call = {"type": "tool_call", "id": "c", "name": "find", "arguments": {"b": 1}}
    result = {"type": "tool_call_response", "id": "c", "response": {"n": 2}}
    asked = [parts("user", said("look")), parts("assistant", call), parts("tool", result)]
    whole = {
        "gen_ai.conversation.id": "c1",
        "gen_ai.system_instructions": json.dumps([said("Be kind.")]),
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.output.messages": json.dumps([parts("assistant", said("done"))]),
    }
    first = {
        **whole,
        "gen_ai.input.messages": json.dumps(asked[:1]),
        "gen_ai.output.messages": json.dumps([asked[1]]),
    }
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in whole.items()]
    otlp = {
        "resourceSpans": [
            {"scopeSpans": [{"spans": [{"startTimeUnixNano": "2", "attributes": listed}]}]}
        ]
    }
    lines = [json.dumps(otlp), json.dumps({"startTimeUnixNano": 1, "attributes": first})]
    (episode,), refused = import_spans(lines, ENCODER)
    assert refused == ()
    assert [turn.action for turn in episode.turns] == [
        '<tool_call>\n{"name": "find", "arguments": {"b": 1}}\n</tool_call>',
        "done",
    ]
    assert episode.turns[1].observation == '{"n": 2}'
    assert text(episode.token_ids).startswith(f"<system>Be kind.{END}<user>look{END}")


def test_spans_without_texts_are_named() -> None:
    episodes, refused = import_spans(['{"attributes": {"gen_ai.conversation.id": "c"}}'], ENCODER)
    assert episodes == ()
    assert "line 1: the span has no gen_ai.input.messages" in refused[0]


def otlp(*spans: dict[str, Any]) -> str:
    """A line as a collector writes it; every attribute as a value of OTLP's JSON."""
    listed = [
        {**one, "attributes": [{"key": k, "value": v} for k, v in one["attributes"].items()]}
        for one in spans
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]})


def structured(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [*map(structured, value)]}}
    if isinstance(value, dict):
        held = [{"key": key, "value": structured(one)} for key, one in value.items()]
        return {"kvlistValue": {"values": held}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def test_messages_are_read_as_text_and_as_structure_and_other_spans_are_passed_over() -> None:
    asked, answered = [parts("user", said("hello"))], [parts("assistant", said("hi"))]
    call = [parts("assistant", {"type": "tool_call", "name": "find", "arguments": {"b": 1}})]
    tool = [{"type": "function", "name": "find", "parameters": {}}]
    conversation = {"gen_ai.conversation.id": {"stringValue": "c"}}
    spans = [
        {"attributes": {"http.request.method": {"stringValue": "GET"}}},
        {
            "startTimeUnixNano": "1",
            "attributes": {
                **conversation,
                "gen_ai.input.messages": structured(asked),
                "gen_ai.output.messages": structured(call),
                "gen_ai.tool.definitions": structured(tool),
            },
        },
        {"startTimeUnixNano": "2", "attributes": conversation},
        {
            "attributes": {
                "gen_ai.input.messages": {"stringValue": json.dumps(asked)},
                "gen_ai.output.messages": {"stringValue": json.dumps(answered)},
            }
        },
    ]
    (first, second), refused = import_logs([otlp(*spans)], ENCODER)
    assert refused == ()
    assert first.turns[0].action == (
        '<tool_call>\n{"name": "find", "arguments": {"b": 1}}\n</tool_call>'
    )
    assert '"function": {"name": "find"' in text(first.turns[0].context_ids)
    assert second.turns[0].action == "hi"


def test_a_file_is_spans_if_a_line_is_and_not_if_one_speaks_of_them() -> None:
    talk = {"messages": [{"role": "user", "content": "resourceSpans?"}, *CHAT["messages"][1:3]]}
    assert len(import_logs(["{", json.dumps(talk)], ENCODER).episodes) == 1
    told = "line 3: expected a span with GenAI attributes, got none"
    assert import_logs(["", otlp(), json.dumps(CHAT)], ENCODER) == ((), (told,))
