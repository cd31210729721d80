import { Hono } from "hono";
import type { HttpApp, HttpDeps, HttpEnv } from "../types.ts";

/** The HTTP API. */
export function createRunsApi(_deps: HttpDeps): HttpApp {
  return new Hono<HttpEnv>();
}
