import type { ModelReply } from "../core/reply.ts";
import { toLegalNames } from "../core/reply-names.ts";
import type { ModelRequest } from "../ports.ts";
import type { Accumulated } from "./accumulator.ts";

/**
 * What a server said, in our neutral form: tools under their real names again, everything else as it came. A finish
 * reason that is missing, or at odds with the calls that are there, is left for `core/reply` to weigh.
 */
export function toModelReply(
  { reply, finishReason }: Accumulated,
  request: Pick<ModelRequest, "tools">,
): { reply: ModelReply; finishReason: string } {
  const real = new Map([...toLegalNames(request.tools.map(({ name }) => name))].map(([name, legal]) => [legal, name]));
  return {
    reply: {
      ...reply,
      toolCalls: reply.toolCalls.map((call) => ({ ...call, name: real.get(call.name) ?? call.name })),
    },
    finishReason: finishReason ?? (reply.toolCalls.length > 0 ? "tool_calls" : "stop"),
  };
}
