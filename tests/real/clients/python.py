"""Prints what the official Python SDK receives from a server: `python.py URL` or `python.py COMMAND ARG…`.

Each line is a feature and its result or error, as JSON; texts of over 5000 characters are replaced by their digests.
"""

import asyncio
import hashlib
import json
import os
import sys
from contextlib import AsyncExitStack
from datetime import timedelta

import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

heard = []
elicited = types.ElicitResult(action="decline")


def plain(value):
    """Converts a value to plain JSON, with digests in place of long texts."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, str) and len(value) > 5000:
        return f"{len(value)} {hashlib.sha256(value.encode()).hexdigest()}"
    return value


async def feature(name, does, pause=0.0):
    heard.clear()
    try:
        said = {"gives": plain(await does)}
    except Exception as error:
        said = {"throws": type(error).__name__, "message": str(error)}
    await asyncio.sleep(pause)
    print(json.dumps({"feature": name, **said, "heard": heard}, ensure_ascii=False), flush=True)


async def sampling(_, params):
    text = f"{params.messages[0].content.text}? {params.maxTokens}"
    return types.CreateMessageResult(role="assistant", model="a-model", content=types.TextContent(type="text", text=text))


async def elicitation(_, params):
    heard.append(plain(params))
    return elicited


async def roots(_):
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv/orchard", name="orchard")])


async def message(received):
    if isinstance(received, types.ServerNotification):
        heard.append(plain(received.root))


async def streams(stack, target):
    if target[0].startswith("http"):
        read, write, _ = await stack.enter_async_context(streamablehttp_client(target[0]))
        return read, write
    parameters = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    return await stack.enter_async_context(stdio_client(parameters, errlog=open(os.devnull, "w")))


async def main(target):
    global elicited
    async with AsyncExitStack() as stack:
        read, write = await streams(stack, target)
        session = ClientSession(
            read,
            write,
            sampling_callback=sampling,
            elicitation_callback=elicitation,
            list_roots_callback=roots,
            message_handler=message,
        )
        await stack.enter_async_context(session)

        def call(name, **arguments):
            return session.call_tool(name, arguments)

        await feature("initialize", session.initialize())
        await feature("ping", session.send_ping())
        await feature("tools/list", session.list_tools())
        for name in ("simple_text", "image_content", "audio_content", "embedded_resource", "multiple_content_types", "error_handling"):
            await feature(name, call(f"test_{name}"))
        await feature("an unknown tool", call("no_such_tool"))
        await feature("arguments of the wrong type", call("test_unicode", text=7))
        await feature("unicode", call("test_unicode", text="ä \u2028 \u0000 \U0001f333 e\u0301 \r\n \"'\\"))
        await feature("logging/setLevel", session.set_logging_level("debug"))
        await feature("logging", call("test_tool_with_logging"))

        seen = []

        async def progressed(done, total, _):
            seen.append([done, total])

        await feature("progress", session.call_tool("test_tool_with_progress", {}, progress_callback=progressed))
        await feature("the received progress notifications", asyncio.sleep(0, seen))
        await feature("a timeout", session.call_tool("test_slow", {"ms": 60000}, read_timeout_seconds=timedelta(seconds=0.2)))
        await feature("a call after a timeout", call("test_slow", ms=5))
        await feature("sampling", call("test_sampling", prompt="How are you"))
        for action, content in (("accept", {"response": "yes"}), ("decline", None), ("cancel", None)):
            elicited = types.ElicitResult(action=action, content=content)
            await feature(f"elicitation: {action}", call("test_elicitation", message="Well?"))
        await feature("elicitation with defaults", call("test_elicitation_sep1034_defaults"))
        await feature("roots", call("test_roots"))
        await feature("notifications/roots/list_changed", session.send_roots_list_changed())
        await feature("resources/list", session.list_resources())
        await feature("resources/templates/list", session.list_resource_templates())
        for uri in ("test://static-text", "test://static-binary", "test://template/a%20b/data", "test://none"):
            await feature(f"resources/read {uri}", session.read_resource(uri))
        await feature("resources/subscribe", session.subscribe_resource("test://watched-resource"))
        await feature("a notification of a resource", call("test_touch", uri="test://watched-resource"), 0.3)
        await feature("resources/unsubscribe", session.unsubscribe_resource("test://watched-resource"))
        await feature("a notification of tools", call("test_trigger_tool_change"), 0.3)
        await feature("a notification of prompts", call("test_trigger_prompt_change"), 0.3)
        await feature("prompts/list", session.list_prompts())
        await feature("a prompt", session.get_prompt("test_simple_prompt"))
        await feature("a prompt with arguments", session.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "ß"}))
        await feature("a prompt without its required arguments", session.get_prompt("test_prompt_with_arguments"))
        await feature("a prompt with an image", session.get_prompt("test_prompt_with_image"))
        await feature("an unknown prompt", session.get_prompt("none"))
        reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        await feature("completion", session.complete(reference, {"name": "arg1", "value": "par"}))

        async def many():
            results = await asyncio.gather(*(call("test_unicode", text=f"call {n}") for n in range(100)))
            return [result.content[0].text for result in results]

        await feature("100 concurrent calls", many())
        if os.environ.get("LARGE") != "no":
            await feature("10 MB to the client", call("test_large", bytes=10_000_000))
        await feature("3 MB to the server", call("test_unicode", text="ö" * 1_500_000))


asyncio.run(main(sys.argv[1:]))
