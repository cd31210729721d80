import type { Plays } from "./scene-agents.ts";

const call = (name: string, args: Record<string, unknown>): { name: string; arguments: Record<string, unknown> } => ({
  name,
  arguments: args,
});

const archive = Array.from({ length: 44 }, (_, index) => ({
  text: index % 4 === 0 ? `Notes so far: ${index} pages read; prices rise from page ${index + 1} on.` : "",
  toolCalls: [call("fetch_page", { url: `https://archive.example.org/1998/${index + 1}` })],
  takes: 900 + ((index * 373) % 1_900),
}));

/** What the models of the scene say. */
export const plays: Plays = {
  "return it": [
    { toolCalls: [call("search_policy", { query: "return unused goods" })], takes: 980 },
    { text: "Yes: unused goods can be returned within 30 days of delivery, so until 19 December.", takes: 1_460 },
  ],
  "archive of 1998": [...archive, { text: "In 1998 prices rose by four per cent, from the second quarter on." }],
  "Where is my order": [
    { text: "Let me look that up.", toolCalls: [call("get_order", { id: "A-20417" })], takes: 1_240 },
    {
      text: "Your order A-20417 (one keyboard) left us on 19 November with PostNord and is marked as delivered. If it is not there, a neighbour may have taken it; tell me if you cannot find it.",
      takes: 2_130,
    },
  ],
  "money back": [
    {
      text: "I will look at the order and at what our rules say.",
      toolCalls: [call("get_order", { id: "A-20417" }), call("search_policy", { query: "faulty goods refund" })],
      takes: 1_510,
    },
    {
      text: "The keyboard is within its two years, so the customer gets the money back.",
      toolCalls: [call("issue_refund", { order: "A-20417", amount: 129, reason: "Faulty within two years" })],
      takes: 1_820,
    },
  ],
  "Redis streams and lists": [
    {
      fail: [{ class: "transient", code: "rate_limit_exceeded", message: "429: too many requests in this minute" }],
      toolCalls: [
        call("fetch_page", { url: "https://redis.example.org/docs/streams" }),
        call("fetch_page", { url: "https://redis.example.org/docs/lists" }),
        call("fetch_page", { url: "https://redis.example.org/gone" }),
      ],
      takes: 1_700,
    },
    {
      text: "Both are kept by the same append-only file and snapshots, so neither is more durable than the other [streams, 2]. A stream also remembers what each group of readers has taken [streams, 5]; with a list, what was popped and not finished is lost with its reader [lists, 3].",
      takes: 3_900,
    },
  ],
  "mentions the loop": Array.from({ length: 12 }, (_, index) => ({
    toolCalls: [call("fetch_page", { url: `https://loop.example.org/?page=${index + 1}` })],
    takes: 800 + index * 130,
  })),
  "ask the customer": [
    {
      text: "Two addresses are on file. I ask which one it is.",
      toolCalls: [
        call("ask_person", {
          question:
            "Mira Lindqvist has two addresses on file: Storgatan 4, Umeå, and Kungsgatan 11, Stockholm. Where should the replacement go?",
          choices: ["Umeå", "Stockholm"],
        }),
      ],
      takes: 1_350,
    },
  ],
  badkey: [
    {
      fail: {
        class: "permanent",
        code: "invalid_api_key",
        message: "401: this API key is not known. Set OPENAI_API_KEY where the worker runs.",
        status: 401,
      },
      takes: 210,
    },
  ],
  "Migrate the database": [
    {
      text: "The index first; it does not lock the table.",
      toolCalls: [call("run_migration", { name: "0042_orders_by_customer" })],
      takes: 1_900,
    },
  ],
  "Roll out release": [
    {
      text: "All checks passed. I ask for approval before production.",
      toolCalls: [call("deploy", { service: "api", version: "4.1.0" })],
      takes: 1_300,
    },
  ],
  "append-only files": [
    {
      text: "I start with the documentation.",
      toolCalls: [call("fetch_page", { url: "https://redis.example.org/docs/persistence" })],
      takes: 1_100,
    },
    {
      deltas: [
        "An append-only file records every write as it happens. ",
        "With `appendfsync everysec` a crash of the machine loses at most the last second; ",
        "with `always` nothing that was answered is lost, at the price of a disk write per ",
      ],
      hangs: true,
      takes: 0,
    },
  ],
};
