import type { Config } from "../../config.ts";
import { openai } from "../../openai/openai.ts";
import type { ModelSpec } from "../../ports.ts";
import { type ScriptedReply, scriptedModel } from "../../testing/scripted-model.ts";

/** A model with a few words on which it is. */
export type ChosenModel = { model: ModelSpec; about: string; real: boolean };

/** The configured model when there is a key or a server for it, else one that follows a script. */
export function chooseModel(config: Config, script: readonly ScriptedReply[]): ChosenModel {
  const { openaiApiKey, openaiBaseUrl, model } = config;
  if (openaiApiKey === undefined && openaiBaseUrl === undefined) {
    return { model: scriptedModel(script), about: "a scripted model (no key, no network)", real: false };
  }
  const where = openaiBaseUrl === undefined ? "api.openai.com" : (URL.parse(openaiBaseUrl)?.host ?? "");
  return { model: openai(model), about: `${model} at ${where}`, real: true };
}

/** How a real model is put in the place of the scripted one. */
export const howToUseRealModel =
  "for a real one set OPENAI_API_KEY, or OPENAI_BASE_URL and DROVER_MODEL for any OpenAI-compatible server";
