// The objects of OpenAI's Responses API, as far as Drover makes them.

export type TextPart = { type: "output_text"; text: string; annotations: []; logprobs: [] };
export type RefusalPart = { type: "refusal"; refusal: string };
export type ItemStatus = "in_progress" | "completed" | "incomplete";
export type MessageItem = {
  id: string;
  type: "message";
  status: ItemStatus;
  role: "assistant";
  content: (TextPart | RefusalPart)[];
};
export type FunctionCallItem = {
  id: string;
  type: "function_call";
  status: ItemStatus;
  call_id: string;
  name: string;
  arguments: string;
};
export type OutputItem = MessageItem | FunctionCallItem;

export type ResponseStatus = "queued" | "in_progress" | "completed" | "failed" | "cancelled" | "incomplete";

export type WireUsage = {
  input_tokens: number;
  input_tokens_details: { cached_tokens: number; cache_write_tokens: number };
  output_tokens: number;
  output_tokens_details: { reasoning_tokens: number };
  total_tokens: number;
};

/** What changes of a Response while it is made. `at`: epoch ms of its end. */
export type Progress = {
  status: ResponseStatus;
  output?: OutputItem[] | undefined;
  usage?: WireUsage | undefined;
  error?: { code: string; message: string } | undefined;
  incomplete?: string | undefined;
  at?: number | undefined;
};

export type WireResponse = Record<string, unknown> & {
  id: string;
  object: "response";
  status: ResponseStatus;
  output: OutputItem[];
  metadata: Record<string, string>;
};

/** An event of a Response's stream. Its `type` comes first, so that it can be told from the text alone. */
export type WireEvent = { type: string; sequence_number: number } & Record<string, unknown>;

const terminal = /^\{"type":"response\.(?:completed|failed|incomplete)"/;

/** Whether an event, as JSON text, ends its stream. */
export function isTerminal(eventJson: string): boolean {
  return terminal.test(eventJson);
}

/** What of a request the Response repeats. */
export type Echo = {
  background: boolean;
  instructions: string | null;
  metadata: Record<string, string>;
  model: string;
  previous_response_id: string | null;
  conversation: { id: string } | null;
  text: Record<string, unknown>;
  tools: Record<string, unknown>[];
  tool_choice: unknown;
};

/** A Response as it is shown. What the agent decides (sampling, reasoning, truncation) is null or the default. */
export function toResponse(
  { id, createdAt, echo }: { id: string; createdAt: number; echo: Echo },
  { status, output = [], usage, error, incomplete, at }: Progress,
): WireResponse {
  return {
    id,
    object: "response",
    created_at: Math.floor(createdAt / 1_000),
    completed_at: status === "completed" && at !== undefined ? Math.floor(at / 1_000) : null,
    status,
    background: echo.background,
    error: error ?? null,
    incomplete_details: incomplete === undefined ? null : { reason: incomplete },
    instructions: echo.instructions,
    max_output_tokens: null,
    max_tool_calls: null,
    metadata: echo.metadata,
    model: echo.model,
    output,
    parallel_tool_calls: true,
    previous_response_id: echo.previous_response_id,
    conversation: echo.conversation,
    reasoning: { effort: null, summary: null },
    service_tier: "default",
    store: true,
    temperature: null,
    text: echo.text,
    tool_choice: echo.tool_choice,
    tools: echo.tools,
    top_p: null,
    truncation: "disabled",
    usage: usage ?? null,
  };
}
