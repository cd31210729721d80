import { z } from "zod";
import { defineTool, type Tool } from "../define-tool.ts";
import { parseOptions } from "./options.ts";

/** `expiresMs`: a question that nobody answered by then is given up, and the model told so; default: it waits for ever. */
export type AskPersonOptions = { expiresMs?: number | undefined };

const optionsSchema = z.strictObject({ expiresMs: z.int().min(1).optional() });

const description = `Asks a person and waits for the answer, be it for days. Use it for what only a person can know or decide; ask once,
with all that is needed to answer.
question: plain text, complete in itself: whoever reads it may not have seen the conversation.
choices: answers to choose from, if there are such; the person may also say something else.
Format: plain text; choices is a list of at most 20 texts.
Example: {"question":"Which address should the parcel go to?","choices":["home","office"]}`;

/** A question to a person, answered by `RunHandle.answer`. A waiting run costs nothing. */
export function askPerson(options: AskPersonOptions = {}): Tool {
  const { expiresMs } = parseOptions("askPerson", optionsSchema, options);
  return defineTool({
    name: "ask_person",
    description,
    parameters: z.object({
      question: z.string().min(1).describe('The question, e.g. "Which address should the parcel go to?"'),
      choices: z.array(z.string()).max(20).optional().describe('Answers to choose from, e.g. ["home","office"]'),
    }),
    answeredBy: "person",
    expiresMs,
    describe: ({ question, choices = [] }) =>
      choices.length === 0 ? question : `${question} (${choices.join(" / ")})`,
  });
}
