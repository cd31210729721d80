import { Hono } from "hono";
import type { HttpApp, HttpDeps, HttpEnv } from "../types.ts";

/** The operators' pages. */
export function createPages(_deps: HttpDeps): HttpApp {
  return new Hono<HttpEnv>();
}
