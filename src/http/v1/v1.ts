import { Hono } from "hono";
import type { HttpApp, HttpDeps, HttpEnv } from "../types.ts";

/** Endpoints for clients of OpenAI's API. */
export function createV1(_deps: HttpDeps): HttpApp {
  return new Hono<HttpEnv>();
}
