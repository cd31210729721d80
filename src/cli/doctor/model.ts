import type { Config } from "../../config.ts";
import { toError } from "../../core/errors.ts";
import type { Diagnosis } from "./diagnosis.ts";

const modelTimeoutMs = 5000;

/** Asks the model server for its list of models, which costs nothing. Never rejects. */
export async function examineModel(config: Config): Promise<Diagnosis> {
  const check = "model";
  const { openaiApiKey, openaiBaseUrl, model } = config;
  if (openaiApiKey === undefined && openaiBaseUrl === undefined) {
    return {
      check,
      state: "warning",
      detail: "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set; set one to call models",
    };
  }
  const base = (openaiBaseUrl ?? "https://api.openai.com/v1").replace(/\/+$/, "");
  const host = URL.parse(base)?.host ?? "the model server";
  try {
    const response = await fetch(`${base}/models`, {
      headers: openaiApiKey ? { authorization: `Bearer ${openaiApiKey}` } : {},
      signal: AbortSignal.timeout(modelTimeoutMs),
    });
    const text = await response.text();
    return { check, ...judgeModels({ host, status: response.status, text, model }) };
  } catch (error) {
    const { message, cause } = toError(error);
    const why = cause instanceof Error ? cause.message : message;
    return {
      check,
      state: "error",
      detail: `${host} cannot be reached (${why}): check OPENAI_BASE_URL and the network`,
    };
  }
}

/** What a model server's answer to the question for its models means. */
function judgeModels(answer: { host: string; status: number; text: string; model: string }): Omit<Diagnosis, "check"> {
  const { host, status, text, model } = answer;
  if (status === 401 || status === 403) {
    return { state: "error", detail: `${host} refused the API key (${status}): correct OPENAI_API_KEY` };
  }
  if (status === 404) {
    return {
      state: "warning",
      detail: `${host} lists no models (404): make sure OPENAI_BASE_URL ends in its API's path, often /v1`,
    };
  }
  if (status >= 400) return { state: "warning", detail: `${host} answered ${status} when asked for its models` };
  if (!text.includes(JSON.stringify(model))) {
    return { state: "warning", detail: `${host} answers but does not list "${model}": set DROVER_MODEL to one it has` };
  }
  return { state: "ok", detail: `${host} answers and has ${model}` };
}
