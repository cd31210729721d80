// The agents that `drover worker examples/agents.ts`, the Docker image and the documentation use. An application imports
// from "drover" and "drover/testing" instead.

import { z } from "zod";
import { calculator, currentTime, defineAgent, defineTool, openai } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";

const sendInvoice = defineTool({
  name: "send_invoice",
  description: 'Sends an invoice by e-mail. It cannot be taken back. Example: {"to":"ada@example.com","euros":12.5}',
  parameters: z.object({
    to: z.email().describe("E-mail address of the customer, e.g. ada@example.com"),
    euros: z.number().positive().describe("Amount in euros, e.g. 12.5"),
  }),
  // Asks a person first: drover approve RUN.
  effect: "irreversible",
  execute: ({ to, euros }) => `Sent an invoice of ${euros.toFixed(2)} EUR to ${to}.`,
});

const hasModel = Boolean(process.env.OPENAI_API_KEY || process.env.OPENAI_BASE_URL);

/** Answers questions with a real model; without a key or server for one, with a fixed answer that says so. */
export const assistant = defineAgent({
  name: "assistant",
  instructions: "You are a helpful assistant. Use the calculator for every calculation.",
  model: hasModel
    ? openai(process.env.DROVER_MODEL || "gpt-5-mini")
    : scriptedModel([
        { toolCalls: [{ name: "calculator", arguments: { expression: "6 * 7" } }] },
        "6 * 7 is 42. (No model is configured: set OPENAI_API_KEY or OPENAI_BASE_URL.)",
      ]),
  tools: [calculator(), currentTime()],
});

/** Bills somebody, with a person's approval; scripted, so that approval can be tried without a key. */
export const biller = defineAgent({
  name: "biller",
  instructions: "You send the invoice you are asked for.",
  model: scriptedModel([
    { toolCalls: [{ name: "send_invoice", arguments: { to: "ada@example.com", euros: 12.5 } }] },
    "Done.",
  ]),
  tools: [sendInvoice],
});
